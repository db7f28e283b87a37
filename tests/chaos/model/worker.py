"""A worker: one session after the other, its view, its slots, and the flows of its parts."""

from __future__ import annotations

from math import inf
from typing import Final

from common.protocol.fire_claims import Claims
from common.protocol.keys import RunId
from common.protocol.member import WorkerIdentity
from common.protocol.placement import bucket_of
from common.protocol.planned_job import PlannedJob
from tests.chaos.model import deciding, delivering, dispatching, requesting, sessions, stewarding
from tests.chaos.model.etcd import Etcd
from tests.chaos.model.machine import Machine
from tests.chaos.model.runs import Run, Session, View
from tests.chaos.model.settings import KEYS, LOST_AFTER
from tests.chaos.model.world import Actor, Flow, World

_VIEW_EVERY: Final = 100
_TAKEN: Final = ("claimed", "running")


class Worker:
    """Its fields are what the process knows; :meth:`crash` forgets them, the machine stays."""

    def __init__(self, world: World, name: str, *, slots: int) -> None:
        self.world = world
        self.actor = Actor(name)
        self.name = name
        self.slots = slots
        self.identity = WorkerIdentity(worker=name, instance=name, host=name)
        self.claims = Claims(KEYS, self.identity, lost_after_ms=LOST_AFTER)
        self.machine = Machine(world, self.actor)
        self.up = False
        self.gone = False
        """For good, with its disk."""
        self.freeze_next = 0
        """It will be stopped for so long between its next last look at the clock and the exec."""
        self._forget()

    def _forget(self) -> None:
        self.session: Session | None = None
        self.view = View()
        self.blind = True
        self.runs: dict[RunId, Run] = {}
        self.given_up: dict[RunId, Run] = {}
        self.finals: dict[RunId, int] = {}
        """Final records to be delivered, with the mod revisions of their keys."""
        self.acked: set[RunId] = set()
        self.former = list(self.machine.spool)
        self.settled_former = False
        self.busy: set[tuple[str, str]] = set()
        """Jobs that have a decision or a request's claim on its way."""
        self.handled: dict[str, tuple[int, int, float]] = {}
        """By job: its revision, the newest fire that needs no look any more, and the one after it."""
        self.ranks: dict[tuple[str, int], int | None] = {}
        """By job and fire, in the placement as it is: a fire is looked at until it is this worker's turn."""
        self.freed: set[str] = set()
        self.starting = 0

    def start(self) -> None:
        self._forget()
        self.up = True
        flows: tuple[Flow[None], ...] = (
            self._watch(), sessions.live(self), deciding.loop(self), requesting.loop(self), delivering.loop(self),
            stewarding.loop(self), sessions.take_stragglers(self),
        )  # fmt: skip
        for flow in flows:
            self.spawn(flow)

    def crash(self) -> None:
        self.up = False
        self.actor.life += 1
        self.actor.stopped_until = 0
        self.machine.worker_died()

    def spawn(self, flow: Flow[None]) -> None:
        self.world.spawn(self.actor, flow)

    # What it knows

    @property
    def wall(self) -> int:
        return self.world.now + self.actor.skew

    @property
    def running(self) -> int:
        return sum(run.phase == "running" for run in self.runs.values()) + self.starting

    @property
    def free(self) -> int:
        """Slots that neither a process nor a claim has taken."""
        return self.slots - self.starting - len([1 for run in self.runs.values() if run.phase in _TAKEN])

    def rank(self, job: str, fire_ms: int) -> int | None:
        """0 or 1, or `LATER`; None where it has no place for the fire."""
        if (job, fire_ms) not in self.ranks:
            self.ranks[job, fire_ms] = self.view.placement.rank(self.name, job, str(fire_ms))
        return self.ranks[job, fire_ms]

    def order(self, job: str, fire: str) -> tuple[str, ...]:
        """All who may try the fire, rank 0 first."""
        return self.view.placement.order(bucket_of(job, fire))

    def claimed(self, run: Run) -> None:
        """A claim that etcd has granted: from here on it is the dispatcher's."""
        self.runs[run.run_id] = run
        self.spawn(dispatching.carry(self, run))

    def handle(self, job: PlannedJob, newest: int) -> None:
        """Up to this fire the job needs no look any more."""
        following = job.schedule.next_after_ms(newest)
        self.handled[job.name] = job.revision, newest, inf if following is None else following

    def lock_freed(self, job: str) -> None:
        self.freed.add(job)

    def forget(self, run: Run) -> None:
        if self.runs.get(run.run_id) is run:
            del self.runs[run.run_id]

    def give_up(self, run: Run) -> None:
        """The run key is not this worker's any more: what still runs of it, under a lock, is ended."""
        self.forget(run)
        if run.phase == "running":
            self.given_up[run.run_id] = run
            if run.entry.locked and run.process is not None:
                self.machine.kill(run.process)

    def _watch(self) -> Flow[None]:
        """Its mirrors: behind by a moment, or for as long as it is cut off."""
        world = self.world
        while True:
            yield _VIEW_EVERY if not self.actor.link.slow else world.rng.choice((100, 400, 2_000))
            if self.actor.link.cut or self.actor.link.deaf or not world.etcd.up or world.etcd.revision == self.view.rev:
                continue
            members = self.view.placement
            self.view = _shared(world.etcd)
            if self.view.placement is not members:
                self.handled.clear()
                self.ranks.clear()
            for kill in self.view.kills.values():
                dispatching.kill_wished(self, kill)


_last: list[View] = [View()]


def _shared(etcd: Etcd) -> View:
    """The view of this revision; nobody changes one."""
    if _last[0].rev != etcd.revision or _etcd_of[0] is not etcd:
        _last[0], _etcd_of[0] = View.of(etcd), etcd
    return _last[0]


_etcd_of: list[Etcd | None] = [None]
