"""What is to be expected: how long a run takes, how many slots the fires to come want, and how long some wait for one.

The work is bounded, whatever the jobs are. Jobs that fire alike are looked at once. Of each schedule so many fires are
found one by one; the rest are told by their density: how often it fires while it fires, in the hours in which it does.

Where more slots are wanted than there are, the fires queue: first come, first served, on the slots of all workers
together. Fires of one second that take about as long are served as one.

Pure: standard library and its neighbours.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from heapq import heappop, heappush
from itertools import accumulate, pairwise
from operator import attrgetter
from statistics import median
from typing import Final, TypeAlias

from common.jobs.job import JobSpec, Overlap
from common.schedules.cron import uses_hash
from common.schedules.schedule import Schedule, dispatch_ms

MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000
_QUARTER_MS: Final = 900_000
"""Clocks that show midnight, when calendars open and close, are at whole quarters of an hour elsewhere, too."""
_LONGEST_MS: Final = 86_400_000
"""A run that takes longer wants its slots for so long: what it wants after that is said of its next fire."""
_LEAST_MS: Final = 1_000
"""What a run takes of which nothing is known, and the least for which any wants its slots."""
_SHORTEST_MS: Final = 100
"""The least for which a run keeps others from its slots: to start it takes a while, too."""
_NOTHING: Final = 1e-6
"""So few slots are none, of sums of fractions."""
_FEWEST: Final = 3
_MOST_FIRES: Final = 4_000_000
_OF_EACH: Final = (200, 3_000)
"""Found of one schedule, at least and at most."""
_KIND_BITS: Final = 32
_MOST_OF_ONE: Final = 3_600
"""Fires of one job that are counted."""


def usual_ms(durations_ms: Sequence[int]) -> int | None:
    """How long a run usually takes: the median of runs that succeeded; None of fewer than three."""
    return None if len(durations_ms) < _FEWEST else round(median(durations_ms))


Expected: TypeAlias = tuple[JobSpec, int | None, int]
"""A job, how long its runs usually take, and the slots that a fire of it takes, on all of its workers."""
_rhythm: Final = attrgetter(
    "cron_exprs", "every", "offset", "after", "at", "timezone", "start_at", "end_at", "calendar", "jitter_s",
)  # fmt: skip
"""What tells a job's fires, beside its name where that counts, as equal values for jobs that fire alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Alike:
    """Jobs that start at the same times, and go on for as long."""

    spec: JobSpec
    """One of them."""
    takes_ms: int
    jobs: int
    slots: int
    """Of all of them."""

    @property
    def wants_ms(self) -> int:
        """How long a run is told to want its slots: whole seconds."""
        return max(self.takes_ms, _LEAST_MS) // 1000 * 1000

    @property
    def meets(self) -> bool:
        """A run starts beside one that is going."""
        return self.spec.overlap is Overlap.ALLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the fires of a span want, by minutes; a fire counts in the minute in which it is dispatched."""

    from_ms: int
    fires: Sequence[float]
    """How many there are in each minute."""
    slots: Sequence[float]
    """The most that are wanted at once in each minute."""
    waits_ms: Sequence[int]
    """How much later than planned, at most, the fires of each minute start for want of a slot."""
    estimated: int
    """Schedules of which not each fire was looked at."""

    def in_buckets(self, minutes: int) -> Iterator[tuple[int, float, float, int]]:
        """The start of each bucket of so many minutes, its fires, the most slots at once, and the longest wait."""
        for first in range(0, len(self.fires), minutes):
            of = slice(first, first + minutes)
            yield self.from_ms + first * MINUTE_MS, sum(self.fires[of]), max(self.slots[of]), max(self.waits_ms[of])

    @property
    def fullest(self) -> int:
        """The minute in which most is to be mended: by the longest wait, then slots, then fires; the first of these.

        One without fires only where none has any.
        """
        return max(
            range(len(self.fires)),
            key=lambda at: (self.fires[at] > 0, self.waits_ms[at], self.slots[at], self.fires[at]),
        )


def slots_wanted(
    jobs: Iterable[Expected], from_ms: int, to_ms: int, *, there: int = 0, most_fires: int = _MOST_FIRES
) -> Wanted:
    """What the jobs want between two whole minutes.

    ``there``: the slots of all workers; 0: no wait is told. ``most_fires``: how many are found one by one, of all
    schedules; what the others are is told by how dense these are. Runs that started before are told from their fires,
    as if each took as long as usual.
    """
    alike = _alike(jobs)
    low, high = _OF_EACH
    most = min(max(most_fires // max(sum(map(len, alike)), 1), low), high)
    sums = _Sums(from_ms, to_ms)
    for some in alike:
        sums.add(some, most)
    return sums.wanted(there)


def fires_in(jobs: Iterable[Expected], from_ms: int, to_ms: int, *, most: int = _MOST_OF_ONE) -> list[int]:
    """How many fires of each job are dispatched from one time up to another; at most so many are counted.

    Of one that fires `after` its last run, to the nearest whole number: when it fires next, its run says.
    """
    known: dict[tuple[object, ...], int] = {}
    counts = []
    for spec, usual, slots in jobs:
        key = _key(spec), None if spec.after is None else _takes_ms(usual)
        if (count := known.get(key)) is None:
            one = _Alike(spec=spec, takes_ms=_takes_ms(usual), jobs=1, slots=slots)
            count = known[key] = min(_count(one, from_ms, to_ms, most), most)
        counts.append(count)
    return counts


def _count(one: _Alike, from_ms: int, to_ms: int, most: int) -> int:
    if one.spec.after is None:
        return sum(from_ms <= at_ms < to_ms for at_ms in _dispatched(one.spec, from_ms, to_ms, most))
    open_ms = sum(ends_ms - begins_ms for begins_ms, ends_ms in _open_spans(one.spec, from_ms, to_ms))
    return round(open_ms / (one.wants_ms + one.spec.after.ms))


def _dispatched(spec: JobSpec, from_ms: int, to_ms: int, most: int) -> list[int]:
    """When its fires are: those that are planned in the span, and the one before, which jitter may have kept.

    No other: each is dispatched before the next is planned.
    """
    schedule = spec.schedule
    fires = schedule.open_fires.fires_between_ms(from_ms - 1, to_ms - 1, most)
    if not spec.jitter_s:
        return fires
    if (before := schedule.open_fires.last_before_ms(from_ms)) is not None:
        fires = [before, *fires]
    return [dispatch_ms(spec.name, schedule, spec.jitter_s, plan_ms) for plan_ms in fires]


def _open_spans(spec: JobSpec, from_ms: int, to_ms: int) -> Iterator[tuple[int, int]]:
    """When window and calendar are open, from one time up to another; each ends with a quarter of an hour."""
    schedule, to_ms = spec.schedule, to_ms if spec.end_at is None else min(to_ms, spec.end_at.ms)
    begins_ms = schedule.opens_ms(from_ms)
    while begins_ms is not None and begins_ms < to_ms:
        ends_ms = begins_ms
        opens_ms: int | None = begins_ms
        while opens_ms == ends_ms < to_ms:
            ends_ms = min((ends_ms // _QUARTER_MS + 1) * _QUARTER_MS, to_ms)
            opens_ms = schedule.opens_ms(ends_ms)
        yield begins_ms, ends_ms
        begins_ms = opens_ms


def _key(spec: JobSpec) -> tuple[object, ...]:
    """The same for jobs that fire at the same times."""
    is_own = spec.jitter_s or any(map(uses_hash, spec.cron_exprs))
    return spec.name if is_own else "", _rhythm(spec)


def _alike(jobs: Iterable[Expected]) -> list[Sequence[_Alike]]:
    """The jobs, those that fire alike together, and of these again those that take as long.

    Of most there is nothing to be done but to find their like.
    """
    found: dict[tuple[object, ...], dict[tuple[int, bool], tuple[JobSpec, list[int]]]] = {}
    for spec, usual, slots in jobs:
        key = _key(spec)
        if (of_rhythm := found.get(key)) is None:
            of_rhythm = found[key] = {}
        kind = (_takes_ms(usual), spec.overlap is Overlap.ALLOW)
        if (known := of_rhythm.get(kind)) is None:
            of_rhythm[kind] = spec, [1, slots]
        else:
            known[1][0] += 1
            known[1][1] += slots
    return [
        [
            _Alike(spec=spec, takes_ms=takes_ms, jobs=number, slots=slots)
            for (takes_ms, _), (spec, (number, slots)) in of_rhythm.items()
        ]
        for of_rhythm in found.values()
    ]


def _takes_ms(usual: int | None) -> int:
    """Whole seconds, below one tenths of it: so that jobs are alike whose runs take about as long."""
    if usual is None:
        return _LEAST_MS
    if usual < 1_000:
        return max(-(-usual // 100) * 100, _SHORTEST_MS)
    return min(usual // 1000 * 1000, _LONGEST_MS)


class _Sums:
    """Differences from second to second (slots) and from minute to minute (fires), added up at the end."""

    def __init__(self, from_ms: int, to_ms: int) -> None:
        self._from_ms, self._to_ms = from_ms, to_ms
        self._minutes = (to_ms - from_ms) // MINUTE_MS
        self._fires = [0.0] * self._minutes
        self._rates = [0.0] * (self._minutes + 1)
        self._slots: defaultdict[int, float] = defaultdict(float)
        self._queues = _Queues(from_ms, self._minutes)
        self._estimated = 0

    def add(self, alike: Sequence[_Alike], most: int) -> None:
        """Jobs of one rhythm; at most so many fires of theirs are looked at one by one."""
        spec = alike[0].spec
        if spec.after is not None:
            for some in alike:
                round_ms = some.wants_ms + spec.after.ms
                share = some.slots * some.wants_ms / round_ms
                for begins_ms, ends_ms in _open_spans(spec, self._from_ms, self._to_ms):
                    self._level(begins_ms, ends_ms, some.jobs / round_ms, share, share)
            return
        if spec.broadcast and spec.jitter_s:
            for some in alike:
                self._add_apart(some, most)
            return
        # Searched for once, unless those before the span are so many that of the others some would not be found.
        longest_ms = max(some.wants_ms for some in alike)
        all_fires = _dispatched(spec, self._from_ms - longest_ms, self._to_ms, most)
        for some in alike:
            begins_ms, fires = self._from_ms - some.wants_ms, all_fires
            if some.wants_ms < longest_ms:
                is_cut = len(all_fires) >= most
                first = bisect_left(all_fires, begins_ms)
                fires = _dispatched(spec, begins_ms, self._to_ms, most) if is_cut else all_fires[first:]
            self._add_fires(some, fires)
            if len(fires) >= most:  # with jitter it may be one more
                self._add_rest(some, spec.schedule.open_fires, fires)

    def _add_apart(self, some: _Alike, most: int) -> None:
        """Of a fire each worker starts its run at a time of its own, which only that worker's name gives: evenly.

        Runs longer than the jitter overlap all; of shorter ones as many overlap as start while one goes on.
        """
        fires, jitter_ms = some.spec.schedule.open_fires, some.spec.jitter_s * 1000
        wants_ms, free_ms = some.wants_ms, 0
        found = fires.fires_between_ms(self._from_ms - wants_ms - jitter_ms - 1, self._to_ms - 1, most)
        for at_ms, next_ms in pairwise([*found, self._to_ms + jitter_ms]):
            apart_ms = min(jitter_ms, next_ms - at_ms)
            self._level(at_ms, min(at_ms + apart_ms, self._to_ms), some.jobs / apart_ms, 0, 0)
            if at_ms >= free_ms or some.meets:
                free_ms = at_ms + wants_ms
                share = some.slots * min(wants_ms / apart_ms, 1)
                self._level(at_ms, min(at_ms + max(wants_ms, apart_ms), self._to_ms), 0, share, share)
        if len(found) == most:
            self._add_rest(some, fires, found)

    def _add_fires(self, some: _Alike, fires: Sequence[int]) -> None:
        from_ms, to_ms, of_minutes = self._from_ms, self._to_ms, self._fires
        free_ms, jobs, slots, wants_ms, meets = 0, some.jobs, some.slots, some.wants_ms, some.meets
        starts = list[int]()
        for at_ms in fires:
            if from_ms <= at_ms < to_ms:
                of_minutes[(at_ms - from_ms) // MINUTE_MS] += jobs
            if at_ms >= free_ms or meets:
                free_ms = at_ms + wants_ms
                self._change(at_ms, free_ms, slots)
                starts.append(at_ms)
        self._queues.add(starts, some, None if meets or len(fires) < 2 else fires[1] - fires[0])

    def _add_rest(self, some: _Alike, schedule: Schedule, fires: Sequence[int]) -> None:
        """Those behind the last one that was found, by hours: as dense as these were, in the hours in which any is."""
        gaps = sorted(after - before for before, after in pairwise(fires))
        # A night, or a week's end, is no part of how dense they are.
        usual = [gap for gap in gaps if gap < _HOUR_MS] or gaps
        gap_ms = sum(usual) / len(usual)
        together = some.wants_ms / gap_ms if some.meets else min(some.wants_ms / gap_ms, 1)
        kept = some.slots * min(together, some.takes_ms / gap_ms)
        if gap_ms <= MINUTE_MS:  # each minute wants a slot for it, as those do in which its fires were found
            together = max(together, 1)
        self._estimated += some.jobs
        at_ms = schedule.next_after_ms(fires[-1])
        while at_ms is not None and at_ms < self._to_ms:
            if gap_ms >= _HOUR_MS:
                self._level(at_ms, at_ms + 1, some.jobs, 0, 0)
                self._change(at_ms, at_ms + some.wants_ms, some.slots)
                self._queues.add([at_ms], some, None)
                at_ms = schedule.next_after_ms(at_ms)
                continue
            begun_ms, ends_ms = at_ms, at_ms
            while at_ms is not None and at_ms < self._to_ms and at_ms - ends_ms <= gap_ms:
                ends_ms = min((at_ms // _HOUR_MS + 1) * _HOUR_MS, self._to_ms)
                at_ms = schedule.next_after_ms(ends_ms - 1)
            self._level(begun_ms, ends_ms, some.jobs / gap_ms, some.slots * together, kept)

    def _level(self, from_ms: int, to_ms: int, fires_a_ms: float, slots: float, kept: float) -> None:
        """So many from here to there, and so many slots kept from others; for fires minutes are not cut."""
        from_ms = max(from_ms, self._from_ms)
        first, last = ((ms - self._from_ms) // MINUTE_MS for ms in (from_ms, to_ms - 1))
        if last < first:
            return
        rate = fires_a_ms * (to_ms - from_ms) / (last - first + 1)
        self._rates[first] += rate
        self._rates[last + 1] -= rate
        self._change(from_ms, to_ms, slots)
        self._queues.keep(from_ms, to_ms, kept)

    def _change(self, from_ms: int, to_ms: int, slots: float) -> None:
        first, end = (from_ms - self._from_ms) // 1000, (to_ms - self._from_ms) // 1000
        if end > 0 and first < self._minutes * 60:
            self._slots[max(first, 0)] += slots
            self._slots[end] -= slots

    def wanted(self, there: int) -> Wanted:
        most = self._most()
        is_short = 0 < there < max(most, default=0)
        return Wanted(
            from_ms=self._from_ms,
            fires=[round(one + rate, 3) for one, rate in zip(self._fires, accumulate(self._rates[:-1]), strict=True)],
            slots=[round(slots, 3) for slots in most],
            waits_ms=self._queues.waits_ms(there) if is_short else [0] * self._minutes,
            estimated=self._estimated,
        )  # fmt: skip

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


class _Queues:
    """The fires that take slots, and how long each waits for them where there are too few.

    Eight bytes a fire: of millions at seconds and lengths of their own, as jitter gives them, nearly none are alike.
    """

    def __init__(self, from_ms: int, minutes: int) -> None:
        self._from_ms, self._minutes = from_ms, minutes
        self._kinds: dict[tuple[int, float, int], int] = {}
        """How long runs take, after how long a newer fire comes, and the slots: each has a number."""
        self._starts: defaultdict[int, array[int]] = defaultdict(partial(array, "q"))
        """By minutes since 1970: the second in it, and the kind."""
        self._kept = [0.0] * (minutes + 2)

    def add(self, starts_ms: Iterable[int], some: _Alike, next_ms: int | None) -> None:
        """``next_ms``: a newer one comes after so long; one that has not started by then waits no more.

        None: each of them runs in the end.
        """
        key = (_roughly(some.takes_ms), next_ms or math.inf, some.slots)
        kind = self._kinds.setdefault(key, len(self._kinds))
        for at_ms in starts_ms:
            self._starts[at_ms // MINUTE_MS].append(at_ms % MINUTE_MS // 1000 << _KIND_BITS | kind)

    def _in_order(self) -> Iterator[tuple[int, int, float, float]]:
        """When, how long runs take (less than 0), after how long a newer fire comes, and the slots of all alike."""
        kinds = list(self._kinds)
        for minute in sorted(self._starts):
            alike: defaultdict[tuple[int, int, float], float] = defaultdict(float)
            for start in self._starts[minute]:
                takes_ms, next_ms, slots = kinds[start & (1 << _KIND_BITS) - 1]
                alike[minute * MINUTE_MS + (start >> _KIND_BITS) * 1000, -takes_ms, next_ms] += slots
            yield from ((*key, slots) for key, slots in sorted(alike.items()))

    def keep(self, from_ms: int, to_ms: int, slots: float) -> None:
        """So many are taken all the time; in a minute that is cut, as many as they are on its average."""
        for at_ms, change in ((from_ms, slots), (to_ms, -slots)):
            minute, passed_ms = divmod(at_ms - self._from_ms, MINUTE_MS)
            later = change * passed_ms / MINUTE_MS
            self._kept[minute] += change - later
            self._kept[minute + 1] += later

    def waits_ms(self, there: int) -> list[int]:
        """The longest of each minute: who comes first is served first, on so many slots.

        Of one second those that take longest, as it would be at worst.
        """
        waits = [0] * self._minutes
        kept = list(accumulate(self._kept))
        busy: list[tuple[int, float]] = []
        """Until when, and how many."""
        taken, turn_ms = 0.0, 0
        for at_ms, takes_less_ms, next_ms, slots in self._in_order():
            minute = min(max((at_ms - self._from_ms) // MINUTE_MS, 0), self._minutes - 1)
            free = max(there - kept[minute], 1)  # what keeps all of them would leave some, too
            start_ms = max(at_ms, turn_ms)
            while slots > _NOTHING and start_ms - at_ms < next_ms:
                while busy and busy[0][0] <= start_ms:
                    taken -= heappop(busy)[1]
                if (some := min(free - taken, slots)) > _NOTHING:
                    heappush(busy, (start_ms - takes_less_ms, some))
                    taken, slots, turn_ms = taken + some, slots - some, start_ms
                else:
                    start_ms = busy[0][0]
            if at_ms >= self._from_ms:
                waits[minute] = max(waits[minute], round(min(start_ms - at_ms, next_ms)))
        return waits


@lru_cache(maxsize=4096)
def _roughly(ms: int) -> int:
    """To two digits."""
    unit: int = 10 ** max(len(str(ms)) - 2, 0)
    return round(ms / unit) * unit
