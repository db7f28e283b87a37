"""What lies under etcd's keys, and in the log store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tests.chaos.model.etcd import KV, Key

Fire = int | str
"""A plan time, or the name of a run that somebody asked for."""


class RunId(NamedTuple):
    """One attempt of one fire."""

    job: str
    fire: Fire
    attempt: int

    @property
    def key(self) -> Key:
        return ("run", *self)

    @property
    def request_key(self) -> Key:
        return ("request", *self)

    @property
    def kill_key(self) -> Key:
        return ("kill", *self)

    @property
    def next(self) -> RunId:
        return RunId(self.job, self.fire, self.attempt + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What a user wishes of a job."""

    period: int
    overlap: str
    misfire: str
    retries: int
    rerun: bool
    enabled: bool = True
    text: int = 0
    """So that a save changes something."""

    def fires_alike(self, other: Spec) -> bool:
        """Whether an edit from one to the other leaves alone when the job fires."""
        return (self.period, self.enabled) == (other.period, other.enabled)

    @property
    def locks(self) -> bool:
        return self.overlap != "allow"

    @property
    def keeps_one(self) -> bool:
        return self.overlap in ("queue", "replace")


@dataclass(frozen=True, slots=True)
class Saved:
    """The value of a job's key."""

    spec: Spec
    anchor: int


@dataclass(frozen=True, slots=True)
class Job:
    """A job at one revision, as somebody has read it."""

    name: str
    spec: Spec
    anchor: int
    revision: int
    create: int

    @classmethod
    def of(cls, name: str, kv: KV) -> Job:
        return cls(name, kv.value.spec, kv.value.anchor, kv.mod, kv.create)

    def last(self, time: int) -> int:
        """The newest planned fire at or before it."""
        return time - time % self.spec.period

    def after(self, time: int) -> int:
        return self.last(time) + self.spec.period


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A final record; with ``hi``, of all fires from the run's to that."""

    run: RunId
    status: str
    reason: str = ""
    hi: int | None = None
    fence: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The value of a run key; final where it has a record."""

    worker: str = ""
    session: int = 0
    instance: str = ""
    revision: int = 0
    locked: bool = False
    plan: int = 0
    claim: int = 0
    ended: bool = False
    stamp: int = 0
    record: Record | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The value of a request's key."""

    origin: str
    job_create: int
    plan: int
    not_before: int
    expires: int | None = None
    mark: int | None = None
    """Of a retry: a newer fire takes its place."""
