"""How the clocks are, as the API and ``/readyz`` say it; and what a wrong clock would date is refused.

An edit by a manager that is behind would leave fires decided ahead of its clock.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from common.clock import Clock
from common.clocks.check import ClockCheck
from common.clocks.watch import ClockWatch
from common.configuration.config import ManagerConfig
from common.errors import ClockOffError
from common.etcd import EtcdClient
from common.instants import iso
from common.protocol.clocks import ENOUGH, Clocks, off_by
from common.protocol.keys import Keys

_NAMED: Final = 5
"""How many clocks are named one by one."""


def clock_view(clocks: Clocks | None, process: str | None, max_skew_ms: int) -> dict[str, Any]:
    """How far a process's clock is from the median of all; null where it is not compared, or nobody can tell yet."""
    measured = None if clocks is None or process is None else clocks.measured.get(process)
    if measured is None or measured.tells_nothing(max_skew_ms):
        return {"clockOffsetMs": None, "clockIsOff": False}
    return {"clockOffsetMs": measured.offset_ms, "clockIsOff": measured.is_off(max_skew_ms)}


def clocks_view(clocks: Clocks | None, *, known: bool, own_fault: str | None, max_skew_ms: int) -> dict[str, Any]:
    """All of them in words; ``known``: whether etcd has answered. ``own_fault``: why this manager saves nothing."""
    off = {} if clocks is None else clocks.off(max_skew_ms)
    problems = [] if own_fault is None else [own_fault]
    problems += [f"the clock of {name} is {off_by(offset_ms)}" for name, offset_ms in list(off.items())[:_NAMED]]
    if len(off) > _NAMED:
        problems.append(f"those of {len(off) - _NAMED} more are off")
    state = "degraded" if off else "ok" if known else "unknown"
    return {
        "state": state if own_fault is None else "off",
        "problem": "; ".join(problems) or None,
        "summary": _summary(clocks, len(off), known=known, max_skew_ms=max_skew_ms),
        "count": None if clocks is None else clocks.count,
        "compared": 0 if clocks is None else len(clocks.measured),
        "maxClockSkewMs": max_skew_ms,
        "off": [{"name": name, "offsetMs": offset_ms} for name, offset_ms in off.items()],
    }


def _summary(clocks: Clocks | None, off: int, *, known: bool, max_skew_ms: int) -> str:
    if clocks is None:
        return "not compared: no steward has measured them yet" if known else "not known: etcd does not answer"
    if not clocks.are_enough:
        return f"not compared: there are only {clocks.count}, and it takes {ENOUGH} to tell which one is wrong"
    if not clocks.measured:
        return f"not compared yet: {clocks.count} processes"
    compared = f"{len(clocks.measured)} processes compared"
    return f"{compared}: {off} off by more than {max_skew_ms} ms" if off else f"{compared}: all within {max_skew_ms} ms"


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
    """The caller gets it; the check has logged it."""
