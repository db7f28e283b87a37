"""What a worker knows: its session, its runs, its view of etcd through watches."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.chaos.model.etcd import KV, Etcd, Key, lease_is
from tests.chaos.model.etcd import Compare as Compare
from tests.chaos.model.machine import Process
from tests.chaos.model.rules import Rules
from tests.chaos.model.values import Entry, Job, Record, Request, RunId


@dataclass(slots=True, eq=False)
class Session:
    """One lease; ``confirmed``: when the newest confirmed keep-alive was sent."""

    id: int
    key: Key
    confirmed: int
    incarnation: int = 0
    over: bool = False

    def alive(self, rules: Rules) -> Compare:
        if not rules.own_session_key:
            return Compare("there", self.key, True)
        return lease_is(self.key, self.id)


@dataclass(slots=True, eq=False)
class Run:
    """A claimed run of this worker."""

    id: RunId
    job: Job
    entry: Entry
    fence: int
    mod: int
    session: Session
    sent: int
    start_by: int
    phase: str = "claimed"
    record: Record | None = None
    unlocked: bool = False
    delivered: bool = False
    process: Process | None = None

    @property
    def holds_lock(self) -> bool:
        return self.entry.locked and not self.unlocked

    def take_over(self, kv: KV) -> bool:
        """Whether the key is still this run's own, as a write of ours may have left it; its revision is noted."""
        if kv.create != self.fence or kv.value.record is not None or kv.value.instance != self.entry.instance:
            return False
        self.mod = kv.mod
        if kv.value.ended:
            self.entry, self.unlocked = kv.value, True
        return True


@dataclass(slots=True)
class View:
    """Jobs, requests, kills and sessions as one revision had them."""

    rev: int = 0
    jobs: dict[str, Job] = field(default_factory=dict)
    requests: dict[RunId, KV] = field(default_factory=dict)
    kills: dict[RunId, KV] = field(default_factory=dict)
    sessions: frozenset[Key] = frozenset()
    workers: tuple[str, ...] = ()

    @classmethod
    def of(cls, etcd: Etcd) -> View:
        view = cls(rev=etcd.rev)
        sessions = set()
        for key, kv in etcd.data.items():
            match key[0]:
                case "job":
                    view.jobs[key[1]] = Job.of(key[1], kv)
                case "request":
                    view.requests[RunId(*key[1:])] = kv
                case "kill":
                    view.kills[RunId(*key[1:])] = kv
                case "session":
                    sessions.add(key)
                case _:
                    pass
        view.sessions = frozenset(sessions)
        view.workers = tuple(sorted({key[1] for key in sessions}))
        return view

    def first_of(self, job: str, now: int) -> list[tuple[RunId, Request, int]]:
        """A job's requests whose time has come, by plan time, each with its mod revision."""
        found = [(run, kv.value, kv.mod) for run, kv in self.requests.items() if run.job == job]
        return sorted((one for one in found if one[1].not_before <= now), key=lambda one: (one[1].plan, one[0][2]))
