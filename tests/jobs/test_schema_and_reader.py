"""The schema that is served takes what the reader takes, and more only where JSON Schema cannot say it."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from common.errors import InvalidInputError, Problem
from common.jobs.job import TRIGGERS
from common.jobs.reader import parse_job
from common.jobs.schema import job_schema
from tests.jobs.corpus import known, made_up

Schema = dict[str, Any]

MADE_UP: Final = 10_000
SCHEMA: Final = job_schema()
VALIDATOR: Final = jsonschema_rs.Draft202012Validator(SCHEMA)
UNSAID: Final = {
    "a cron field's values": r"cronExpr(\[\d+\])?: (Second|Minute|Hour|Day-of-\w+|Month|Year|Expression) ",
    "a date or an instant that there is not": r"(at|startAt|endAt|calendar\.\w+\[\d+\]): is .*; needed: a (date|time)",
    "a span of dates backwards": r"calendar\.\w+\[\d+\]: is .*; needed: a span that does not end before it begins",
    "a span beyond 366 days": r"(every|offset|after): is .*; needed: a span of at most 366d",
    "what @reboot goes with": r"cronExpr: has @reboot beside|broadcast: is false beside @|\w+: stands beside @reboot",
    "an offset as long as its every": r"offset: is .*, not below every",
    "an end before its start": r"endAt: is .*, not after startAt",
    "a delay beyond the largest one": r"retry\.delaySeconds: is .*, beyond maxDelaySeconds",
    "no day is open": r"calendar: leaves no day open",
    "all arguments, or the job, as a whole": r"(command|job): is [\d,]+ (characters|bytes) long",
    "a whole number that is written with a fraction": r"[\w.]+(\[\d+\])?: is -?\d+\.0; needed: a whole number",
    "an exit code twice, once with a fraction": r"retry\.onExitCodes\[\d+\]: is \d+\.0",
}
"""What JSON Schema cannot say: the reader alone refuses it."""


def mistakes(document: dict[str, Any]) -> list[Problem]:
    try:
        parse_job({"name": "job", **document})
    except InvalidInputError as error:
        return list(error.problems)
    return []


def disagreement(document: dict[str, Any]) -> str | None:
    """What one of the two takes and the other does not, but for what the schema cannot say."""
    try:
        text = json.dumps(document, allow_nan=False, ensure_ascii=False).encode().decode()
    except (ValueError, RecursionError):
        return None  # JSON has no such number, UTF-8 no such text
    found = mistakes(document)
    fits = VALIDATOR.is_valid(document)
    said = [one for one in found if not any(re.match(told, str(one), re.DOTALL) for told in UNSAID.values())]
    if fits and said:
        return f"the schema takes what the reader refuses: {said} in {text[:500]}"
    if not fits and not found:
        return f"the reader takes what the schema refuses: {next(VALIDATOR.iter_errors(document))} in {text[:500]}"
    return None


def test_they_agree_on_the_corpus() -> None:
    found = [told for document in (*known(), *made_up(MADE_UP, seed=2)) if (told := disagreement(document))]
    assert found[:5] == []


def test_both_day_fields_may_be_asked_for() -> None:
    assert disagreement({"command": "true", "cronExpr": "0 0 12 1-7 * &MON *"}) is None


@pytest.mark.parametrize("text", ["2030-01-01T00:00\0", "2030-01-01T00:00:00\0+01:00", "2030-01-01T00:00Z\0"])
def test_a_time_has_no_nul(text: str) -> None:
    """Python's own reader of times takes one."""
    for name in ("startAt", "endAt"):
        job = {"command": "true", "every": "1m", name: text}
        assert [one.field for one in mistakes(job)] == [name]
        assert disagreement(job) is None


def values(schema: Schema) -> st.SearchStrategy[Any]:  # noqa: C901 - one case a keyword
    """What a schema takes, its edges above all."""
    made: st.SearchStrategy[Any]
    taken = jsonschema_rs.Draft202012Validator(schema)
    match schema:
        case {"properties": members}:
            made = st.fixed_dictionaries({}, optional={name: values(one) for name, one in members.items()})
        case {"anyOf": choices}:
            return st.one_of([values(one) for one in choices])
        case {"enum": words}:
            return st.sampled_from(words)
        case {"const": word}:
            return st.just(word)
        case {"type": "null"}:
            return st.none()
        case {"type": "boolean"}:
            return st.booleans()
        case {"type": "integer", "minimum": low, "maximum": high}:
            return st.sampled_from([low, high]) | st.integers(low, high)
        case {"type": "number", "minimum": low, "maximum": high}:
            return st.sampled_from([low, high]) | st.integers(low, high) | st.floats(low, high)
        case {"type": "array", "items": items}:
            made = st.lists(values(items), min_size=schema.get("minItems", 0), max_size=4)
        case {"propertyNames": names, "additionalProperties": one}:
            made = st.dictionaries(values({"type": "string", **names}), values(one), max_size=3)
        case {"type": "string", "pattern": pattern}:
            made = st.from_regex(pattern, alphabet=st.characters(codec="utf-8"))
            longest = "/" + "x" * (schema.get("maxLength", 1) - 1)
            if taken.is_valid(longest):
                made |= st.just(longest)
        case _:
            raise AssertionError(f"there is nothing to make from {schema}")
    return made.filter(lambda value: bool(taken.is_valid(value)))


STRATEGIES: Final = {name: values(one) for name, one in SCHEMA["properties"].items()}


@st.composite
def jobs(draw: st.DrawFn) -> dict[str, Any]:
    """Jobs as the schema has them: a trigger, and a few of the other fields."""
    trigger, *beside = draw(st.sampled_from(TRIGGERS)), *draw(st.lists(st.sampled_from(sorted(STRATEGIES)), max_size=6))
    ruled_out = {name for name in TRIGGERS if name != trigger}
    return {name: draw(STRATEGIES[name]) for name in ("command", trigger, *beside) if name not in ruled_out}


@settings(
    max_examples=250, derandomize=True, database=None, deadline=None, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(job=jobs())
def test_they_agree_on_what_is_made_from_the_schema(job: dict[str, Any]) -> None:
    assert disagreement(job) is None
