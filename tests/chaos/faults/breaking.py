"""What all faults share: one on a target at a time, each noted in the history, all over when the time is up."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import NoReturn

from common.protocol.keys import Keys
from tests.chaos.fleet import Fleet
from tests.chaos.history import Fault, wall_ms
from tests.chaos.member import Member

KEYS = Keys()
ETCD, LOG_STORE = "etcd", "log store"
_LOOKS_EVERY_S = 0.02

Table = dict[str, tuple[int, Callable[[], Awaitable[None]]]]
"""What a fault is called, how often it comes in a round, and how it is done."""


class NotNow(Exception):  # noqa: N818 - not an error
    """This fault cannot be carried out at the moment: its target is taken, or is not there."""


@dataclass(slots=True, eq=False)
class Breaking:
    """Shared by all faults of one run."""

    fleet: Fleet
    chance: random.Random
    until_s: float = 0.0
    """Of the loop's time: by then everything is mended again."""
    busy: set[str] = field(default_factory=set)
    """The targets that a fault is on."""

    async def lasting(self, seconds: float) -> None:
        """So long, but not beyond the end."""
        await asyncio.sleep(max(0.0, min(seconds, self.left_s)))

    @property
    def left_s(self) -> float:
        return self.until_s - asyncio.get_running_loop().time()

    async def happens(self, what: Callable[[], bool], within_s: float) -> bool:
        """Whether it comes to be, in that time and before the end."""
        until = asyncio.get_running_loop().time() + min(within_s, max(0.0, self.left_s))
        while not what():
            if asyncio.get_running_loop().time() >= until:
                return False
            await asyncio.sleep(_LOOKS_EVERY_S)
        return True

    @contextlib.asynccontextmanager
    async def noted(self, what: str, target: str, name: str = "") -> AsyncIterator[None]:
        """The target is taken meanwhile; what was done and when goes into the history, unless it was not now."""
        if target in self.busy:
            raise NotNow
        self.busy.add(target)
        from_ms = wall_ms()
        was_done = True
        try:
            yield
        except NotNow:
            was_done = False
            raise
        finally:
            self.busy.discard(target)
            if was_done:
                self.note(what, target, from_ms, name)

    def note(self, what: str, target: str, from_ms: int, name: str = "") -> None:
        """One that is over now; its name is that of the task that carries it out, unless it is given."""
        task = asyncio.current_task()
        name = name or (task.get_name() if task is not None else "")
        self.fleet.history.add(Fault(name=name, what=what, target=target, from_ms=from_ms, until_ms=wall_ms()))

    def one_of(self, members: Iterable[Member]) -> Member:
        """One that no fault is on."""
        free = [member for member in members if member.name not in self.busy and not member.is_held_down]
        return self.chance.choice(free) if free else not_now()


def not_now() -> NoReturn:
    """NotNow, as an expression."""
    raise NotNow
