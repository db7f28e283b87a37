"""What jobs say beside their name and their command, their *form*, is checked once for all jobs that say the same.

A catalog of 100,000 jobs has far fewer forms than jobs. Jobs of one form share what was read: expressions, labels,
policies. Pure: standard library and its neighbours.
"""

from __future__ import annotations

from typing import Any, Final

from common.errors import InvalidInputError
from common.jobs.job import JobSpec
from common.jobs.reader import check_command, parse_job
from common.schedules.cron import uses_hash

__all__ = ["parse_known"]

LONGEST_CHECKED_BY_FORM: Final = 8_192
"""Bytes of a job as JSON. Longer ones are checked as a whole; no shorter one is beyond the limit, however spelled."""
_MOST: Final = 16_384
_LONGEST: Final = 1_000
"""Characters of a form that is remembered, so that all of them take a few megabytes at most."""

_known: dict[str, JobSpec] = {}


def parse_known(document: dict[str, Any], *, name: str, size: int) -> JobSpec:
    """As `parse_job`, for a document of so many bytes whose name is ``name``, which is one that a job can have."""
    if size > LONGEST_CHECKED_BY_FORM:
        return parse_job(document)
    form = {field: value for field, value in document.items() if field not in ("name", "command")}
    key = repr(form)  # tells 1, 1.0, true and "1" apart; the order of members makes another form, and does no harm
    template = _known.get(key)
    if template is None:
        spec = parse_job(document, is_small=True)
        # What an H stands for, and so whether there is such a date, depends on the name.
        if len(key) <= _LONGEST and not any(map(uses_hash, spec.cron_exprs)):
            if len(_known) >= _MOST:
                _known.clear()
            _known[key] = spec
        return spec
    try:
        return template.called(name, check_command(document.get("command")))
    except InvalidInputError:
        return parse_job(document)  # which says what is wrong with the command
