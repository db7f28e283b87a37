"""How far clocks are from each other, from when their beats were heard: arithmetic, with no clock of its own.

A beat says when it was sent by its process's wall clock. When it was heard is measured by the boot clock of the process
that listens: that one never jumps, and the listener's own wall clock, right or wrong, has no part in it. The difference
of the two is the clock's offset from a common point, but for the time that the beat was on its way. How long that may
have been is known, and is the error of what the beat says:

    sent .. carried out     at most what its write took, as the next beat tells
    carried out .. heard    at most since the listener last saw etcd at a revision before it

So a right clock is never found wrong because its process, etcd or the listener is slow, and one that is far off is
found even where everything is. Of each clock the beat with the least error counts, among the newest ones that do not
contradict each other. The median of all has an error, too, and with it each offset.

The largest group of clocks that may all agree is right (Marzullo's algorithm), and the median of all counts where it
agrees with that group, else the group's own. Of several such groups the one counts that is where the median was
before. Without a former comparison the middle clock counts, and of two middle ones that are far apart neither: all are
off.

Pure: standard library and its neighbours.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from statistics import median, median_high, median_low
from typing import Final

from common.protocol.clocks import ENOUGH, MOST, Clocks, Measured
from common.protocol.member import BEAT_S, Beat

_KEPT: Final = 12
_OLD_MS: Final = 30_000
"""Clocks drift: what is older says nothing of now."""
_LARGEST_ERROR_MS: Final = 5_000
"""What is not known better than that is not known: it would only widen the median of all."""
_ENOUGH_FOR_MS: Final = 15_000
"""A beat that was heard well is enough for so long: it leaves three more beats until it is old."""
_NEXT_MS: Final = round(BEAT_S * 1000) - 300
"""So long after a beat was heard the next one is listened for."""
_MISSED_MS: Final = 2 * _NEXT_MS
"""Where a good one is overdue by so much they are listened for all the time: they come when they like."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How far a clock is ahead of the listener's boot clock, by a beat that was heard then; all in ms."""

    at_ms: int
    ahead_ms: float
    error_ms: float
    """By so much more or less."""

    @classmethod
    def between(cls, at_ms: int, low_ms: float, high_ms: float) -> Reading:
        """It is at least ``low_ms``, and at most ``high_ms``."""
        return cls(at_ms, (low_ms + high_ms) / 2, (high_ms - low_ms) / 2)

    @property
    def low_ms(self) -> float:
        return self.ahead_ms - self.error_ms

    @property
    def high_ms(self) -> float:
        return self.ahead_ms + self.error_ms


@dataclass(frozen=True, slots=True)
class _Heard:
    """A beat, until the next one tells how long its write took."""

    version: int
    wall_ms: int
    at_ms: int
    not_before_ms: int | None


@dataclass(slots=True)
class _Clock:
    """What was heard of one clock."""

    name: str
    heard: _Heard | None = None
    readings: deque[Reading] = field(default_factory=lambda: deque(maxlen=_KEPT))

    def hear(self, heard: _Heard, round_trip_ms: int | None) -> None:
        before, self.heard = self.heard, heard
        if before is None or before.not_before_ms is None or round_trip_ms is None:
            return
        if heard.version == before.version + 1:  # else one in between was not heard: it took that long, not this one
            low_ms, late_ms = before.wall_ms - before.at_ms, before.at_ms - before.not_before_ms + round_trip_ms
            self.readings.append(Reading.between(before.at_ms, low_ms, low_ms + late_ms))

    def reading(self, now_ms: int) -> Reading | None:
        """The one with the least error; None: nothing is known.

        Newer ones that contradict it say that the clock was set a little, or that this machine or its own stood still.
        """
        best, low_ms, high_ms = None, -inf, inf
        for one in reversed(self.readings):
            low_ms, high_ms = max(low_ms, one.low_ms), min(high_ms, one.high_ms)
            if now_ms - one.at_ms > _OLD_MS or low_ms > high_ms:
                break
            if best is None or one.error_ms < best.error_ms:
                best = one
        return None if best is None or best.error_ms > _LARGEST_ERROR_MS else best

    def heard_well_ms(self, well_ms: float) -> float:
        """When the newest beat was heard that says enough, or will if its write was quick."""
        heard = self.heard
        if heard and heard.not_before_ms is not None and heard.at_ms - heard.not_before_ms <= 2 * well_ms:
            return heard.at_ms
        return next((one.at_ms for one in reversed(self.readings) if one.error_ms <= well_ms), -inf)

    def rest_ms(self, now_ms: int, well_ms: float) -> float:
        """Until a beat of it is to be listened for, or 0."""
        wanted_ms = self.heard_well_ms(well_ms) + _ENOUGH_FOR_MS
        if self.heard is None or now_ms > wanted_ms + _MISSED_MS:
            return 0
        return max(0, wanted_ms - now_ms, self.heard.at_ms + _NEXT_MS - now_ms)


