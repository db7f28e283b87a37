"""Jobs are read as they were before pydantic read them: the same accepted, stored alike, refused in the same words."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from common.errors import InvalidInputError
from common.jobs.reader import parse_job
from tests.jobs.corpus import known, made_up
from tests.jobs.old_reader import read_as_before

MADE_UP = 10_000


def read(parse: Callable[[Mapping[str, Any]], Any], document: Mapping[str, Any]) -> str | set[str]:
    """What is stored of the job, or what is told of its mistakes."""
    try:
        return json.dumps(parse(document))
    except InvalidInputError as error:
        return {str(problem) for problem in error.problems}


def test_no_job_is_read_in_another_way_and_no_message_has_changed() -> None:
    accepted = 0
    for document in (*known(), *made_up(MADE_UP)):
        before = read(read_as_before, document)
        assert read(lambda said: parse_job(said).to_stored(), document) == before, document
        accepted += isinstance(before, str)
    assert MADE_UP / 4 < accepted < MADE_UP * 3 / 4


def test_expressions_of_a_list_are_looked_into_though_one_is_no_text() -> None:
    """The one difference: more mistakes are told at once."""
    with pytest.raises(InvalidInputError) as refused:
        parse_job({"name": "j", "command": "a", "cronExpr": ["@daily", 5, "61 * * * * * *"]})
    assert [problem.field for problem in refused.value.problems] == ["cronExpr[1]", "cronExpr[2]"]
