"""A job as its fires are planned: what was saved, at one revision, with what is asked of it for each fire."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from common.jobs.job import JobSpec, Overlap
from common.jobs.values import NEVER
from common.protocol.keys import RunId, sequence_name
from common.protocol.planner import Fires
from common.protocol.saved_job import Again, SavedJob, first_attempt, planned_by
from common.protocol.signatures import Proof
from common.protocol.txn import KeyValue
from common.schedules.schedule import Schedule, dispatch_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """A job at one revision."""

    spec: JobSpec
    schedule: Schedule
    anchor_ms: int
    revision: int
    """The mod revision of its key."""
    create_revision: int

    again: Again | None = field(default=None, compare=False)
    """What an unblocking lets run at its time."""
    proof: Proof | None = field(default=None, compare=False, repr=False)
    """What a worker judges it by that looks at signatures."""
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

    @classmethod
    def of(cls, saved: SavedJob, kv: KeyValue, again: Again | None = None, proof: Proof | None = None) -> Self:
        """The job that was read of this key. ``again``: in place of its own."""
        return cls(
            spec=saved.spec, schedule=saved.spec.schedule, anchor_ms=saved.anchor_ms, revision=kv.mod_revision,
            create_revision=kv.create_revision, again=again or saved.again, proof=proof,
        )  # fmt: skip

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

    def lost_after_ms(self, of_worker_ms: int) -> int | None:
        """How long a run of it may be out of touch: as the job says, or else its worker; None: for ever."""
        match self.spec.lost_after_s:
            case None:
                return of_worker_ms
            case float() | int() as seconds:
                return int(seconds * 1000)
            case _:
                assert self.spec.lost_after_s == NEVER
                return None

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


def read_job(name: str, kv: KeyValue) -> PlannedJob:
    """The job in a key under ``jobs/``; InvalidInputError or ScheduleError where it is none of ours."""
    return PlannedJob.of(SavedJob.from_json(kv.value, name=name), kv)
