"""Runs as a worker would put them into etcd."""

from __future__ import annotations

import time
from typing import Any

from common.protocol.keys import RunId
from common.protocol.run import EntryState, RunEntry, RunRecord
from common.protocol.txn import Put, Txn
from common.verdicts import Verdict
from tests.support.managing import Managed


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def open_entry(plan_ms: int, *, state: EntryState = EntryState.OPEN, dispatch_ms: int | None = None) -> RunEntry:
    """A run that was claimed for its plan time by the worker w1."""
    return RunEntry(
        state=state, worker="w1", session="1", instance="i", plan_ms=plan_ms, claim_ms=plan_ms - 100, locked=True,
        dispatch_ms=plan_ms if dispatch_ms is None else dispatch_ms,
    )  # fmt: skip


async def claim(manager: Managed, job: str, plan_ms: int, **changes: Any) -> RunId:
    """Put an open run, with its lock; ``fire``: one that no schedule planned."""
    fire = changes.pop("fire", None)
    run = RunId.planned(job, plan_ms) if fire is None else RunId(job, fire)
    puts = [
        Put(manager.keys.run(run), open_entry(plan_ms, **changes).to_json()),
        Put(manager.keys.lock(job), str(run).encode()),
    ]
    await manager.etcd.txn(Txn([], puts))
    return run


def record_of(run: RunId, status: Verdict = Verdict.SUCCESS, **changes: Any) -> RunRecord:
    """The record of a run that started at its plan time."""
    plan_ms = changes.pop("plan_ms", run.plan_ms or 0)
    started = {"start_ms": plan_ms + 2, "end_ms": plan_ms + 7} if status.is_of_a_run else {}
    values: dict[str, Any] = {"output": "hello\n", "worker": "w1", **started, **changes}
    return RunRecord(run_id=run, status=status, plan_ms=plan_ms, **values)


async def settle(manager: Managed, run: RunId, status: Verdict = Verdict.SUCCESS, **changes: Any) -> None:
    """The run's record is in the log, and its key gone."""
    await manager.write([record_of(run, status, **changes)])
    await manager.etcd.delete(manager.keys.run(run))
