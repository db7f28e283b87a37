"""What is told of a log store that is away: to everybody at once, whoever's server hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

from common.notices.notice import Notice
from common.notices.rules import Rule
from manager.notices.lifelines import LogStoreAway
from tests.support.fake_clock import FakeClock

CHANNELS = ("first", "second", "third")


async def test_server_that_hangs_keeps_no_message_from_the_others() -> None:
    clock, others = FakeClock(), asyncio.Event()
    begun: list[str] = []

    async def send(notice: Notice) -> bool:
        begun.append(notice.channel)
        if len(begun) == len(CHANNELS):
            others.set()
        await others.wait()  # as a server does that answers nobody for long
        return notice.channel != "first"

    rules = {"ops": Rule(system=True, to=CHANNELS)}
    records, sender = SimpleNamespace(rules=rules), SimpleNamespace(send_unwritten=send)
    away = LogStoreAway(cast(Any, records), cast(Any, None), cast(Any, sender), clock=clock)
    await away.note_away("no answer")
    assert begun == [], "one that restarts is back sooner"
    clock.advance(20_000)
    async with asyncio.timeout(60):
        await away.note_away("no answer")
    assert sorted(begun) == sorted(CHANNELS)

    clock.advance(61_000)
    await away.note_away("no answer")
    assert begun[len(CHANNELS) :] == ["first"], "who has it is not told again"


async def test_outage_that_a_notifier_sees_when_it_leads_again_is_told_like_the_first_one() -> None:
    clock, sent, put = FakeClock(), list[Notice](), list[Notice]()

    async def send(notice: Notice) -> bool:
        sent.append(notice)
        return True

    async def take(notices: Sequence[Notice]) -> None:
        put.extend(notices)

    records = SimpleNamespace(rules={"ops": Rule(system=True, to=("ops",))})
    runlog, sender = SimpleNamespace(notices=SimpleNamespace(put=take)), SimpleNamespace(send_unwritten=send)
    away = LogStoreAway(cast(Any, records), cast(Any, runlog), cast(Any, sender), clock=clock)

    async def is_away() -> None:
        await away.note_away("no answer")
        clock.advance(20_000)
        await away.note_away("no answer")

    away.begin()
    await is_away()
    clock.advance(5 * 3_600_000)  # others lead meanwhile
    away.begin()
    began_ms = clock.wall_ms()
    await is_away()
    assert [notice.told[0].since_ms for notice in sent[1:]] == [began_ms]
    await away.note_back()
    assert [notice.told[0].since_ms for notice in put] == [began_ms]

    await is_away()
    clock.advance(5 * 3_600_000)
    away.begin()
    await away.note_back()
    assert [notice.told[0].since_ms for notice in put[1:]] == [None], "when it was over is not known"
    await away.note_back()
    assert len(put) == 2
