"""How long a job's runs took, as a chart shows it: points, the usual span beside them, and where versions began.

the newest 2,000 records --> at most 400 points, each a run: of several the one that failed, else the longest
                         --> at most 20 bands, one after the other: median and 95 % of those that succeeded
versions that may matter --> marks: the median before and after each
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from statistics import median
from typing import Any, Final

from common.access.rights import Rights
from common.errors import EtcdError, UnavailableError
from common.protocol.run import Trigger
from common.protocol.saved_job import SavedJob, changed_fields
from common.runlog import RunFilter
from common.verdicts import ENDS_UNKNOWN, Verdict
from manager.background.versions import Versions, sees_version
from manager.views.history import History
from manager.watch.catalog import KnownJob

MOST_POINTS: Final = 400
MOST_RECORDS: Final = 2_000
_RECORDS_A_PAGE: Final = 500
_BANDS: Final = 20
_FEWEST: Final = 3
"""Of fewer runs that succeeded nothing is called usual."""
_COMPARED: Final = 30
"""So many runs before and after a version are compared."""
_NO_MATTER: Final = frozenset({"enabled", "description", "links", "labels", "notify"})
"""What changes no run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedRun:
    """A run that started and ended."""

    run_id: str
    status: str
    plan_ms: int
    took_ms: int
    late_ms: int | None
    """Of a planned fire, or an attempt that says when it was due: how long after that it started."""
    revision: int | None

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> TimedRun | None:
        """That of a log document; None where it did not start, or it is not known when it ended."""
        times = [document.get(field) for field in ("planTime", "startTime", "endTime")]
        plan_ms, start_ms, end_ms = (one if isinstance(one, int) else 0 for one in times)
        status, revision = document.get("status"), document.get("revision")
        if not start_ms or not end_ms or status in ENDS_UNKNOWN:
            return None
        is_first = document.get("attempt", 1) == 1 and document.get("trigger") == Trigger.SCHEDULE
        due_ms = document.get("dueTime", plan_ms if is_first else None)
        return cls(
            run_id=str(document.get("_id")), status=str(status), plan_ms=plan_ms, took_ms=max(0, end_ms - start_ms),
            late_ms=max(0, start_ms - due_ms) if isinstance(due_ms, int) else None,
            revision=revision if isinstance(revision, int) else None,
        )  # fmt: skip

    @property
    def succeeded(self) -> bool:
        return self.status == Verdict.SUCCESS


@dataclass(frozen=True, slots=True, kw_only=True)
class Began:
    """A version of the job that may have changed how long it takes."""

    revision: int
    saved_ms: int
    changed: Sequence[str]


class Durations:
    """Reads what a chart of one job needs, within bounds."""

    def __init__(self, history: History, versions: Versions) -> None:
        self._history = history
        self._versions = versions

    async def of(
        self, job: KnownJob | None, name: str, rights: Rights, *, from_ms: int | None, to_ms: int | None
    ) -> dict[str, Any]:  # fmt: skip
        """The newest runs planned from the one instant until the other. UnavailableError without the log store."""
        wanted = RunFilter(job=name, from_ms=from_ms, to_ms=to_ms)
        documents: list[Mapping[str, Any]] = []
        cursor: str | None = None
        for _ in range(MOST_RECORDS // _RECORDS_A_PAGE):
            page = await self._history.walk(wanted, rights, cursor=cursor, limit=_RECORDS_A_PAGE)
            documents += page.items
            if (cursor := page.next_cursor) is None:
                break
        saved = job.saved if job is not None else None
        timed = [run for document in reversed(documents) if (run := TimedRun.of(document)) is not None]
        timeout_s = saved.spec.timeout_s if saved is not None else 0
        return {
            **chart_of(timed, await self._began(name, job, saved, rights)),
            "timeoutMs": round(timeout_s * 1000) or None,
            "isCut": cursor is not None,
        }

    async def _began(self, name: str, job: KnownJob | None, saved: SavedJob | None, rights: Rights) -> list[Began]:
        """Oldest first; as far as they can be read now."""
        try:
            former = [one for one in await self._versions.of(name) if sees_version(one, rights)]
        except (EtcdError, UnavailableError):
            return []
        known = [(one.revision, one.saved_ms, one.spec) for one in reversed(former)]
        if job is not None and saved is not None:
            known.append((job.revision, saved.saved_ms, saved.spec.to_stored()))
        return [
            Began(revision=revision, saved_ms=saved_ms, changed=changed)
            for (_, _, older), (revision, saved_ms, newer) in pairwise(known)
            if not _NO_MATTER.issuperset(changed := changed_fields(older, newer))
        ]


def chart_of(runs: Sequence[TimedRun], began: Iterable[Began]) -> dict[str, Any]:
    """What is drawn of these runs, oldest first."""
    shares = _shares(runs, math.ceil(len(runs) / MOST_POINTS))
    return {
        "runs": len(runs),
        **_usual(runs),
        "points": [_point(share) for share in shares],
        "bands": _bands(runs),
        "versions": [mark for one in began if (mark := _mark(one, runs)) is not None],
    }


def _point(share: Sequence[TimedRun]) -> dict[str, Any]:
    run = max(share, key=lambda one: (not one.succeeded, one.took_ms))
    point = {"runId": run.run_id, "status": run.status, "planTime": run.plan_ms, "durationMs": run.took_ms}
    if (late_ms := max((one.late_ms for one in share if one.late_ms is not None), default=None)) is not None:
        point["lateMs"] = late_ms
    return point if len(share) == 1 else {**point, "runs": len(share)}


def _bands(runs: Sequence[TimedRun]) -> list[dict[str, Any]]:
    """One after the other; none spans a change of the version, as that may be what made the runs longer."""
    size = max(10, math.ceil(len(runs) / _BANDS))
    parts = [list(some) for _, some in groupby(runs, key=lambda run: run.revision)]
    if len(parts) > _BANDS:
        parts = [list(runs)]
    shares = [share for part in parts for share in _shares(part, size)]
    return [
        {"from": share[0].plan_ms, "to": share[-1].plan_ms, **usual} for share in shares if (usual := _usual(share))
    ]


def _mark(one: Began, runs: Sequence[TimedRun]) -> dict[str, Any] | None:
    """Where the first run of a version stands; None: none of these runs is, or all are."""
    first = next((at for at, run in enumerate(runs) if (run.revision or 0) >= one.revision), None)
    if not first:
        return None
    mark = {
        "revision": one.revision, "savedMs": one.saved_ms, "planTime": runs[first].plan_ms, "changed": list(one.changed)
    }  # fmt: skip
    before, after = (_usual(some) for some in (runs[max(0, first - _COMPARED) : first], runs[first:][:_COMPARED]))
    if before and after:
        mark |= {"beforeMs": before["medianMs"], "afterMs": after["medianMs"]}
    return mark


def _usual(runs: Iterable[TimedRun]) -> dict[str, int]:
    """Median and 95 % of those that succeeded; nothing of fewer than three."""
    took = sorted(run.took_ms for run in runs if run.succeeded)
    if len(took) < _FEWEST:
        return {}
    return {"medianMs": round(median(took)), "p95Ms": took[math.ceil(0.95 * len(took)) - 1]}


def _shares(runs: Sequence[TimedRun], size: int) -> list[Sequence[TimedRun]]:
    return [runs[start : start + size] for start in range(0, len(runs), size)] if runs else []
