"""Runs that are ending: they have ended, but processes of theirs live on, as the workers' beats tell."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from common.clock import Clock
from common.errors import EtcdError, UnavailableError
from common.protocol.keys import RunId
from common.protocol.member import Beat
from manager.views.inventory import Inventory

_READ_EVERY_S: Final = 3.0
"""Workers beat as often."""
_NEVER_BEFORE_MS: Final = 10_000
"""A worker tries to end what is left for so long: no run that is younger is ending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftProcesses:
    """What is left of a run."""

    worker: str
    since_ms: int
    processes: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.worker} cannot end its processes {', '.join(map(str, self.processes))}"

    def to_document(self) -> dict[str, Any]:
        """As ``/api/v1`` shows it."""
        return {"worker": self.worker, "sinceMs": self.since_ms, "processes": list(self.processes)}


class EndingRunsView:
    """Reads the beats when asked, and remembers them for as long as no newer ones come. While etcd is away one in three
    seconds waits for it, and the others have what was known."""

    def __init__(self, inventory: Inventory, *, oldest_ms: Callable[[], int], clock: Clock) -> None:
        """``oldest_ms``: for how long the oldest open run has been going; the beats are read only for one of 10 s."""
        self._inventory = inventory
        self._oldest_ms = oldest_ms
        self._clock = clock
        self.known: Mapping[str, LeftProcesses] = {}
        """By run id, as they were at the last call."""
        self._seen: Mapping[str, LeftProcesses] = {}
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()

    async def of(self, run: RunId) -> LeftProcesses | None:
        """What is left of this run; None also where etcd is away."""
        return (await self.all()).get(str(run))

    async def changed(self) -> set[str]:
        """The names of the jobs of which other runs are ending than when this was last asked."""
        before, self._seen = self._seen, await self.all()
        return {RunId.parse(run).job_name for run in before.keys() ^ self._seen.keys()}

    async def all(self) -> Mapping[str, LeftProcesses]:
        """By run id."""
        async with self._reading:
            if self._oldest_ms() < _NEVER_BEFORE_MS:
                self.known = {}
            elif self._clock.monotonic() - self._read_at >= _READ_EVERY_S:
                with suppress(EtcdError, UnavailableError):
                    self.known = _ending(await self._inventory.beats())
                self._read_at = self._clock.monotonic()
            return self.known


def shown(view: dict[str, Any], ending: LeftProcesses | None) -> dict[str, Any]:
    """A view of a run, that says so where the run is ending."""
    return view if ending is None else {**view, "state": "ending", "ending": ending.to_document()}


def _ending(beats: Mapping[str, bytes]) -> dict[str, LeftProcesses]:
    found = {}
    for worker, value in beats.items():
        with suppress(ValueError):  # one that cannot be read tells nothing
            for one in Beat.from_json(value).ending:
                RunId.parse(one.run)
                found[one.run] = LeftProcesses(worker=worker, since_ms=one.since_ms, processes=one.processes)
    return found
