"""A job as JSON Schema (2020-12): what the reader takes, from the same definition.

What JSON Schema cannot say is refused by the reader alone: dates and instants that do not exist, the numbers within a
cron expression, spans beyond 366 days, an ``offset`` as long as its ``every``, what ``@reboot`` does not go with, an
``endAt`` before its ``startAt``, a delay beyond ``maxDelaySeconds``, a calendar that leaves no day open, the length of
all arguments, or of the job, together, and a whole number that is written with a fraction (``1.0``).
"""

from __future__ import annotations

from common.jobs.job import SECTIONS, TIMING, JobSpec
from common.jobs.kinds import Schema, object_schema
from common.jobs.timing import rules


def job_schema() -> Schema:
    """The schema of a job; null in place of a field is the same as leaving it out. The name may be the path's.

    The console draws a job from it: ``title`` and ``x-form`` of a field (`Shown`), ``x-unit`` of a number, the sections
    of the form, and which fields the preview of a schedule is made from.
    """
    schema = object_schema(JobSpec)
    for name, default in JobSpec.defaults().items():
        if default not in ("", None):
            schema["properties"][name]["default"] = default
    return {
        **schema, "required": ["command"], "anyOf": rules(), "x-sections": list(SECTIONS), "x-timing": list(TIMING),
        "description": "One of cronExpr, every, after and at is needed. Every field: docs/reference/fields.md.",
    }  # fmt: skip
