"""Reading a job: every mistake at once, each with its field, the fault and the remedy; and what is valid, unchanged."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import InvalidInputError, Problem
from common.jobs.job import JobSpec, Misfire, MisfirePolicy, Overlap
from common.jobs.kinds import members_of
from common.jobs.reader import MAX_SPEC_BYTES, check_name, load_object, parse_job, parse_timing
from common.schedules.moment import parse_moment

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


BAD: list[tuple[str, dict[str, Any], str, str]] = [
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
    ("no arguments", {"command": []}, "command", "is an empty list"),
    ("no program", {"command": ["", "a"]}, "command[0]", "is empty"),
    ("number as an argument", {"command": ["a", 1]}, "command[1]", "is 1"),
    ("NUL in an argument", {"command": ["a", "b\0"]}, "command[1]", "NUL"),
    ("very long argument", {"command": ["a", "x" * 40_000]}, "command[1]", "is 40,000 characters long"),
    ("very long arguments", {"command": ["a", *["x" * 20_000] * 2]}, "command", "is 40,001 characters long"),
    ("1,001 arguments", {"command": ["a"] * 1001}, "command", "has 1,001 entries"),
    ("command that is an object", {"command": {}}, "command", "is a JSON object"),
    ("NUL in the command", {"command": "a\0b"}, "command", "NUL"),
    ("lone surrogate in the command", {"command": "\udfff"}, "command", "not valid Unicode"),
    ("very long command", {"command": "x" * 40_000}, "command", "is 40,000 characters long"),
    ("no expression", {"cronExpr": None}, "cronExpr", "is missing"),
    ("six fields", {"cronExpr": "0 0 * * * *"}, "cronExpr", "six fields"),
    ("61 seconds", {"cronExpr": "61 * * * * * *"}, "cronExpr", "61"),
    ("a day that never comes", {"cronExpr": "0 0 0 30 2 * *"}, "cronExpr", ""),
    ("expression of 10 KB", {"cronExpr": "0 " * 5000}, "cronExpr", ""),
    ("empty expression", {"cronExpr": ""}, "cronExpr", "is empty"),
    ("number for an expression", {"cronExpr": 5}, "cronExpr", "is a JSON number"),
    ("no expressions", {"cronExpr": []}, "cronExpr", "has 0 entries"),
    ("21 expressions", {"cronExpr": ["@daily"] * 21}, "cronExpr", "has 21 entries"),
    (
        "bad expression of several",
        {"cronExpr": ["@daily", "@hourly", "61 * * * * * *"]},
        "cronExpr[2]",
        "Second 61 is not between 0 and 59",
    ),
    ("number among expressions", {"cronExpr": ["@daily", 5]}, "cronExpr[1]", "is a JSON number"),
    ("two triggers", {"every": "5m"}, "cronExpr", "stands beside every"),
    ("four triggers", {"every": "5m", "after": "1s", "at": "2030-01-01T00:00"}, "cronExpr", "every and after and at"),
    ("offset without a rate", {"offset": "5s"}, "offset", "stands without every"),
    ("rate of nothing", {"cronExpr": None, "every": "0s"}, "every", "'0s'"),
    ("rate without a unit", {"cronExpr": None, "every": "90"}, "every", "'90'"),
    ("rate as a number", {"cronExpr": None, "every": 90}, "every", "is a JSON number"),
    ("rate of two years", {"cronExpr": None, "every": "104w3d"}, "every", "'104w3d'"),
    ("offset as long as the rate", {"cronExpr": None, "every": "5m", "offset": "300s"}, "offset", "'300s'"),
    ("bad offset", {"cronExpr": None, "every": "5m", "offset": "soon"}, "offset", "'soon'"),
    ("delay of nothing", {"cronExpr": None, "after": "0m"}, "after", "'0m'"),
    ("delay with an overlap", {"cronExpr": None, "after": "5s", "overlap": "queue"}, "overlap", "'queue'"),
    (
        "delay with a jitter",
        {"cronExpr": None, "after": "5s", "jitterSeconds": 3},
        "jitterSeconds",
        "is 3 beside after",
    ),
    ("delay on all workers", {"cronExpr": None, "after": "5s", "broadcast": True}, "broadcast", "after"),
    ("boot on one worker", {"cronExpr": "@reboot"}, "broadcast", "is false beside @reboot"),
    ("boot and a time", {"cronExpr": ["@reboot", "@daily"], "broadcast": True}, "cronExpr", "@reboot beside other"),
    (
        "boot with a jitter",
        {"cronExpr": "@reboot", "broadcast": True, "jitterSeconds": 3},
        "jitterSeconds",
        "at no time",
    ),
    ("boot with an end", {"cronExpr": "@reboot", "broadcast": True, "endAt": "2031-01-01T00:00"}, "endAt", "no time"),
    ("bare date", {"cronExpr": None, "at": "2030-01-01"}, "at", "'2030-01-01'"),
    ("time long ago", {"cronExpr": None, "at": "1969-12-31T23:59:59Z"}, "at", "1969"),
    ("time beyond all bounds", {"cronExpr": None, "at": "9999-12-31T23:59:59-10:00"}, "at", "9999"),
    (
        "one instant, and a window",
        {"cronExpr": None, "at": "2030-01-01T00:00", "endAt": "2031-01-01T00:00"},
        "endAt",
        "stands beside at",
    ),
    ("start in words", {"startAt": "tomorrow"}, "startAt", "'tomorrow'"),
    ("end at the start", {"startAt": "2030-01-01T00:00Z", "endAt": "2030-01-01T01:00+01:00"}, "endAt", "not after"),
    (
        "end before the start, by the zone",
        {"timezone": "America/New_York", "startAt": "2030-01-01T00:00", "endAt": "2030-01-01T04:00Z"},
        "endAt",
        "not after",
    ),
    ("calendar as a list", {"calendar": ["12-25"]}, "calendar", "12-25"),
    ("empty calendar", {"calendar": {}}, "calendar", "neither"),
    ("calendar both ways", {"calendar": {"include": ["12-25"], "exclude": ["12-24"]}}, "calendar", "both"),
    ("calendar without dates", {"calendar": {"include": []}}, "calendar.include", "has 0 entries"),
    ("one date by itself", {"calendar": {"include": "12-25"}}, "calendar.include", "12-25"),
    ("501 dates", {"calendar": {"exclude": ["12-25"] * 501}}, "calendar.exclude", "has 501 entries"),
    ("date that never comes", {"calendar": {"exclude": ["12-25", "02-30"]}}, "calendar.exclude[1]", "'02-30'"),
    ("date of no leap year", {"calendar": {"exclude": ["2026-02-29"]}}, "calendar.exclude[0]", "2026-02-29"),
    ("span backwards", {"calendar": {"exclude": ["2026-02-02/2026-02-01"]}}, "calendar.exclude[0]", "2026-02-02"),
    ("span of both forms", {"calendar": {"exclude": ["2026-02-02/03-01"]}}, "calendar.exclude[0]", "03-01"),
    ("date of the far future", {"calendar": {"exclude": ["2200-01-01"]}}, "calendar.exclude[0]", "2200"),
    ("date in words", {"calendar": {"exclude": ["Christmas"]}}, "calendar.exclude[0]", "'Christmas'"),
    (
        "date with other digits",
        {"calendar": {"exclude": ["1\N{ARABIC-INDIC DIGIT ONE}-01"]}},
        "calendar.exclude[0]",
        "",
    ),
    ("every day left out", {"calendar": {"exclude": ["01-01/12-31"]}}, "calendar", "leaves no day open"),
    ("misspelt calendar", {"calendar": {"excludes": ["12-25"]}}, "calendar.excludes", "not a field of calendar"),
    ("jitter of two days", {"jitterSeconds": 172_800}, "jitterSeconds", "172800"),
    ("jitter of a fraction", {"jitterSeconds": 0.5}, "jitterSeconds", "0.5"),
    ("retry as a number", {"retry": 3}, "retry", "is a JSON number: 3"),
    ("101 retries", {"retry": {"limit": 101}}, "retry.limit", "is 101"),
    ("retry after some words", {"retry": {"delaySeconds": "10s"}}, "retry.delaySeconds", "'10s'"),
    ("delay beyond the largest", {"retry": {"delaySeconds": 7200}}, "retry.delaySeconds", "beyond maxDelaySeconds"),
    ("backoff that shrinks", {"retry": {"backoff": 0.5}}, "retry.backoff", "is 0.5"),
    ("jitter of more than all", {"retry": {"jitter": 2}}, "retry.jitter", "is 2"),
    ("exit code by itself", {"retry": {"onExitCodes": 75}}, "retry.onExitCodes", "is 75"),
    ("exit code of 256", {"retry": {"onExitCodes": [1, 256]}}, "retry.onExitCodes[1]", "is 256"),
    ("exit code twice", {"retry": {"onExitCodes": [1, 75, 1]}}, "retry.onExitCodes[2]", "is 1 again"),
    ("other worker as a text", {"retry": {"otherWorker": "yes"}}, "retry.otherWorker", "'yes'"),
    ("unknown field of retry", {"retry": {"limits": 3}}, "retry.limits", "is not a field of retry"),
    ("rerun in other words", {"onWorkerLost": "restart"}, "onWorkerLost", "'restart'"),
    ("relative directory", {"workdir": "reports"}, "workdir", "'reports'"),
    ("NUL in a path", {"workdir": "/a\0b"}, "workdir", "NUL"),
    ("shell by its name", {"shell": "bash"}, "shell", "'bash'"),
    ("user by number", {"user": "1000"}, "user", "'1000'"),
    ("user with a path", {"user": "../root"}, "user", "'../root'"),
    ("selector as a list", {"workers": ["eu"]}, "workers", "eu"),
    ("selector of a number", {"workers": {"gpu": ["a100", 5]}}, "workers.gpu[1]", "is 5"),
    ("selector of nothing", {"workers": {"gpu": []}}, "workers.gpu", "has 0 entries"),
    ("selector with a bad name", {"workers": {"a b": "x"}}, 'workers["a b"]', "'a b'"),
    ("broadcast to some", {"broadcast": "eu"}, "broadcast", "'eu'"),
    ("no slot", {"slots": 0}, "slots", "is 0"),
    ("half a slot", {"slots": 1.5}, "slots", "is 1.5"),
    ("priority beyond all", {"priority": -101}, "priority", "is -101"),
    ("Mars", {"timezone": "Mars"}, "timezone", "'Mars'"),
    ("zone of nothing", {"timezone": " "}, "timezone", "is empty"),
    ("path as a zone", {"timezone": "../../etc/passwd"}, "timezone", ""),
    ("text for a truth", {"enabled": "yes"}, "enabled", "'yes'"),
    ("number for a truth", {"enabled": 1}, "enabled", "is 1"),
    ("unknown overlap", {"overlap": "later"}, "overlap", "'later'"),
    ("object for a choice", {"overlap": {}}, "overlap", "{}"),
    ("unknown policy", {"misfire": {"policy": "some"}}, "misfire.policy", "'some'"),
    ("grace of nothing", {"misfire": {"graceSeconds": 0}}, "misfire.graceSeconds", "is 0"),
    ("grace of a fraction", {"misfire": {"graceSeconds": 1.5}}, "misfire.graceSeconds", "is 1.5"),
    ("limit beyond 100", {"misfire": {"limit": 101}}, "misfire.limit", "is 101"),
    ("misfire as a text", {"misfire": "skip"}, "misfire", "'skip'"),
    ("unknown field of misfire", {"misfire": {"grace": 5}}, "misfire.grace", "is not a field of misfire"),
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
    ("environment with a bad name", {"env": {"A B": "1"}}, 'env["A B"]', "'A B'"),
    ("environment with etcron's own names", {"env": {"ETCRON_FENCE": "1"}}, "env.ETCRON_FENCE", "ETCRON_FENCE"),
    ("environment with a number", {"env": {"A": 1}}, "env.A", "is 1"),
    ("secret with a path that climbs", {"secrets": {"A": "../etc/shadow"}}, "secrets.A", "'../etc/shadow'"),
    ("secret by no name", {"secrets": {"A": ""}}, "secrets.A", "is empty"),
    ("secret in a variable of etcron's", {"secretFiles": {"ETCRON_A": "x"}}, "secretFiles.ETCRON_A", "ETCRON_A"),
    ("environment with a NUL", {"env": {"A": "\0"}}, "env.A", "NUL"),
    ("environment with a lone surrogate", {"env": {"A": "\ud800"}}, "env.A", "not valid Unicode"),
    ("101 labels", {"labels": {f"l{number}": "" for number in range(101)}}, "labels", "has 101 entries"),
    ("label with a bad name", {"labels": {"": "x"}}, 'labels[""]', "''"),
    ("description that is too long", {"description": "x" * 501}, "description", "is 501 characters"),
    ("link that is no page", {"links": [{"title": "x", "url": "ftp://a.b/c"}]}, "links[0].url", "ftp"),
    ("link without a host", {"links": [{"title": "x", "url": "https:///c"}]}, "links[0].url", "https:///c"),
    ("link with a line break", {"links": [{"title": "x", "url": "https://a.b/\n"}]}, "links[0].url", "is 'https"),
    ("link without a title", {"links": [{"url": "https://a.b/c"}]}, "links[0].title", "is missing"),
    ("six links", {"links": [{"title": "x", "url": "https://a.b/c"}] * 6}, "links", "has 6 entries"),
    ("one link by itself", {"links": {"title": "x", "url": "https://a.b/c"}}, "links", 'is {"title"'),
    ("channel that cannot be", {"notify": [{"to": "a@b.c"}]}, "notify[0].to", "characters that a name cannot have"),
    ("event that is none", {"notify": [{"to": "ops", "on": ["exploded"]}]}, "notify[0].on[0]", "exploded"),
    ("event of the system", {"notify": [{"to": "ops", "on": ["worker-down"]}]}, "notify[0].on[0]", "worker-down"),
    ("event twice", {"notify": [{"to": "ops", "on": ["lost", "lost"]}]}, "notify[0].on[1]", "again"),
    ("told after none", {"notify": [{"to": "ops", "after": 0}]}, "notify[0].after", "is 0"),
    ("told of a field that is none", {"notify": [{"to": "ops", "when": 1}]}, "notify[0].when", "is not a field"),
    ("11 places to be told", {"notify": [{"to": "ops"}] * 11}, "notify", "has 11 entries"),
    ("slow before it begins", {"warnAfterSeconds": -1}, "warnAfterSeconds", "is -1"),
    ("late by a word", {"lateAfterSeconds": "1m"}, "lateAfterSeconds", "'1m'"),
    ("silent for ever", {"silentAfterSeconds": 1e99}, "silentAfterSeconds", "1e+99"),
    ("suspicious below NaN", {"suspiciousBelowSeconds": float("nan")}, "suspiciousBelowSeconds", "NaN"),
    ("wrong case", {"cronexpr": "x"}, "cronexpr", "is not a field of a job"),
    ("field with a lone surrogate", {"\ud800": 1}, "\\ud800", "is not a field of a job"),
]


@pytest.mark.parametrize(("fields", "field", "message"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_bad_field_is_named_with_its_fault(fields: dict[str, Any], field: str, message: str) -> None:
    [problem] = problems(**fields)
    assert problem.field == field
    assert message in problem.message
    str(problem).encode()  # can be sent


@pytest.mark.parametrize(("expressions", "fields"), [(["@reboot"], []), (["@daily", " @Reboot "], ["cronExpr"])])
def test_when_alone_says_nothing_of_broadcast(expressions: list[str], fields: list[str]) -> None:
    found = []
    try:
        assert parse_timing({"cronExpr": expressions}).at_boot
    except InvalidInputError as error:
        found = [problem.field for problem in error.problems]
    assert found == fields


def test_null_is_as_if_left_out() -> None:
    nulls = {name: None for name in members_of(JobSpec) if name not in GOOD}
    assert parse_job({**nulls, **GOOD, "misfire": {"limit": None}, "retry": {"backoff": None}}) == parse_job(GOOD)


def test_no_trigger_at_all_names_all_of_them() -> None:
    [problem] = problems(cronExpr=None)
    assert problem.remedy == "needed: one of cronExpr, every, after or at, to say when it runs"


def test_command_of_arguments_keeps_each_as_it_is() -> None:
    spec = parse_job(GOOD | {"command": ["printf", "", "a b", "$HOME\n"]})
    assert spec.command == ("printf", "", "a b", "$HOME\n")
    assert spec.command_line == "printf '' 'a b' '$HOME\n'"


def test_several_expressions_fire_at_their_union() -> None:
    spec = parse_job(GOOD | {"cronExpr": ["0 0 9 * * * *", "0 0 12,9 * * * *"]})
    assert spec.schedule.fires_between_ms(0, 86_400_000, 9) == [9 * 3_600_000, 12 * 3_600_000]


def test_local_times_are_those_of_the_zone() -> None:
    window = {"startAt": "2026-03-29T02:30", "endAt": "2026-10-25T02:30", "timezone": "Europe/Paris"}
    spec = parse_job(GOOD | window)
    assert spec.start_at is not None
    assert spec.end_at is not None
    assert spec.start_at.ms == parse_moment("2026-03-29T01:00Z").ms  # the end of the gap
    assert spec.end_at.ms == parse_moment("2026-10-25T00:30Z").ms  # the first pass


def test_nothing_fires_after_an_end_that_is_finer_than_a_millisecond() -> None:
    midnight_ms = parse_moment("2027-01-01T00:00Z").ms
    spec = parse_job(GOOD | {"cronExpr": "@daily", "endAt": "2026-12-31T23:59:59.999999"})
    assert spec.schedule.next_after_ms(midnight_ms - 1) is None


def test_thousands_of_unknown_fields_are_told_in_short() -> None:
    found = problems(**{f"unknown{number}": 1 for number in range(3000)})
    assert len(found) == 51
    assert "2,949 more" in found[-1].message


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


def test_every_mistake_is_told_at_once() -> None:
    found = problems(
        name="a/b", command="", cronExpr="61 * * * * * *", timezone="Mars", enabled="yes", overlap="no",
        misfire={"policy": "x", "limit": 0, "gracesec": 1}, timeoutSeconds=-1, cronexpr=1, slots=0,
        env={"1": "x", "A": 5, "ETCRON_JOB": "x"}, retry={"limit": -1, "onExitCodes": [300, 400]}, offset="x",
    )  # fmt: skip
    assert {problem.field for problem in found} >= {
        "name", "command", "timezone", "enabled", "overlap", "misfire.policy", "misfire.limit", "timeoutSeconds",
        "env.1", "env.A", "env.ETCRON_JOB", "cronexpr", "slots", "cronExpr", "misfire.gracesec", "retry.limit",
        "retry.onExitCodes[0]", "retry.onExitCodes[1]", "offset",
    }  # fmt: skip
    assert len(found) == len({problem.field for problem in found}) + 1  # two things are wrong with the offset


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


@given(value=st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
), name=st.sampled_from(list(members_of(JobSpec))))  # fmt: skip
def test_whatever_is_sent_is_a_job_or_a_problem(value: Any, name: str) -> None:
    found: tuple[Problem, ...] = ()
    try:
        parse_job(GOOD | {name: value})
    except InvalidInputError as error:
        found = error.problems
    for problem in found:
        assert str(problem).encode()
        assert problem.field.startswith((name, "cronExpr")), problem
