"""What a user should know about a schedule: why it is refused, the warnings of a save, and a preview of its fires.

Pure but for the words (``common.words.job_words``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from common.errors import Problem
from common.instants import from_ms, iso, to_ms
from common.jobs.job import TIMING, JobSpec
from common.schedules.schedule import Fire, Schedule, parse_cron, tzdata_version
from common.words.job_words import job_words
from common.words.phrases import DEFAULT
from manager.watch.blocked import BLOCKED_MS

__all__ = ["fire_view", "job_words", "mark_fault", "next_fire", "preview", "save_warnings", "schedule_problems"]

LOOKED_AT: Final = 10
"""How many of the next fires a warning about a change of the clocks considers."""
_SHOWN: Final = 3
_OR_PAUSED: Final = 'or save it with "enabled": false'


def schedule_problems(spec: JobSpec, *, now_ms: int) -> list[Problem]:
    """Why an enabled job with this schedule is refused: it would never fire again. The field is the one to mend."""
    if not spec.enabled or _fires_again(spec, now_ms):
        return []
    field, message, remedy = _why_never(spec, now_ms)
    return [Problem(field=field, message=message, remedy=f"{remedy}, {_OR_PAUSED}")]


def save_warnings(spec: JobSpec, *, now_ms: int, mark_ms: int | None, problem: str | None = None) -> tuple[str, ...]:
    """What the user should look at although the job is saved; `problem` is that of an unreadable value it replaced."""
    warnings = schedule_warnings(spec, now_ms=now_ms)
    if spec.enabled and spec.at is not None and mark_ms is not None and mark_ms >= spec.at.ms:
        # The mark never goes back: whether that fire ran or not was decided before this save.
        warnings = (f"nothing will fire: everything up to {iso(mark_ms)} is decided already, `at` with it",)
    fault = mark_fault(mark_ms, now_ms=now_ms)
    if fault is not None:
        warnings += (fault,)
    if problem is not None:
        warnings += (f"it replaced a value that was not a job ({problem})",)
    return warnings


def mark_fault(mark_ms: int | None, *, now_ms: int) -> str | None:
    """What is wrong with a mark that lies ahead; None where nothing is."""
    if mark_ms is None or mark_ms <= now_ms + BLOCKED_MS:
        return None
    why = "the job's mark lies there, as somebody's clock was ahead"
    return f"blocked until {iso(mark_ms)}: {why}; `etcron job unblock` sets it back"


def schedule_warnings(spec: JobSpec, *, now_ms: int) -> tuple[str, ...]:
    """Warnings about a valid schedule: it never fires, its day fields, its calendar, changes of the clocks."""
    if not _fires_again(spec, now_ms):
        field, message, _ = _why_never(spec, now_ms)
        if field == "cronExpr":
            return ("it never fires again: every fire of the expression is past",)
        return (f"it never fires again: {field} {message}" if field == "calendar" else f"{field}: {message}",)
    return tuple(dict.fromkeys(_looked_at(spec, now_ms)))


def preview(spec: JobSpec, n: int, *, now_ms: int, language: str = DEFAULT) -> dict[str, Any]:
    """The next `n` planned fires, whether the calendar lets each run, the schedule in words, and warnings."""
    schedule = spec.schedule
    shown = {name: value for name, value in spec.to_document().items() if name in TIMING}
    return shown | {
        "words": job_words(spec, language),
        "fires": [fire_view(fire, schedule) for fire in schedule.upcoming(from_ms(now_ms), n)],
        "warnings": list(schedule_warnings(spec, now_ms=now_ms)),
        "tzdata": tzdata_version(),
    }


def fire_view(fire: Fire, schedule: Schedule) -> dict[str, Any]:
    """One planned instant as JSON: in ms, in UTC, and in the job's zone with its offset; whether its day is open."""
    at_ms = to_ms(fire.at)
    return {
        "ms": at_ms, "utc": iso(at_ms), "local": fire.local.isoformat(), "note": fire.note,
        "open": schedule.is_open(at_ms),
    }  # fmt: skip


