"""The records of a log store are counted for the statistics, as the steward does each minute."""

from __future__ import annotations

from common.clock import Clock, SystemClock
from common.runlog import RunLog
from worker.lead.statistics import StatisticsKeeping


async def count_records(runlog: RunLog, clock: Clock | None = None) -> None:
    """One pass of a steward, which has its time from ``clock`` (the system's)."""
    await StatisticsKeeping(store=runlog, is_clock_off=lambda: False, clock=clock or SystemClock()).count()
