"""Instants and durations, as people read and write them on a command line."""

from __future__ import annotations

import contextlib
import os
import re
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Final

from cli.errors import CommandError, ExitStatus

_AGO: Final = re.compile(r"(?P<number>[0-9]{1,6})(?P<unit>[smhd])")
_ZONEINFO: Final = "/zoneinfo/"
_ETC: Final = Path("/etc")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def local(ms: int | None) -> str:
    """An instant in this machine's time zone with its offset, e.g. ``2026-03-29 03:00:00+02:00``; ``-`` for none."""
    if ms is None:
        return "-"
    try:
        return datetime.fromtimestamp(ms // 1000, UTC).astimezone().isoformat(sep=" ")
    except (OverflowError, OSError, ValueError):
        return f"{ms} ms"


def took(start_ms: int | None, end_ms: int | None) -> str:
    """How long something took; ``-`` where it is not known."""
    if start_ms is None or end_ms is None:
        return "-"
    seconds = max(0, end_ms - start_ms) / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def instant(option: str, text: str | None, *, now: datetime) -> str | None:
    """An instant for a query: ISO 8601 (in this machine's zone where it has no offset), or ``2h`` for so long ago."""
    if text is None:
        return None
    moment = None
    if match := _AGO.fullmatch(text):
        with contextlib.suppress(OverflowError):  # before the year 1
            moment = now - timedelta(seconds=int(match["number"]) * _UNITS[match["unit"]])
    if moment is None:
        moment = parse_iso(option, text)
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def parse_iso(option: str, text: str, *, zone: tzinfo | None = None) -> datetime:
    """ISO 8601; in ``zone`` (None: this machine's) where it has no offset."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone()
    except (ValueError, OverflowError, OSError) as error:
        message = f"{option}: {text!r} is not a time; write it as 2026-03-29T01:00:00Z"
        raise CommandError(message, ExitStatus.USAGE) from error


def machine_timezone(etc: Path = _ETC) -> tuple[str, str]:
    """(the zone by which this machine's cron counts, where that was found). CommandError: it is not known.

    The variable TZ is not looked at: it is this user's, and cron runs without it.
    """
    localtime, timezone = etc / "localtime", etc / "timezone"
    if not localtime.exists():
        return "UTC", f"there is no {localtime}; --tz names another"
    target = os.path.realpath(localtime)
    if _ZONEINFO in target:
        zone = target.partition(_ZONEINFO)[2].removeprefix("posix/").removeprefix("right/")
        return zone, f"{localtime}; --tz names another"
    try:
        return timezone.read_text().strip(), f"{timezone}; --tz names another"
    except (OSError, ValueError) as error:
        message = f"--tz: {localtime} does not say which time zone this machine's cron counts by; name it with --tz"
        raise CommandError(message, ExitStatus.USAGE) from error
