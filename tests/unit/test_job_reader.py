"""Reading a job: every mistake at once, each with its field, the fault and the remedy; and what is valid, unchanged."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import InvalidInputError, Problem
from common.job import Misfire, MisfirePolicy, Overlap
from common.job_reader import MAX_SPEC_BYTES, NOT_YET, check_name, load_object, parse_job

GOOD: dict[str, Any] = {"name": "job1", "command": "echo hello", "cronExpr": "*/5 * * * * * *"}


def problems(**fields: Any) -> list[Problem]:
    """What is wrong with a good job with these fields instead; None leaves one out."""
    document = {name: value for name, value in (GOOD | fields).items() if value is not None}
    with pytest.raises(InvalidInputError) as error:
        parse_job(document)
    assert all(problem.field and problem.message and problem.remedy for problem in error.value.problems)
    return list(error.value.problems)


def problem_of(text: bytes | str) -> Problem:
    with pytest.raises(InvalidInputError) as error:
        load_object(text)
    [problem] = error.value.problems
    return problem


def test_job_of_three_fields_has_the_defaults_of_the_job_model() -> None:
    spec = parse_job(GOOD)
    assert (spec.timezone, spec.enabled, spec.overlap) == ("UTC", True, Overlap.SKIP)
    assert spec.misfire == Misfire(policy=MisfirePolicy.LATEST, grace_s=60, window_s=3600, limit=10)
    assert (spec.timeout_s, spec.kill_grace_s, spec.output_limit_bytes, spec.lost_after_s) == (0, 5, 262_144, None)


BAD = [
    ("no name", {"name": None}, "name", "is missing"),
    ("empty name", {"name": ""}, "name", "is empty"),
    ("name with a slash", {"name": "a/b"}, "name", "characters that a name cannot have"),
    ("name with a tag", {"name": "<script>"}, "name", "characters that a name cannot have"),
    ("name of 200 characters", {"name": "x" * 200}, "name", "is 200 characters long"),
    ("name with a newline at its end", {"name": "job\n"}, "name", "characters"),
    ("name that is a directory", {"name": ".."}, "name", "characters"),
    ("name with other digits", {"name": "job\N{ARABIC-INDIC DIGIT ONE}"}, "name", "characters"),
    ("name that is a number", {"name": 5}, "name", "is a JSON number"),
    ("lone surrogate in the name", {"name": "\ud800"}, "name", "not valid Unicode"),
    ("no command", {"command": None}, "command", "is missing"),
    ("empty command", {"command": "  "}, "command", "is empty"),
    ("list of arguments", {"command": ["echo"]}, "command", "not supported yet"),
    ("NUL in the command", {"command": "a\0b"}, "command", "NUL"),
    ("lone surrogate in the command", {"command": "\udfff"}, "command", "not valid Unicode"),
    ("very long command", {"command": "x" * 40_000}, "command", "is 40,000 characters long"),
    ("no expression", {"cronExpr": None}, "cronExpr", "is missing"),
    ("six fields", {"cronExpr": "0 0 * * * *"}, "cronExpr", "six fields"),
    ("61 seconds", {"cronExpr": "61 * * * * * *"}, "cronExpr", "61"),
    ("a day that never comes", {"cronExpr": "0 0 0 30 2 * *"}, "cronExpr", ""),
    ("expression of 10 KB", {"cronExpr": "0 " * 5000}, "cronExpr", ""),
    ("list of expressions", {"cronExpr": ["@daily"]}, "cronExpr", "is a JSON array"),
    ("Mars", {"timezone": "Mars"}, "timezone", ""),
    ("path as a zone", {"timezone": "../../etc/passwd"}, "timezone", ""),
    ("text for a truth", {"enabled": "yes"}, "enabled", "'yes'"),
    ("number for a truth", {"enabled": 1}, "enabled", "is 1"),
    ("unknown overlap", {"overlap": "later"}, "overlap", "'queue'"),
    ("object for a choice", {"overlap": {}}, "overlap", "{}"),
    ("unknown policy", {"misfire": {"policy": "some"}}, "misfire.policy", "'some'"),
    ("grace of nothing", {"misfire": {"graceSeconds": 0}}, "misfire.graceSeconds", "is 0"),
    ("grace of a fraction", {"misfire": {"graceSeconds": 1.5}}, "misfire.graceSeconds", "is 1.5"),
    ("limit beyond 100", {"misfire": {"limit": 101}}, "misfire.limit", "is 101"),
    ("misfire as a text", {"misfire": "skip"}, "misfire", "'skip'"),
    ("unknown field of misfire", {"misfire": {"grace": 5}}, "misfire.'grace'", "is not a field of misfire"),
    ("negative timeout", {"timeoutSeconds": -1}, "timeoutSeconds", "is -1"),
    ("timeout that is true", {"timeoutSeconds": True}, "timeoutSeconds", "is true"),
    ("timeout beyond all bounds", {"timeoutSeconds": 1e308}, "timeoutSeconds", "1e+308"),
    ("timeout of a huge whole number", {"timeoutSeconds": 10**4000}, "timeoutSeconds", "is 1000"),
    ("timeout that is infinite", {"timeoutSeconds": float("inf")}, "timeoutSeconds", "Infinity"),
    ("timeout that is no number", {"timeoutSeconds": float("nan")}, "timeoutSeconds", "NaN"),
    ("kill grace of a day", {"killGraceSeconds": 86_400}, "killGraceSeconds", "86400"),
    ("output limit of 1 GB", {"outputLimitBytes": 1 << 30}, "outputLimitBytes", ""),
    ("lost after some words", {"lostAfterSeconds": "soon"}, "lostAfterSeconds", "'soon'"),
    ("lost after nothing", {"lostAfterSeconds": 0}, "lostAfterSeconds", "is 0"),
    ("environment as a list", {"env": ["A=1"]}, "env", "A=1"),
    ("environment with a bad name", {"env": {"A B": "1"}}, "env", "'A B'"),
    ("environment with etcron's own names", {"env": {"ETCRON_FENCE": "1"}}, "env", "ETCRON_FENCE"),
    ("environment with a number", {"env": {"A": 1}}, "env", "'A'"),
    ("environment with a NUL", {"env": {"A": "\0"}}, "env", "'A'"),
    ("environment with a lone surrogate", {"env": {"A": "\ud800"}}, "env", "not valid Unicode"),
    ("101 labels", {"labels": {f"l{number}": "" for number in range(101)}}, "labels", "has 101 entries"),
    ("label with a bad name", {"labels": {"": "x"}}, "labels", "''"),
    ("wrong case", {"cronexpr": "x"}, "'cronexpr'", "is not a field of a job"),
    ("field with a lone surrogate", {"\ud800": 1}, "'\\ud800'", "is not a field of a job"),
]


@pytest.mark.parametrize(("fields", "field", "message"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_bad_field_is_named_with_its_fault(fields: dict[str, Any], field: str, message: str) -> None:
    [problem] = problems(**fields)
    assert problem.field == field
    assert message in problem.message
    str(problem).encode()  # can be sent


def test_six_fields_are_shown_in_both_readings() -> None:
    [problem] = problems(cronExpr="0 0 12 * * MON")
    assert "`0 0 12 * * MON *`" in problem.message
    assert "`0 0 0 12 * * MON`" in problem.message


@pytest.mark.parametrize(
    ("typo", "meant"),
    [("cronexpr", "cronExpr"), ("Command", "command"), ("time_zone", "timezone"), ("timeout", "timeoutSeconds"),
     ("cron", "cronExpr")],
)  # fmt: skip
def test_unknown_field_names_the_nearest_one(typo: str, meant: str) -> None:
    [problem] = problems(**{typo: "x"})
    assert problem.remedy == f"did you mean {meant}?"


def test_unknown_field_that_is_near_nothing_names_all() -> None:
    [problem] = problems(zzz="x")
    assert "cronExpr" in problem.remedy


@pytest.mark.parametrize("name", sorted(NOT_YET))
def test_field_of_a_later_issue_is_not_supported_yet(name: str) -> None:
    [problem] = problems(**{name: "x"})
    assert (problem.field, problem.message) == (name, "is not supported yet")


def test_every_mistake_is_told_at_once() -> None:
    found = problems(
        name="a/b", command="", cronExpr="61 * * * * * *", timezone="Mars", enabled="yes", overlap="no",
        misfire={"policy": "x", "limit": 0, "gracesec": 1}, timeoutSeconds=-1, env={"1": "x"}, cronexpr=1, slots=2,
    )  # fmt: skip
    assert {problem.field for problem in found} >= {
        "name", "command", "timezone", "enabled", "overlap", "misfire.policy", "misfire.limit", "timeoutSeconds",
        "env", "'cronexpr'", "slots",
    }  # fmt: skip
    assert len(found) >= 12


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "is not JSON"), ("{", "is not JSON"), ("[]", "is a JSON array"), ("5", "is a JSON number"),
     ("null", "is a JSON null"), ('"x"', "is a JSON text"), ("true", "is a JSON boolean"),
     ('{"a":NaN}', "NaN is not JSON"), ('{"a":-Infinity}', "-Infinity is not JSON"),
     ('{"a":1,"a":2}', "'a' is given twice"), ('{"m":{"b":1,"b":1}}', "'b' is given twice"),
     ('{"a":' + "9" * 5000 + "}", "is not JSON"), ("[" * 60_000, "is not JSON"),
     (" " * (MAX_SPEC_BYTES + 1), "is 65,537 bytes long"), ("é" * MAX_SPEC_BYTES, "bytes long")],
    ids=lambda text: text[:20],
)  # fmt: skip
def test_text_that_is_no_object_is_refused(text: str, message: str) -> None:
    assert message in problem_of(text).message
    assert problem_of(text.encode()).field == "job"


def test_bytes_that_are_no_text_are_refused() -> None:
    assert "is not JSON" in problem_of(b'{"name":"\xff\xfe"}').message


@pytest.mark.parametrize("field", ["name", "overlap", "timeoutSeconds", "env", "misfire"])
def test_very_deep_value_is_refused_like_any_other(field: str) -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    [problem] = problems(**{field: deep})
    assert problem.field == field
    while deep:  # taken apart by hand: a deep value is as deep to the garbage collector
        deep = deep.pop()


def test_job_that_is_too_large_as_a_whole_is_refused() -> None:
    [problem] = problems(env={f"A{number}": "x" * 4000 for number in range(20)})
    assert problem.field == "job"


@pytest.mark.parametrize("name", ["", "a/b", None, 5, "x" * 129])
def test_name_alone_is_checked_by_the_same_rule(name: Any) -> None:
    with pytest.raises(InvalidInputError):
        check_name(name)
    assert check_name("job-1.x_Y") == "job-1.x_Y"


NAMES = st.from_regex(r"[A-Za-z0-9._-]{1,40}", fullmatch=True).filter(lambda name: name not in {".", ".."})
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
JOBS = st.fixed_dictionaries(
    {
        "name": NAMES,
        "command": TEXTS.filter(lambda text: bool(text.strip())),
        "cronExpr": st.sampled_from(["@daily", "0 0 12 * * MON-FRI *", "5 4 * * *", "H H * * * * *"]),
    },
    optional={
        "timezone": st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"]),
        "enabled": st.booleans(),
        "overlap": st.sampled_from(["skip", "allow"]),
        "misfire": st.fixed_dictionaries({}, optional={
            "policy": st.sampled_from(["skip", "latest", "all"]), "graceSeconds": st.integers(1, 86_400),
            "windowSeconds": st.integers(0, 86_400), "limit": st.integers(1, 100),
        }),
        "timeoutSeconds": st.integers(0, 10_000) | st.floats(0, 10_000),
        "killGraceSeconds": st.integers(0, 3600) | st.floats(0, 3600),
        "outputLimitBytes": st.integers(0, 1_000_000),
        "env": st.dictionaries(st.from_regex(r"[A-Z]{1,9}", fullmatch=True), TEXTS, max_size=3),
        "labels": st.dictionaries(st.from_regex(r"[a-z]{1,9}", fullmatch=True), TEXTS, max_size=3),
        "lostAfterSeconds": st.just("never") | st.integers(1, 10_000) | st.none(),
    },
)  # fmt: skip


@given(document=JOBS)
def test_job_is_read_back_from_what_is_stored_and_from_what_is_shown(document: dict[str, Any]) -> None:
    spec = parse_job(document)
    assert parse_job(spec.to_document()) == spec
    assert parse_job(json.loads(json.dumps(spec.to_stored()))) == spec
    assert set(spec.to_stored()) <= set(spec.to_document())


@given(value=st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
), name=st.sampled_from([*GOOD, "timezone", "misfire", "env", "labels", "lostAfterSeconds", "overlap"]))  # fmt: skip
def test_whatever_is_sent_is_a_job_or_a_problem(value: Any, name: str) -> None:
    found: tuple[Problem, ...] = ()
    try:
        parse_job(GOOD | {name: value})
    except InvalidInputError as error:
        found = error.problems
    for problem in found:
        assert str(problem).encode()
