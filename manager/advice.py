"""What a user should know about a schedule: why it is refused, the warnings of a save, and a preview of its fires.

Pure but for the words of the preview (``common.describe``).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from common.describe import describe
from common.errors import InvalidInputError, Problem, ScheduleError
from common.instants import from_ms, iso, to_ms
from common.job import JobSpec
from common.schedule import CronSchedule, Fire, parse_cron, tzdata_version

LOOKED_AT: Final = 10
"""How many of the next fires a warning about a change of the clocks considers."""
_SHOWN: Final = 3
MARK_FAULT_MS: Final = 86_400_000
"""A mark further ahead than a day is a fault (somebody's clock was wrong): nothing fires until then."""


def schedule_problems(spec: JobSpec, *, now_ms: int) -> list[Problem]:
    """Why an enabled job with this schedule is refused: it would never fire again."""
    if not spec.enabled or spec.schedule.next_after_ms(now_ms) is not None:
        return []
    last_ms = spec.schedule.last_before_ms(now_ms + 1)
    message = "never fires" if last_ms is None else f"never fires again: its last fire was {iso(last_ms)}"
    remedy = 'name a year to come (or * for every year), or save it with "enabled": false'
    return [Problem(field="cronExpr", message=f"{spec.cron_exprs[0]!r} {message}", remedy=remedy)]


def save_warnings(spec: JobSpec, *, now_ms: int, mark_ms: int | None, problem: str | None = None) -> tuple[str, ...]:
    """What the user should look at although the job is saved; `problem` is that of an unreadable value it replaced."""
    warnings = schedule_warnings(spec.cron_exprs[0], spec.timezone, spec.name, now_ms=now_ms)
    fault = mark_fault(mark_ms, now_ms=now_ms)
    if fault is not None:
        warnings += (fault,)
    if problem is not None:
        warnings += (f"it replaced a value that was not a job ({problem})",)
    return warnings


def mark_fault(mark_ms: int | None, *, now_ms: int) -> str | None:
    """What is wrong with a mark that lies in a far future; None where nothing is."""
    if mark_ms is None or mark_ms <= now_ms + MARK_FAULT_MS:
        return None
    return f"nothing fires before {iso(mark_ms)}: the job's mark lies there; `etcron job unblock` sets it back"


def schedule_warnings(expr: str, timezone: str, job: str, *, now_ms: int) -> tuple[str, ...]:
    """Warnings about a valid expression: it never fires, its day fields, changes of the clocks among its next fires."""
    schedule = parse_cron(expr, timezone=timezone, job=job)
    fires = schedule.upcoming(from_ms(now_ms), LOOKED_AT)
    if not fires:
        return ("it never fires again: every fire of the expression is past",)
    warnings = [fire.note for fire in fires if fire.note is not None]
    if schedule.both_days_restricted:
        warnings.append(_both_days(fires))
    return tuple(dict.fromkeys(warnings))


def preview(expr: str, timezone: str, n: int, *, job: str, now_ms: int) -> dict[str, Any]:
    """The next `n` fires, the expression in words, and warnings; InvalidInputError where it is not valid."""
    schedule = _parsed(expr, timezone, job)
    fires = schedule.upcoming(from_ms(now_ms), n)
    return {
        "cronExpr": expr,
        "timezone": timezone,
        "words": words(expr),
        "fires": [fire_view(fire) for fire in fires],
        "warnings": list(schedule_warnings(expr, timezone, job, now_ms=now_ms)),
        "tzdata": tzdata_version(),
    }


def fire_view(fire: Fire) -> dict[str, Any]:
    """One planned instant as JSON: in ms, in UTC, and in the job's zone with its offset."""
    at_ms = to_ms(fire.at)
    return {"ms": at_ms, "utc": iso(at_ms), "local": fire.local.isoformat(), "note": fire.note}


def next_fire(spec: JobSpec, *, after_ms: int) -> dict[str, Any] | None:
    """The first fire after an instant as JSON; None for a paused job and after the last one."""
    fires = spec.schedule.upcoming(from_ms(after_ms), 1) if spec.enabled else []
    return fire_view(fires[0]) if fires else None


@lru_cache(maxsize=4_096)
def words(expr: str) -> str:
    """An expression in words, or the expression itself; a page has many, and most jobs share a few."""
    return describe(expr)


def _parsed(expr: str, timezone: str, job: str) -> CronSchedule:
    try:
        return parse_cron(expr, timezone=timezone, job=job)
    except ScheduleError as error:
        field = "timezone" if error.field == "timezone" else "cronExpr"
        where = f"{error.text!r} " if field == "timezone" else f"{error.field} {error.text!r}: "
        raise InvalidInputError([Problem(field=field, message=where + error.message, remedy=error.remedy)]) from error


def _both_days(fires: list[Fire]) -> str:
    shown = ", ".join(f"{fire.local:%a %Y-%m-%d %H:%M:%S}" for fire in fires[:_SHOWN])
    return f"both day fields are restricted, so a day fires when either matches; the next fires: {shown}"
