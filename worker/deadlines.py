"""Until a guardian does it: a run that holds a lock is ended before the lock can pass on.

Each such run has a deadline on the boot clock: the sending of the newest confirmed keep-alive of the session that its
run key names, plus its `lostAfter`, less its kill grace and a margin. Past it, it is ended here.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from common.clock import Clock
from common.timings import Timings
from worker.executor import Executor
from worker.launch import Ending
from worker.runs import Phase, Run, RunTable

_log = logging.getLogger(__name__)

_LOOK_S: Final = 0.25
REASON: Final = "out of touch with etcd for too long"


class Deadlines:
    """Ends what is out of touch for too long."""

    def __init__(self, *, table: RunTable, executor: Executor, timings: Timings, clock: Clock) -> None:
        self._table = table
        self._executor = executor
        self._timings = timings
        self._clock = clock

    async def run(self) -> None:
        """Looks until cancelled, at what has a process."""
        while True:
            await asyncio.sleep(_LOOK_S)
            self.look()

    def look(self) -> None:
        """Ends what is past its deadline now and is not being ended already."""
        now = self._clock.boottime()
        for run_id, process in tuple(self._executor.running.items()):
            run = self._table.get(run_id)
            if run is None or run.phase is not Phase.RUNNING or process.ending is not None:
                continue
            if self._is_past(run, now) and self._executor.end(run_id, Ending(reason=REASON)):
                extra = {"action": "run.deadline", "run": str(run_id)}
                _log.warning("%s is ended: %s", run_id, REASON, extra=extra)

    def _is_past(self, run: Run, now: float) -> bool:
        if not run.holds_lock or run.entry.lost_after_ms is None:
            return False
        allowed_s = run.entry.lost_after_ms / 1000 - run.job.spec.kill_grace_s - self._timings.margin_s
        return now > run.session.confirmed_boottime + allowed_s
