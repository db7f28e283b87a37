"""When a job fires: the same face for every kind of trigger, and the cron expression in a time zone behind it.

A schedule is a pure function of its text. Inside it counts in integers, milliseconds at the face and seconds within;
the datetime methods are a thin layer on top.

Time zones and daylight saving are as in Debian's cron. A schedule whose second, minute and hour fields do not begin
with ``*`` is *fixed-time*: its fires are local times, each met at the first instant at which the clock shows it or a
later one. So a fire in the gap runs at the end of the gap (several run there as one), and a repeated hour runs once.
Any other schedule follows real time: it fires whenever the clock shows a match, never in a gap, twice in a fold.

Source: job-model.md, *Time zones and daylight saving*.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, lru_cache
from hashlib import blake2b

from common.instants import from_ms, to_ms
from common.schedules.cron import DAY_SECONDS, LAST_LOCAL, Cron, parse, uses_hash
from common.schedules.days import EVERY_DAY, Days, days_of
from common.schedules.zones import Transition, Zone, load_zone, tzdata_version


def dispatch_ms(sequence: str, timing: Schedule, jitter_s: int, plan_ms: int) -> int:
    """The dispatch time of a planned fire: within 0 to ``jitter_s`` of it, and before the next plan time.

    So the dispatch times of a job are in the order of its plan times, and each fire is due before the next is planned.
    """
    if not jitter_s:
        return plan_ms
    following = timing.next_after_ms(plan_ms)
    span_ms = jitter_s * 1000 if following is None else min(jitter_s * 1000, following - plan_ms - 1)
    digest = blake2b(f"{sequence}@{plan_ms}/jitter".encode(), digest_size=8).digest()
    return plan_ms + int.from_bytes(digest) % (span_ms + 1)


def transition_note(cron: Cron, zone: Zone, after: int, at: int) -> str | None:
    """What a transition does to the fire at ``at``, when ``after`` (in UTC seconds) is where the fire before it was.

    E.g. ``02:30 does not exist on 2026-03-29 in Europe/Berlin; runs at 03:00``; None when no transition touches it.
    """
    notes = (_gap_note(cron, zone, transition, at) for transition in zone.transitions(after, at))
    return next((note for note in notes if note), None) or _fold_note(cron, zone, at)


def _gap_note(cron: Cron, zone: Zone, transition: Transition, at: int) -> str | None:
    """Names the planned times that the clocks jumped over at this transition, if there are any."""
    first = cron.next_local(transition.local_before - 1)
    last = cron.previous_local(transition.local_after)
    if first is None or last is None or not first <= last:
        return None
    does_not = "does not exist" if first == last else "do not exist"
    times = _time(first) if first == last else f"{_time(first)} to {_time(last)}"
    outcome = "no fire then"
    if cron.is_fixed_time:
        local = _local(zone, at)
        day = "" if _date(local) == _date(first) else f" on {_date(local)}"
        outcome = f"runs {'' if first == last else 'once, '}at {_time(local)}{day}"
    return f"{times} {does_not} on {_date(first)} in {zone.name}; {outcome}"


def _fold_note(cron: Cron, zone: Zone, at: int) -> str | None:
    """Says which of the two passes a fire in a repeated hour runs in."""
    local = _local(zone, at)
    for transition in zone.transitions(at - 2 * DAY_SECONDS, at + 2 * DAY_SECONDS):
        if transition.local_after <= local < transition.local_before:
            which = "first" if at < transition.at else "second"
            outcome = "the first time only" if cron.is_fixed_time else f"both times, this is the {which}"
            return f"{_time(local)} comes twice on {_date(local)} in {zone.name}; runs {outcome}"
    return None


def _local(zone: Zone, at: int) -> int:
    return at + zone.offsets[zone.segment(at)]


def _date(local: int) -> str:
    return f"{datetime.fromtimestamp(local, UTC):%Y-%m-%d}"


def _time(local: int) -> str:
    return f"{datetime.fromtimestamp(local, UTC):%H:%M:%S}".removesuffix(":00")


__all__ = ["CronSchedule", "Fire", "Schedule", "parse_cron", "tzdata_version"]

# Enough for what is distinct among 100,000 jobs; schedules that fall out live on in the jobs that have them.
_CACHED_EXPRESSIONS = 16_384

_shared_cron = lru_cache(maxsize=_CACHED_EXPRESSIONS)(parse)

_TIMES_AT_ONCE = 1440
"""Of a day: those that fire more often are stepped through."""

# A clock is never further than this from UTC, so instants beyond are before or after every fire.
_EARLIEST, _LATEST = -2 * DAY_SECONDS, LAST_LOCAL + 2 * DAY_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Fire:
    """One planned instant, ready to be shown."""

    at: datetime
    """Aware, in UTC."""
    local: datetime
    """The same instant in the schedule's time zone, with its offset."""
    note: str | None = None
    """What a change of the clocks does to this fire, in words; None when none touches it."""


