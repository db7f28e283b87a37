"""How soon the lock of a run that has ended is wanted: at once, or with those of others in a while."""

from __future__ import annotations

from typing import Final

from common.jobs.job import Overlap
from common.protocol.run import Verdict
from worker.runs import Run

AT_ONCE_S: Final = 0.02
TOGETHER_S: Final = 0.08
"""In a burst on many workers each of them ends few runs in 20 ms: a request for so few is a part of one for each fire.
Shorter than the 100 ms after which a fire that found the lock held looks once more."""
_SOON_MS: Final = 1_000


def is_wanted_soon(run: Run, now_ms: int) -> bool:
    """Whether the job's next fire may come up before the locks of a while are freed, or anything follows the run.

    Where not, only runs that were asked for, or make up for misfires, may be kept waiting by its lock: for that while.
    """
    plan_ms, job, record = run.run_id.plan_ms, run.job, run.record
    is_plain = plan_ms is not None and run.request is None and record is not None and record.status is Verdict.SUCCESS
    if not is_plain or job.keeps_one or job.spec.after is not None:
        return True
    if job.spec.overlap is Overlap.ALLOW:
        return False
    assert plan_ms is not None, "it is plain"
    next_ms = job.schedule.next_after_ms(plan_ms)  # of the run's own: later fires may be waiting to be made up for
    return next_ms is not None and next_ms <= now_ms + _SOON_MS
