"""The log store: frozen, killed, killed between an insert and its acknowledgement, stopped for minutes."""

from __future__ import annotations

from tests.chaos.faults.breaking import LOG_STORE, Breaking, Table
from tests.support.proxy import Mode


class LogStoreFaults:
    """See the module."""

    def __init__(self, breaking: Breaking) -> None:
        self._on = breaking
        self._server = breaking.fleet.log_store

    def table(self) -> Table:
        return {
            "log store frozen": (2, self._frozen),
            "log store killed": (2, self._killed),
            "log store killed after an insert": (3, self._killed_after_an_insert),
            "log store stopped": (1, self._stopped),
        }

    async def _frozen(self) -> None:
        seconds = self._on.chance.choice([4, 10, 20])
        async with self._on.noted(f"SIGSTOP for {seconds} s", LOG_STORE):
            self._server.pause()
            await self._on.lasting(seconds)
            self._server.resume()

    async def _killed(self) -> None:
        async with self._on.noted("SIGKILL", LOG_STORE):
            await self._server.kill()
            await self._on.lasting(self._on.chance.choice([1, 6, 15]))
            await self._server.start()

    async def _killed_after_an_insert(self) -> None:
        """What the workers send arrives and is done; no answer comes before the store is gone."""
        ways = [worker.log_store for worker in self._on.fleet.workers if worker.name not in self._on.busy]
        async with self._on.noted("SIGKILL between inserts and their acknowledgement", LOG_STORE):
            for way in ways:
                way.set(Mode.ONE_WAY)
            await self._on.lasting(self._on.chance.uniform(1.2, 2.5))
            await self._server.kill()
            for way in ways:
                way.set(Mode.RESET)
                way.set(Mode.PASS)
            await self._on.lasting(self._on.chance.choice([0.5, 3]))
            await self._server.start()

    async def _stopped(self) -> None:
        seconds = self._on.chance.choice([60, 120, 180])
        async with self._on.noted(f"stopped for {seconds} s", LOG_STORE):
            await self._server.stop()
            await self._on.lasting(seconds)
            await self._server.start()