class Schedule(ABC):
    """The planned instants of one job: what every kind of trigger offers.

    A subclass brings the two integer steps; everything else follows from them. Immutable and hashable.
    """

    __slots__ = ()

    @abstractmethod
    def next_after_ms(self, ms: int) -> int | None:
        """The first fire strictly later than this instant, or None; both in milliseconds since the epoch."""

    @abstractmethod
    def last_before_ms(self, ms: int) -> int | None:
        """The last fire strictly earlier than this instant, or None; both in milliseconds since the epoch."""

    @property
    def open_fires(self) -> Schedule:
        """The fires that the job's calendar lets run; all of them where it has none."""
        return self

    def is_open(self, ms: int) -> bool:
        """Whether the calendar lets a fire at this instant run."""
        return True

    def opens_ms(self, ms: int) -> int | None:
        """The first instant from this one on that lies in the window and on an open day, or None."""
        return ms

    def days(self, zone: Zone) -> Days:
        """Local days of the zone on which there is a fire; where clocks change there may be none all the same.

        No fire is on another day.
        """
        return EVERY_DAY

    def fires_between_ms(self, lo: int, hi: int, limit: int) -> list[int]:
        """The fires in (lo, hi], oldest first, at most ``limit`` of them; in milliseconds since the epoch."""
        fires: list[int] = []
        at = self.next_after_ms(lo)
        while at is not None and at <= hi and len(fires) < limit:
            fires.append(at)
            at = self.next_after_ms(at)
        return fires

    def upcoming(self, t: datetime, n: int) -> list[Fire]:
        """The next ``n`` fires strictly later than ``t``, ready to be shown; fewer when the schedule ends."""
        fires: list[Fire] = []
        after = _floor_ms(t)
        while len(fires) < n and (at := self.next_after_ms(after)) is not None:
            fires.append(self._shown(after, at))
            after = at
        return fires

    def _shown(self, after_ms: int, at_ms: int) -> Fire:
        """The fire at ``at_ms``, the first one after ``after_ms``, as shown; a trigger with a zone says more here."""
        return Fire(at=from_ms(at_ms), local=from_ms(at_ms))


