"""A second schedule engine, for the few forms that chaos jobs use: it looks at every second, and shares no code.

``every: "Ns"`` with ``offset: "Ns"``; ``cronExpr: "*/N * * * * * *"`` or ``"a,b,c * * * * * *"``; ``at``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from typing import Any


def planned(spec: dict[str, Any], lo_ms: int, hi_ms: int) -> list[int]:
    """The plan times of the job in [lo, hi], by trying each second."""
    if "at" in spec:
        at_ms = round(datetime.fromisoformat(spec["at"]).timestamp() * 1000)
        return [at_ms] if lo_ms <= at_ms <= hi_ms else []
    return [second * 1000 for second in _seconds(lo_ms, hi_ms) if is_planned(spec, second)]


def is_planned(spec: dict[str, Any], second: int) -> bool:
    """Whether the job is due in this second since 1970."""
    if "every" in spec:
        return (second - _span(spec.get("offset", "0s"))) % _span(spec["every"]) == 0
    if "cronExpr" in spec:
        return second % 60 in _cron_seconds(spec["cronExpr"])
    return False


def has_plan(spec: dict[str, Any]) -> bool:
    """Whether its fires can be known beforehand: not those of an ``after`` job, nor, here, of one with a calendar."""
    return "after" not in spec and "calendar" not in spec


def _seconds(lo_ms: int, hi_ms: int) -> Iterator[int]:
    return iter(range(-(-lo_ms // 1000), hi_ms // 1000 + 1))


@cache
def _span(text: str) -> int:
    found = re.fullmatch(r"(\d+)s", text)
    if found is None:
        raise ValueError(f"{text!r} is no span that chaos jobs use: <whole seconds>s")
    return int(found[1])


@cache
def _cron_seconds(expression: str) -> frozenset[int]:
    first, *others = expression.split()
    if others != ["*"] * 6:
        raise ValueError(f"{expression!r} is no expression that chaos jobs use: seconds, then six stars")
    if first.startswith("*/"):
        return frozenset(range(0, 60, int(first[2:])))
    return frozenset(range(60)) if first == "*" else frozenset(map(int, first.split(",")))
