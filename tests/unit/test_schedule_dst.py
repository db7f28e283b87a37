"""Changes of the clocks, as tables of ISO strings: spring and autumn side by side."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from common.schedules.schedule import parse_cron
from tests.support.schedules import last_before


@dataclass(frozen=True, kw_only=True)
class Clocks:
    situation: str
    expr: str
    zone: str
    after: str
    fires: list[str]
    """Local times with offsets."""


BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
LORD_HOWE, CAIRO = "Australia/Lord_Howe", "Africa/Cairo"

CLOCKS = [
    # Berlin: 2026-03-29 02:00 -> 03:00, 2026-10-25 03:00 -> 02:00.
    Clocks(situation="Berlin, fixed-time in the gap runs after it", expr="0 30 2 * * * *", zone=BERLIN,
           after="2026-03-28T00:00+01:00",
           fires=["2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]),
    Clocks(situation="Berlin, fixed-time in the fold runs in the first pass", expr="0 30 2 * * * *", zone=BERLIN,
           after="2026-10-24T00:00+02:00",
           fires=["2026-10-24T02:30:00+02:00", "2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]),
    Clocks(situation="Berlin, several fixed fires in the gap run as one", expr="0 0,20,40 2 * * * *", zone=BERLIN,
           after="2026-03-28T02:30+01:00",
           fires=["2026-03-28T02:40:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"]),
    Clocks(situation="Berlin, several fixed fires in the fold run once each", expr="0 0,20,40 2 * * * *", zone=BERLIN,
           after="2026-10-25T00:00+02:00",
           fires=["2026-10-25T02:00:00+02:00", "2026-10-25T02:20:00+02:00", "2026-10-25T02:40:00+02:00",
                  "2026-10-26T02:00:00+01:00"]),
    Clocks(situation="Berlin, gap joins the fire right after it", expr="0 30,0 1-3 * * * *", zone=BERLIN,
           after="2026-03-29T01:00+01:00",
           fires=["2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00"]),
    Clocks(situation="Berlin, fold ends on a fire right after it", expr="0 30,0 1-3 * * * *", zone=BERLIN,
           after="2026-10-25T02:00+02:00",
           fires=["2026-10-25T02:30:00+02:00", "2026-10-25T03:00:00+01:00", "2026-10-25T03:30:00+01:00"]),
    Clocks(situation="Berlin, real time has nothing in the gap", expr="0 */30 * * * * *", zone=BERLIN,
           after="2026-03-29T01:00+01:00",
           fires=["2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00"]),
    Clocks(situation="Berlin, real time has both passes of the fold", expr="0 */30 * * * * *", zone=BERLIN,
           after="2026-10-25T01:30+02:00",
           fires=["2026-10-25T02:00:00+02:00", "2026-10-25T02:30:00+02:00", "2026-10-25T02:00:00+01:00",
                  "2026-10-25T02:30:00+01:00", "2026-10-25T03:00:00+01:00"]),
    Clocks(situation="Berlin, real time of one hour skips the day of the gap", expr="0 */30 2 * * * *", zone=BERLIN,
           after="2026-03-28T02:00+01:00",
           fires=["2026-03-28T02:30:00+01:00", "2026-03-30T02:00:00+02:00"]),
    Clocks(situation="Berlin, real time of one hour has it twice", expr="0 */30 2 * * * *", zone=BERLIN,
           after="2026-10-25T00:00+02:00",
           fires=["2026-10-25T02:00:00+02:00", "2026-10-25T02:30:00+02:00", "2026-10-25T02:00:00+01:00",
                  "2026-10-25T02:30:00+01:00", "2026-10-26T02:00:00+01:00"]),
    Clocks(situation="Berlin, asked inside the second pass, fixed-time waits for the next day", expr="0 30 2 * * * *",
           zone=BERLIN, after="2026-10-25T02:15+01:00", fires=["2026-10-26T02:30:00+01:00"]),
    Clocks(situation="Berlin, a rule of the far future", expr="0 30 2 * * * *", zone=BERLIN,
           after="2199-03-30T03:00+01:00", fires=["2199-03-31T03:00:00+02:00", "2199-04-01T02:30:00+02:00"]),
    # New York: 2026-03-08 02:00 -> 03:00, 2026-11-01 02:00 -> 01:00.
    Clocks(situation="New York, fixed-time in the gap runs after it", expr="30 2 * * *", zone=NEW_YORK,
           after="2026-03-07T12:00-05:00", fires=["2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"]),
    Clocks(situation="New York, fixed-time at the end of the gap", expr="0 0 3 * * * *", zone=NEW_YORK,
           after="2026-03-08T00:00-05:00", fires=["2026-03-08T03:00:00-04:00", "2026-03-09T03:00:00-04:00"]),
    Clocks(situation="New York, fixed-time in the fold runs in the first pass", expr="30 1 * * *", zone=NEW_YORK,
           after="2026-10-31T12:00-04:00", fires=["2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"]),
    Clocks(situation="New York, hourly through the gap", expr="@hourly", zone=NEW_YORK,
           after="2026-03-08T00:30-05:00", fires=["2026-03-08T01:00:00-05:00", "2026-03-08T03:00:00-04:00"]),
    Clocks(situation="New York, hourly through the fold", expr="@hourly", zone=NEW_YORK,
           after="2026-11-01T00:30-04:00",
           fires=["2026-11-01T01:00:00-04:00", "2026-11-01T01:00:00-05:00", "2026-11-01T02:00:00-05:00"]),
    # Lord Howe moves by half an hour: 2026-10-04 02:00 -> 02:30, 2026-04-05 02:00 -> 01:30.
    Clocks(situation="Lord Howe, half-hour gap", expr="15 2 * * *", zone=LORD_HOWE,
           after="2026-10-03T12:00+10:30", fires=["2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"]),
    Clocks(situation="Lord Howe, half-hour fold", expr="45 1 * * *", zone=LORD_HOWE,
           after="2026-04-04T12:00+11:00", fires=["2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"]),
    Clocks(situation="Lord Howe, real time through the gap", expr="*/15 * * * *", zone=LORD_HOWE,
           after="2026-10-04T01:40+10:30", fires=["2026-10-04T01:45:00+10:30", "2026-10-04T02:30:00+11:00"]),
    Clocks(situation="Lord Howe, real time through the fold", expr="*/15 * * * *", zone=LORD_HOWE,
           after="2026-04-05T01:40+11:00",
           fires=["2026-04-05T01:45:00+11:00", "2026-04-05T01:30:00+10:30", "2026-04-05T01:45:00+10:30",
                  "2026-04-05T02:00:00+10:30"]),
    # Cairo: 2026-04-24 00:00 -> 01:00, 2026-10-29 24:00 -> 23:00.
    Clocks(situation="Cairo, a day without midnight", expr="@daily", zone=CAIRO,
           after="2026-04-23T12:00+02:00", fires=["2026-04-24T01:00:00+03:00", "2026-04-25T00:00:00+03:00"]),
    Clocks(situation="Cairo, midnight gap", expr="0 30 0 * * * *", zone=CAIRO,
           after="2026-04-23T12:00+02:00", fires=["2026-04-24T01:00:00+03:00", "2026-04-25T00:30:00+03:00"]),
    Clocks(situation="Cairo, fold before midnight", expr="0 30 23 * * * *", zone=CAIRO,
           after="2026-10-29T12:00+03:00", fires=["2026-10-29T23:30:00+03:00", "2026-10-30T23:30:00+02:00"]),
    Clocks(situation="Cairo, midnight itself comes once", expr="@daily", zone=CAIRO,
           after="2026-10-29T12:00+03:00", fires=["2026-10-30T00:00:00+02:00", "2026-10-31T00:00:00+02:00"]),
    Clocks(situation="Cairo, real time through the gap", expr="0 30 * * * * *", zone=CAIRO,
           after="2026-04-23T22:45+02:00", fires=["2026-04-23T23:30:00+02:00", "2026-04-24T01:30:00+03:00"]),
    Clocks(situation="Cairo, real time through the fold", expr="0 30 * * * * *", zone=CAIRO,
           after="2026-10-29T22:45+03:00",
           fires=["2026-10-29T23:30:00+03:00", "2026-10-29T23:30:00+02:00", "2026-10-30T00:30:00+02:00"]),
    Clocks(situation="Kolkata, where nothing changes", expr="0 30 2 * * * *", zone="Asia/Kolkata",
           after="2026-03-29T00:00+05:30", fires=["2026-03-29T02:30:00+05:30", "2026-03-30T02:30:00+05:30"]),
    # London: 2026-03-29 01:00 -> 02:00, 2026-10-25 02:00 -> 01:00.
    Clocks(situation="London, gap", expr="0 1 * * *", zone="Europe/London",
           after="2026-03-28T12:00+00:00", fires=["2026-03-29T02:00:00+01:00", "2026-03-30T01:00:00+01:00"]),
    Clocks(situation="London, fold", expr="0 1 * * *", zone="Europe/London",
           after="2026-10-24T12:00+01:00", fires=["2026-10-25T01:00:00+01:00", "2026-10-26T01:00:00+00:00"]),
    # Sao Paulo changed at midnight: 2018-11-04 00:00 -> 01:00, 2018-02-18 00:00 -> 23:00 of the 17th.
    Clocks(situation="Sao Paulo, midnight gap", expr="@daily", zone="America/Sao_Paulo",
           after="2018-11-03T12:00-03:00", fires=["2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"]),
    Clocks(situation="Sao Paulo, fold before midnight", expr="30 23 * * *", zone="America/Sao_Paulo",
           after="2018-02-17T12:00-02:00", fires=["2018-02-17T23:30:00-02:00", "2018-02-18T23:30:00-03:00"]),
    Clocks(situation="Sao Paulo, midnight itself comes once", expr="@daily", zone="America/Sao_Paulo",
           after="2018-02-17T12:00-02:00", fires=["2018-02-18T00:00:00-03:00", "2018-02-19T00:00:00-03:00"]),
    # Apia went without 2011-12-30.
    Clocks(situation="Apia, a fire of the day that was left out joins the next midnight", expr="@daily",
           zone="Pacific/Apia", after="2011-12-28T12:00-10:00",
           fires=["2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00", "2012-01-01T00:00:00+14:00"]),
    Clocks(situation="Apia, a fire of that date alone runs after it", expr="0 0 12 30 12 * 2011",
           zone="Pacific/Apia", after="2011-01-01T00:00-11:00", fires=["2011-12-31T00:00:00+14:00"]),
    Clocks(situation="Apia, real time leaves the date out", expr="0 0 */12 * * * *", zone="Pacific/Apia",
           after="2011-12-29T06:00-10:00",
           fires=["2011-12-29T12:00:00-10:00", "2011-12-31T00:00:00+14:00", "2011-12-31T12:00:00+14:00"]),
    # Monrovia kept an offset of -0:44:30 until 1972-01-07.
    Clocks(situation="Monrovia, offset with seconds", expr="0 0 0 6,7 1 * 1972", zone="Africa/Monrovia",
           after="1972-01-01T00:00+00:00", fires=["1972-01-06T00:00:00-00:44:30", "1972-01-07T00:44:30+00:00"]),
    # Moscow changed its standard time for good: 2014-10-26 02:00 -> 01:00.
    Clocks(situation="Moscow, fold of standard time", expr="30 1 * * *", zone="Europe/Moscow",
           after="2014-10-25T12:00+04:00", fires=["2014-10-26T01:30:00+04:00", "2014-10-27T01:30:00+03:00"]),
    # Casablanca suspends its daylight saving in Ramadan: 2026-02-15 03:00 -> 02:00, 2026-03-22 02:00 -> 03:00.
    Clocks(situation="Casablanca, two changes in five weeks", expr="0 30 2 15,22 2,3 * 2026", zone="Africa/Casablanca",
           after="2026-02-01T00:00+01:00",
           fires=["2026-02-15T02:30:00+01:00", "2026-02-22T02:30:00+00:00", "2026-03-15T02:30:00+00:00",
                  "2026-03-22T03:00:00+01:00"]),
]  # fmt: skip


@pytest.mark.parametrize("case", CLOCKS, ids=lambda case: case.situation)
def test_fires_around_a_change_of_the_clocks(case: Clocks) -> None:
    schedule = parse_cron(case.expr, timezone=case.zone)
    fires = schedule.upcoming(datetime.fromisoformat(case.after), len(case.fires))
    assert [fire.local.isoformat() for fire in fires] == case.fires


@pytest.mark.parametrize("case", CLOCKS, ids=lambda case: case.situation)
def test_backwards_finds_the_same_fires(case: Clocks) -> None:
    schedule = parse_cron(case.expr, timezone=case.zone)
    after = datetime.fromisoformat(case.after)
    expected = [datetime.fromisoformat(fire) for fire in case.fires]
    found = []
    before: datetime | None = expected[-1] + timedelta(microseconds=1)
    while before is not None and (before := last_before(schedule, before)) is not None and before > after:
        found.append(before)
    assert found[::-1] == expected


@dataclass(frozen=True, kw_only=True)
class Note:
    situation: str
    expr: str
    zone: str = BERLIN
    after: str
    notes: list[str | None]


NOTES = [
    Note(situation="fixed-time in the gap", expr="0 30 2 * * * *", after="2026-03-28T12:00+01:00",
         notes=["02:30 does not exist on 2026-03-29 in Europe/Berlin; runs at 03:00", None]),
    Note(situation="fixed-time in the fold", expr="0 30 2 * * * *", after="2026-10-24T12:00+02:00",
         notes=["02:30 comes twice on 2026-10-25 in Europe/Berlin; runs the first time only", None]),
    Note(situation="several fixed in the gap", expr="0 0-50/10 2 * * * *", after="2026-03-28T12:00+01:00",
         notes=["02:00 to 02:50 do not exist on 2026-03-29 in Europe/Berlin; runs once, at 03:00", None]),
    Note(situation="real time in the gap", expr="0 */10 2 * * * *", after="2026-03-28T12:00+01:00",
         notes=["02:00 to 02:50 do not exist on 2026-03-29 in Europe/Berlin; no fire then", None]),
    Note(situation="real time in the fold", expr="15 30 */2 * * * *", after="2026-10-25T01:00+02:00",
         notes=["02:30:15 comes twice on 2026-10-25 in Europe/Berlin; runs both times, this is the first",
                "02:30:15 comes twice on 2026-10-25 in Europe/Berlin; runs both times, this is the second", None]),
    Note(situation="a day left out", expr="0 0 12 * * * *", zone="Pacific/Apia", after="2011-12-29T13:00-10:00",
         notes=["12:00 does not exist on 2011-12-30 in Pacific/Apia; runs at 00:00 on 2011-12-31", None]),
    Note(situation="clocks change, but not over a fire", expr="0 30 5 * * * *", after="2026-03-28T00:00+01:00",
         notes=[None, None]),
    Note(situation="change before the time asked for", expr="0 */10 2 * * * *", after="2026-03-29T12:00+02:00",
         notes=[None, None]),
    Note(situation="no daylight saving", expr="0 30 2 * * * *", zone="UTC", after="2026-03-28T12:00+01:00",
         notes=[None, None]),
]  # fmt: skip


@pytest.mark.parametrize("case", NOTES, ids=lambda case: case.situation)
def test_note_says_what_the_clocks_do_to_a_fire(case: Note) -> None:
    fires = parse_cron(case.expr, timezone=case.zone).upcoming(datetime.fromisoformat(case.after), len(case.notes))
    assert [fire.note for fire in fires] == case.notes


def test_fires_are_shown_in_utc_and_in_local_time() -> None:
    fire = parse_cron("0 30 2 * * * *", timezone=BERLIN).upcoming(datetime(2026, 7, 1, tzinfo=UTC), 1)[0]
    assert fire.at.isoformat() == "2026-07-01T00:30:00+00:00"
    assert fire.local.isoformat() == "2026-07-01T02:30:00+02:00"
