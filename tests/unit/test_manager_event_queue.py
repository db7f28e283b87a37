"""A browser's queue of events: bounded, and honest about what it dropped."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any
from unittest.mock import AsyncMock, Mock

from common.access.rights import OWNER
from manager.watch.events import Client, EventHub, Pace, spell
from tests.support.background import running
from tests.support.fake_clock import FakeClock
from tests.support.waiting import PATIENCE_S


async def test_events_that_wait_go_together_in_order() -> None:
    client = Client(lambda: None, OWNER, "alice")
    client.offer(spell("a", {"n": 1}))
    client.offer(spell("b", {"n": 2}))
    assert await client.next() == b'event: a\ndata: {"n":1}\n\nevent: b\ndata: {"n":2}\n\n'


async def test_who_falls_behind_is_told_to_fetch_all_and_then_nothing() -> None:
    client = Client(lambda: None, OWNER, "alice")
    for number in range(1_000):
        client.offer(spell("jobs", {"names": [str(number)]}))
    assert await client.next() == b'event: jobs\ndata: {"all":true}\n\n'
    assert await client.next() is None


async def test_the_end_wakes_who_waits_and_cuts_who_does_not_take() -> None:
    cut: list[int] = []
    waiting, stuck = Client(lambda: cut.append(1), OWNER, "alice"), Client(lambda: cut.append(2), OWNER, "alice")
    stuck.is_writing = True
    end = asyncio.create_task(waiting.next())
    await asyncio.sleep(0)
    for client in (waiting, stuck):
        client.end()
    assert await end is None
    assert cut == [2]


def test_no_text_ends_an_event_early() -> None:
    event = spell("jobs", {"names": ["a\n\ndata: {}\r\u2028 <script>"]})
    assert event.count(b"\n") == 3
    assert json.loads(event.split(b"data: ", 1)[1])["names"] == ["a\n\ndata: {}\r\u2028 <script>"]


async def test_state_that_ends_before_it_is_looked_at_stays_with_no_browser() -> None:
    health: dict[str, Any] = dict.fromkeys(("etcd", "isOld", "logStore", "recovery"))
    health["fires"] = {"state": "ok", "sinceMs": None}
    hub = EventHub(
        manager="m1", clock=FakeClock(0), pace=Pace(look_s=0), health=lambda: health, failing=AsyncMock(return_value=0),
        running=Mock(), results=AsyncMock(), seen_results=Mock(), ending=AsyncMock(return_value=[]),
    )  # fmt: skip
    async with running(hub.run()):
        early = hub.join(lambda: None, OWNER, by="alice")
        health["recovery"] = {"who": "uid:0", "untilMs": 1}
        late = hub.join(lambda: None, OWNER, by="alice")
        health["recovery"] = None
        for client in (early, late):
            told: list[Any] = []
            async with asyncio.timeout(PATIENCE_S):
                while told[-2:] != [{"who": "uid:0", "untilMs": 1}, None]:
                    told += recoveries_in(await client.next() or b"")


def recoveries_in(events: bytes) -> list[Any]:
    """What the events of the servers' state say of a recovery."""
    return [json.loads(data)["recovery"] for data in re.findall(rb"event: health\ndata: (.*)", events)]
