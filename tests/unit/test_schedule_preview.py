"""What the preview shows: fires that a change of the clocks touches; every trigger; open days."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from common.errors import InvalidInputError
from common.instants import to_ms
from manager.api.jobs import read_preview
from manager.views.advice import preview


def shown(document: dict[str, Any], now: str) -> dict[str, Any]:
    """The preview of these fields, asked at this instant."""
    spec, n = read_preview(document)
    return preview(spec, n, now_ms=to_ms(datetime.fromisoformat(now).astimezone(UTC)))


NEW_YORK, PARIS, LORD_HOWE = "America/New_York", "Europe/Paris", "Australia/Lord_Howe"
CAIRO, KOLKATA = "Africa/Cairo", "Asia/Kolkata"

# zone, expression, asked at, the local times of the next fires with their offsets
TOUCHED = [
    (NEW_YORK, "0 30 2 * * * *", "2026-03-08T00:00-05:00",
     "2026-03-08T03:00:00-04:00 2026-03-09T02:30:00-04:00"),  # in the gap: at its end
    (NEW_YORK, "0 30 1 * * * *", "2026-11-01T00:00-04:00",
     "2026-11-01T01:30:00-04:00 2026-11-02T01:30:00-05:00"),  # comes twice: the first time alone
    (LORD_HOWE, "0 15 2 * * * *", "2026-10-04T00:00+10:30",
     "2026-10-04T02:30:00+11:00 2026-10-05T02:15:00+11:00"),
    (CAIRO, "@daily", "2026-04-23T12:00+02:00",
     "2026-04-24T01:00:00+03:00 2026-04-25T00:00:00+03:00"),  # that day has no midnight
    (NEW_YORK, "0 30 * * * * *", "2026-11-01T00:00-04:00",
     "2026-11-01T00:30:00-04:00 2026-11-01T01:30:00-04:00 2026-11-01T01:30:00-05:00 2026-11-01T02:30:00-05:00"),
    (LORD_HOWE, "0 */15 * * * * *", "2026-04-05T01:20+11:00",
     "2026-04-05T01:30:00+11:00 2026-04-05T01:45:00+11:00 2026-04-05T01:30:00+10:30 2026-04-05T01:45:00+10:30"),
]  # fmt: skip


@pytest.mark.parametrize(("zone", "expr", "now", "fires"), TOUCHED)
def test_preview_shows_and_warns_of_fires_that_a_change_of_the_clocks_touches(
    zone: str, expr: str, now: str, fires: str
) -> None:
    local = fires.split()
    answer = shown({"cronExpr": expr, "timezone": zone, "n": len(local)}, now)
    assert [fire["local"] for fire in answer["fires"]] == local
    assert [fire["ms"] for fire in answer["fires"]] == [
        to_ms(datetime.fromisoformat(one).astimezone(UTC)) for one in local
    ]
    assert all(fire["open"] for fire in answer["fires"])
    assert any(fire["note"] in answer["warnings"] for fire in answer["fires"] if fire["note"])


def test_preview_of_a_rate_is_in_the_zone() -> None:
    answer = shown({"every": "1h", "offset": "30m", "timezone": KOLKATA, "n": 2}, "2026-05-01T00:00Z")
    assert [fire["local"] for fire in answer["fires"]] == ["2026-05-01T06:00:00+05:30", "2026-05-01T07:00:00+05:30"]
    assert (answer["every"], answer["offset"], answer["cronExpr"]) == ("1h", "30m", None)
    assert answer["words"] == "Every hour, 30 minutes past"


def test_preview_of_one_instant_has_one_fire() -> None:
    answer = shown({"at": "2026-05-01T09:00", "timezone": PARIS}, "2026-05-01T00:00Z")
    assert [fire["utc"] for fire in answer["fires"]] == ["2026-05-01T07:00:00.000Z"]


def test_preview_of_a_past_instant_says_so() -> None:
    answer = shown({"at": "2026-05-01T09:00Z"}, "2026-05-01T09:01:01Z")
    assert answer["fires"] == []
    assert "past by more than its grace" in answer["warnings"][0]
    assert "fires at once" in shown({"at": "2026-05-01T09:00Z"}, "2026-05-01T09:01:00Z")["warnings"][0]


def test_preview_of_a_delay_has_words_and_no_fires() -> None:
    answer = shown({"after": "90s"}, "2026-05-01T00:00Z")
    assert (answer["words"], answer["fires"], answer["warnings"]) == (
        "1 minute 30 seconds after the last run ended", [], [],
    )  # fmt: skip


def test_preview_tells_closed_fires_from_open_ones() -> None:
    answer = shown(
        {
            "cronExpr": "0 0 12 * * * *",
            "calendar": {"exclude": ["05-01"]},
            "endAt": "2026-05-03T00:00",
            "jitterSeconds": 5,
        },
        "2026-04-30T00:00Z",
    )
    assert [(fire["utc"][:10], fire["open"]) for fire in answer["fires"]] == [
        ("2026-04-30", True), ("2026-05-01", False), ("2026-05-02", True),
    ]  # fmt: skip
    assert answer["words"] == "At 12:00, until 2026-05-03 00:00, not on May 1, up to 5 seconds later (jitter)"


def test_preview_of_several_expressions_shows_their_union() -> None:
    answer = shown({"cronExpr": ["0 0 9 * * * *", "0 0 12 * * * *"], "n": 3}, "2026-05-01T10:00Z")
    assert [fire["utc"][8:13] for fire in answer["fires"]] == ["01T12", "02T09", "02T12"]
    assert answer["words"] == "At 09:00; at 12:00"


BAD = [
    ({}, ["cronExpr"]),
    ({"every": "0s", "n": 0}, ["every", "n"]),
    ({"cronExpr": ["@daily", "x"], "timezone": "Mars", "name": 5}, ["timezone", "cronExpr[1]", "name"]),
    ({"cronExpr": "@daily", "command": "echo"}, ["command"]),
    ({"cronExpr": "@daily", "calendar": {"exclude": ["x"]}, "endAt": "x"}, ["endAt", "calendar.exclude[0]"]),
    ({"cronExpr": "@daily", "n": 101}, ["n"]),
]  # fmt: skip


@pytest.mark.parametrize(("document", "fields"), BAD)
def test_mistakes_of_a_preview_are_told_at_once(document: dict[str, Any], fields: list[str]) -> None:
    with pytest.raises(InvalidInputError) as raised:
        read_preview(document)
    assert sorted(problem.field for problem in raised.value.problems) == sorted(fields)
