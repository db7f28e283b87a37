"""How the clocks are, as the API and ``/readyz`` say it. Pure."""

from __future__ import annotations

from typing import Any, Final

from common.protocol.clocks import ENOUGH, Clocks, off_by

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
    return {
        "state": _state(off, known=known, own_fault=own_fault),
        "problem": "; ".join([*([own_fault] if own_fault else []), *_faults(off)]) or None,
        "summary": _summary(clocks, len(off), known=known, max_skew_ms=max_skew_ms),
        "count": None if clocks is None else clocks.count,
        "compared": 0 if clocks is None else len(clocks.measured),
        "maxClockSkewMs": max_skew_ms,
        "off": [{"name": name, "offsetMs": offset_ms} for name, offset_ms in off.items()],
    }


def _state(off: dict[str, int], *, known: bool, own_fault: str | None) -> str:
    if own_fault is not None:
        return "off"
    if off:
        return "degraded"
    return "ok" if known else "unknown"


def _faults(off: dict[str, int]) -> list[str]:
    faults = [f"the clock of {name} is {off_by(offset_ms)}" for name, offset_ms in list(off.items())[:_NAMED]]
    return faults if len(off) <= _NAMED else [*faults, f"those of {len(off) - _NAMED} more are off"]


def _summary(clocks: Clocks | None, off: int, *, known: bool, max_skew_ms: int) -> str:
    if clocks is None:
        return "not compared: no steward has measured them yet" if known else "not known: etcd does not answer"
    if not clocks.are_enough:
        return f"not compared: there are only {clocks.count}, and it takes {ENOUGH} to tell which one is wrong"
    if not clocks.measured:
        return f"not compared yet: {clocks.count} processes"
    compared = f"{len(clocks.measured)} processes compared"
    return f"{compared}: {off} off by more than {max_skew_ms} ms" if off else f"{compared}: all within {max_skew_ms} ms"
