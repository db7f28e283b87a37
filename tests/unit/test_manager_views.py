"""The small rules behind the answers: names of hosts, numbers of workers, texts of queries, warnings."""

from __future__ import annotations

from typing import Annotated

import pytest
from aiohttp.test_utils import make_mocked_request

from common.errors import InvalidInputError
from common.instants import from_ms
from common.protocol.member import Member
from manager.http.guards import Hosts
from manager.http.inputs import form_job
from manager.http.queries import Cursor, Instant, Meaning, Query, whole
from manager.views.advice import mark_fault
from manager.views.inventory import SeenWorker
from manager.views.shapes import healthy, legacy_workers

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        ("127.0.0.1", True), ("127.0.0.1:8070", True), ("[::1]:8070", True), ("10.0.0.1", True), ("localhost:1", True),
        ("Console:80", True), ("a.localhost", True), ("evil.example", False), ("localhost.evil.example", False),
        ("", False), (":80", False), ("console.evil.example", False), ("a@localhost.evil.example", False),
        ("[::1", False), ("xlocalhost", False), ("2130706433", False),
    ],
)  # fmt: skip
def test_host_is_ours(host: str, ours: bool) -> None:
    assert Hosts(["console", "[::]"]).has(host) is ours


def member(worker: str, address: str, *, since_ms: int = 0, attached: bool = True, session: str = "a") -> SeenWorker:
    return SeenWorker(
        key=f"{worker}/{session}",
        member=Member(
            worker=worker, session=session, instance="i", host="h", address=address, slots=1, since_ms=since_ms,
            attached=attached,
        ),
    )  # fmt: skip


def test_workers_of_one_address_are_numbered_by_their_names() -> None:
    seen = [member("b", "10.0.0.1"), member("a", "10.0.0.1"), member("c", "10.0.0.2")]
    assert legacy_workers(seen) == ["10.0.0.1#1", "10.0.0.1#2", "10.0.0.2"]


def test_worker_with_two_sessions_counts_once_by_the_newer() -> None:
    old, new = member("a", "10.0.0.1", since_ms=1, session="z"), member("a", "10.0.0.1", since_ms=2, session="b")
    assert [one.session for one in healthy([old, new])] == ["b"]
    assert [one.session for one in healthy([new, old])] == ["b"]


def test_detached_and_unreadable_sessions_are_not_healthy() -> None:
    assert healthy([member("a", "x", attached=False), SeenWorker(key="k", member=None, problem="garbage")]) == []


class Asked(Query):
    n: Annotated[int, whole(0, 10, 3), Meaning("So many.")]
    since: Annotated[Instant, Meaning("Not before.", name="from")]
    cursor: Cursor


def asked(**texts: str) -> Asked:
    query = "&".join(f"{name}={text.replace('+', '%2B')}" for name, text in texts.items())
    return Asked.read(make_mocked_request("GET", f"/?{query}"))


@pytest.mark.parametrize(("text", "value"), [("5", 5), ("0", 0), ("10", 10), ("007", 7)])
def test_whole_number_within_its_range(text: str, value: int) -> None:
    assert asked(n=text).n == value


@pytest.mark.parametrize("text", ["", "-1", "11", "1.0", " 1", "1e1", "--1", "+1", "0x1", "9" * 5000])
def test_what_is_no_whole_number_of_the_range_is_a_fault(text: str) -> None:
    with pytest.raises(InvalidInputError, match=r"n: is .*; a whole number from 0 to 10; 3 when left out"):
        asked(n=text)


@pytest.mark.parametrize("text", ["1774746000000", "2026-03-29T01:00:00Z", "2026-03-29T03:00:00+02:00"])
def test_instant_in_its_spellings(text: str) -> None:
    assert asked(**{"from": text}).since == 1_774_746_000_000


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("9999-12-31T23:59:59-23:59", "9999-12-31"), ("9999-12-31T23:59:59.999Z", "9999-12-31"),
        ("0001-01-01T00:00:00+10:00", "0001-01-01"), ("0001-01-01T00:00:00Z", "0001-01-01"),
        ("1960-01-01T12:00:00Z", "1960-01-01"),
    ],
)  # fmt: skip
def test_instant_beyond_the_calendar_is_its_end(text: str, date: str) -> None:
    since = asked(**{"from": text}).since
    assert since is not None
    assert {from_ms(ms).date().isoformat() for ms in (since - 1, since, since + 1)} == {date}


def test_what_is_left_out_or_empty_is_the_default() -> None:
    assert vars(asked()) == vars(asked(**{"from": "", "cursor": ""})) == vars(asked(n="3"))


def test_every_mistake_of_a_query_is_told_at_once() -> None:
    with pytest.raises(InvalidInputError) as raised:
        asked(form="1", n="x", **{"from": "yesterday"})
    assert [(one.field, one.message) for one in raised.value.problems] == [
        ("form", "is not a parameter of this call"), ("n", "is 'x'"), ("from", "is 'yesterday'"),
    ]  # fmt: skip
    assert raised.value.problems[0].remedy == "did you mean from?"


def test_parameter_of_one_value_that_is_given_twice_is_a_mistake() -> None:
    with pytest.raises(InvalidInputError) as raised:
        Asked.read(make_mocked_request("GET", "/?n=1&cursor=a&n=1"))
    assert [(one.field, one.message) for one in raised.value.problems] == [("n", "is given 2 times")]


def test_form_with_more_fields_hints_at_an_unescaped_ampersand() -> None:
    with pytest.raises(InvalidInputError, match="--data-urlencode"):
        form_job({"job": '{"command":"a ', " b": ""})
    with pytest.raises(InvalidInputError) as raised:
        form_job({"job": '{"command":"a '})
    assert "urlencode" not in str(raised.value)


def test_mark_that_lies_ahead_blocks_the_job_until_then() -> None:
    assert mark_fault(NOW_MS + 10_000, now_ms=NOW_MS) is None
    assert "blocked until" in (mark_fault(NOW_MS + 10_001, now_ms=NOW_MS) or "")
    assert mark_fault(None, now_ms=NOW_MS) is None
