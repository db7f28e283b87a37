"""Which fault comes next: drawn from a bag by the seed, so that in a round each comes as often as its table says."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Mapping

from common.errors import EtcronError
from tests.chaos.faults.breaking import Breaking, NotNow, Table
from tests.chaos.faults.clocks import ClockFaults
from tests.chaos.faults.etcd import EtcdFaults
from tests.chaos.faults.keys import KeyFaults
from tests.chaos.faults.log_store import LogStoreFaults
from tests.chaos.faults.machine import MachineFaults
from tests.chaos.faults.managers import ManagerFaults
from tests.chaos.faults.network import NetworkFaults
from tests.chaos.faults.users import UserFaults
from tests.chaos.faults.workers import WorkerFaults
from tests.chaos.fleet import Fleet
from tests.chaos.users import Users

_BETWEEN_S = (1.5, 6.0)
_SHORT_ROUNDS = 2
"""So each fault has been met twice before any comes much more often: in ten minutes there are three rounds or so."""


class Bag:
    """Names, each as often as it weighs; filled again when it is empty. In the first two rounds each is there once."""

    def __init__(self, weights: Mapping[str, int], chance: random.Random) -> None:
        self._weights = weights
        self._chance = chance
        self._names: list[str] = []
        self._short_rounds = _SHORT_ROUNDS

    def draw(self) -> str:
        """The next one."""
        if not self._names:
            is_short, self._short_rounds = self._short_rounds > 0, self._short_rounds - 1
            self._names = [name for name, weight in self._weights.items() for _ in range(1 if is_short else weight)]
            self._chance.shuffle(self._names)
        return self._names.pop()

    def put_back(self, name: str) -> None:
        """It could not be used: it comes again in this round, at any time."""
        self._names.insert(self._chance.randrange(len(self._names) + 1), name)


class Faults:
    """Draws and carries out faults, by a seed; several may be going at once, but only one on a target."""

    def __init__(
        self, fleet: Fleet, users: Users, seed: int, only: Collection[str] = (), without: Collection[str] = ()
    ) -> None:
        """``only``, ``without``: names of the table. ValueError: a name that is not in it."""
        self.breaking = Breaking(fleet, random.Random(f"faults {seed}"))
        table = self._table() | UserFaults(self.breaking, users).table()
        unknown = {*only, *without} - set(table)
        if unknown:
            raise ValueError(f"no fault is called {', '.join(sorted(unknown))}; there are: {', '.join(table)}")
        self.table = {name: row for name, row in table.items() if (not only or name in only) and name not in without}
        self._bag = Bag({name: weight for name, (weight, _) in self.table.items()}, self.breaking.chance)

    def _table(self) -> Table:
        kinds = (WorkerFaults, ManagerFaults, NetworkFaults, EtcdFaults, KeyFaults, LogStoreFaults, ClockFaults,
                 MachineFaults)  # fmt: skip
        return {name: row for kind in kinds for name, row in kind(self.breaking).table().items()}

    async def run(self, until_s: float) -> None:
        """Faults until then (the loop's time); returns when the last one is mended."""
        self.breaking.until_s = until_s
        async with asyncio.TaskGroup() as going:
            while self.breaking.left_s > 0 and self.table:
                name = self._bag.draw()
                going.create_task(self._carried_out(name, self.table[name][1]), name=name)
                await self.breaking.lasting(self.breaking.chance.uniform(*_BETWEEN_S))

    async def _carried_out(self, name: str, fault: Callable[[], Awaitable[None]]) -> None:
        """Later, where it cannot be now; given up, where etcd is away while the fault asks it for something."""
        try:
            await fault()
        except NotNow:
            self._bag.put_back(name)
        except EtcronError:
            return