def next_fire(spec: JobSpec, *, after_ms: int) -> dict[str, Any] | None:
    """The first fire after an instant that runs, as JSON; None for a paused job and after the last one."""
    schedule = spec.schedule
    fires = schedule.open_fires.upcoming(from_ms(after_ms), 1) if spec.enabled else []
    return fire_view(fires[0], schedule) if fires else None


def _fires_again(spec: JobSpec, now_ms: int) -> bool:
    schedule = spec.schedule
    if spec.at_boot:
        return True
    if spec.after is not None:
        return schedule.opens_ms(now_ms) is not None
    # One instant is saved up to its grace late: a call for "now" is a moment late already.
    since_ms = now_ms if spec.at is None else now_ms - spec.misfire.grace_ms - 1
    return schedule.open_fires.next_after_ms(since_ms) is not None


def _why_never(spec: JobSpec, now_ms: int) -> tuple[str, str, str]:
    """(field, message, remedy) of a job that never fires again."""
    if spec.at is not None:
        if spec.at.ms < now_ms - spec.misfire.grace_ms:
            return "at", f"{spec.at.text!r} is past by more than its grace", "name a time to come"
        return "calendar", f"leaves out the only fire, at {iso(spec.at.ms)}", "name other days"
    if spec.end_at is not None and spec.end_at.ms <= now_ms:
        return "endAt", f"{spec.end_at.text!r} is past: it never fires again", "name a time to come"
    if spec.after is not None or spec.schedule.next_after_ms(now_ms) is not None:
        return "calendar", "leaves out every fire that is still to come", "name other days"
    if spec.end_at is not None and spec.trigger.next_after_ms(now_ms) is not None:
        since = "now" if spec.start_at is None else "startAt"
        return "endAt", f"never fires: no fire lies between {since} and {spec.end_at.text!r}", "name a later time"
    if spec.start_at is not None and spec.trigger.next_after_ms(now_ms) is not None:
        return "startAt", f"never fires: no fire follows {spec.start_at.text!r}", "name an earlier time"
    last_ms = spec.schedule.last_before_ms(now_ms + 1)
    message = "never fires" if last_ms is None else f"never fires again: its last fire was {iso(last_ms)}"
    if spec.every is not None:
        return "every", f"{spec.every.text!r} {message}", "name a shorter span"
    exprs = " and ".join(repr(expr) for expr in spec.cron_exprs[:_SHOWN])
    return "cronExpr", f"{exprs} {message}", "name a year to come (or * for every year)"


def _looked_at(spec: JobSpec, now_ms: int) -> Iterator[str]:
    if spec.at is not None and spec.at.ms <= now_ms:
        yield f"`at` {spec.at.text!r} is past by less than its grace: it fires at once"
    for expr in () if spec.at_boot else spec.cron_exprs:
        alone = parse_cron(expr, timezone=spec.timezone, job=spec.name)
        fires = alone.upcoming(from_ms(now_ms), _SHOWN)
        of = f"{expr!r}: " if len(spec.cron_exprs) > 1 else ""
        if not fires:
            yield f"{of}it never fires again: every fire of the expression is past"
        elif alone.both_days_restricted:
            shown = ", ".join(f"{fire.local:%a %Y-%m-%d %H:%M:%S}" for fire in fires)
            yield f"{of}both day fields are restricted, so a day fires when either matches; the next fires: {shown}"
    schedule = spec.schedule
    planned = schedule.upcoming(from_ms(now_ms), LOOKED_AT)
    if planned and not any(schedule.is_open(to_ms(fire.at)) for fire in planned):
        first_ms = schedule.open_fires.next_after_ms(now_ms)
        assert first_ms is not None, "it fires again"
        yield f"the calendar closes all of the next {len(planned)} fires: the first that runs is {iso(first_ms)}"
    for fire in planned:
        if fire.note is not None and schedule.is_open(to_ms(fire.at)):
            yield fire.note