class ClockBook:
    """The clocks of all processes that beat."""

    def __init__(self, *, bound_ms: int) -> None:
        """``bound_ms``: how far clocks may be apart, and how well they are to be known for that."""
        self._bound_ms = bound_ms
        self._well_ms = bound_ms / 2
        self._of: dict[str, _Clock] = {}

    def hear(self, process: str, beat: Beat, *, version: int, at_ms: int, not_before_ms: int | None) -> bool:
        """A beat, heard then by the listener's boot clock; whether the next one of this clock is listened for at once.

        ``version``: of its key, one more with each beat. ``not_before_ms``: it was put after this; None: unknown.
        """
        known = self._of.get(process)
        if known is None or known.name != beat.clock:
            known = self._of[process] = _Clock(beat.clock)
        known.hear(_Heard(version, beat.wall_ms, at_ms, not_before_ms), beat.round_trip_ms)
        return known.rest_ms(at_ms, self._well_ms) <= 0

    def forget(self, process: str) -> None:
        """It beats no more."""
        self._of.pop(process, None)

    def clear(self) -> None:
        """Nothing was heard."""
        self._of.clear()

    def rest_ms(self, now_ms: int) -> float:
        """How long until a beat is to be listened for: the next one of a clock that was not heard well lately."""
        return min((one.rest_ms(now_ms, self._well_ms) for one in self._of.values()), default=inf)

    def compare(self, now_ms: int, former: Clocks | None = None) -> Clocks:
        """Each clock's offset from the median, at ``now_ms`` by the boot clock; none where fewer than three are known.

        ``former``: the comparison before, by any steward.
        """
        readings = {
            process: reading
            for process, clock in sorted(self._of.items())
            if (reading := clock.reading(now_ms)) is not None
        }
        if len(readings) < ENOUGH:
            return Clocks(count=len(self._of))
        middle = self._median(now_ms, readings, {} if former is None else former.measured)
        measured = {
            process: Measured(
                offset_ms=round(one.ahead_ms - middle.ahead_ms), within_ms=round(one.error_ms + middle.error_ms),
                clock=self._of[process].name,
            )
            for process, one in list(readings.items())[:MOST]
        }  # fmt: skip
        return Clocks(count=len(self._of), measured=measured)

    def _median(self, now_ms: int, readings: Mapping[str, Reading], former: Mapping[str, Measured]) -> Reading:
        lows, highs = [one.low_ms for one in readings.values()], [one.high_ms for one in readings.values()]
        middle = Reading.between(now_ms, median(lows), median(highs))
        has_middle = median_high(lows) - median_low(highs) <= 2 * self._bound_ms
        groups = self._largest_groups(list(readings.values()))
        if len(groups) == 1 and has_middle and all(self._may_agree(one, middle) for one in groups[0]):
            return middle
        of_groups = [
            Reading.between(now_ms, median(one.low_ms for one in group), median(one.high_ms for one in group))
            for group in groups
        ]
        if len(groups) == 1:
            return of_groups[0]
        # Where the median was, by the clocks that have the same name as then.
        before = [
            one.ahead_ms - former[process].offset_ms
            for process, one in readings.items()
            if process in former and former[process].clock == self._of[process].name
        ]
        for one in of_groups if before else ():
            if abs(one.ahead_ms - median(before)) <= self._bound_ms + one.error_ms:
                return one
        return middle if has_middle else Reading(now_ms, (median_low(highs) + median_high(lows)) / 2, 0)

    def _largest_groups(self, readings: Sequence[Reading]) -> list[list[Reading]]:
        """Those that may all agree with each other, as many as can be: of equally many, each such group."""
        groups = []
        for first in readings:  # a group may begin where one of its own begins
            at_ms = first.low_ms - self._bound_ms
            groups.append([
                one for one in readings
                if one.low_ms - self._bound_ms <= at_ms <= one.high_ms + self._bound_ms
            ])  # fmt: skip
        most = max(map(len, groups))
        return list({tuple(map(id, group)): group for group in groups if len(group) == most}.values())

    def _may_agree(self, one: Reading, other: Reading) -> bool:
        return max(one.low_ms, other.low_ms) - min(one.high_ms, other.high_ms) <= 2 * self._bound_ms
