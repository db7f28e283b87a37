"""What the audit makes of a call that came to nothing, and how it counts a flood of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from aiohttp import web

from common.access.audit_chain import Note, Outcome
from common.errors import (
    ConflictError,
    EtcdInDoubtError,
    ForbiddenError,
    InvalidInputError,
    LoginNeededError,
    NotFoundError,
    Problem,
    UnavailableError,
)
from common.etcd.settle import UnsettledError
from manager.access.audited import outcome_of
from manager.access.failed_calls import MOST_KINDS, WINDOW_MS, FailedCalls
from manager.http.errors import RequestError

NOON = 1_790_000_000_000


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (LoginNeededError(), Outcome.REFUSED), (ForbiddenError("no"), Outcome.REFUSED),
        (RequestError(403, "a foreign host"), Outcome.REFUSED), (RequestError(429, "too many"), Outcome.FAILED),
        (web.HTTPForbidden(), Outcome.REFUSED), (web.HTTPFound("/"), Outcome.DONE),
        (InvalidInputError([Problem(field="a", message="b", remedy="c")]), Outcome.FAILED),
        (NotFoundError("none"), Outcome.FAILED), (ConflictError("other"), Outcome.FAILED),
        (UnavailableError("nothing was done"), Outcome.FAILED),
        (UnsettledError("it may have been done"), Outcome.IN_DOUBT),
        (EtcdInDoubtError("no answer"), Outcome.IN_DOUBT),
        (RequestError(503, "no answer in time", code="timeout"), Outcome.IN_DOUBT),
        (ZeroDivisionError(), Outcome.IN_DOUBT),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)  # fmt: skip
def test_what_an_error_makes_of_a_call(error: Exception, outcome: Outcome) -> None:
    assert outcome_of(error) is outcome


def refused(number: int = 0, **changes: object) -> Note:
    note = Note(
        ms=NOON + number, who="api 10.0.0.1", via="nobody", address="10.0.0.1", action="login", object="",
        outcome=Outcome.REFUSED,
    )  # fmt: skip
    return replace(note, **changes)  # type: ignore[arg-type]


def test_first_of_a_minute_is_an_entry_and_the_others_are_a_number() -> None:
    calls = FailedCalls()
    first, *others = [calls.take(refused(number), now_ms=NOON + number) for number in range(1_000)]
    assert (first, set(others)) == (refused(), {None})
    assert calls.over(now_ms=NOON + WINDOW_MS - 1) == []
    [summary] = calls.over(now_ms=NOON + WINDOW_MS)
    assert summary.details == {"more": 999, "lastMs": NOON + 999}
    assert calls.take(refused(5), now_ms=NOON + WINDOW_MS) == refused(5), "the next minute begins"


def test_one_of_a_kind_leaves_nothing_to_sum_up() -> None:
    calls = FailedCalls()
    calls.take(refused(), now_ms=NOON)
    assert calls.over(now_ms=NOON + WINDOW_MS) == []


def test_flood_from_many_addresses_is_bounded_too() -> None:
    calls = FailedCalls()
    notes = [calls.take(refused(address=f"10.0.{number}.1"), now_ms=NOON) for number in range(5 * MOST_KINDS)]
    assert len([note for note in notes if note is not None]) == MOST_KINDS
    [others] = calls.over(now_ms=NOON + WINDOW_MS)
    assert (others.who, others.address, others.details["more"]) == ("others", "", 4 * MOST_KINDS)


def test_attack_flood_of_strangers_hides_what_somebody_who_is_known_was_refused() -> None:
    calls = FailedCalls()
    for number in range(2 * MOST_KINDS):
        calls.take(refused(address=f"10.0.{number}.1"), now_ms=NOON)
    theirs = refused(who="mallory (token t)", via="token", action="user.create")
    assert calls.take(theirs, now_ms=NOON) == theirs
    [others] = calls.over(now_ms=NOON + WINDOW_MS)
    assert (others.via, others.details["more"]) == ("nobody", MOST_KINDS)


def test_clock_that_is_set_back_does_not_hold_the_count_for_ever() -> None:
    calls = FailedCalls()
    for _ in range(2):
        calls.take(refused(), now_ms=NOON)
    assert len(calls.over(now_ms=NOON - 10 * WINDOW_MS)) == 1
