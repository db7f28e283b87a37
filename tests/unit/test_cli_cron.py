"""`etcron cron`: offline, quick to start, and its words agree with the engine."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from cli.__main__ import main
from cli.cron import field_words

_HEAVY = (
    "aiohttp",
    "pymongo",
    "grpc",
    "aetcd",
    "yaml",
    "cron_descriptor",
    "common.configuration",
    "http.client",
    "asyncio",
)


def _status(*arguments: str) -> int:
    try:
        return main(arguments)
    except SystemExit as leaving:
        return int(str(leaving.code))


def test_next_fires_with_their_offsets_through_a_change_of_the_clocks(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("cron", "next", "30 2 * * *", "-n", "3", "--tz", "Europe/Berlin", "--from", "2026-03-27T12:00:00Z")
    assert _status(*arguments) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Sat 2026-03-28 02:30:00+01:00",
        "Sun 2026-03-29 03:00:00+02:00  (02:30 does not exist on 2026-03-29 in Europe/Berlin; runs at 03:00)",
        "Mon 2026-03-30 02:30:00+02:00",
    ]
    assert _status(*arguments, "-o", "json") == 0
    fires = json.loads(capsys.readouterr().out)
    assert [fire["utc"] for fire in fires] == [
        "2026-03-28T01:30:00.000Z", "2026-03-29T01:00:00.000Z", "2026-03-30T00:30:00.000Z",
    ]  # fmt: skip


def test_from_without_an_offset_is_in_the_zone_that_is_asked_about(capsys: pytest.CaptureFixture[str]) -> None:
    for zone, first in (("America/New_York", "00:30:00-04:00"), ("Asia/Tokyo", "00:30:00+09:00")):
        arguments = ("cron", "next", "30 * * * *", "-n", "1", "--tz", zone, "--from", "2026-06-01T00:00")
        assert _status(*arguments) == 0
        assert capsys.readouterr().out == f"Mon 2026-06-01 {first}\n"


def test_an_expression_that_is_over_is_a_no(capsys: pytest.CaptureFixture[str]) -> None:
    assert _status("cron", "next", "0 0 0 1 1 * 1999") == 1
    assert "it never fires after" in capsys.readouterr().err
    assert _status("cron", "explain", "0 0 0 1 1 * 1999", "-o", "json") == 1


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("next", "61 * * * *"), 5, "etcron: minute: '61' is outside 0 to 59; write 0-59"),
        (("explain", "* * * * * *"), 5, "six fields can be read in two ways"),
        (("next", "@daily", "--tz", "Mars"), 2, "etcron: --tz: 'Mars' is not a known time zone; write an IANA name"),
        (("explain", "@daily", "--tz", "Mars"), 2, "etcron: --tz: 'Mars' is not a known time zone; write an IANA name"),
        (("next", "@daily", "--from", "noon"), 2, "--from: 'noon' is not a time"),
        (("next", "@daily", "-n", "0"), 2, "'0' is not a whole number from 1 to 10,000"),
        (("next",), 2, "usage:"),
    ],
)
def test_mistakes(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], status: int, message: str) -> None:
    assert _status("cron", *arguments) == status
    assert message in capsys.readouterr().err


def test_explains_field_by_field(capsys: pytest.CaptureFixture[str]) -> None:
    assert _status("cron", "explain", "0 30 2 * * MON-FRI *", "--tz", "Europe/Berlin") == 0
    seen = capsys.readouterr()
    lines = seen.out.splitlines()
    assert lines[0] == "At 02:30, Monday through Friday"
    assert "day-of-week   MON-FRI  Monday to Friday" in lines
    assert lines[-6] == "next fires (Europe/Berlin):"
    assert "when the clocks change, fixed times" in seen.err


def test_the_end_of_all_time_is_an_expression_that_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    for after in ("9999-06-01", "9999-12-31T23:59:59", "0001-01-03"):
        arguments = ("cron", "explain", "@daily", "--tz", "Europe/Berlin", "--from", after)
        assert _status(*arguments) == (1 if after.startswith("9999") else 0)
    assert "it never fires after 9999-12-31 22:59:59 UTC" in capsys.readouterr().err


def test_warns_of_both_day_fields(capsys: pytest.CaptureFixture[str]) -> None:
    assert _status("cron", "explain", "0 0 13 * 5", "-o", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["warnings"][0].startswith("both day fields are restricted, so a day fires when either matches")
    assert len(document["fires"]) == 5
    assert [field["name"] for field in document["fields"]][:2] == ["second", "minute"]


@pytest.mark.parametrize(
    ("expr", "index", "words"),
    [
        ("*/7 * * * * * *", 0, "0, 7, 14, ... 56  (9 values)"),
        ("0 5/20 * * * * *", 1, "5, 25, 45"),
        ("0 0 9-17 * * * *", 2, "9 to 17"),
        ("0 0 22-2 * * * *", 2, "0, 1, 2, 22, 23"),
        ("0 0 0 L * * *", 3, "the last day of the month"),
        ("0 0 0 L-1 * * *", 3, "1 day before the last day of the month"),
        ("0 0 0 15W * * *", 3, "the weekday (Monday to Friday) nearest to day 15"),
        ("0 0 0 1,LW * * *", 3, "1, the last weekday (Monday to Friday) of the month"),
        ("0 0 0 1,31 jan-mar * *", 4, "January to March"),
        ("0 0 0 * * 7,5L,1#2 *", 5, "Sunday, the last Friday of the month, the second Monday of the month"),
        ("0 0 0 * * 0-6 *", 5, "any"),
        ("0 0 0 ? * 1 2026-2028,2031", 6, "2026, 2027, 2028, 2031"),
        ("H * * * *", 1, "a fixed value that comes from the job's name (--job NAME shows which)"),
        ("0 0 0 * * THU *", 5, "Thursday"),
    ],
)  # fmt: skip
def test_words_of_a_field(expr: str, index: int, words: str) -> None:
    assert field_words(expr, "")[index][2] == words


def test_a_hash_is_told_for_the_jobs_name() -> None:
    assert field_words("H * * * *", "backup")[1][2] == "34  (from the name backup)"


def test_next_loads_nothing_that_is_slow_to_load() -> None:
    code = (
        "import sys; from cli.__main__ import main; main(['cron', 'next', '@daily']); "
        f"print([name for name in {_HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
    assert len(done.stdout.splitlines()) == 10
