"""What a worker is to tell, while it does not know yet whether another attempt follows."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from common.jobs.notify import EventKind
from common.protocol.run import Verdict
from common.runlog import OutboxDocument
from tests.support.fake_clock import FakeClock
from tests.support.records import record
from tests.support.waiting import wait_until
from worker.record.outbox_writer import OutboxWriter


class _Looks(FakeClock):
    """Fails where it is looked at again and again without a pause."""

    looks = 0

    def monotonic(self) -> float:
        self.looks += 1
        assert self.looks < 1000, "nobody else has a turn"
        return super().monotonic()


class _Store:
    def __init__(self) -> None:
        self.told: list[EventKind] = []

    async def put_outbox(self, documents: list[OutboxDocument]) -> None:
        self.told += [event.kind for one in documents for event in one.events]


async def test_failures_of_which_more_is_to_come_leave_the_loop_to_those_who_bring_it() -> None:
    failures = [record(number, status=Verdict.FAILED) for number in range(2)]
    runs = {
        one.run_id: SimpleNamespace(record=one, tried_again=None, unlocked=False, forgotten=False, is_ending=False)
        for one in failures
    }
    synced = asyncio.Event()
    synced.set()
    wanted = SimpleNamespace(kinds=lambda labels, spec: ())
    store: Any = _Store()
    clock = _Looks()
    given: dict[str, Any] = {
        "attempts": None, "catalog": SimpleNamespace(jobs={}), "jobs_read": lambda: synced, "table": runs,
        "rules": SimpleNamespace(mirror=SimpleNamespace(synced=synced), wanted=wanted),
    }  # fmt: skip
    writer = OutboxWriter(store=store, up_to=0, on_told=asyncio.Event(), clock=clock, **given)
    writer.add(failures[:1], 1)
    loop = asyncio.create_task(writer.run())
    await asyncio.sleep(0)
    writer.add(failures[1:], 2)  # while the first one waits
    await wait_until(lambda: clock.looks > 5, description="it has looked again")
    for run in runs.values():
        run.tried_again = False
    await wait_until(lambda: writer.up_to == 2 or loop.done(), description="both are told")
    assert store.told == [EventKind.FAILED, EventKind.FAILED]
    loop.cancel()
