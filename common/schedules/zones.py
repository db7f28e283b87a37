"""Time zones from the pinned tzdata package, as integers: where the offset from UTC changes, and by how much.

A zone is cut into *segments* of constant offset:

    UTC     ...--- segment 0 ---|--- segment 1 ---|--- segment 2 ---...
                            starts[1]         starts[2]
    local   ...-----------------)     gap     (---------)            a gap: clocks jump forward over these times
                                                    (---------...    a fold: clocks go back, these times come twice

``high_water[k]`` is the local time that clocks had reached before segment k began. With it one rule says all of what a
fixed-time schedule does: *a local time is met at the first instant at which the clock shows it or a later one*. In a
gap that is the instant after it, in a fold it is the first pass.

Pure but for reading the tzdata package; the machine's own /usr/share/zoneinfo is never looked at, so that every worker
with the same package has the same zones. Source: job-model.md, *Time zones and daylight saving*; RFC 8536 (TZif).
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from zoneinfo import ZoneInfo

import tzdata  # type: ignore[import-untyped]

from common.errors import ScheduleError
from common.schedules.cron_fields import shortened

FAR_PAST, FAR_FUTURE = -(10**12), 10**12
"""Seconds since the epoch that no schedule reaches."""

# Fires lie in the local years 1970 to 2199: a day more on either side covers every offset.
_FIRST_SECOND = -2 * 86_400
_LAST_SECOND = 7_258_118_400 + 2 * 86_400
# Beyond the listed transitions a rule of the TZ string goes on, two changes a year and at least a month apart.
_RULE_STEP_SECONDS = 14 * 86_400
_HEADER = struct.Struct(">4sc15x6l")


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One change of the offset: the instant, and what clocks show just before and at it, in local seconds."""

    at: int
    local_before: int
    local_after: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Zone:
    """A time zone in whole seconds since the epoch, from 1970 to 2199. One object per name; compare by identity."""

    name: str
    info: ZoneInfo
    starts: tuple[int, ...]
    """Where each segment begins; the first in the far past. One more entry in the far future ends the last one."""
    offsets: tuple[int, ...]
    """Seconds east of UTC, one per segment."""
    high_water: tuple[int, ...]
    """The local time that clocks had reached, exclusive, before each segment; never falls."""

    def segment(self, at: int) -> int:
        """The index of the segment that this instant lies in."""
        return bisect_right(self.starts, at) - 1

    def local_day(self, at: int) -> int:
        """The day that clocks show at this instant, counted since 1970-01-01."""
        return (at + self.offsets[self.segment(at)]) // 86_400

    def latest_local(self, at: int) -> int:
        """The latest local time that clocks have shown up to and including this instant."""
        index = bisect_right(self.starts, at) - 1
        return max(self.high_water[index] - 1, at + self.offsets[index])

    def first_instant(self, local: int) -> int:
        """The first instant at which the clock shows this local time or a later one."""
        index = bisect_right(self.high_water, local) - 1
        return max(self.starts[index], local - self.offsets[index])

    def transitions(self, after: int, until: int) -> Iterator[Transition]:
        """The changes of offset in (after, until], in order."""
        for index in range(self.segment(after) + 1, self.segment(until) + 1):
            start = self.starts[index]
            yield Transition(
                at=start, local_before=start + self.offsets[index - 1], local_after=start + self.offsets[index]
            )


@cache
def load_zone(name: str) -> Zone:
    """The zone of an IANA name, exactly as written there; read once. ScheduleError (``timezone``) for other text."""
    if name not in zone_names():
        raise _unknown(name)
    resource = files("tzdata").joinpath("zoneinfo", *name.split("/"))
    with resource.open("rb") as stream:
        info = ZoneInfo.from_file(stream, key=name)
    tzif = resource.read_bytes()
    listed = [at for at in _listed_transitions(tzif) if at > _FIRST_SECOND]
    # The TZ string at the end of the file: one with daylight saving, as CET-1CEST,M3.5.0,M10.5.0/3, has commas.
    has_rule = b"," in tzif[tzif.rindex(b"\n", 0, -1) :]
    ruled = _rule_transitions(info, since=max(listed, default=_FIRST_SECOND)) if has_rule else ()
    starts, offsets = _segments(info, (*listed, *ruled))
    return Zone(
        name=name,
        info=info,
        starts=(*starts, FAR_FUTURE),
        offsets=tuple(offsets),
        high_water=tuple(_high_water(starts, offsets)),
    )


@cache
def zone_names() -> frozenset[str]:
    """Every IANA name that the pinned tzdata package has."""
    return frozenset(files("tzdata").joinpath("zones").read_text(encoding="ascii").split())


def tzdata_version() -> str:
    """The IANA version of the pinned package, e.g. ``2026a``: to be the same on every worker."""
    return str(tzdata.IANA_VERSION)


def _unknown(name: str) -> ScheduleError:
    by_lowercase = {known.lower(): known for known in sorted(zone_names())}
    near = get_close_matches(shortened(name).lower(), by_lowercase, n=3, cutoff=0.6)
    nearest = ", ".join(by_lowercase[known] for known in near)
    remedy = f"did you mean {nearest}?" if near else "write an IANA name such as Europe/Berlin or UTC"
    return ScheduleError(field="timezone", text=shortened(name), message="is not a known time zone", remedy=remedy)


def _listed_transitions(tzif: bytes) -> list[int]:
    """The instants of the transitions that the file lists, out of its second, 64-bit block."""
    _, _, isutcnt, isstdcnt, leapcnt, timecnt, typecnt, charcnt = _HEADER.unpack_from(tzif)
    second_block = _HEADER.size + timecnt * 5 + typecnt * 6 + charcnt + leapcnt * 8 + isstdcnt + isutcnt
    timecnt = _HEADER.unpack_from(tzif, second_block)[5]
    return list(struct.unpack_from(f">{timecnt}q", tzif, second_block + _HEADER.size))


def _rule_transitions(info: ZoneInfo, *, since: int) -> Iterator[int]:
    """The instants after the last listed one at which the zone's yearly rule changes the offset."""
    before = _offset(info, since)
    for low in range(since, _LAST_SECOND, _RULE_STEP_SECONDS):
        after = _offset(info, low + _RULE_STEP_SECONDS)
        if after != before:
            yield _change_between(info, low, low + _RULE_STEP_SECONDS)
        before = after


def _change_between(info: ZoneInfo, low: int, high: int) -> int:
    """The one instant in (low, high] from which the offset is another."""
    before = _offset(info, low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _offset(info, middle) == before else (low, middle)
    return high


def _segments(info: ZoneInfo, changes: Iterable[int]) -> tuple[list[int], list[int]]:
    """Where the offset changes and what it is from there; the first segment reaches back into the far past."""
    starts, offsets = [FAR_PAST], [_offset(info, _FIRST_SECOND)]
    for at in changes:
        offset = _offset(info, at)
        # Many listed transitions change only the abbreviation or the daylight flag.
        if offset != offsets[-1]:
            starts.append(at)
            offsets.append(offset)
    return starts, offsets


def _high_water(starts: list[int], offsets: list[int]) -> Iterator[int]:
    water = FAR_PAST
    yield water
    for end, offset in zip(starts[1:], offsets, strict=False):
        water = max(water, end + offset)
        yield water


def _offset(info: ZoneInfo, at: int) -> int:
    offset = datetime.fromtimestamp(at, info).utcoffset()
    assert offset is not None, "a ZoneInfo always knows its offset"
    return round(offset.total_seconds())
