"""What the other rules stand on: every command has the machine's own wall clock, also where its worker's is wrong."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from tests.chaos.view import View, Violation

_APART_MS = 200


def check(view: View) -> Iterator[Violation]:
    """The wall clock of every first line against CLOCK_BOOTTIME, which nobody sets."""
    starts = [(run.id, start) for run in view.runs.values() for start in run.starts[:1]]
    apart = {run: start.wall_ms - start.boot_ns // 1_000_000 for run, start in starts}
    usual = statistics.median(apart.values()) if apart else 0
    for run, ms in apart.items():
        if abs(ms - usual) > _APART_MS:
            yield Violation(
                "G3", str(run), f"its wall clock is {ms - usual:+.0f} ms off: it has its worker's wrong clock"
            )
