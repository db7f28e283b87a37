"""A browser's queue of events: bounded, and honest about what it dropped."""

from __future__ import annotations

import asyncio
import json

from common.access.rights import OWNER
from manager.watch.events import Client, spell


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
