"""Events that time brings to jobs: a run that is slow, a job that has been silent for too long.

Only jobs that ask for it by a field are looked at. The time in which no notifier looked, or the log store did not
answer, counts for no silent job: a day without managers is no silence of a hundred jobs, and what succeeded while the
log store was away is not in it yet when it is back. So the notifier writes down, each 15 s, that it looks.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Final, Self

from msgspec.structs import replace

from common.clock import Clock
from common.jobs.job import JobSpec
from common.notices.events import Event
from common.protocol.keys import RunId
from common.protocol.saved_job import SavedJob
from common.runlog import RunLog
from common.runlog.alerts import Watch
from common.verdicts import EventKind
from manager.watch.catalog import KnownJob
from manager.watch.watching import Watching

_READ_A_LOOK: Final = 500
"""Last results; a look a second."""
_SCAN_EVERY_S: Final = 5.0
_LOOKED_EVERY_MS: Final = 15_000
_GAP_MS: Final = 30_000
"""Without a notifier that has read the log store for so long."""
_MOST_GAPS: Final = 50


class SlowRuns:
    """Runs that still go on after their job's ``warnAfterSeconds``."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self._reported: set[RunId] = set()

    def look(self, now_ms: int) -> list[Event]:
        """Each of them once; once more after this process begins a term, which alerts know of."""
        open_runs = self._watching.open_runs
        self._reported = {run for run in self._reported if open_runs.has(run)}
        found = []
        for run in open_runs:
            job = self._watching.catalog.get(run.run_id.job_name)
            if job is None or job.saved is None or not (warn_after_s := job.saved.spec.warn_after_s):
                continue
            if now_ms - run.start_ms < 1000 * warn_after_s or run.run_id in self._reported:
                continue
            self._reported.add(run.run_id)
            found.append(Event(
                kind=EventKind.SLOW, at_ms=now_ms, job=job.name, run=str(run.run_id), order=str(run.run_id),
                labels=run.labels, plan_ms=run.plan_ms, start_ms=run.start_ms, worker=run.worker or None,
                attempt=run.run_id.attempt, zone=job.saved.spec.timezone,
                reason=f"it has been running for more than {warn_after_s:g} s",
            ))  # fmt: skip
        return found


class SilentJobs:
    """Jobs that have not succeeded for their ``silentAfterSeconds``, whether they were to run or not."""

    def __init__(
        self, watching: Watching, runlog: RunLog, watch: Watch, now_ms: Callable[[], int], clock: Clock
    ) -> None:
        self._watching = watching
        self._runlog = runlog
        self._watch = watch
        self._now_ms = now_ms
        self._clock = clock
        self._limits: dict[str, int] = {}
        """By job, ms; all that are in the heap, and of no other limit there."""
        self._asked: dict[str, tuple[int, int]] = {}
        """Since when each asks for its limit, behind its create revision, as far as this term has seen: a later save of
        something else changes nothing, but a job that was made anew under the name."""
        self._due: list[tuple[int, str, int]] = []
        self._scan_at_s = 0.0

    @classmethod
    async def begun(cls, watching: Watching, runlog: RunLog, now_ms: Callable[[], int], clock: Clock) -> Self:
        """Knows since when nobody has looked. ``now_ms``: the time; ``clock``: for pauses."""
        return cls(watching, runlog, with_gap(await runlog.alerts.watch(), now_ms()), now_ms, clock)

    async def look(self) -> list[Event]:
        """Events of those that are silent by now. UnavailableError."""
        if self._clock.monotonic() >= self._scan_at_s:
            began_s = self._clock.monotonic()
            await self._scan()
            # Many jobs are gone through more rarely: it takes a hundredth of the time.
            self._scan_at_s = began_s + max(_SCAN_EVERY_S, 100 * (self._clock.monotonic() - began_s))
        now_ms = self._now_ms()
        if self._limits and now_ms - self._watch.looked_ms >= _LOOKED_EVERY_MS:
            self._watch = replace(self._watch, looked_ms=now_ms)
            await self._runlog.alerts.put_watch(self._watch)
        return await self._silent(now_ms)

    async def _scan(self) -> None:
        """Which jobs there are to be looked at."""
        limits, asked = dict[str, int](), dict[str, tuple[int, int]]()
        async for name, spec in self._watching.catalog.each():
            if (limit_ms := limit_of(spec)) is not None:
                limits[name] = limit_ms
                is_new = self._limits.get(name) != limit_ms
                if is_new:
                    heapq.heappush(self._due, (0, name, limit_ms))
                if (job := self._watching.catalog.get(name)) is not None and job.saved is not None:
                    asked_ms = job.saved.saved_ms if is_new else self._asked_ms(job, job.saved)
                    asked[name] = (job.create_revision, asked_ms)
        self._limits, self._asked = limits, asked

    def _asked_ms(self, job: KnownJob, saved: SavedJob) -> int:
        create_revision, asked_ms = self._asked.get(job.name, (0, 0))
        return asked_ms if create_revision == job.create_revision else saved.saved_ms

    async def _silent(self, now_ms: int) -> list[Event]:
        due: dict[str, int] = {}
        while self._due and self._due[0][0] <= now_ms and len(due) < _READ_A_LOOK:
            _, name, limit_ms = heapq.heappop(self._due)
            if self._limits.get(name) == limit_ms:
                due[name] = limit_ms
        came_to, found = await self._runlog.came_to(due) if due else {}, []
        for name, limit_ms in due.items():
            job, last = self._watching.catalog.get(name), came_to.get(name)
            if job is None or job.saved is None:
                continue
            success_ms = None if last is None else last.success_ms
            silent_ms = silent_for(max(success_ms or 0, self._asked_ms(job, job.saved)), now_ms, self._watch.gaps)
            left_ms = limit_ms - silent_ms if silent_ms < limit_ms else limit_ms
            heapq.heappush(self._due, (now_ms + left_ms, name, limit_ms))
            if silent_ms >= limit_ms:
                found.append(Event(
                    kind=EventKind.SILENT, at_ms=now_ms, job=name, labels=job.labels or {},
                    order="" if last is None else last.newest(), zone=job.saved.spec.timezone,
                    reason=f"no success for more than {limit_ms / 1000:g} s",
                ))  # fmt: skip
        return found


def limit_of(spec: JobSpec) -> int | None:
    """After how many ms without a success a job is silent; None: never, as it says nothing, or is paused."""
    return int(1000 * spec.silent_after_s) if spec.enabled and spec.silent_after_s else None


def with_gap(watch: Watch, now_ms: int) -> Watch:
    """As a notifier begins with it: the time since the last one looked is a gap, where it was long."""
    if not watch.looked_ms or now_ms - watch.looked_ms < _GAP_MS:
        return watch
    gaps = [*watch.gaps, (watch.looked_ms, now_ms)]
    if len(gaps) > _MOST_GAPS:
        gaps.remove(min(gaps, key=lambda gap: gap[1] - gap[0]))
    return replace(watch, gaps=tuple(gaps))


def silent_for(since_ms: int, now_ms: int, gaps: Sequence[tuple[int, int]]) -> int:
    """How long it has been since then, without the gaps."""
    away_ms = sum(max(0, min(until_ms, now_ms) - max(from_ms, since_ms)) for from_ms, until_ms in gaps)
    return now_ms - since_ms - away_ms
