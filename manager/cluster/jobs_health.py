"""Which jobs cannot run at all: those that no live worker fits, and those whose value in etcd is not a job."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from common.access.rights import Rights
from common.jobs.job import JobSpec
from common.protocol.absence import why_no_worker
from common.protocol.member import Member
from common.protocol.placement import is_eligible
from common.protocol.roster import RosterEntry
from manager.watch.catalog import Catalog

_NAMED: Final = 5
"""How many jobs of each kind are named one by one."""
_YIELD_EVERY: Final = 500
_LONGEST: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsReport:
    """The first few of each kind with the reason, and how many there are; None: not known."""

    broken: Sequence[tuple[str, str]] = ()
    broken_count: int | None = None
    without_worker: Sequence[tuple[str, str]] = ()
    without_worker_count: int | None = None
    unsigned: Sequence[tuple[str, str]] = ()
    unsigned_count: int | None = None
    """None: also where this manager signs nothing."""

    @property
    def problems(self) -> list[str]:
        """In words, no more than one reads."""
        sentences = [f"the job {name} cannot run: {why}" for name, why in self.without_worker]
        sentences += _rest(self.without_worker_count, len(sentences), "jobs cannot run on any live worker")
        broken = [f"the job {name} is broken: {problem}" for name, problem in self.broken]
        sentences += [*broken, *_rest(self.broken_count, len(broken), "jobs are broken")]
        sentences += [f"the job {name} {why}: workers that require it do not run it" for name, why in self.unsigned]
        return [*sentences, *_rest(self.unsigned_count, len(self.unsigned), "jobs are not signed")]

    def view(self) -> dict[str, Any]:
        """As ``/readyz?verbose`` shows it."""
        document = {
            "state": "unknown" if self.broken_count is None else "degraded" if self.problems else "ok",
            "withoutWorker": {
                "count": self.without_worker_count,
                "first": [{"name": name, "why": why} for name, why in self.without_worker],
            },
            "broken": {
                "count": self.broken_count, "first": [{"name": name, "problem": text} for name, text in self.broken],
            },
        }  # fmt: skip
        if self.unsigned_count is not None:
            first = [{"name": name, "problem": f"it {text}"} for name, text in self.unsigned]
            document["unsigned"] = {"count": self.unsigned_count, "first": first}
        return document


async def look_at_jobs(
    catalog: Catalog, members: Sequence[Member], away: Iterable[RosterEntry], rights: Rights, *, now_ms: int
) -> JobsReport:  # fmt: skip
    """By these live workers, and those that have left. Where none is live, that is not repeated for each job.

    Of jobs that a caller may know of; the counts are of these alone.
    """
    broken = catalog.broken if rights.sees_unlabelled else set[str]()
    report_broken = [(name, (catalog.problem_of(name) or "")[:_LONGEST]) for name in sorted(broken)[:_NAMED]]
    unsigned = [name for name in sorted(catalog.unsigned) if catalog.seen(name, rights) is not None]
    away, without, count = tuple(away), list[tuple[str, str]](), 0
    fits = Fits(members)
    for index, names in enumerate(list(catalog.needs.values()) if members else (), 1):
        if index % _YIELD_EVERY == 0:
            await asyncio.sleep(0)
        spec = next((job.saved.spec for name in names if (job := catalog.get(name)) and job.saved), None)
        if spec is None or fits.any(spec):
            continue
        for name in names:
            job = catalog.seen(name, rights)
            if job is None or job.saved is None:
                continue
            ends_ms = [moment.ms for moment in (job.saved.spec.at, job.saved.spec.end_at) if moment is not None]
            if min(ends_ms, default=now_ms + 1) <= now_ms:
                continue  # its last fire is past, as far as one look tells
            count += 1
            if len(without) < _NAMED:
                without.append((name, f"no worker: {why_no_worker(job.saved.spec, members, away, now_ms=now_ms)}"))
    return JobsReport(
        broken=report_broken, broken_count=len(broken), without_worker=without,
        without_worker_count=count if members else None,
        unsigned=[(name, catalog.unsigned.get(name, "is not signed")) for name in unsigned[:_NAMED]],
        unsigned_count=None if catalog.trust is None else len(unsigned),
    )  # fmt: skip


class Fits:
    """Whether any of these workers has the labels and slots that a job asks for; without a look at each of them."""

    def __init__(self, members: Iterable[Member]) -> None:
        self._all = tuple(members)
        self._by_label: dict[tuple[str, str], list[Member]] = defaultdict(list)
        for member in self._all:
            for label in member.labels.items():
                self._by_label[label].append(member)

    def any(self, spec: JobSpec) -> bool:
        candidates: Iterable[Member] = self._all
        for name, values in spec.workers.items():
            candidates = [one for value in values for one in self._by_label.get((name, value), ())]
            break
        return any(is_eligible(spec, one.labels, one.slots) for one in candidates)


def _rest(count: int | None, named: int, what: str) -> list[str]:
    return [f"{count - named} more {what}"] if count is not None and count > named else []
