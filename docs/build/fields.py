"""``reference/fields.md``: the fields of a job, from the definition that jobs are read by."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, Final

from common.jobs.job import TRIGGERS, JobSpec
from common.jobs.kinds import Object, ObjectField, Several, members_of

_HEAD: Final = """\
# The fields of a job

A job is a JSON object. It needs a `name`, a `command` and one trigger (`cronExpr`, `every`, `after` or `at`). Examples of each field:
[jobs by example](../guides/jobs.md). The rules behind them: [how a job is read](job-model.md).

| Field | Type | Default | Limits | Meaning |
|---|---|---|---|---|
"""


def page() -> str:
    """The whole of it, a row for each field."""
    defaults = JobSpec.defaults()
    rows = []
    for field in members_of(JobSpec).values():
        default = "one is needed" if field.name in TRIGGERS else _default(field, defaults[field.name])
        rows.append(_row(field.name, field, default))
        if isinstance(field.kind, Object):
            for member in field.kind.members.values():
                value = _code(defaults[field.name][member.name])
                rows.append(_row(f"{field.name}.{member.name}", member, value))
        elif isinstance(field.kind, Several) and isinstance(field.kind.of, Object):
            plain = {one.name: one.default for one in fields(field.kind.of.of)}
            rows += [
                _row(f"{field.name}[].{member.name}", member, _default(member, plain[member.attribute] or None))
                for member in field.kind.of.members.values()
            ]
    return _HEAD + "".join(rows)


def _row(path: str, field: ObjectField, default: str) -> str:
    cells = (f"`{path}`", field.kind.type, default, field.kind.limits, field.meaning)
    return f"| {' | '.join(cells)} |\n".replace("  ", " ")


def _default(field: ObjectField, value: Any) -> str:
    if field.is_needed:
        return "needed"
    if value is None or value == "":
        return field.shown.get("unset", "none")
    return "as below" if isinstance(value, dict) and value else _code(value)


def _code(value: Any) -> str:
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"
