"""The jobs that are failing, by what went wrong; read once for all who ask at a time.

The first `MOST_LOOKED_AT` of them are looked at one by one; of those behind them only the names are known.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from common.access.rights import Rights, Sight
from common.clock import Clock
from common.errors import EtcronError
from common.runlog import FailingJob, JobResults
from common.words.progress import without_progress
from manager.views.cached_read import CachedRead
from manager.views.history import History, is_seen, read_run_id
from manager.views.rows import MAX_FAILING, seen_results
from manager.watch.catalog import Catalog

MOST_LOOKED_AT: Final = 1_000
_KEPT_S: Final = 2.0
_LINES_KEPT: Final = 500
_LONGEST_LINE: Final = 300

Error: TypeAlias = tuple[str, int | None, int | None, str]
"""Status, exit status, signal, and the phrase of the reason, without what stands behind its colon."""


def error_of(document: Mapping[str, Any]) -> Error:
    """What went wrong, so far as it is the same for all whom it happens to."""
    code, signal = document.get("exitCode"), document.get("signal")
    words = "" if code is not None or signal is not None else document.get("reason") or document.get("err") or ""
    status = str(document.get("status"))
    return status, code, signal, str(words).removeprefix(f"{status}: ").partition(":")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingAlike:
    """Jobs that one error is of, that whose newest failure is the newest first."""

    error: Error
    jobs: Sequence[FailingJob]
    since_ms: int
    """Since when the first of them has been failing."""

    @property
    def newest(self) -> FailingJob:
        return self.jobs[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenFailing:
    """What a caller may know of it."""

    count: int
    looked_at: int
    """Of so many of them the groups are."""
    groups: Sequence[FailingAlike]
    """The largest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    looked_at: Sequence[FailingJob]
    names: Sequence[str]
    """Of those behind them."""
    seen: dict[Sight, SeenFailing] = field(default_factory=dict)
    """Reckoned once for all who may know of the same."""


class FailingJobs:
    """Asks the log store at most once in two seconds. EtcronError, from each call: it is away."""

    def __init__(self, history: History, catalog: Catalog, *, clock: Clock) -> None:
        self._history = history
        self._catalog = catalog
        self._found = CachedRead(self._read, clock, _KEPT_S)
        self._lines: OrderedDict[str, tuple[str, dict[str, Any]]] = OrderedDict()

    async def seen(self, rights: Rights, *, since_s: float = -math.inf) -> SeenFailing:
        """The jobs that a caller may know of, whatever the log store has of those that were deleted.

        ``since_s``: as it is then (monotonic) or later.
        """
        found = await self._found.get(since_s=since_s)
        sight = rights.sight
        if sight not in found.seen:
            found.seen[sight] = self._reckon(found, rights)
        return found.seen[sight]

    async def last_line(self, run: str, rights: Rights) -> str | None:
        """The last line of the output of a run that has ended; None: it has none, or it is not known now."""
        if run not in self._lines:
            try:
                document = await self._history.record(read_run_id(run))
            except EtcronError:
                return None
            if document is None:
                return None
            lines = without_progress(str(document.get("output", ""))[-10_000:]).rstrip().splitlines()
            self._lines[run] = (lines[-1].strip()[:_LONGEST_LINE] if lines else "", document.get("labels") or {})
            while len(self._lines) > _LINES_KEPT:
                self._lines.popitem(last=False)
        line, labels = self._lines[run]
        return line if is_seen({"labels": labels}, rights) else None

    async def _read(self) -> _Found:
        looked_at = await self._history.failing_results(after="", limit=MOST_LOOKED_AT)
        if len(looked_at) < MOST_LOOKED_AT:
            return _Found(looked_at=looked_at, names=())
        names = await self._history.failing(MAX_FAILING)
        return _Found(looked_at=looked_at, names=sorted(names - {one.job for one in looked_at}))

    def _reckon(self, found: _Found, rights: Rights) -> SeenFailing:
        jobs = [(one, job) for one in found.looked_at if (job := self._catalog.seen(one.job, rights)) is not None]
        more = sum(self._catalog.seen(name, rights) is not None for name in found.names)
        by_error: dict[Error, list[FailingJob]] = {}
        for one, job in jobs:
            result = seen_results(JobResults(last=one.result), job, rights)
            if result is not None and result.last is not None:
                by_error.setdefault(error_of(one.result), []).append(one)
        groups = [
            FailingAlike(
                error=error, jobs=sorted(alike, key=_newest_first), since_ms=min(one.since_ms for one in alike)
            )
            for error, alike in by_error.items()
        ]
        groups.sort(key=lambda group: (-len(group.jobs), _newest_first(group.newest)))
        return SeenFailing(count=len(jobs) + more, looked_at=len(jobs), groups=groups)


def _newest_first(one: FailingJob) -> tuple[int, str]:
    at_ms = one.result.get("endTime") or one.result.get("planTime") or 0
    return -int(at_ms), one.job
