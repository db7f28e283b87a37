"""When a job fires, as a whole: one trigger, read in the job's zone, and what may stand beside it.

Pure: standard library and its neighbours. Source: ``docs/job-model.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from common.errors import ScheduleError
from common.jobs.fields import TRIGGERS
from common.jobs.job import Overlap
from common.jobs.reading import Faults, FieldError, shown
from common.schedules.moment import Moment, parse_moment
from common.schedules.schedule import parse_cron

_MOMENTS = {"at": "at", "startAt": "start_at", "endAt": "end_at"}


def check_timing(faults: Faults, said: Mapping[str, Any], values: dict[str, Any]) -> None:
    """Read what needs the zone, in place, and note what does not go together.

    ``said``: the document's members that are not null; ``values``: those that were read, by attribute.
    """
    timezone = values.get("timezone") or "UTC"
    _check_one_trigger(faults, [name for name in TRIGGERS if name in said])
    _check_expressions(faults, said, values, timezone)
    for name, attribute in _MOMENTS.items():
        if values.get(attribute) is not None:
            read = partial(_moment, timezone=timezone, is_end=name == "endAt")
            values[attribute] = faults.take(name, read, values[attribute])
    _check_window(faults, said, values)
    _check_offset(faults, said, values)
    _check_after(faults, said, values)


def _check_one_trigger(faults: Faults, given: list[str]) -> None:
    *others, last = TRIGGERS
    if not given:
        faults.add(TRIGGERS[0], "is missing", f"needed: one of {', '.join(others)} or {last}, to say when it runs")
    elif len(given) > 1:
        rest = " and ".join(given[1:])
        faults.add(given[0], f"stands beside {rest}", f"keep one of {', '.join(given)}: a job has one trigger")


def _check_expressions(faults: Faults, said: Mapping[str, Any], values: Mapping[str, Any], timezone: str) -> None:
    exprs = values.get("cron_exprs") or ()
    for index, expr in enumerate(exprs):
        path = f"cronExpr[{index}]" if isinstance(said["cronExpr"], list) else "cronExpr"
        with faults.at(path):
            _check_expression(expr, timezone, values.get("name") or "")


def _check_expression(expr: str, timezone: str, name: str) -> None:
    try:
        parse_cron(expr, timezone=timezone, job=name)
    except ScheduleError as error:
        raise FieldError(f"{error.field} {error.text!r}: {error.message}", error.remedy) from error


def _moment(text: str, *, timezone: str, is_end: bool) -> Moment:
    try:
        return parse_moment(text, timezone, is_end=is_end)
    except (ValueError, OverflowError) as error:
        raise FieldError(f"is {shown(text)}", f"needed: {error}") from error


def _check_window(faults: Faults, said: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    for name in ("startAt", "endAt"):
        if name in said and "at" in said:
            faults.add(name, "stands beside at, which fires once", "leave it out")
    start, end = values.get("start_at"), values.get("end_at")
    if start is not None and end is not None and end.ms <= start.ms:
        faults.add("endAt", f"is {shown(end.text)}, not after startAt {shown(start.text)}", "needed: a later time")


def _check_offset(faults: Faults, said: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    offset, every = values.get("offset"), values.get("every")
    if "offset" in said and "every" not in said:
        faults.add("offset", "stands without every", "leave it out, or give every, e.g. 15m")
    elif offset is not None and every is not None and offset.ms >= every.ms:
        faults.add("offset", f"is {shown(offset.text)}, not below every {shown(every.text)}", "needed: a shorter span")


def _check_after(faults: Faults, said: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    if "after" not in said:
        return
    overlap = values.get("overlap") or Overlap.SKIP
    if overlap is not Overlap.SKIP:
        faults.add("overlap", f"is {shown(str(overlap))} beside after, whose runs never meet", "leave it out, or skip")
    if values.get("jitter_s"):
        faults.add("jitterSeconds", f"is {values['jitter_s']} beside after, which keeps its delay", "leave it out")
    if values.get("broadcast"):
        faults.add("broadcast", "is true beside after", "leave one of them out: use every for all workers")
