"""What a manager's own records tell is in the outbox before their keys go."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack

import pytest

from common.access.selectors import EVERYTHING
from common.clock import SystemClock
from common.errors import UnavailableError
from common.notices.rules import Rule
from common.notices.wanted import Wanted
from common.protocol.keys import Keys, RunId
from common.protocol.run import Trigger
from common.runlog import OutboxDocument, RunLog
from common.verdicts import EventKind, Verdict
from manager.background.housekeeping import Delivery, Housekeeping
from tests.support.background import running
from tests.support.managing import Managed, Place
from tests.support.records import record
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]


async def test_events_are_there_once_although_the_answer_was_lost(
    place: Place, manager: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = Keys(place.prefix)
    second = RunId.planned("backup", record(1).plan_ms, 2)
    records = [
        record(0, status=Verdict.SKIPPED, reason="paused", output_bytes=0),
        record(1, run_id=second, status=Verdict.KILLED, reason="before start", trigger=Trigger.RETRY, start_ms=None),
        record(2, status=Verdict.MISSED, reason="late", output_bytes=0),
    ]
    wanted = Wanted([Rule(labels=EVERYTHING, on=(EventKind.SKIPPED,), to=("ops",))])
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(RunLog(place.log_store, database=place.database))
        put, ids = log.outbox.put, list[list[str]]()

        async def put_and_unanswered_once(documents: Sequence[OutboxDocument]) -> None:
            await put(documents)
            ids.append([one.id for one in documents])
            if len(ids) == 1:
                raise UnavailableError("no answer")

        monkeypatch.setattr(log.outbox, "put", put_and_unanswered_once)
        await log.write([record(1, status=Verdict.TIMEOUT, reason="timeout of 5 s")])
        housekeeping = Housekeeping(
            manager.etcd, log, wanted=lambda: wanted, spec_of=lambda name: None, clock=SystemClock()
        )
        await stack.enter_async_context(running(housekeeping.run()))
        for one in records:
            revision = await manager.etcd.put(keys.run(one.run_id), b"the record")
            housekeeping.deliver(Delivery(record=one, key=keys.run(one.run_id), revision=revision))

        async def gone() -> bool:
            return not await manager.etcd.get_many([keys.run(one.run_id) for one in records])

        await wait_until(gone, description="all are delivered")
        events = [event for document in await log.outbox.read(10) for event in document.events]
    assert ids[0] == ids[1]
    assert [(one.kind, one.reason) for one in events] == [
        ("skipped", "paused"), ("timeout", "timeout of 5 s; the next attempt did not run: before start"),
        ("missed", "late"),
    ]  # fmt: skip
