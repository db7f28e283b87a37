"""What a situation stands on: a real etcd and log store, a clock that can be stopped, and who notes what is sent."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from common.clock import SystemClock
from common.etcd import EtcdClient, Session
from common.protocol.keys import Keys
from common.runlog import RunLog
from tests.support import managing, working
from tests.support.golden import Recorder
from tests.support.meeting import Meeting
from tests.support.waiting import wait_until
from worker.lead.leader import Term

NOON: Final = 1_700_000_040_000
"""A whole minute of the past, for what launches commands looks at the machine's own clock; here the clock stands."""
Wanted = Callable[[dict[str, Any]], bool]


@dataclass(slots=True, kw_only=True)
class Stage:
    """For one situation."""

    etcd: str
    log_store: str
    directory: Path
    patch: pytest.MonkeyPatch
    prefix: str
    place: managing.Place | None = None
    clock: managing.ShiftedClock = field(default_factory=managing.ShiftedClock)
    recorder: Recorder = field(default_factory=Recorder)
    _stopped_s: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.recorder.attach(self.patch.setattr)

    def stop_clock(self) -> None:
        """At noon."""
        if self._stopped_s is None:
            self._stopped_s = (
                SystemClock().boottime() + 3600
            )  # for the guardian, whose clock goes on: no deadline comes
        later_s = self._stopped_s
        self.patch.setattr(SystemClock, "wall_ms", lambda _: NOON)
        for elapsed in ("monotonic", "boottime"):
            self.patch.setattr(SystemClock, elapsed, lambda _: later_s)

    @asynccontextmanager
    async def recorded(self, wanted: Wanted | None = None, *, losing: int = 0) -> AsyncIterator[None]:
        """What the product sends in here is the situation, with its answers; `wanted`: only these, where loops send
        others, too.

        `losing`: so many of the first writes are carried out, and their answers are lost.
        """
        self.recorder.losing = losing
        if wanted is not None:
            self.recorder.wanted = wanted
        with self.recorder.on(self.prefix):
            yield
            await wait_until(lambda: self.recorder.is_answered, description="etcd has answered all of it")

    @asynccontextmanager
    async def client(self) -> AsyncIterator[EtcdClient]:
        async with EtcdClient([self.etcd]) as client:
            yield client

    @asynccontextmanager
    async def world(self) -> AsyncIterator[working.World]:
        """etcd and log store as the tests of a worker see them."""
        place = working.Place.new(self.directory, etcd=self.etcd, log_store=self.log_store)
        self.prefix = place.prefix
        async with Meeting(place.etcd) as etcd, RunLog(place.log_store, database=place.database) as runlog:
            yield working.World(place=place, etcd=etcd, runlog=runlog)

    @asynccontextmanager
    async def term(self, world: working.World) -> AsyncIterator[Term]:
        """A term of office."""
        async with self.session(world.etcd) as session:
            yield await working.term_of(world, session)

    @asynccontextmanager
    async def session(self, client: EtcdClient) -> AsyncIterator[Session]:
        """One that stays, of the worker w1."""
        keys = Keys(self.prefix)
        session = await Session.open(
            client, key_of=lambda lease: keys.worker("w1", lease), value=b"{}", ttl=60, clock=SystemClock()
        )
        yield session
        await session.close()

    @asynccontextmanager
    async def manager(self, *, again: bool = False, **options: Any) -> AsyncIterator[managing.Managed]:
        """With a clock that `passes` moves. `again`: where the one before it was."""
        if not again:
            self.place = managing.Place.new(etcd=self.etcd, log_store=self.log_store)
        place = self.place
        assert place is not None
        self.patch.setattr(secrets, "token_hex", lambda size: "ab" * size)  # a digest of it is in a key
        self.prefix = place.prefix
        async with managing.managing(place, clock=self.clock, patient=False, **options) as manager:
            yield manager

    def passes(self, ms: int) -> None:
        """So much time, for a manager."""
        self.clock.offset_ms += ms


def touching(part: str) -> Wanted:
    """Those that write a key of which this is a part."""

    def wanted(told: dict[str, Any]) -> bool:
        operations = (*told.get("then", ()), *told.get("else", ()))
        return any(part in operation.get("put", operation.get("delete", "")) for operation in operations)

    return wanted


Situation = Callable[[Stage], Awaitable[None]]
SITUATIONS: Final[dict[str, Situation]] = {}


def situation(bring_about: Situation) -> Situation:
    """Its golden file is named after the function."""
    name = bring_about.__name__
    if name in SITUATIONS:
        raise ValueError(f"there are two situations called {name}")
    SITUATIONS[name] = bring_about
    return bring_about
