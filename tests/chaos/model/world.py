"""Time, chance and the network: events in order of time, and flows that wait for time or for etcd."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, TypeVar

from common.protocol.keys import RunId
from common.protocol.run import RunRecord
from common.protocol.txn import Txn
from tests.chaos.model.etcd import Commit, Etcd
from tests.chaos.model.settings import START, TIMEOUT, TTL

_WAY_MS: Final = range(1, 5)
"""What is sent takes, one way."""

T = TypeVar("T")
Ask = Txn | Callable[[Etcd], Any]
Flow = Generator[int | Ask, Any, T]
"""Yields ms to wait, or what to ask etcd; gets etcd's answer, or None where none came: it is in doubt."""


@dataclass(slots=True)
class Link:
    """An actor's way to etcd."""

    cut: bool = False
    deaf: bool = False
    """Its watches have died silently."""
    slow: bool = False
    """Half of what is sent arrives late, some of it very late."""


@dataclass(slots=True, eq=False)
class Actor:
    """Who acts; all of it ends with its life, and waits while it is stopped."""

    name: str
    life: int = 0
    stopped_until: int = 0
    link: Link = field(default_factory=Link)
    skew: int = 0


@dataclass(slots=True)
class Started:
    """A process, as seen from outside."""

    time: int
    run: RunId
    fence: int
    worker: str
    locked: bool
    frozen: bool
    """Its worker was stopped between its last look at the clock and the exec."""
    end: int | None = None
    how: str = ""


@dataclass(slots=True)
class History:
    """What can be seen from outside: all that the checker has."""

    commits: list[Commit] = field(default_factory=list)
    starts: list[Started] = field(default_factory=list)
    spooled: list[tuple[int, str, RunRecord]] = field(default_factory=list)
    """Records that were safe on a disk: when, and whose."""
    log: dict[RunId, RunRecord] = field(default_factory=dict)
    acks: list[tuple[int, str, int]] = field(default_factory=list)
    """Edits as answered: when, of which job, at which revision."""
    lost_disks: set[str] = field(default_factory=set)
    faults: list[tuple[int, str]] = field(default_factory=list)
    end: int = 0
    open: list[str] = field(default_factory=list)
    """What was unsettled at the end."""


class World:
    """Runs events; everything random is drawn from one seeded source."""

    def __init__(self, seed: int, *, busy: bool = False) -> None:
        self.rng = Random(seed)
        self.busy = busy
        """Few slots, long commands, clocks apart, no locks, and no faults but slow lines: claims that arrive late find
        their workers waiting for a slot."""
        self.now = START
        self.history = History()
        self.etcd = Etcd(lambda: self.now, self.history.commits.append, TTL)
        self.store_up = True
        self.events = 0
        self.calm = False
        """No more faults: calls are answered."""
        self.nature = Actor("nature")
        self._heap: list[tuple[int, int, Actor, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = 0

    def later(self, ms: int, actor: Actor, what: Callable[..., None], *args: Any) -> None:
        self._number += 1
        heapq.heappush(self._heap, (self.now + ms, self._number, actor, actor.life, what, args))

    def spawn(self, actor: Actor, flow: Flow[None]) -> None:
        self.later(0, actor, self._step, actor, flow, None)

    def run(self, until: int) -> None:
        heap = self._heap
        while heap and heap[0][0] <= until:
            time, _, actor, life, what, args = heapq.heappop(heap)
            if actor.life != life:
                continue
            self.now = time
            if actor.stopped_until > time:
                self.later(actor.stopped_until - time, actor, what, *args)
                continue
            self.events += 1
            what(*args)
        self.now = until

    def fault(self, what: str) -> None:
        self.history.faults.append((self.now, what))

    def _step(self, actor: Actor, flow: Flow[None], value: Any) -> None:
        life = actor.life
        try:
            wait = flow.send(value)
        except StopIteration:
            return
        if actor.life != life:
            return
        if isinstance(wait, int):
            self._number += 1  # as `later`; most of all events come from here
            heapq.heappush(self._heap, (self.now + wait, self._number, actor, life, self._step, (actor, flow, None)))
        else:
            self._send(actor, wait, flow)

    def _send(self, actor: Actor, ask: Ask, flow: Flow[None]) -> None:
        there, back, link, rng = self.rng.choice(_WAY_MS), self.rng.choice(_WAY_MS), actor.link, self.rng
        arrives, answered = True, True
        if not self.calm:
            chance = rng.random()
            if link.slow and chance < 0.3:
                there = rng.randint(50, 9_000)
            elif link.cut or chance > 0.995:
                # Swallowed on its way, or held up and set free when the way is open again, or answered in vain.
                arrives, answered = rng.random() < 0.4, False
                there = rng.randint(1, 12_000) if link.cut or chance > 0.998 else there
        answered = answered and there + back < TIMEOUT
        if arrives:
            self.later(there, self.nature, self._arrive, actor, actor.life, ask, flow if answered else None, back)
        if not answered:
            self.later(TIMEOUT, actor, self._step, actor, flow, None)

    def _arrive(self, actor: Actor, life: int, ask: Ask, flow: Flow[None] | None, back: int) -> None:
        if self.etcd.up:
            value = self.etcd.txn(ask, actor.name) if isinstance(ask, Txn) else ask(self.etcd)
        else:
            value, back = None, TIMEOUT
        if flow is not None and actor.life == life:
            self.later(back, actor, self._step, actor, flow, value)
