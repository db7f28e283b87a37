"""How far clocks are from each other, from when their beats were heard: arithmetic, with no clock of its own.

A beat says when it was sent by its process's wall clock. When it was heard is told by the boot clock of whoever
listens: that one never jumps, and the listener's own wall clock, right or wrong, has no part in it. The difference of
the two is the clock's offset from a common point, less the time that the beat was on its way. How long that may have
been is known:

    sent .. carried out     at most what its write took, as the next beat tells
    carried out .. heard    at most since the listener last saw etcd at a revision before it

A beat for which both together are more than the bound does not count, whatever held it up: a network, a machine, a
frozen listener. So a right clock is never found wrong by being slow; where everything is slow, nothing is compared. Of
a process's last three beats that count the largest difference is taken: it was the least on its way.

Pure: standard library and its neighbours.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from common.beat_pace import BEAT_S
from common.clocks import ENOUGH, MOST, Clocks, Measured

_KEPT: Final = 3
_OLD_MS: Final = 30_000
"""Clocks drift: what is older says nothing of now."""
_NEXT_MS: Final = round(BEAT_S * 1000) + 1000
"""A beat that was sent so much later is not the next one: one in between was not heard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hearing:
    """When a beat was heard, in ms by the listener's boot clock."""

    at_ms: int
    not_before_ms: int | None
    """It was put after this; None: nobody knows."""


@dataclass(slots=True)
class _Clock:
    """What was heard of one clock."""

    name: str
    pending: tuple[int, Hearing] | None = None
    """The newest beat's wall time and hearing, until the next one tells how long its write took."""
    samples: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_KEPT))
    """(when it was heard, the difference)"""


class ClockBook:
    """The clocks of all processes that beat."""

    def __init__(self, *, bound_ms: int) -> None:
        """``bound_ms``: a beat that may have been on its way for longer does not count."""
        self._bound_ms = bound_ms
        self._of: dict[str, _Clock] = {}

    def hear(self, process: str, clock: str, *, wall_ms: int, round_trip_ms: int | None, hearing: Hearing) -> None:
        """A beat, sent at ``wall_ms`` by the process's clock of this name.

        ``round_trip_ms``: how long the write of the beat before it took; None: it failed, or there was none.
        """
        known = self._of.get(process)
        if known is None or known.name != clock:
            known = self._of[process] = _Clock(clock)
        if known.pending is not None and round_trip_ms is not None and wall_ms - known.pending[0] <= _NEXT_MS:
            self._count(known, *known.pending, round_trip_ms)
        known.pending = wall_ms, hearing

    def _count(self, clock: _Clock, wall_ms: int, hearing: Hearing, round_trip_ms: int) -> None:
        if hearing.not_before_ms is None:
            return
        if hearing.at_ms - hearing.not_before_ms + round_trip_ms <= self._bound_ms:
            clock.samples.append((hearing.at_ms, wall_ms - hearing.at_ms))

    def forget(self, process: str) -> None:
        """It beats no more."""
        self._of.pop(process, None)

    def clear(self) -> None:
        """Nothing was heard."""
        self._of.clear()

    def compare(self, now_ms: int) -> Clocks:
        """Each clock's offset from the median, at ``now_ms`` by the boot clock; none where fewer than three count."""
        differences = {
            process: max(recent) for process, clock in self._of.items() if (recent := _recent(clock.samples, now_ms))
        }
        if len(differences) < ENOUGH:
            return Clocks(count=len(self._of))
        middle = median(differences.values())
        measured = {
            process: Measured(offset_ms=round(difference - middle), clock=self._of[process].name)
            for process, difference in sorted(differences.items())[:MOST]
        }
        return Clocks(count=len(self._of), measured=measured)


def _recent(samples: Iterable[tuple[int, int]], now_ms: int) -> list[int]:
    return [difference for at_ms, difference in samples if now_ms - at_ms <= _OLD_MS]
