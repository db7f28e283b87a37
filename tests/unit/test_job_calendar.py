"""A job's fires by day, and what a change of its clocks does to them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from common.instants import to_ms
from common.jobs.reader import parse_job
from manager.views.calendar import calendar_of


def calendar(at: str, days: int = 3, **fields: Any) -> dict[str, Any]:
    spec = parse_job({"name": "j", "command": "true", **fields})
    return calendar_of(spec, days, now_ms=to_ms(datetime.fromisoformat(at)))


def test_days_are_those_of_the_schedule_and_of_today_only_what_is_to_come_counts() -> None:
    found = calendar("2026-11-24T22:30:00Z", cronExpr="0 0 9,21 * * * *", timezone="Asia/Tokyo")
    assert (found["timezone"], found["clocks"]) == ("Asia/Tokyo", [])
    assert [(one["date"], one["fires"]) for one in found["days"]] == [
        ("2026-11-25", 2), ("2026-11-26", 2), ("2026-11-27", 2),
    ]  # fmt: skip
    assert calendar("2026-11-25T00:30:00Z", cronExpr="0 0 9,21 * * * *", timezone="Asia/Tokyo")["days"][0]["fires"] == 1


def test_closed_days_and_days_of_very_many_fires_say_so() -> None:
    days = calendar("2026-11-25T00:30:00Z", cronExpr="* * * * * * *", calendar={"exclude": ["2026-11-26"]})["days"]
    assert days == [
        {"date": "2026-11-25", "fires": 25, "closed": 0, "isMore": True},
        {"date": "2026-11-26", "fires": 0, "closed": 25, "isMore": True},
        {"date": "2026-11-27", "fires": 25, "closed": 0, "isMore": True},
    ]


def test_changes_of_the_clocks_name_the_fires_that_they_move_or_repeat() -> None:
    daily = calendar("2026-11-25T00:00:00Z", cronExpr="0 30 2 * * * *", timezone="Europe/Berlin")["clocks"]
    assert [(one["beforeS"], one["afterS"]) for one in daily] == [(3600, 7200), (7200, 3600)]
    (moved,), (once,) = (one["fires"] for one in daily)
    assert moved["local"] == "2027-03-28T03:00:00+02:00"
    assert "02:30 does not exist" in moved["note"]
    assert "first time only" in once["note"]
    evening = calendar("2026-11-25T00:00:00Z", cronExpr="0 30 18 * * * *", timezone="Europe/Berlin")["clocks"]
    assert [one["fires"] for one in evening] == [[], []]
    often = calendar("2026-11-25T00:00:00Z", cronExpr="*/10 * * * * * *", timezone="Europe/Berlin")["clocks"]
    assert "no fire then" in often[0]["fires"][0]["note"]
    assert "both times" in often[1]["fires"][0]["note"]
