"""What a worker is to tell, while it does not know yet whether another attempt follows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from common.runlog import OutboxDocument
from common.verdicts import EventKind, Verdict
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
        self.outbox = self

    async def put(self, documents: list[OutboxDocument]) -> None:
        self.told += [event.kind for one in documents for event in one.events]


def _writer(
    store: _Store,
    clock: FakeClock,
    runs: Any,
    kinds: Callable[[Mapping[str, str], object], Any] = lambda labels, spec: (),
) -> OutboxWriter:
    """``kinds``: what rules ask for."""
    synced = asyncio.Event()
    synced.set()
    given: dict[str, Any] = {
        "store": store, "attempts": None, "catalog": SimpleNamespace(jobs={}), "jobs_read": lambda: synced,
        "rules": SimpleNamespace(mirror=SimpleNamespace(synced=synced), wanted=SimpleNamespace(kinds=kinds)),
    }  # fmt: skip
    return OutboxWriter(table=runs, up_to=0, on_progress=asyncio.Event(), clock=clock, **given)


async def test_failures_of_which_more_is_to_come_leave_the_loop_to_those_who_bring_it() -> None:
    failures = [record(number, status=Verdict.FAILED) for number in range(2)]
    runs = {
        one.run_id: SimpleNamespace(record=one, tried_again=None, unlocked=False, forgotten=False, is_ending=False)
        for one in failures
    }
    store, clock = _Store(), _Looks()
    writer = _writer(store, clock, runs)
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


async def test_record_that_nobody_foresaw_keeps_no_other_from_being_told() -> None:
    def kinds(labels: Mapping[str, str], spec: object) -> Any:
        if "odd" in labels:
            raise OverflowError("of a record that nobody foresaw")
        return ()

    records = [record(number, status=Verdict.KILLED, labels={"odd": "1"} if number else {}) for number in (0, 1, 2)]
    store = _Store()
    writer = _writer(store, FakeClock(), {}, kinds)
    writer.add(records, 3)
    loop = asyncio.create_task(writer.run())
    await wait_until(lambda: writer.up_to == 3 or loop.done(), description="it goes on")
    assert store.told == [EventKind.KILLED]
    loop.cancel()
