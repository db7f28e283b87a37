"""Every valid job is read back from what is stored of it, and from what is shown."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from common.jobs.job import JobSpec
from common.jobs.kinds import members_of
from common.jobs.reader import parse_job

NAMES = st.from_regex(r"[A-Za-z0-9._-]{1,40}", fullmatch=True).filter(lambda name: name not in {".", ".."})
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
WORDS = TEXTS.filter(lambda text: bool(text.strip()))
LABELS = st.from_regex(r"[a-z][a-z./-]{0,9}", fullmatch=True)
EXPRESSIONS = st.sampled_from(["@daily", "0 0 12 * * MON-FRI *", "5 4 * * *", "H H * * * * *"])
SPANS = st.sampled_from(["1s", "90s", "1h30m", "2w", "00015m"])
MOMENTS = st.builds(
    "20{:02}-{:02}-{:02}T{:02}:30{}".format, st.integers(10, 99), st.integers(1, 12), st.integers(1, 28),
    st.integers(0, 23), st.sampled_from(["", "Z", ":59", ":59.125+05:30"]),
)  # fmt: skip
DATES = st.sampled_from(["12-25", "12-24/01-06", "02-29", "2030-05-01", "2030-05-01/2031-02-01"])
WINDOWED: dict[str, st.SearchStrategy[Any]] = {
    "startAt": MOMENTS | st.none(), "endAt": st.just("2151-01-01T00:00") | st.none(),
}  # fmt: skip
TRIGGERS: st.SearchStrategy[dict[str, Any]] = (
    st.fixed_dictionaries({"cronExpr": EXPRESSIONS | st.lists(EXPRESSIONS, min_size=1, max_size=4)}, optional=WINDOWED)
    | st.fixed_dictionaries({"every": SPANS}, optional={"offset": st.sampled_from(["0s", None])} | WINDOWED)
    | st.fixed_dictionaries({"after": SPANS}, optional={"broadcast": st.just(False)} | WINDOWED)
    | st.fixed_dictionaries({"at": MOMENTS})
)
REST: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"name": NAMES, "command": WORDS | st.builds(lambda program, rest: [program, *rest], WORDS, st.lists(TEXTS))},
    optional={
        "timezone": st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"]),
        "enabled": st.booleans(),
        "calendar": st.builds(lambda mode, dates: {mode: dates}, st.sampled_from(["include", "exclude"]),
                              st.lists(DATES, min_size=1, max_size=9)),
        "jitterSeconds": st.integers(0, 86_400),
        "misfire": st.fixed_dictionaries({}, optional={
            "policy": st.sampled_from(["skip", "latest", "all"]), "graceSeconds": st.integers(1, 86_400),
            "windowSeconds": st.integers(0, 86_400) | st.none(), "limit": st.integers(1, 100),
        }),
        "retry": st.fixed_dictionaries({}, optional={
            "limit": st.integers(0, 100), "delaySeconds": st.floats(0, 3600), "backoff": st.floats(1, 10),
            "maxDelaySeconds": st.integers(3600, 86_400), "jitter": st.floats(0, 1) | st.none(),
            "onExitCodes": st.lists(st.integers(0, 255), unique=True), "otherWorker": st.booleans(),
        }),
        "timeoutSeconds": st.integers(0, 10_000) | st.floats(0, 10_000),
        "killGraceSeconds": st.integers(0, 3600) | st.floats(0, 3600),
        "onWorkerLost": st.sampled_from(["record", "rerun"]),
        "lostAfterSeconds": st.just("never") | st.integers(1, 10_000) | st.none(),
        "secrets": st.dictionaries(st.from_regex(r"[A-Z]{1,9}", fullmatch=True), st.just("pg/prod"), max_size=3),
        "secretFiles": st.dictionaries(st.from_regex(r"[A-Z]{1,9}", fullmatch=True), st.just("pg/prod"), max_size=3),
        "description": TEXTS,
        "links": st.lists(st.fixed_dictionaries({"title": TEXTS, "url": st.just("https://a.b/c")}), max_size=5),
        "notify": st.lists(
            st.fixed_dictionaries(
                {"to": st.sampled_from(["ops", "a.b"])},
                optional={"on": st.lists(st.sampled_from(["failed", "late"]), unique=True), "after": st.integers(1, 9)},
            ),
            max_size=10,
        ),
        "warnAfterSeconds": st.integers(0, 10_000),
        "lateAfterSeconds": st.integers(0, 10_000),
        "silentAfterSeconds": st.integers(0, 10_000),
        "suspiciousBelowSeconds": st.integers(0, 10_000),
        "env": st.dictionaries(st.from_regex(r"[A-Z]{1,9}", fullmatch=True), TEXTS, max_size=3),
        "workdir": st.sampled_from(["/", "/srv/a b"]) | st.none(),
        "user": st.sampled_from(["www-data", "Anna.B"]),
        "shell": st.just("/bin/bash"),
        "outputLimitBytes": st.integers(0, 1_000_000),
        "labels": st.dictionaries(LABELS, TEXTS, max_size=3),
        "workers": st.dictionaries(LABELS, TEXTS | st.lists(TEXTS, min_size=1, max_size=3), max_size=3),
        "slots": st.integers(1, 1024),
        "priority": st.integers(-100, 100),
    },
)  # fmt: skip
MORE: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{}, {"overlap": "skip"}, {"overlap": "queue"}, {"overlap": "replace", "broadcast": True}]
)


@st.composite
def jobs(draw: st.DrawFn) -> dict[str, Any]:
    trigger: dict[str, Any] = draw(TRIGGERS)
    more: dict[str, Any] = {"jitterSeconds": None} if "after" in trigger else draw(MORE)
    return {**draw(REST), **trigger, **more}


@given(document=jobs())
def test_job_is_read_back_from_what_is_stored_and_from_what_is_shown(document: dict[str, Any]) -> None:
    spec = parse_job(document)
    assert parse_job(spec.to_document()) == spec
    assert parse_job(json.loads(json.dumps(spec.to_stored()))) == spec
    assert set(spec.to_stored()) <= set(spec.to_document())
    assert set(members_of(JobSpec)) == set(spec.to_document())


def test_each_document_has_objects_of_its_own() -> None:
    one, other = (parse_job({"name": name, "command": "x", "every": "1h"}).to_document() for name in "ab")
    shared = [name for name, value in one.items() if isinstance(value, dict | list) and value is other[name]]
    assert shared == []
