"""`etcron cron`: what an expression means, and when it fires. Offline: no server is asked."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cli.arguments import Parser, add_command, add_group, add_output, count
from cli.errors import CommandError, ExitStatus
from cli.printing import print_json, print_pairs, tell, warn
from cli.times import parse_iso
from common.clock import SystemClock
from common.errors import ScheduleError
from common.instants import from_ms, iso, to_ms
from common.schedules.cron import BOTH, seven_fields, uses_hash
from common.schedules.cron_fields import (
    DAY,
    FIELDS,
    MONTH,
    WEEKDAY,
    CronField,
    DayOfMonthRule,
    DayOfWeekRule,
    parse_day_of_month,
    parse_day_of_week,
    parse_mask,
    values_of,
)
from common.schedules.schedule import CronSchedule, Fire, parse_cron, tzdata_version
from common.schedules.zones import load_zone

_EXPLAINED: Final = 5
_NAMELESS: Final = "H takes its value from the job's name: name the job with --job to see when it fires"
_MAX_FIRES: Final = 10_000
_A_YEAR: Final = 400
_MONTHS: Final = (
    "", "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_WEEKDAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_NTH: Final = ("", "first", "second", "third", "fourth", "fifth")
_LISTED: Final = 8
"""So many values are named one by one; of more, the first three and the last."""


def parser() -> Parser:
    """The command line of the group."""
    group, verbs = add_group("etcron cron", "What a cron expression means, and when it fires. No server is needed.")
    explain = add_command(
        verbs, "explain", _explain, does="explain an expression field by field, with its next fires and its pitfalls",
        examples=(
            "etcron cron explain '0 30 2 * * MON-FRI *' --tz Europe/Berlin",
            "etcron cron explain 'H H(1-5) * * *' --job backup",
        ),
    )  # fmt: skip
    following = add_command(
        verbs, "next", _next, does="list the next fires, with their offset from UTC",
        examples=(
            "etcron cron next '*/15 9-17 * * 1-5' -n 20 --tz Europe/Berlin",
            "etcron cron next '@daily' --from 2026-03-28T12:00:00Z --tz Europe/Berlin",
        ),
    )  # fmt: skip
    for command in (explain, following):
        command.add_argument("expr", metavar="EXPR", help="seven fields, a crontab's five, or a macro; in quotes")
        command.add_argument("--tz", default="UTC", metavar="ZONE", help="IANA time zone (UTC)")
        command.add_argument("--job", default="", metavar="NAME", help="the job's name, from which H takes its value")
        command.add_argument(
            "--from", dest="after", metavar="ISO", help="fires later than this; without an offset in that zone (now)"
        )
        add_output(command)
    following.add_argument("-n", type=count(1, _MAX_FIRES), default=10, metavar="N", help="how many (10)")
    return group


def _next(arguments: argparse.Namespace) -> int:
    schedule, after = _schedule(arguments), _after(arguments)
    if _is_nameless(arguments):
        raise CommandError(_NAMELESS, ExitStatus.USAGE)
    fires = schedule.upcoming(after, arguments.n)
    if arguments.output == "json":
        print_json([_fire_document(fire) for fire in fires])
        return ExitStatus.OK if fires else ExitStatus.NO
    for fire in fires:
        tell(_line(fire))
    return _ended(fires, after)


def _explain(arguments: argparse.Namespace) -> int:
    from common.words.describe import describe

    schedule, after, is_nameless = _schedule(arguments), _after(arguments), _is_nameless(arguments)
    fires = [] if is_nameless else schedule.upcoming(after, _EXPLAINED)
    fields, words = field_words(arguments.expr, arguments.job), describe(arguments.expr, job=arguments.job)
    warnings = _warnings(schedule, None if is_nameless else after)
    if arguments.output == "json":
        print_json({
            "cronExpr": arguments.expr, "timezone": arguments.tz, "words": words,
            "fields": [{"name": name, "text": text, "words": meaning} for name, text, meaning in fields],
            "fixedTime": schedule.is_fixed_time, "fires": [_fire_document(fire) for fire in fires],
            "warnings": warnings, "tzdata": tzdata_version(),
        })  # fmt: skip
        return ExitStatus.OK if fires or is_nameless else ExitStatus.NO
    tell(words if words != arguments.expr else f"{arguments.expr}  (H is said with --job: see the fields)")
    tell()
    width = max(len(text) for _, text, _ in fields)
    print_pairs((name, f"{text:<{width}}  {meaning}") for name, text, meaning in fields)
    if not is_nameless:
        tell()
        tell(f"next fires ({arguments.tz}):")
    for fire in fires:
        tell(f"  {_line(fire)}")
    warn(warnings)
    return ExitStatus.OK if is_nameless else _ended(fires, after)


def _is_nameless(arguments: argparse.Namespace) -> bool:
    """Whether it fires at other times for each job, and no job is named."""
    return uses_hash(arguments.expr) and not arguments.job


def _schedule(arguments: argparse.Namespace) -> CronSchedule:
    try:
        return parse_cron(arguments.expr, timezone=arguments.tz, job=arguments.job)
    except ScheduleError as error:
        is_zone = error.field == "timezone"
        message = f"--tz: {error.text!r} {error.message}; {error.remedy}" if is_zone else str(error)
        raise CommandError(message, ExitStatus.USAGE if is_zone else ExitStatus.REFUSED) from error


def _after(arguments: argparse.Namespace) -> datetime:
    if arguments.after is None:
        return from_ms(SystemClock().wall_ms())
    return parse_iso("--from", arguments.after, zone=load_zone(arguments.tz).info).astimezone(UTC)


def _warnings(schedule: CronSchedule, after: datetime | None) -> list[str]:
    """What to look out for: day fields, `H` without a name, changes of the clocks; `after` is None without a name."""
    warnings = [_NAMELESS] if after is None else []
    if schedule.both_days_restricted:
        warnings.append("both day fields are restricted, so a day fires when either matches (not when both do)")
    if schedule.timezone != "UTC":
        rule = (
            "fixed times: one that the clocks jump over runs right after, one that comes twice runs the first time"
            if schedule.is_fixed_time
            else "real time: nothing runs in an hour that the clocks jump over, both passes of one that comes twice run"
        )
        warnings.append(f"when the clocks change, {rule}")
    if schedule.timezone != "UTC" and after is not None:
        # What they do to the fires of about a year; of a busy schedule, to those of the next hours.
        fires = (fire for fire in schedule.upcoming(after, _A_YEAR) if fire.at - after <= timedelta(days=_A_YEAR))
        warnings += list(dict.fromkeys(fire.note for fire in fires if fire.note is not None))[:4]
    return warnings


def _fire_document(fire: Fire) -> dict[str, Any]:
    at_ms = to_ms(fire.at)
    return {"ms": at_ms, "utc": iso(at_ms), "local": fire.local.isoformat(), "note": fire.note}


def _line(fire: Fire) -> str:
    line = f"{fire.local:%a} {fire.local.isoformat(sep=' ')}"
    return f"{line}  ({fire.note})" if fire.note else line


def _ended(fires: list[Fire], after: datetime) -> int:
    """No fire: the command's own no, with the reason."""
    if fires:
        return ExitStatus.OK
    raise CommandError(f"it never fires after {after:%Y-%m-%d %H:%M:%S} UTC; name a year to come, or * for every year")


