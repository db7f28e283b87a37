"""What a worker knows: its session, its runs, its view of etcd through watches."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from common.protocol.compares import Compare, lease_is
from common.protocol.keys import RunId
from common.protocol.kill import Kill
from common.protocol.placement import Placement
from common.protocol.planned_job import PlannedJob
from common.protocol.request import Request
from common.protocol.run import EntryState, RunEntry, RunRecord
from common.protocol.run_writes import still_own
from common.protocol.txn import KeyValue
from tests.chaos.model.etcd import Etcd
from tests.chaos.model.machine import Process
from tests.chaos.model.reading import candidate, job_in, kill_in, member_in, placement_of, request_in
from tests.chaos.model.settings import KEYS

NEVER_SENT: Final = float("-inf")


@dataclass(slots=True, eq=False)
class Session:
    """One lease; ``confirmed``: when the newest confirmed keep-alive was sent."""

    lease_id: int
    id: str
    key: str
    confirmed: int
    incarnation: int = 0
    over: bool = False

    @property
    def alive(self) -> Compare:
        return lease_is(self.key, self.lease_id)


@dataclass(slots=True, kw_only=True, eq=False)
class Run:
    """A claimed run of this worker."""

    run_id: RunId
    job: PlannedJob
    entry: RunEntry
    fence: int
    mod_revision: int
    session: Session
    sent: float
    start_by_ms: int
    request: Request | None = None
    phase: str = "claimed"
    record: RunRecord | None = None
    unlocked: bool = False
    delivered: bool = False
    process: Process | None = None

    @property
    def holds_lock(self) -> bool:
        return self.entry.locked and not self.unlocked

    def reread(self, kv: KeyValue | None) -> bool:
        """Whether the key is still this run's own; its revision is noted."""
        entry = still_own(kv, fence=self.fence, instance=self.entry.instance)
        if kv is None or entry is None:
            return False
        self.mod_revision = kv.mod_revision
        if entry.state is EntryState.ENDED:
            self.entry, self.unlocked = replace(self.entry, state=EntryState.ENDED), True
        return True


@dataclass(slots=True)
class View:
    """Jobs, requests, kills and sessions as one revision had them; nobody changes it."""

    rev: int = 0
    jobs: dict[str, PlannedJob] = field(default_factory=dict)
    requests: dict[str, list[Request]] = field(default_factory=lambda: defaultdict(list))
    """By job, the oldest plan time first."""
    kills: dict[RunId, Kill] = field(default_factory=dict)
    sessions: set[str] = field(default_factory=set)
    """The ids of all that have a key."""
    placement: Placement = field(default_factory=Placement)

    @classmethod
    def of(cls, etcd: Etcd) -> View:
        view, accepting = cls(rev=etcd.revision), []
        for key, kv in etcd.keys.items():
            match key.split("/", 3)[2]:
                case "jobs":
                    view.jobs[KEYS.job_of(key)] = job_in(kv)
                case "requests":
                    request = request_in(kv)
                    view.requests[request.run_id.job].append(request)
                case "kills":
                    kill = kill_in(kv)
                    view.kills[kill.run_id] = kill
                case "workers":
                    member = member_in(kv)
                    view.sessions.add(member.session)
                    accepting += [candidate(member)] if member.accepts else []
                case _:
                    pass
        for requests in view.requests.values():
            requests.sort(key=lambda one: (one.plan_ms, one.run_id))
        view.placement = placement_of(tuple(sorted(set(accepting))))
        return view
