"""The second schedule engine: for the forms that chaos jobs use it agrees with the first, which it does not know."""

from __future__ import annotations

import pytest

from common.jobs.reader import parse_job
from tests.chaos.good_history import T0_MS
from tests.chaos.planned import planned

FORMS: list[dict[str, str]] = [
    {"every": "1s"},
    {"every": "7s"},
    {"every": "7s", "offset": "3s"},
    {"every": "600s"},
    {"cronExpr": "* * * * * * *"},
    {"cronExpr": "*/7 * * * * * *"},
    {"cronExpr": "1,2,3,31 * * * * * *"},
    {"at": "2027-01-15T08:00:30+00:00"},
    {"at": "2020-01-15T08:00:30+00:00"},
]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_both_engines_agree(form: dict[str, str]) -> None:
    schedule = parse_job({"name": "x", "command": "true", **form}).schedule
    lo_ms, hi_ms = T0_MS - 1500, T0_MS + 700_000
    expected, ms = [], schedule.next_after_ms(lo_ms - 1)
    while ms is not None and ms <= hi_ms:
        expected.append(ms)
        ms = schedule.next_after_ms(ms)
    assert planned(form, lo_ms, hi_ms) == expected


@pytest.mark.parametrize("form", [{"every": "1m"}, {"cronExpr": "0 0 * * * * *"}, {"cronExpr": "@daily"}], ids=str)
def test_other_forms_are_refused(form: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="chaos jobs use"):
        planned(form, T0_MS, T0_MS + 1000)
