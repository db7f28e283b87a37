"""The runs that are going, as a watch on etcd has shown them: claimed or running, by job."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import chain

from msgspec import Struct

from common.access.rights import Rights
from common.etcd import Change
from common.protocol.keys import Keys, RunId
from common.protocol.run import EntryState, RunEntry, Trigger
from common.runlog import RunFilter
from manager.watch.catalog import Changes

Place = tuple[int, str]
"""Where a run stands in a list: its plan time, then its id."""


class OpenRun(Struct, frozen=True, kw_only=True):
    """A run that has been claimed and has not ended."""

    run_id: RunId
    plan_ms: int
    dispatch_ms: int
    claim_ms: int
    worker: str
    trigger: Trigger
    labels: Mapping[str, str] = {}
    """The job's, as it was claimed."""

    @property
    def place(self) -> Place:
        return self.plan_ms, str(self.run_id)

    def has_started(self, now_ms: int) -> bool:
        """Whether its time has come; when its process really began only its record will tell."""
        return self.dispatch_ms <= now_ms

    @property
    def start_ms(self) -> int:
        """When it was to start: its dispatch time, or its claim where that came later."""
        return max(self.dispatch_ms, self.claim_ms)


class OpenRuns:
    """Job to its open runs, kept in step by a mirror of ``runs/``."""

    def __init__(
        self,
        keys: Keys,
        *,
        on_changed: Callable[[str, Mapping[str, str]], None],
        on_settled: Callable[[RunId, Mapping[str, str]], None],
        labels_at: Callable[[str, int], Mapping[str, str]] = lambda job, revision: {},
    ) -> None:
        """``on_changed`` hears of a job of which a run with these labels has changed; ``on_settled`` of a run whose
        record the log has.

        ``labels_at``: the labels of a job at a revision, as far as they are known: older workers do not write a run's.
        """
        self._labels_at = labels_at
        self._keys = keys
        self._on_changed = on_changed
        self._on_settled = on_settled
        self._by_job: dict[str, dict[RunId, OpenRun]] = {}
        self._count = 0
        self._unrecorded: dict[str, dict[RunId, Mapping[str, str]]] = {}
        """With their labels."""
        self.changes = Changes()

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[OpenRun]:
        """All of them, in no order; not to be kept across an await."""
        return chain.from_iterable(runs.values() for runs in self._by_job.values())

    def oldest_ms(self, now_ms: int) -> int:
        """For how long that run has been going which was to start first; 0 where none goes."""
        starts = (run.start_ms for runs in self._by_job.values() for run in runs.values())
        return max(0, now_ms - min(starts, default=now_ms))

    def longest(self, rights: Rights, limit: int) -> tuple[int, list[OpenRun]]:
        """How many a caller may know of, and so many of these that began first."""
        runs = list(self) if rights.sees_all else [run for run in self if rights.sees(run.labels)]
        return len(runs), heapq.nsmallest(limit, runs, key=lambda run: (run.start_ms, run.run_id))

    def jobs(self, rights: Rights) -> Container[str]:
        """The names of the jobs that have an open run that a caller may know of."""
        if rights.sees_all:
            return self._by_job
        return {job for job, runs in self._by_job.items() if any(rights.sees(run.labels) for run in runs.values())}

    def of(self, job: str, rights: Rights) -> list[OpenRun]:
        """The job's open runs that a caller may know of, oldest plan time first."""
        runs = self._by_job.get(job)
        if not runs:
            return []
        seen = [run for run in runs.values() if rights.sees(run.labels)]
        return sorted(seen, key=lambda run: (run.plan_ms, run.run_id))

    def labels_of(self, job: str) -> list[Mapping[str, str]]:
        """Those of each open run of the job."""
        return [run.labels for run in self._by_job.get(job, {}).values()]

    def newest(self, wanted: RunFilter, *, after: Place | None, limit: int) -> list[OpenRun]:
        """So many of those that match, newest plan time first; `after`: those that come after this place alone."""
        matching = (run for run in self._matching(wanted) if after is None or run.place < after)
        return heapq.nlargest(limit, matching, key=lambda run: run.place)

    def get(self, run: RunId) -> OpenRun | None:
        """The run, while it is still going."""
        return self._by_job.get(run.job_name, {}).get(run)

    def count(self, wanted: RunFilter) -> int:
        """How many of them match."""
        return sum(1 for _ in self._matching(wanted))

    def _matching(self, wanted: RunFilter) -> Iterator[OpenRun]:
        by_job = [self._by_job.get(job, {}) for job in wanted.named] if wanted.named else self._by_job.values()
        return (run for runs in by_job for run in runs.values() if _matches(run, wanted))

    def has(self, run: RunId) -> bool:
        """Whether the run is still going."""
        return self.get(run) is not None

    def awaits_record(self, job: str) -> bool:
        """Whether something has come of one of its fires already of which the log has no record yet."""
        return job in self._unrecorded

    def unrecorded(self, job: str, rights: Rights) -> frozenset[RunId]:
        """Those of the job that have come to something of which the log has no record yet."""
        return frozenset(run for run, labels in self._unrecorded.get(job, {}).items() if rights.sees(labels))

    def on_changes(self, changes: Sequence[Change]) -> None:
        """The mirror's changes, taken in; a key that is not one of ours is left to the steward."""
        for change in changes:
            try:
                run_id = self._keys.run_of(change.key)
                entry = None if change.new is None else RunEntry.from_json(change.new.value)
            except ValueError:
                continue
            had, labels = self._forget(run_id)
            if entry is not None:
                labels = self._labels(run_id, entry, known=labels)
            if entry is not None and entry.state is EntryState.OPEN:
                self._by_job.setdefault(run_id.job_name, {})[run_id] = _open(run_id, entry, labels)
                self._count += 1
                had = True
            elif entry is not None:
                self._unrecorded.setdefault(run_id.job_name, {})[run_id] = labels
            if had:
                self._on_changed(run_id.job_name, labels)
            if entry is None:
                self._on_settled(run_id, labels)
        self.changes.notify()

    def _labels(self, run_id: RunId, entry: RunEntry, *, known: Mapping[str, str]) -> Mapping[str, str]:
        """Those that the run itself carries; ``known``: as far as they were known before."""
        if entry.record is not None:
            return entry.record.labels
        return entry.labels or known or self._labels_at(run_id.job_name, entry.revision)

    def _forget(self, run_id: RunId) -> tuple[bool, Mapping[str, str]]:
        """Whether it was open; and its labels, as far as they were known."""
        unrecorded, labels = self._unrecorded.get(run_id.job_name), dict[str, str]()
        if unrecorded is not None:
            labels = dict(unrecorded.pop(run_id, labels))
            if not unrecorded:
                del self._unrecorded[run_id.job_name]
        runs = self._by_job.get(run_id.job_name)
        if runs is None or (run := runs.pop(run_id, None)) is None:
            return False, labels
        self._count -= 1
        if not runs:
            del self._by_job[run_id.job_name]
        return True, run.labels


def _matches(run: OpenRun, wanted: RunFilter) -> bool:
    """But for a status and a cause, which it has none of yet."""
    return (
        wanted.takes_run(job=run.run_id.job_name, worker=run.worker, trigger=run.trigger, labels=run.labels)
        and (wanted.from_ms is None or run.plan_ms >= wanted.from_ms)
        and (wanted.to_ms is None or run.plan_ms < wanted.to_ms)
    )


def _open(run_id: RunId, entry: RunEntry, labels: Mapping[str, str]) -> OpenRun:
    return OpenRun(
        run_id=run_id, plan_ms=entry.plan_ms, dispatch_ms=entry.dispatch_ms, claim_ms=entry.claim_ms,
        worker=entry.worker, trigger=entry.trigger, labels=labels,
    )  # fmt: skip
