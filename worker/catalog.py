"""The jobs as this worker has seen them in etcd, each parsed once; a bad one is set aside and disturbs nobody."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from common.errors import EtcronError
from common.etcd import Change
from common.jobs.job import JobSpec, Overlap
from common.protocol.keys import Keys, RunId, sequence_name
from common.protocol.planner import Fires
from common.protocol.saved_job import Again, SavedJob, first_attempt, planned_by
from common.protocol.txn import KeyValue
from common.schedules.jitter import dispatch_ms
from common.schedules.schedule import Schedule

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogJob:
    """A job at one revision."""

    spec: JobSpec
    schedule: Schedule
    anchor_ms: int
    revision: int
    """The mod revision of its key."""
    create_revision: int

    again: Again | None = field(default=None, compare=False)
    """What an unblocking lets run at its time."""
    of_worker: str | None = None
    """Of a broadcast job: the worker whose own sequence of fires this is."""

    name: str = field(init=False, compare=False, repr=False)
    sequence: str = field(init=False, compare=False, repr=False)
    """What its marks, runs, locks and records go by: the job, or ``<job>~<worker>`` for a worker's own sequence."""
    takes_lock: bool = field(init=False, compare=False, repr=False)
    """Whether its claims take the job's lock."""
    keeps_one: bool = field(init=False, compare=False, repr=False)
    """Whether due fires stay undecided while a run holds the lock, the newest of them to follow it."""

    def __post_init__(self) -> None:
        """They are asked for dozens of times a fire."""
        name, worker, overlap = self.spec.name, self.of_worker, self.spec.overlap
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "sequence", name if worker is None else sequence_name(name, worker))
        object.__setattr__(self, "takes_lock", overlap is not Overlap.ALLOW)
        if self.again is not None:
            object.__setattr__(self, "schedule", planned_by(self.spec, self.again, worker))
        object.__setattr__(self, "keeps_one", overlap is Overlap.QUEUE or overlap is Overlap.REPLACE)

    @property
    def fires(self) -> Fires:
        """Its fires as they are planned for."""
        return Fires.of(self.schedule, self.dispatch_ms, keeps_one=self.keeps_one)

    def run_of(self, plan_ms: int) -> RunId:
        """The first attempt of a planned fire."""
        return RunId.planned(self.sequence, plan_ms, first_attempt(self.again, plan_ms))

    def dispatch_ms(self, plan_ms: int) -> int:
        """When a fire is to start: its plan time, moved by its jitter; in a worker's own sequence by its own."""
        jitter_s = self.spec.jitter_s
        return dispatch_ms(self.sequence, self.schedule, jitter_s, plan_ms) if jitter_s else plan_ms

    def came_up_ms(self, now_ms: int) -> int:
        """The first fire later than this is the first that is still to become due; without jitter it costs nothing."""
        return now_ms if not self.spec.jitter_s else self.fires.newest_due_ms(now_ms) or 0

    def expires_ms(self, plan_ms: int) -> int:
        """Past it, a fire that waits, in a request or for a lock, does not start any more."""
        return self.dispatch_ms(plan_ms) + self.spec.misfire.window_ms

    def base_before(self, plan_ms: int) -> int:
        """The mark that a claim of this fire presumes: the planned fire before it, or else the anchor."""
        before = self.schedule.last_before_ms(plan_ms)
        return self.anchor_ms if before is None else max(before, self.anchor_ms)


class Catalog:
    """Name to job, kept in step by a mirror of ``jobs/``; tells its listener of every change."""

    def __init__(self, keys: Keys, *, on_changed: Callable[[str], None]) -> None:
        self._keys = keys
        self._on_changed = on_changed
        self.jobs: dict[str, CatalogJob] = {}
        self.set_aside: dict[str, str] = {}
        """The jobs that cannot be read, with the reason."""
        self.sequences: dict[str, CatalogJob] = {}
        """Of broadcast jobs: this worker's own sequences, as far as their marks are in place."""

    def planned(self, name: str) -> CatalogJob | None:
        """The job as this worker decides its fires: of a broadcast job, its own sequence; None: it decides none."""
        job = self.jobs.get(name)
        if job is None or not job.spec.broadcast:
            return job
        own = self.sequences.get(name)
        return own if own is not None and own.revision == job.revision else None

    def of_run(self, run_id: RunId) -> CatalogJob | None:
        """The job of a run, as the sequence that the run is one of."""
        job = self.jobs.get(run_id.job_name)
        return job if job is None or run_id.of_worker is None else replace(job, of_worker=run_id.of_worker)

    def on_changes(self, changes: Sequence[Change]) -> None:
        """The mirror's changes, taken in; each key's error is its own."""
        for change in changes:
            name = self._keys.job_of(change.key)
            self._take(name, change.new)
            self._on_changed(name)

    def _take(self, name: str, kv: KeyValue | None) -> None:
        self.jobs.pop(name, None)
        self.set_aside.pop(name, None)
        if kv is None:
            return
        try:
            self.jobs[name] = read_job(name, kv)
        except EtcronError as error:
            self.set_aside[name] = str(error)
            extra = {"action": "job.set_aside", "job": name}
            _log.warning("job %r cannot be read and is set aside: %s", name, error, extra=extra)


def read_job(name: str, kv: KeyValue) -> CatalogJob:
    """The job in a key under ``jobs/``; InvalidInputError or ScheduleError where it is none of ours."""
    saved = SavedJob.from_json(kv.value, name=name)
    return CatalogJob(
        spec=saved.spec,
        schedule=saved.spec.schedule,
        anchor_ms=saved.anchor_ms,
        revision=kv.mod_revision,
        create_revision=kv.create_revision,
        again=saved.again,
    )
