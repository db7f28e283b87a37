"""Records to write: run number ``number`` of a job, with plausible values everywhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from common.protocol.keys import RunId
from common.protocol.run import RunRecord
from common.runlog import RunLog
from common.verdicts import Verdict
from worker.record.spool import Spool

PLAN_0_MS = 1_790_000_000_000
"""The plan time of number 0; each further one is a second later."""


class NothingTold:
    """Beside a delivery of which only the records matter: the spool may let go of them at once."""

    up_to = sys.maxsize
    is_full = False

    def __init__(self) -> None:
        self.added: list[RunId] = []

    def add(self, records: Sequence[RunRecord], up_to: int) -> None:
        self.added += [one.run_id for one in records]


def record(number: int = 0, *, job: str = "backup", status: Verdict = Verdict.SUCCESS, **changes: Any) -> RunRecord:
    """A run that started at its plan time and took 5 ms; skipped and missed fires have not started."""
    plan_ms = changes.pop("plan_ms", PLAN_0_MS + number * 1000)
    started = {"start_ms": plan_ms + 2, "end_ms": plan_ms + 7, "exit_code": 0} if status.is_of_a_run else {}
    values: dict[str, Any] = {
        "run_id": RunId.planned(job, plan_ms), "status": status, "command": "echo hello", "output": f"hello {number}\n",
        "plan_ms": plan_ms, "schedule_ms": plan_ms - 50, "create_ms": plan_ms - 60, "claim_ms": plan_ms - 55,
        "worker": "w1", "host": "h1", "revision": 12, "fence": 34, "output_bytes": 8, "max_rss": 1 << 20,
        "cpu_seconds": 0.01, **started, **changes,
    }  # fmt: skip
    return RunRecord(**values)


async def waiting_in(spool: Spool) -> list[RunRecord]:
    """All records that are not acknowledged, oldest first."""
    records: list[RunRecord] = []
    after: int | None = None
    while page := await spool.read(500, after=after):
        after = page[-1][0]
        records += [one for _, one in page]
    return records


async def readable(directory: Path) -> list[RunRecord]:
    """What the next process would find waiting there."""
    spool = Spool.open(directory)
    found = await waiting_in(spool)
    await spool.close()
    return found


async def last_results(runlog: RunLog, jobs: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The newest record of each of these jobs that has one."""
    results = await runlog.job_results(jobs)
    return {job: came_to.last for job, came_to in results.items() if came_to.last is not None}


async def logged(runlog: RunLog, job: str, *, skip: int = 0, limit: int = 20) -> list[dict[str, Any]]:
    """A page of the job's log, with output."""
    log = await runlog.job_log(job, skip=skip, limit=limit)
    return await runlog.documents(list(log.sizes), deadline_seconds=30)