_Found = tuple[tuple[int, int | None], ...]
"""The newest answers, newest first: an instant that was asked about, and the fire that was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CronSchedule(Schedule):
    """A cron expression in a time zone. Equal to another of the same expression and zone (and job, where it has ``H``).

    Made by parse_cron, which shares one object among equal ones.
    """

    expr: str
    """As given."""
    timezone: str
    job: str
    """The job's name where the expression has an ``H``, else empty."""
    _cron: Cron = field(compare=False, repr=False)
    _zone: Zone = field(compare=False, repr=False)
    # What was found last and before that, and from which instants on (or back) it holds. Jobs of one schedule are
    # looked at together, about one moment and one fire: so they are answered by two searches each way. Each is replaced
    # whole, and so never seen half written.
    _found_next: _Found = field(default=(), compare=False, repr=False)
    _found_previous: _Found = field(default=(), compare=False, repr=False)

    @property
    def both_days_restricted(self) -> bool:
        """Neither day field is ``*`` or ``?``: a day matches when either does, which is worth a warning."""
        return self._cron.both_days_restricted

    @property
    def is_fixed_time(self) -> bool:
        """Its fires are local times, met once each; else it follows real time through changes of the clocks."""
        return self._cron.is_fixed_time

    def next_after_ms(self, ms: int) -> int | None:
        for since_ms, found_ms in self._found_next:
            if since_ms <= ms and (found_ms is None or ms < found_ms):
                return found_ms
        at_ms = self.search_next_ms(ms)
        object.__setattr__(self, "_found_next", ((ms, at_ms), *self._found_next[:1]))
        return at_ms

    def last_before_ms(self, ms: int) -> int | None:
        for since_ms, next_ms in self._found_next:
            if since_ms < ms and (next_ms is None or ms <= next_ms):
                ms = since_ms + 1  # none is between: so a search that finds nothing for years is not made each time
        for until_ms, found_ms in self._found_previous:
            if ms <= until_ms and (found_ms is None or found_ms < ms):
                return found_ms
        at_ms = self.search_last_ms(ms)
        object.__setattr__(self, "_found_previous", ((ms, at_ms), *self._found_previous[:1]))
        return at_ms

    def fires_between_ms(self, lo: int, hi: int, limit: int) -> list[int]:
        """As of any schedule; a day at a time where no change of the clocks is near, which costs a tenth."""
        fires: list[int] = []
        zone, times = self._zone, self._cron.times(_TIMES_AT_ONCE)
        at = self.next_after_ms(lo)
        while at is not None and at <= hi and len(fires) < limit:
            segment = zone.segment(at // 1000)
            local = at // 1000 + zone.offsets[segment]
            midnight = local - local % DAY_SECONDS
            begins = midnight - zone.offsets[segment]
            if (
                times is None
                or max(zone.starts[segment] + zone.offsets[segment], zone.high_water[segment]) >= midnight
                or begins + DAY_SECONDS > zone.starts[segment + 1]
            ):
                fires.append(at)
            else:
                first = bisect_left(times, local - midnight)
                last = bisect_right(times, hi // 1000 - begins, first, min(len(times), first + limit - len(fires)))
                fires += [(begins + time) * 1000 for time in times[first:last]]
            at = self.next_after_ms(fires[-1])
        return fires

    def days(self, zone: Zone) -> Days:
        if zone is not self._zone:
            return EVERY_DAY
        days = self._cron.days
        # What is planned in a gap over midnight is met at its end, on the next day.
        return days | (days.next & _begun_in_a_gap(zone)) if self._cron.is_fixed_time else days

    def search_next_ms(self, ms: int) -> int | None:
        """As `next_after_ms`, found anew."""
        after = min(max(ms // 1000, _EARLIEST), _LATEST)
        if self._cron.is_fixed_time:
            local = self._cron.next_local(self._zone.latest_local(after))
            at = None if local is None else self._zone.first_instant(local)
        else:
            at = self._next_real(after)
        return None if at is None else at * 1000

    def search_last_ms(self, ms: int) -> int | None:
        """As `last_before_ms`, found anew."""
        before = min(max(-(-ms // 1000), _EARLIEST), _LATEST)
        if self._cron.is_fixed_time:
            local = self._cron.previous_local(self._zone.latest_local(before - 1) + 1)
            at = None if local is None else self._zone.first_instant(local)
        else:
            at = self._last_real(before)
        return None if at is None else at * 1000

    def _shown(self, after_ms: int, at_ms: int) -> Fire:
        at = from_ms(at_ms)
        after = min(max(after_ms // 1000, _EARLIEST), _LATEST)
        note = transition_note(self._cron, self._zone, after, at_ms // 1000)
        return Fire(at=at, local=at.astimezone(self._zone.info), note=note)

    def _next_real(self, after: int) -> int | None:
        """Looks through the segments of constant offset, from the one that the instant lies in."""
        starts, offsets, next_local = self._zone.starts, self._zone.offsets, self._cron.next_local
        segment = self._zone.segment(after)
        floor = after + offsets[segment]
        local = next_local(floor)
        while local is None or local - offsets[segment] >= starts[segment + 1]:
            segment += 1
            if segment == len(offsets):
                return None
            beginning = starts[segment] + offsets[segment] - 1
            # A match found from an earlier floor is still the first one; looking again can be slow for a rare date.
            if beginning < floor or (local is not None and local <= beginning):
                floor, local = beginning, next_local(beginning)
        return local - offsets[segment]

    def _last_real(self, before: int) -> int | None:
        """The same backwards."""
        starts, offsets, previous_local = self._zone.starts, self._zone.offsets, self._cron.previous_local
        segment = self._zone.segment(before - 1)
        ceiling = before + offsets[segment]
        local = previous_local(ceiling)
        while local is None or local - offsets[segment] < starts[segment]:
            if segment == 0:
                return None
            segment -= 1
            end = starts[segment + 1] + offsets[segment]
            if end > ceiling or (local is not None and local >= end):
                ceiling, local = end, previous_local(end)
        return local - offsets[segment]


def parse_cron(expr: str, *, timezone: str = "UTC", job: str = "") -> CronSchedule:
    """The schedule of a cron expression (seven fields, a crontab's five, or a macro) in an IANA time zone.

    ``job`` is the job's name, from which ``H`` takes its value. Equal arguments give one shared object. Raises
    ScheduleError, and nothing else, for any text that is not valid; its ``field`` names the cron field, ``timezone`` or
    ``expression``. A valid schedule may have no later fire: next_after_ms then gives None.
    """
    return _shared_schedule(expr, timezone, job if uses_hash(expr) else "")


@cache
def _begun_in_a_gap(zone: Zone) -> Days:
    """The days that begin, or would begin, in a gap."""
    gaps = zone.transitions(zone.starts[0], zone.starts[-1] - 1)
    ends = ((one.local_before // DAY_SECONDS, one.local_after // DAY_SECONDS) for one in gaps)
    return days_of(after for before, after in ends if before < after)


@lru_cache(maxsize=_CACHED_EXPRESSIONS)
def _shared_schedule(expr: str, timezone: str, job: str) -> CronSchedule:
    return CronSchedule(expr=expr, timezone=timezone, job=job, _cron=_shared_cron(expr, job), _zone=load_zone(timezone))


def _floor_ms(t: datetime) -> int:
    if t.utcoffset() is None:
        raise ValueError(f"a naive datetime ({t.isoformat()}) names no instant; give it a tzinfo, e.g. datetime.UTC")
    return to_ms(t)
