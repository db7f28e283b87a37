"""Refuses what a wrong clock would date: an edit by a manager that is behind would leave fires without a record."""

from __future__ import annotations

import asyncio

from common.clock import Clock
from common.clocks.check import ClockCheck
from common.clocks.watch import ClockWatch
from common.configuration.config import ManagerConfig
from common.errors import ClockOffError
from common.etcd import EtcdClient
from common.instants import iso
from common.protocol.keys import Keys


class ClockGuard:
    """This manager's clock: watched by itself, compared with those of others."""

    def __init__(
        self, etcd: EtcdClient, keys: Keys, config: ManagerConfig, *, name: str, clock: Clock, patience_s: float
    ) -> None:
        """``name``: of this manager's beat. ``patience_s``: how long an edit waits for a first comparison."""
        self._patience_s = patience_s
        self.max_skew_ms = config.max_clock_skew_ms
        self._ahead_ms = config.max_clock_skew_ms + config.timings.claim_lead_ms
        self._clock = clock
        self.watch = ClockWatch(clock, max_skew_ms=self.max_skew_ms, on_jump=self._jumped)
        self.check = ClockCheck(
            etcd, keys, process=name, watch=self.watch, clock=clock, max_skew_ms=self.max_skew_ms, on_change=_nobody
        )

    @property
    def fault(self) -> str | None:
        """Why this manager saves nothing, in words; None: its clock may be trusted."""
        self.watch.look()
        return None if self.check.fault is None else f"this manager saves nothing: {self.check.fault}"

    async def refuse(self, decided_ms: int | None = None) -> None:
        """Return where an edit may be dated by this clock; ClockOffError where it may not.

        ``decided_ms``: the newest fire of the job that is decided, ms since the epoch. Workers decide none long before
        its time, so this clock is behind where that is still to come; or theirs was ahead. Where nobody has compared
        this one since it jumped, it is not taken for the right one of the two.
        """
        try:
            async with asyncio.timeout(self._patience_s):
                await self.check.first()
        except TimeoutError:
            message = "this manager has just begun, and its clock has not been compared with the others' yet"
            raise ClockOffError(f"{message}: try again in some seconds; nothing was changed") from None
        if (fault := self.fault) is not None:
            raise ClockOffError(f"{fault}, or ask another manager; nothing was changed")
        if decided_ms is None or self.check.is_vouched_for or decided_ms <= self._clock.wall_ms() + self._ahead_ms:
            return
        behind = (
            f"this manager's clock has jumped, and is behind {iso(decided_ms)}, until when this job's fires are decided"
        )
        raise ClockOffError(f"{behind}: try again in some seconds, or ask another manager; nothing was changed")

    def _jumped(self, by_s: float) -> None:
        self.check.jumped(by_s)


async def _nobody(fault: str | None) -> None:
    """Whoever asks is told; the check has logged it."""
