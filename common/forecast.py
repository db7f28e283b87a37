"""What is to be expected: how long a run takes, and how many slots the fires to come want, minute by minute.

The work is bounded, whatever the jobs are. Jobs that fire alike are looked at once. Of each schedule so many fires are
found one by one; the rest are told by their density: how often it fires while it fires, in the hours in which it does.

Pure: standard library and its neighbours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import median
from typing import Final

from common.jobs.job import JobSpec, Overlap
from common.schedules.schedule import Schedule, dispatch_ms

MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000
_LONGEST_MS: Final = 86_400_000
"""A run that takes longer wants its slots for so long: what it wants after that is said of its next fire."""
_LEAST_MS: Final = 1_000
"""What a run takes of which nothing is known, and the least that is told of any."""
_FEWEST: Final = 3
_MOST_FIRES: Final = 4_000_000
_OF_EACH: Final = (200, 3_000)
"""Found of one schedule, at least and at most."""


def usual_ms(durations_ms: Sequence[int]) -> int | None:
    """How long a run usually takes: the median of runs that succeeded; None of fewer than three."""
    return None if len(durations_ms) < _FEWEST else round(median(durations_ms))


@dataclass(frozen=True, slots=True)
class Rhythm:
    """When something starts and how long it goes on. Equal ones are looked at together."""

    schedule: Schedule
    """The fires that the calendar lets run."""
    takes_ms: int
    meets: bool
    """A run starts beside one that is going."""
    pause_ms: int | None
    """Of a job that runs so long after its last run."""
    jitter_s: int
    sequence: str
    """The job's name, where that tells its dispatch times."""

    @classmethod
    def of(cls, spec: JobSpec, usual: int | None) -> Rhythm:
        """That of a job whose runs usually take so long."""
        takes_ms = max(usual or 0, _LEAST_MS) // 1000 * 1000
        return cls(
            spec.schedule.open_fires, min(takes_ms, _LONGEST_MS), spec.overlap is Overlap.ALLOW,
            None if spec.after is None else spec.after.ms, spec.jitter_s, spec.name if spec.jitter_s else "",
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the fires of a span want, by minutes; a fire counts in the minute in which it is dispatched."""

    from_ms: int
    fires: Sequence[float]
    """How many there are in each minute."""
    slots: Sequence[float]
    """The most that are wanted at once in each minute."""
    estimated: int
    """Schedules of which not each fire was looked at."""

    def in_buckets(self, minutes: int) -> Iterator[tuple[int, float, float]]:
        """The start of each bucket of so many minutes, its fires, and the most slots at once."""
        for first in range(0, len(self.fires), minutes):
            yield (
                self.from_ms + first * MINUTE_MS, sum(self.fires[first : first + minutes]),
                max(self.slots[first : first + minutes]),
            )  # fmt: skip


def slots_wanted(
    jobs: Iterable[tuple[Rhythm, int]], from_ms: int, to_ms: int, *, most_fires: int = _MOST_FIRES
) -> Wanted:
    """What the jobs want between two whole minutes; each with the slots that it takes, on all of its workers.

    ``most_fires``: how many are found one by one, of all schedules; what the others are is told by how dense these are.
    Runs that started before are told from their fires, as if each took as long as usual.
    """
    alike: dict[Rhythm, list[int]] = {}
    for rhythm, slots in jobs:
        alike.setdefault(rhythm, []).append(slots)
    low, high = _OF_EACH
    most = min(max(most_fires // max(len(alike), 1), low), high)
    sums = _Sums(from_ms, to_ms)
    for rhythm, of_each in alike.items():
        sums.add(rhythm, len(of_each), sum(of_each), most)
    return sums.wanted()


class _Sums:
    """Differences from second to second (slots) and from minute to minute (fires), added up at the end."""

    def __init__(self, from_ms: int, to_ms: int) -> None:
        self._from_ms, self._to_ms = from_ms, to_ms
        self._minutes = (to_ms - from_ms) // MINUTE_MS
        self._fires = [0.0] * self._minutes
        self._rates = [0.0] * (self._minutes + 1)
        self._slots: defaultdict[int, float] = defaultdict(float)
        self._estimated = 0

    def add(self, rhythm: Rhythm, jobs: int, slots: int, most: int) -> None:
        if rhythm.pause_ms is not None:
            round_ms = rhythm.takes_ms + rhythm.pause_ms
            self._level(self._from_ms, self._to_ms, jobs / round_ms, slots * rhythm.takes_ms / round_ms)
            return
        fires = rhythm.schedule.fires_between_ms(self._from_ms - rhythm.takes_ms - 1, self._to_ms - 1, most)
        if rhythm.jitter_s:
            fires = [dispatch_ms(rhythm.sequence, rhythm.schedule, rhythm.jitter_s, plan_ms) for plan_ms in fires]
        free_ms, of_minutes = 0, self._fires
        for at_ms in fires:
            if self._from_ms <= at_ms < self._to_ms:
                of_minutes[(at_ms - self._from_ms) // MINUTE_MS] += jobs
            if at_ms >= free_ms or rhythm.meets:
                free_ms = at_ms + rhythm.takes_ms
                self._change(at_ms, free_ms, slots)
        if len(fires) == most:
            self._add_rest(rhythm, fires, jobs, slots)

    def _add_rest(self, rhythm: Rhythm, fires: Sequence[int], jobs: int, slots: int) -> None:
        """Those behind the last one that was found, by hours: as dense as these were, in the hours in which any is."""
        gaps = sorted(after - before for before, after in pairwise(fires))
        # A night, or a week's end, is no part of how dense they are.
        usual = [gap for gap in gaps if gap < _HOUR_MS] or gaps
        gap_ms = sum(usual) / len(usual)
        together = rhythm.takes_ms / gap_ms if rhythm.meets else min(rhythm.takes_ms / gap_ms, 1)
        if gap_ms <= MINUTE_MS:  # each minute wants a slot for it, as those do in which its fires were found
            together = max(together, 1)
        self._estimated += jobs
        at_ms = rhythm.schedule.next_after_ms(fires[-1])
        while at_ms is not None and at_ms < self._to_ms:
            if gap_ms >= _HOUR_MS:
                self._level(at_ms, at_ms + 1, jobs, 0)
                self._change(at_ms, at_ms + rhythm.takes_ms, slots)
                at_ms = rhythm.schedule.next_after_ms(at_ms)
                continue
            begun_ms, ends_ms = at_ms, at_ms
            while at_ms is not None and at_ms < self._to_ms and at_ms - ends_ms <= gap_ms:
                ends_ms = min((at_ms // _HOUR_MS + 1) * _HOUR_MS, self._to_ms)
                at_ms = rhythm.schedule.next_after_ms(ends_ms - 1)
            self._level(begun_ms, ends_ms, jobs / gap_ms, slots * together)

    def _level(self, from_ms: int, to_ms: int, fires_a_ms: float, slots: float) -> None:
        """So many from here to there; minutes are not cut."""
        from_ms = max(from_ms, self._from_ms)
        first, last = ((ms - self._from_ms) // MINUTE_MS for ms in (from_ms, to_ms - 1))
        if last < first:
            return
        rate = fires_a_ms * (to_ms - from_ms) / (last - first + 1)
        self._rates[first] += rate
        self._rates[last + 1] -= rate
        self._change(from_ms, to_ms, slots)

    def _change(self, from_ms: int, to_ms: int, slots: float) -> None:
        first, end = (from_ms - self._from_ms) // 1000, (to_ms - self._from_ms) // 1000
        if end > 0 and first < self._minutes * 60:
            self._slots[max(first, 0)] += slots
            self._slots[end] -= slots

    def wanted(self) -> Wanted:
        return Wanted(
            from_ms=self._from_ms,
            fires=[round(one + rate, 3) for one, rate in zip(self._fires, accumulate(self._rates[:-1]), strict=True)],
            slots=[round(most, 3) for most in self._most()],
            estimated=self._estimated,
        )

    def _most(self) -> list[float]:
        """The most slots at once in each minute."""
        most = [0.0] * (self._minutes + 1)
        level, here = 0.0, 0
        for second in sorted(self._slots):
            minute = min(second // 60, self._minutes)
            for passed in range(here, minute):
                most[passed] = max(most[passed], level)
            if second % 60:
                most[minute] = max(most[minute], level)
            level, here = level + self._slots[second], minute
            most[minute] = max(most[minute], level)
        return most[:-1]
