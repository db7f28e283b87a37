"""How far clocks are from each other, from when their beats arrived: arithmetic, with no clock of its own.

A beat says when it was sent by its process's wall clock; when it is heard is told by the boot clock of whoever listens.
That one never jumps, and the listener's own wall clock, right or wrong, has no part in it. The difference of the two is
the clock's offset from a common point, less the time that the beat was on its way. What was long on its way tells
little, so

* a beat counts only once the next one says that its write was answered quickly, and only where its listener was not
  held up itself: then it is too small by no more than the bound, and a right clock is never found wrong by being slow;
* of a process's last three the largest counts.

Pure: standard library and its neighbours.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from common.clocks import ENOUGH, MOST, Clocks, Measured

_KEPT: Final = 3
_OLD_MS: Final = 30_000
"""Clocks drift: what is older says nothing of now."""


@dataclass(slots=True)
class _Heard:
    """What was heard of one clock."""

    clock: str
    pending: tuple[int, int] | None = None
    """(when it was heard, the difference) of the newest beat, until the next one tells whether it was quick."""
    samples: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_KEPT))


class ClockBook:
    """The clocks of all processes that beat."""

    def __init__(self, *, quick_ms: int) -> None:
        """``quick_ms``: a beat whose write took longer does not count."""
        self._quick_ms = quick_ms
        self._of: dict[str, _Heard] = {}

    def hear(
        self, process: str, clock: str, *, wall_ms: int, round_trip_ms: int | None, boot_ms: int | None
    ) -> None:  # fmt: skip
        """A beat: by its own clock it was sent at ``wall_ms``.

        ``round_trip_ms``: how long the write of the beat before it took, None: it failed, or there was none.
        ``boot_ms``: when this one was heard; None: nobody knows, so it does not count.
        """
        heard = self._of.get(process)
        if heard is None or heard.clock != clock:
            heard = self._of[process] = _Heard(clock)
        if heard.pending is not None and round_trip_ms is not None and round_trip_ms <= self._quick_ms:
            heard.samples.append(heard.pending)
        heard.pending = None if boot_ms is None else (boot_ms, wall_ms - boot_ms)

    def forget(self, process: str) -> None:
        """It beats no more."""
        self._of.pop(process, None)

    def clear(self) -> None:
        """Nothing was heard."""
        self._of.clear()

    def compare(self, now_boot_ms: int) -> Clocks:
        """Each clock's offset from the median; of none where fewer than three could be measured."""
        differences = {
            process: max(recent)
            for process, heard in self._of.items()
            if (recent := _recent(heard.samples, now_boot_ms))
        }  # fmt: skip
        if len(differences) < ENOUGH:
            return Clocks(count=len(self._of))
        middle = median(differences.values())
        measured = {
            process: Measured(offset_ms=round(difference - middle), clock=self._of[process].clock)
            for process, difference in sorted(differences.items())[:MOST]
        }
        return Clocks(count=len(self._of), measured=measured)


def _recent(samples: Iterable[tuple[int, int]], now_boot_ms: int) -> list[int]:
    return [difference for at_ms, difference in samples if now_boot_ms - at_ms <= _OLD_MS]
