"""The table of a job's fields in ``docs/reference/jobs.md``, made from the definition that jobs are read by.

``python -m common.words.job_table docs/reference/jobs.md`` writes it anew, between its two marks; a test fails
where it is not so.
"""

from __future__ import annotations

import json
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from common.jobs.job import TRIGGERS, JobSpec
from common.jobs.kinds import Member, Members, Several, members_of

BEGIN: Final = "<!-- The table is made by `python -m common.words.job_table docs/reference/jobs.md`. -->\n"
END: Final = "<!-- The end of the table. -->\n"
_HEAD: Final = "| Field | Type | Default | Limits | Meaning |\n|---|---|---|---|---|\n"


def fields_table() -> str:
    """A row for each field, in Markdown."""
    defaults = JobSpec.defaults()
    rows = []
    for field in members_of(JobSpec).values():
        default = "one is needed" if field.name in TRIGGERS else _default(field, defaults[field.name])
        rows.append(_row(field.name, field, default))
        if isinstance(field.kind, Members):
            for member in field.kind.members.values():
                value = _code(defaults[field.name][member.name])
                rows.append(_row(f"{field.name}.{member.name}", member, value))
        elif isinstance(field.kind, Several) and isinstance(field.kind.of, Members):
            plain = {one.name: one.default for one in fields(field.kind.of.of)}
            rows += [
                _row(f"{field.name}[].{member.name}", member, _default(member, plain[member.attribute] or None))
                for member in field.kind.of.members.values()
            ]
    return _HEAD + "".join(rows)


def with_table(text: str) -> str:
    """The document with the table as it should be; ValueError where it has no place for it."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"there is no place for the table: it stands between {BEGIN!r} and {END!r}")
    return before + begin + "\n" + fields_table() + "\n" + end + after


def _row(path: str, field: Member, default: str) -> str:
    cells = (f"`{path}`", field.kind.type, default, field.kind.limits, field.meaning)
    return f"| {' | '.join(cells)} |\n".replace("  ", " ")


def _default(field: Member, value: Any) -> str:
    if field.is_needed:
        return "needed"
    if value is None or value == "":
        return field.shown.get("unset", "none")
    return "as below" if isinstance(value, dict) and value else _code(value)


def _code(value: Any) -> str:
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def main() -> None:
    """Write the table into the named documents."""
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(with_table(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
