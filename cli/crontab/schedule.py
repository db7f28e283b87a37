"""When an entry of a crontab fires, as an expression of ours; what means something else here is refused. Pure."""

from __future__ import annotations

import re
from typing import Final

_STEP_FROM: Final = re.compile(r"(?:^|,)(?P<item>(?:[0-9]+|[A-Za-z]{3})/(?P<step>[0-9]+))(?:,|$)")
_RANDOM: Final = "~"


class RefusedError(Exception):
    """The line cannot be told truly. The text is the reason, and what to do instead."""


def expression(when: str) -> str:
    """Seven fields for five, or the macro as it is. RefusedError with the reason. Syntax is left to the engine."""
    if when.startswith("@"):
        return _macro(when)
    minute, hour, day, month, weekday = fields = when.split()
    for field in fields:
        _check_field(field)
    if day != "*" and weekday != "*" and (day.startswith("*") or weekday.startswith("*")):
        raise RefusedError(
            f"day-of-month {day} and day-of-week {weekday}: cron takes days that match both where one begins with *, "
            "etcron those that match either; write it with one of the two, and let the command check the other"
        )
    return f"0 {minute} {hour} {day} {month} {weekday} *"


def _macro(when: str) -> str:
    if when.lower() == "@reboot":
        raise RefusedError(
            "@reboot has no equal: a job belongs to no machine, so there is no start to wait for; start it with the "
            "machine itself (a systemd unit)"
        )
    return when.lower()


def _check_field(field: str) -> None:
    if match := _STEP_FROM.search(field):
        start = match["item"].split("/")[0]
        raise RefusedError(
            f"{match['item']} is {start} alone to most crons, and from {start} on every {match['step']} to etcron; "
            f"write {start} or {start}-<last>/{match['step']}"
        )
    if _RANDOM in field:
        raise RefusedError(f"{field}: a random value is H here (the same each day, spread by name); write H or H(a-b)")
