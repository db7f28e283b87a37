"""How far clocks are from each other, from when their beats were heard: arithmetic, with no clock of its own.

A beat says when it was sent by its process's wall clock. When it was heard is told by the boot clock of whoever
listens: that one never jumps, and the listener's own wall clock, right or wrong, has no part in it. The difference of
the two is the clock's offset from a common point, but for the time that the beat was on its way. How long that may have
been is known:

    sent .. carried out     at most what its write took, as the next beat tells
    carried out .. heard    at most since the listener last saw etcd at a revision before it

So each beat bounds the difference from both sides, the more narrowly the quicker it was, and never wrongly: a network,
a machine or a frozen listener that holds it up widens its bounds. What several beats of one clock say is what lies
within the bounds of all of them. The median of all clocks is bounded likewise, and with it each clock's offset from it;
a right clock is never found wrong by being slow, and a clock that is far off is found even where everything is slow.

An even number of clocks has two middle ones. Where these are certainly far apart, one half stands against the other:
the one that counts is where the median was before. Without a former comparison nobody can tell, and all are off.

Pure: standard library and its neighbours.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from statistics import median, median_high, median_low
from typing import Final

from common.beat_pace import BEAT_S
from common.protocol.clocks import ENOUGH, MOST, Clocks, Measured

_KEPT: Final = 12
_OLD_MS: Final = 30_000
"""Clocks drift: what is older says nothing of now."""
_LOOSEST_MS: Final = 10_000
"""What is not known better than that is not known: it would only widen the median of all."""
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


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Between which two values something is."""

    low: float
    high: float

    @property
    def width(self) -> float:
        return self.high - self.low

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2

    def within(self, other: _Bounds) -> _Bounds:
        """What lies in both; no such thing where its width is negative."""
        return _Bounds(max(self.low, other.low), min(self.high, other.high))


@dataclass(slots=True)
class _Clock:
    """What was heard of one clock."""

    name: str
    pending: tuple[int, Hearing] | None = None
    """The newest beat's wall time and hearing, until the next one tells how long its write took."""
    samples: deque[tuple[int, _Bounds]] = field(default_factory=lambda: deque(maxlen=_KEPT))
    """(when it was heard, between what the difference is)"""

    def heard_well_ms(self, bound_ms: int) -> int | None:
        """When the newest beat was heard that says enough, or will if its write was quick; None: none was."""
        if self.pending is not None and self.pending[1].took_ms <= bound_ms:
            return self.pending[1].at_ms
        return next((at_ms for at_ms, bounds in reversed(self.samples) if bounds.width <= bound_ms), None)

    def difference(self, now_ms: int) -> _Bounds | None:
        """What the recent beats say together; None: too little.

        The newest ones: a clock that was set a little, or slewed, since the older ones contradicts them.
        """
        together = _Bounds(-inf, inf)
        for at_ms, bounds in reversed(self.samples):
            both = together.within(bounds)
            if now_ms - at_ms > _OLD_MS or both.width < 0:
                break
            together = both
        return together if together.width <= _LOOSEST_MS else None


class ClockBook:
    """The clocks of all processes that beat."""

    def __init__(self, *, bound_ms: int) -> None:
        """``bound_ms``: how far clocks may be apart, and how well they are to be known for that."""
        self._bound_ms = bound_ms
        self._of: dict[str, _Clock] = {}

    def hear(self, process: str, clock: str, *, wall_ms: int, round_trip_ms: int | None, hearing: Hearing) -> None:
        """A beat, sent at ``wall_ms`` by the process's clock of this name.

        ``round_trip_ms``: how long the write of the beat before it took; None: it failed, or there was none.
        """
        known = self._of.get(process)
        if known is None or known.name != clock:
            known = self._of[process] = _Clock(clock)
        if known.pending is not None:
            is_next = wall_ms - known.pending[0] <= _NEXT_MS
            _count(known, *known.pending, round_trip_ms if is_next else None)
        known.pending = wall_ms, hearing

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
        """Each clock's offset from the median, at ``now_ms`` by the boot clock; none where fewer than three are known.

        ``former``: the comparison before, whoever made it.
        """
        known = {
            process: difference
            for process, clock in self._of.items()
            if (difference := clock.difference(now_ms)) is not None
        }
        if len(known) < ENOUGH:
            return Clocks(count=len(self._of))
        middle = self._middle(known, {} if former is None else former.measured)
        measured = {
            process: self._measured(process, _Bounds(one.low - middle.high, one.high - middle.low))
            for process, one in sorted(known.items())[:MOST]
        }
        return Clocks(count=len(self._of), measured=measured)

    def _measured(self, process: str, offset: _Bounds) -> Measured:
        return Measured(
            offset_ms=round(offset.middle), within_ms=round(offset.width / 2), clock=self._of[process].name
        )  # fmt: skip

    def _middle(self, known: Mapping[str, _Bounds], former: Mapping[str, Measured]) -> _Bounds:
        lows, highs = [one.low for one in known.values()], [one.high for one in known.values()]
        if median_high(lows) - median_low(highs) <= 2 * self._bound_ms:
            return _Bounds(median(lows), median(highs))
        halves = _Bounds(median_low(lows), median_low(highs)), _Bounds(median_high(lows), median_high(highs))
        same = [process for process in known if self._is_same(process, former)]
        if same:
            before = median(known[process].middle - former[process].offset_ms for process in same)
            for half in halves:
                if abs(half.middle - before) <= self._bound_ms + half.width / 2:
                    return half
        between = (halves[0].middle + halves[1].middle) / 2
        return _Bounds(between, between)

    def _is_same(self, process: str, former: Mapping[str, Measured]) -> bool:
        """Whether the clock that was measured then is the one that it has now."""
        return process in former and former[process].clock == self._of[process].name


def _count(clock: _Clock, wall_ms: int, hearing: Hearing, round_trip_ms: int | None) -> None:
    low, high = wall_ms - hearing.at_ms, inf
    if hearing.not_before_ms is not None and round_trip_ms is not None:
        high = wall_ms - hearing.not_before_ms + round_trip_ms
    clock.samples.append((hearing.at_ms, _Bounds(low, high)))
