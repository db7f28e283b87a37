"""Wall clocks: one worker ahead, behind or jumping; a manager behind. Nobody else's, and CLOCK_BOOTTIME stays true."""

from __future__ import annotations

from collections.abc import Iterable

from tests.chaos.faults.breaking import Breaking, Table
from tests.chaos.member import Member
from tests.chaos.view import CLOCK

_OFF_S = 30
_MANAGER_OFF_S = 33
"""Another than a worker's: clocks that are wrong alike pass for right where no more of them are right."""
_LASTS_S = (8, 20, 40)
_JUMPS_S = (-45.0, -30.0, -5.0, -0.6, 0.4, 2.0, 10.0, 30.0, 50.0)
_NOTICED_WITHIN_S = 2.5
"""libfaketime looks at the file once a second."""


class ClockFaults:
    """Empty where no member has a clock of its own."""

    def __init__(self, breaking: Breaking) -> None:
        self._on = breaking
        self._workers = [member for member in breaking.fleet.workers if member.process.clock is not None]
        self._managers = [member for member in breaking.fleet.managers if member.process.clock is not None]

    def table(self) -> Table:
        of_workers: Table = {
            "worker's clock ahead": (2, self._ahead),
            "worker's clock behind": (2, self._behind),
            "worker's clock jumping": (2, self._jumping),
        }
        of_managers: Table = {"manager's clock behind": (2, self._manager_behind)}
        return (of_workers if self._workers else {}) | (of_managers if self._managers else {})

    async def _ahead(self) -> None:
        await self._off(self._workers, _OFF_S)

    async def _behind(self) -> None:
        await self._off(self._workers, -_OFF_S)

    async def _manager_behind(self) -> None:
        await self._off(self._managers, -_MANAGER_OFF_S)

    async def _off(self, members: Iterable[Member], by_s: float) -> None:
        member, seconds = self._on.one_of(members), self._on.chance.choice(_LASTS_S)
        async with self._on.noted(f"{CLOCK} off by {by_s:+g} s for {seconds} s", member.name):
            member.set_clock(f"{by_s:+g}s")
            await self._on.lasting(seconds)
            await self._right(member)

    async def _jumping(self) -> None:
        member = self._on.one_of(self._workers)
        jumps = [self._on.chance.choice(_JUMPS_S) for _ in range(self._on.chance.randrange(2, 7))]
        said = ", ".join(f"{jump:+g}" for jump in jumps)
        async with self._on.noted(f"{CLOCK} jumps to {said} s", member.name):
            for jump in jumps:
                member.set_clock(f"{jump:+g}s")
                await self._on.lasting(self._on.chance.uniform(1.5, 8))
            await self._right(member)

    async def _right(self, member: Member) -> None:
        member.set_clock("+0s")
        await self._on.happens(lambda: False, _NOTICED_WITHIN_S)
