"""Jobs are read as ever: the same accepted, stored alike, refused in the same words.

`readings.txt` has a digest of each reading: of the jobs and mistakes that the documentation, the examples and the tests
know, by a digest of the job, and of the made-up ones, by their number. It was first written by the reader that there
was before the fields of a job were defined once. A new field changes those jobs alone that have it, and messages that
list all fields.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from common.errors import InvalidInputError, Problem
from common.instants import to_ms
from common.jobs.reader import parse_job
from manager.http.errors import MESSAGES
from manager.views.advice import schedule_problems, schedule_warnings
from tests.jobs.corpus import known, made_up
from tests.support.golden import WRITE

READINGS = Path(__file__).with_name("readings.txt")
MADE_UP = 10_000


def digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]


def read(document: Mapping[str, Any]) -> str | tuple[Problem, ...]:
    """What is stored of the job, or what is told of its mistakes."""
    try:
        return json.dumps(parse_job(document).to_stored())
    except InvalidInputError as error:
        return tuple(error.problems)


@cache
def all_read() -> dict[str, str | tuple[Problem, ...]]:
    """By the name that each has in the file."""
    return {name: read(document) for name, document in documents().items()}


def documents() -> dict[str, dict[str, Any]]:
    found = {digest(json.dumps(document)): document for document in known()}
    return found | {str(number): document for number, document in enumerate(made_up(MADE_UP))}


def in_words(reading: str | tuple[Problem, ...]) -> str:
    return reading if isinstance(reading, str) else "\n".join(sorted({str(problem) for problem in reading}))


def test_no_job_is_read_in_another_way_and_no_message_has_changed() -> None:
    readings = {name: in_words(reading) for name, reading in all_read().items()}
    accepted = sum(readings[str(number)].startswith("{") for number in range(MADE_UP))
    assert MADE_UP / 4 < accepted < MADE_UP * 3 / 4, "the made-up jobs show both"
    now = {name: digest(reading) for name, reading in readings.items()}
    if os.environ.get(WRITE) == "write":
        READINGS.write_text("".join(f"{name} {reading}\n" for name, reading in now.items()))
    before = dict(line.split() for line in READINGS.read_text().splitlines())
    changed = [name for name in now | before if now.get(name) != before.get(name)]
    told = [(documents()[name], readings[name]) if name in readings else f"{name} is gone" for name in changed[:5]]
    assert told == [], f"{len(changed)} are read like this now, or are new or gone: {WRITE}=write writes the file anew"


def test_whatever_is_wrong_with_a_job_has_a_code_in_every_language() -> None:
    problems = [problem for reading in all_read().values() if not isinstance(reading, str) for problem in reading]
    said = {text for one in problems for text in (one.message, one.remedy)}
    assert len(said) > 100
    assert [text for text in said if MESSAGES.of(text) is None] == []


def test_whatever_is_advised_of_a_schedule_has_a_code_in_every_language() -> None:
    said = set[str]()
    for document in [*known(), *made_up(300)]:
        try:
            spec = parse_job(document)
        except InvalidInputError:
            continue
        for year in (1971, 2026, 2035, 2198):
            now_ms = to_ms(datetime(year, 3, 28, tzinfo=UTC))
            said.update(schedule_warnings(spec, now_ms=now_ms))
            for one in schedule_problems(spec, now_ms=now_ms):
                said |= {one.message, one.remedy}
    assert len(said) > 10
    assert {text for text in said if MESSAGES.of(text) is None} == set()


def test_expressions_of_a_list_are_looked_into_though_one_is_no_text() -> None:
    with pytest.raises(InvalidInputError) as refused:
        parse_job({"name": "j", "command": "a", "cronExpr": ["@daily", 5, "61 * * * * * *"]})
    assert [problem.field for problem in refused.value.problems] == ["cronExpr[1]", "cronExpr[2]"]
