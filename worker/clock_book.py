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

An even number of clocks has two middle ones. Where these are far apart, one half stands against the other: the one that
counts is where the median was before. Without a former comparison nobody can tell, and all are off.

Pure: standard library and its neighbours.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from statistics import median, median_high, median_low
from typing import Final

from common.beat_pace import BEAT_S
from common.clocks import ENOUGH, MOST, Clocks, Measured

_KEPT: Final = 3
_OLD_MS: Final = 30_000
"""Clocks drift: what is older says nothing of now."""
_ENOUGH_FOR_MS: Final = 15_000
"""A beat that was heard well is enough for so long: it leaves three more beats until it is old."""
_NEXT_MS: Final = round(BEAT_S * 1000) + 1000
"""A beat that was sent so much later is not the next one: one in between was not heard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hearing:
    """When a beat was heard, in ms by the listener's boot clock."""

    at_ms: int
    not_before_ms: int | None
    """It was put after this; None: nobody knows."""

    @property
    def took_ms(self) -> float:
        """How long it may have been on its way to the listener, once it was put."""
        return inf if self.not_before_ms is None else self.at_ms - self.not_before_ms


@dataclass(slots=True)
class _Clock:
    """What was heard of one clock."""

    name: str
    pending: tuple[int, Hearing] | None = None
    """The newest beat's wall time and hearing, until the next one tells how long its write took."""
    samples: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_KEPT))
    """(when it was heard, the difference)"""

    def heard_well_ms(self, bound_ms: int) -> int | None:
        """When the newest beat was heard that counts, or will if its write was quick; None: none was."""
        if self.pending is not None and self.pending[1].took_ms <= bound_ms:
            return self.pending[1].at_ms
        return self.samples[-1][0] if self.samples else None


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
        if hearing.took_ms + round_trip_ms <= self._bound_ms:
            clock.samples.append((hearing.at_ms, wall_ms - hearing.at_ms))

    def forget(self, process: str) -> None:
        """It beats no more."""
        self._of.pop(process, None)

    def clear(self) -> None:
        """Nothing was heard."""
        self._of.clear()

    def is_listening_worth(self, now_ms: int) -> bool:
        """Whether there is a clock of which no beat was heard well lately."""
        heard = (clock.heard_well_ms(self._bound_ms) for clock in self._of.values())
        return any(at_ms is None or now_ms - at_ms > _ENOUGH_FOR_MS for at_ms in heard)

    def compare(self, now_ms: int, former: Clocks | None = None) -> Clocks:
        """Each clock's offset from the median, at ``now_ms`` by the boot clock; none where fewer than three count.

        ``former``: the comparison before, whoever made it.
        """
        differences = {
            process: max(recent) for process, clock in self._of.items() if (recent := _recent(clock.samples, now_ms))
        }
        if len(differences) < ENOUGH:
            return Clocks(count=len(self._of))
        middle = self._middle(differences, {} if former is None else former.measured)
        measured = {
            process: Measured(offset_ms=round(difference - middle), clock=self._of[process].name)
            for process, difference in sorted(differences.items())[:MOST]
        }
        return Clocks(count=len(self._of), measured=measured)

    def _middle(self, differences: Mapping[str, int], former: Mapping[str, Measured]) -> float:
        low, high = median_low(differences.values()), median_high(differences.values())
        known = [process for process in differences if self._is_known(process, former)]
        if high - low > 2 * self._bound_ms and known:
            before = median(differences[process] - former[process].offset_ms for process in known)
            for one in (low, high):
                if abs(one - before) <= self._bound_ms:
                    return one
        return (low + high) / 2

    def _is_known(self, process: str, former: Mapping[str, Measured]) -> bool:
        """Whether the clock that was measured then is the one that it has now."""
        return process in former and former[process].clock == self._of[process].name


def _recent(samples: Iterable[tuple[int, int]], now_ms: int) -> list[int]:
    return [difference for at_ms, difference in samples if now_ms - at_ms <= _OLD_MS]
