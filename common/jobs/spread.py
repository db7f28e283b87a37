"""Jobs that fire together, apart: each at a minute of its own, or a little later by jitter. Pure: no clock, no I/O."""

from __future__ import annotations

import re
from dataclasses import replace
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b
from itertools import combinations
from math import prod

from common.instants import parse_duration
from common.jobs.job import JobSpec
from common.schedules.cron import Cron, parse, seven_fields

_SINGLE = re.compile(r"[0-9]{1,2}")
_STEPS = re.compile(r"(\*|[0-9]{1,2})/([0-9]{1,2})")


class SpreadBy(StrEnum):
    """How fires are put apart."""

    MINUTE = "minute"
    """At a minute that the job's name gives: `H`, or of an interval its offset."""
    JITTER = "jitter"
    """Each fire up to so many seconds later."""


def spread(spec: JobSpec, by: SpreadBy, jitter_s: int) -> JobSpec:
    """The job with other times, or with jitter, and as many fires; unchanged where it has these or cannot have them."""
    if spec.at is not None or spec.after is not None or spec.at_boot:
        return spec
    if by is SpreadBy.JITTER:
        return replace(spec, jitter_s=max(jitter_s, spec.jitter_s))
    if spec.every is None:
        exprs = _apart(spec)
        return spec if exprs == spec.cron_exprs else replace(spec, cron_exprs=exprs)
    minutes = spec.every.ms // 60_000
    if spec.offset is not None or minutes < 2:
        return spec
    place = int.from_bytes(blake2b(spec.name.encode(), digest_size=8).digest()) % minutes
    return replace(spec, offset=parse_duration(f"{place}m")) if place else spec


def suggests_spread(spec: JobSpec) -> bool:
    """Whether a minute of its own would set it apart from other jobs, and no user has chosen the one that it has.

    Chosen are a second, and a minute that no multiple of five is: a user who takes `17 2 * * *` means it.
    """
    if spec.every is not None:
        return spread(spec, SpreadBy.MINUTE, 0) is not spec
    exprs = () if spec.at_boot else spec.cron_exprs
    return bool(exprs) and not any(map(_is_chosen, exprs)) and _apart(spec) != exprs


def _apart(spec: JobSpec) -> tuple[str, ...]:
    """Its expressions, hashed; as they are where two would then have more fires in common: two at once are one."""
    exprs = tuple(map(_hashed, spec.cron_exprs))
    if len(exprs) < 2 or exprs == spec.cron_exprs:
        return exprs
    would = list(combinations([parse(expr, spec.name) for expr in exprs], 2))
    if not any(_common(*pair) for pair in would):
        return exprs
    was = combinations([parse(expr, spec.name) for expr in spec.cron_exprs], 2)
    meet = any(_common(*then) > _common(*now) for then, now in zip(would, was, strict=True))
    return spec.cron_exprs if meet else exprs


def _common(one: Cron, other: Cron) -> int:
    """How many fires both have, on a clock that never changes."""
    times = (one.seconds & other.seconds, one.minutes & other.minutes, one.hours & other.hours)
    of_day = prod(mask.bit_count() for mask in times)
    return of_day and of_day * (one.days & other.days).bits.bit_count()


@lru_cache(maxsize=4096)
def _is_chosen(expr: str) -> bool:
    second, minute, *_ = seven_fields(expr)
    return second not in ("0", "*") or (_SINGLE.fullmatch(minute) is not None and int(minute) % 5 != 0)


@lru_cache(maxsize=4096)
def _hashed(expr: str) -> str:
    """With its minute, or of one that fires each minute its second, taken from the job's name."""
    second, minute, hour, *days, year = seven_fields(expr)
    if _SINGLE.fullmatch(minute):
        minute = "H"
    elif minute == "*" and _SINGLE.fullmatch(second):
        second = "H"
    elif hour.startswith("*") and (steps := _evenly(minute)):
        # At other hours `*` and `H` meet changes of the clocks in different ways.
        minute = f"H/{steps}"
    else:
        return expr
    return " ".join([minute, hour, *days] if second == "0" and year == "*" else [second, minute, hour, *days, year])


def _evenly(minute: str) -> int | None:
    """Each how many minutes it fires, all through an hour and on into the next one; None where it does not."""
    if (form := _STEPS.fullmatch(minute)) is None:
        return None
    first, steps = int(form[1].replace("*", "0")), int(form[2])
    return steps if first < steps and 60 % steps == 0 else None
