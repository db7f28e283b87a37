"""Clocks that a test sets, and what a steward says of them in etcd."""

from __future__ import annotations

from collections.abc import Mapping

from common.clock import SystemClock
from common.clocks.watch import ClockWatch
from common.etcd import EtcdClient
from common.protocol.clocks import Clocks, Measured
from common.protocol.keys import Keys
from common.protocol.member import Beat


class OffClock(SystemClock):
    """The machine's clocks, the wall clock off by as much as the test says, and says anew."""

    def __init__(self, offset_ms: int = 0) -> None:
        self.offset_ms = offset_ms
        self.passed_s = 0.0
        """By the clock that never goes back."""
        self.synchronised = True
        """What the kernel says of it."""

    def wall_ms(self) -> int:
        return super().wall_ms() + self.offset_ms

    def monotonic(self) -> float:
        return super().monotonic() + self.passed_s

    def is_synchronised(self) -> bool:
        return self.synchronised


async def say_clocks(
    etcd: EtcdClient,
    keys: Keys,
    of: Mapping[str, tuple[ClockWatch, int]] | None = None,
    *,
    count: int = 3,
    within_ms: int = 0,
) -> None:
    """A comparison as a steward puts it; of each process, by the name of its beat: its clock, and how far it is off."""
    measured = {
        process: Measured(offset_ms=offset_ms, clock=watch.name, within_ms=within_ms)
        for process, (watch, offset_ms) in (of or {}).items()
    }
    await etcd.put(keys.clocks, Clocks(count=count, measured=measured).to_json())


async def beat_beside(etcd: EtcdClient, keys: Keys, *processes: str) -> None:
    """One beat each, so that there are clocks to be compared; with no second one they are never measured."""
    for process in processes:
        await etcd.put(keys.beat(process), Beat(kind="manager", wall_ms=SystemClock().wall_ms(), clock="c.0").to_json())
