"""Managers: killed, frozen, and both between a transaction and its answer."""

from __future__ import annotations

from tests.chaos.faults.breaking import Breaking, Table
from tests.chaos.faults.workers import frozen, frozen_at, killed, killed_at
from tests.chaos.member import Member


class ManagerFaults:
    """See the module."""

    def __init__(self, breaking: Breaking) -> None:
        self._on = breaking

    def table(self) -> Table:
        return {
            "manager killed": (2, self._killed),
            "manager frozen": (1, self._frozen),
            "manager killed after a commit": (3, self._killed_after_a_commit),
            "manager frozen after a commit": (1, self._frozen_after_a_commit),
        }

    def _one(self) -> Member:
        return self._on.one_of(self._on.fleet.managers)

    async def _killed(self) -> None:
        await killed(self._on, self._one(), self._on.chance.choice([0.5, 2, 5]))

    async def _frozen(self) -> None:
        await frozen(self._on, self._one(), self._on.chance.choice([3, 8]))

    async def _killed_after_a_commit(self) -> None:
        failpoint = f"after_commit:kill:{self._on.chance.choice([1, 2, 4])}"
        await killed_at(self._on, self._one(), failpoint, self._on.chance.choice([0.5, 2, 5]))

    async def _frozen_after_a_commit(self) -> None:
        await frozen_at(self._on, self._one(), "after_commit:stop", self._on.chance.choice([3, 8]))
