"""An instant in its three spellings: aware UTC datetime inside, integer milliseconds at the edges, ISO 8601 as text.

And a span of time as a user writes it: ``90s``, ``15m``, ``1h30m``. Pure: standard library only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def to_ms(moment: datetime) -> int:
    """Milliseconds since the epoch of an aware datetime; fractions of a millisecond are cut off."""
    return (moment - _EPOCH) // _MILLISECOND


def first_ms(moment: datetime) -> int:
    """The first whole millisecond since the epoch that is not before an aware datetime: when it may start."""
    return -((_EPOCH - moment) // _MILLISECOND)


def from_ms(epoch_ms: int) -> datetime:
    """The aware UTC datetime of milliseconds since the epoch."""
    return _EPOCH + timedelta(milliseconds=epoch_ms)


def iso(epoch_ms: int) -> str:
    """ISO 8601 in UTC with milliseconds, e.g. ``2026-03-29T01:00:00.000Z``."""
    return from_ms(epoch_ms).strftime("%Y-%m-%dT%H:%M:%S.") + f"{epoch_ms % 1000:03d}Z"


_FORM = re.compile(r"(?:(\d{1,9})w)?(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?", re.ASCII)
_UNITS_MS: Final = (604_800_000, 86_400_000, 3_600_000, 60_000, 1000)
MAX_DURATION_MS: Final = 366 * 86_400_000


@dataclass(frozen=True, slots=True)
class Duration:
    """A span of whole seconds, and the text that it was given as."""

    text: str
    ms: int

    def __str__(self) -> str:
        return self.text


def parse_duration(text: str) -> Duration:
    """The span in ``text``, from 0 s to 366 days; ValueError whose text completes "needed: ...", where it is none."""
    match = _FORM.fullmatch(text)
    if match is None or not text:
        raise ValueError("a span such as 90s, 15m, 1h30m or 1d, its units from w, d, h, m, s in this order")
    ms = sum(int(number) * unit for number, unit in zip(match.groups(), _UNITS_MS, strict=True) if number)
    if ms > MAX_DURATION_MS:
        raise ValueError("a span of at most 366d")
    return Duration(text, ms)
