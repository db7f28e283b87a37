"""Spans and instants as users write them, and the delays between attempts."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import ScheduleError
from common.instants import parse_duration, to_ms
from common.jobs.retry import Retry
from common.schedules.moment import parse_moment


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("15m", 900), ("1h30m", 5400), ("1d", 86_400), ("2w", 1_209_600), ("1w1d1h1m1s", 694_861),
     ("0s", 0), ("0090s", 90), ("366d", 31_622_400)],
)  # fmt: skip
def test_span_is_read(text: str, seconds: int) -> None:
    assert parse_duration(text).ms == seconds * 1000
    assert str(parse_duration(text)) == text


@pytest.mark.parametrize(
    "text", ["", "5", "5 m", "1.5h", "-5m", "30m1h", "5M", "m", "1h1h", "\u0665m", "367d", "9" * 20]
)
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="span"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "timezone", "utc"),
    [
        ("2026-12-24T18:00:00+01:00", "UTC", "2026-12-24T17:00:00"),
        ("2026-12-24T18:00Z", "Europe/Paris", "2026-12-24T18:00:00"),
        ("2026-12-24T18:00", "Europe/Paris", "2026-12-24T17:00:00"),
        ("2026-12-24 18:00", "UTC", "2026-12-24T18:00:00"),
        ("2026-12-24T18:00:00.123000Z", "UTC", "2026-12-24T18:00:00.123"),
        ("2026-12-24T18:00:00.123001Z", "UTC", "2026-12-24T18:00:00.124"),  # not before its time
        ("2026-12-24T18:00:00.9999", "UTC", "2026-12-24T18:00:01"),
        ("2026-03-29T02:30", "Europe/Paris", "2026-03-29T01:00:00"),  # in the gap: at its end
        ("2026-03-29T02:59:59.9999", "Europe/Paris", "2026-03-29T01:00:00"),  # so is all of it
        ("2026-10-25T02:30", "Europe/Paris", "2026-10-25T00:30:00"),  # comes twice: the first time
        ("2026-10-25T02:59:59.9999", "Europe/Paris", "2026-10-25T01:00:00"),  # not at 03:00, which is an hour later
    ],
)
def test_instant_is_read_in_its_zone(text: str, timezone: str, utc: str) -> None:
    moment = parse_moment(text, timezone)
    assert moment.ms == to_ms(datetime.fromisoformat(utc).replace(tzinfo=UTC))
    assert str(moment) == text


@pytest.mark.parametrize("text", ["2026-12-31T23:59:59.999999", "2026-12-31T23:59:59.999999Z"])
def test_nothing_of_an_end_lies_after_it(text: str) -> None:
    end = to_ms(datetime.fromisoformat("2026-12-31T23:59:59.999Z"))
    assert parse_moment(text, is_end=True).ms == end


@pytest.mark.parametrize(
    "text", ["", "tomorrow", "2026-12-24", "18:00", "2026-13-24T18:00", "1969-12-31T23:59:59Z", "1798132800"]
)
def test_what_is_no_instant_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a time"):
        parse_moment(text)


def test_unknown_zone_of_an_instant_is_named() -> None:
    with pytest.raises(ScheduleError, match="Mars"):
        parse_moment("2026-12-24T18:00", "Mars")


def test_delays_grow_up_to_the_largest() -> None:
    retry = Retry(limit=9, delay_s=30, backoff=3, max_delay_s=600)
    assert [retry.delay_ms("j/1", attempt) // 1000 for attempt in range(1, 6)] == [30, 90, 270, 600, 600]
    assert Retry(delay_s=0).delay_ms("j/1", 5) == 0


@given(
    attempt=st.integers(1, 10**6), backoff=st.integers(1, 10) | st.floats(1, 10), delay_s=st.floats(0, 86_400),
    jitter=st.floats(0, 1),
)  # fmt: skip
def test_delay_is_bounded_for_any_attempt(attempt: int, backoff: float, delay_s: float, jitter: float) -> None:
    retry = Retry(limit=100, delay_s=delay_s, backoff=backoff, max_delay_s=86_400, jitter=jitter)
    delay_ms = retry.delay_ms("j/1", attempt)
    assert 0 <= delay_ms <= 86_400_000 * (1 + jitter) + 1
    assert retry.delay_ms("j/1", attempt) == delay_ms


def test_jitter_differs_from_run_to_run() -> None:
    retry = Retry(delay_s=100, jitter=1)
    assert len({retry.delay_ms(f"j/{number}", 1) for number in range(100)}) > 90