# Each field in words, with the values that it stands for taken from the engine's own masks: so the words are true by
# construction. A step is described by its values, not as "every n", which is only true where n divides the cycle.


def field_words(expr: str, job: str) -> list[tuple[str, str, str]]:
    """(name of the field, its text, its words) for each of the seven; ScheduleError where it is not valid.

    `job`: the name from which `H` takes its value; empty: the words say that there is none yet.
    """
    texts = seven_fields(expr)
    return [(field.name, text, _words(field, text.upper(), job)) for field, text in zip(FIELDS, texts, strict=True)]


def _words(field: CronField, text: str, job: str) -> str:
    if field is WEEKDAY and text.startswith(BOTH):
        words = _words(field, text.removeprefix(BOTH), job)
        return words if words == "any" else f"and also {words}"
    if text in ("*", "?"):
        return "any"
    hashed = any(item.startswith("H") for item in text.split(","))
    if hashed and not job:
        return "a fixed value that comes from the job's name (--job NAME shows which)"
    if field is DAY:
        words = _day_words(parse_day_of_month(text, job))
    elif field is WEEKDAY:
        words = _weekday_words(parse_day_of_week(text, job))
    else:
        words = _values(field, parse_mask(field, text, job))
    return f"{words}  (from the name {job})" if hashed else words


def _day_words(rule: DayOfMonthRule) -> str:
    words = [_values(DAY, rule.plain)] if rule.plain else []
    for before in values_of(rule.before_last):
        last = "the last day of the month"
        words.append(f"{before} day{'' if before == 1 else 's'} before {last}" if before else last)
    words += [f"the weekday (Monday to Friday) nearest to day {day}" for day in values_of(rule.nearest)]
    if rule.last_weekday:
        words.append("the last weekday (Monday to Friday) of the month")
    return ", ".join(words)


def _weekday_words(rule: DayOfWeekRule) -> str:
    words = [_values(WEEKDAY, rule.plain)] if rule.plain else []
    words += [f"the last {_WEEKDAYS[day]} of the month" for day in values_of(rule.last)]
    words += [f"the {_NTH[nth]} {_WEEKDAYS[day]} of the month" for day, nth in sorted(rule.nth)]
    return ", ".join(words)


def _values(field: CronField, mask: int) -> str:
    """The values of a mask: as a range where they follow one another, else listed."""
    values = [value + field.base for value in values_of(mask)]
    if len(values) == field.cycle:
        return "any"
    names = [_name(field, value) for value in values]
    if len(values) > 2 and values[-1] - values[0] == len(values) - 1:
        return f"{names[0]} to {names[-1]}"
    if len(values) <= _LISTED:
        return ", ".join(names)
    return f"{', '.join(names[:3])}, ... {names[-1]}  ({len(values)} values)"


def _name(field: CronField, value: int) -> str:
    if field is MONTH:
        return _MONTHS[value]
    return _WEEKDAYS[value] if field is WEEKDAY else str(value)
