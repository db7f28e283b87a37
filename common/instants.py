"""An instant in its three spellings: aware UTC datetime inside, integer milliseconds at the edges, ISO 8601 for people.

Pure: standard library only.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

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
