"""What may stand beside what: one trigger, and what each of them rules out.

Pure: standard library and its neighbours. Source: ``docs/reference/job-model.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from common.errors import Problem
from common.jobs.job import TRIGGERS, JobSpec, Overlap
from common.jobs.kinds import Schema
from common.jobs.reading import shown
from common.jobs.values import REBOOT

RULED_OUT: Final[Mapping[str, tuple[str, ...]]] = {
    "after": ("overlap", "jitterSeconds", "broadcast"), "at": ("startAt", "endAt"),
}  # fmt: skip
"""The fields that have to keep their defaults beside a trigger."""


def clashes(given: Mapping[str, Any], spec: JobSpec) -> Iterator[Problem]:
    """Which fields do not go together.

    ``given``: the document's members that are not null; ``spec``: what was read of them, else the defaults.
    """
    triggers, (*others, last) = [name for name in TRIGGERS if name in given], TRIGGERS
    if not triggers:
        remedy = f"needed: one of {', '.join(others)} or {last}, to say when it runs"
        yield Problem(field=TRIGGERS[0], message="is missing", remedy=remedy)
    elif len(triggers) > 1:
        remedy = f"keep one of {', '.join(triggers)}: a job has one trigger"
        yield Problem(field=triggers[0], message=f"stands beside {' and '.join(triggers[1:])}", remedy=remedy)
    for name in ("startAt", "endAt"):
        if name in given and "at" in given:
            yield Problem(field=name, message="stands beside at, which fires once", remedy="leave it out")
    start, end = spec.start_at, spec.end_at
    if start is not None and end is not None and end.ms <= start.ms:
        message = f"is {shown(end.text)}, not after startAt {shown(start.text)}"
        yield Problem(field="endAt", message=message, remedy="needed: a later time")
    if "offset" in given and "every" not in given:
        yield Problem(field="offset", message="stands without every", remedy="leave it out, or give every, e.g. 15m")
    elif spec.offset is not None and spec.every is not None and spec.offset.ms >= spec.every.ms:
        message = f"is {shown(spec.offset.text)}, not below every {shown(spec.every.text)}"
        yield Problem(field="offset", message=message, remedy="needed: a shorter span")
    if "after" in given:
        yield from _beside_after(spec)
    if REBOOT in spec.cron_exprs:
        yield from _beside_reboot(spec, given)


def rules() -> list[Schema]:
    """The same for JSON Schema, as far as it can say it: the triggers, each with what it rules out."""
    plain = JobSpec.defaults()
    return [
        {
            "required": [trigger],
            "properties": {
                **{other: {"type": "null"} for other in TRIGGERS if other != trigger},
                **({"offset": {"type": "null"}} if trigger != "every" else {}),
                **{field: {"enum": [plain[field], None]} for field in RULED_OUT.get(trigger, ())},
                trigger: {"not": {"type": "null"}},
            },
        }
        for trigger in TRIGGERS
    ]


def _beside_reboot(spec: JobSpec, given: Mapping[str, Any]) -> Iterator[Problem]:
    if len(spec.cron_exprs) > 1:
        message = "has @reboot beside other expressions"
        yield Problem(field="cronExpr", message=message, remedy="make a job of its own of it")
    if not spec.broadcast:
        remedy = "needed: true, as it runs on each machine that `workers` chooses"
        yield Problem(field="broadcast", message="is false beside @reboot", remedy=remedy)
    for name in ("startAt", "endAt", "calendar", "jitterSeconds"):
        if given.get(name):
            yield Problem(field=name, message="stands beside @reboot, which is at no time", remedy="leave it out")


def _beside_after(spec: JobSpec) -> Iterator[Problem]:
    if spec.overlap is not Overlap.SKIP:
        message = f"is {shown(str(spec.overlap))} beside after, whose runs never meet"
        yield Problem(field="overlap", message=message, remedy="leave it out, or skip")
    if spec.jitter_s:
        message = f"is {spec.jitter_s} beside after, which keeps its delay"
        yield Problem(field="jitterSeconds", message=message, remedy="leave it out")
    if spec.broadcast:
        remedy = "leave one of them out: use every for all workers"
        yield Problem(field="broadcast", message="is true beside after", remedy=remedy)
