"""Which notices go into one message, when it goes, and when it is given up; and what came of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from common.notices.events import Event
from common.notices.joining import (
    EVERY_MS,
    STUCK,
    ChannelState,
    Content,
    Message,
    Outcome,
    joined,
    message_id,
    rest_ms,
)
from common.notices.notice import (
    MOST_GROUPS,
    MOST_TOLD,
    AlertedEvent,
    Group,
    Notice,
    NoticeKind,
    NoticeState,
    notice_id,
)
from common.verdicts import EventKind
from manager.notices.sender import came_to
from manager.notices.ways import PutOffError, RefusedError, Result

NOW = 1_790_000_000_000
HOUR_MS = 3_600_000
SAYS = Content(subject="s", text="t", html="h", facts="{}")


def told(number: int, kind: EventKind = EventKind.FAILED, worker: str = "w1") -> AlertedEvent:
    return AlertedEvent(event=Event(kind=kind, at_ms=NOW + number, job=f"job-{number}", worker=worker))


def notice(number: int, *events: AlertedEvent, **changes: object) -> Notice:
    made = Notice(
        id=notice_id(str(number), "ops"), channel="ops", kind=NoticeKind.PROBLEM, created_ms=NOW + number,
        told=events or (told(number),),
    )  # fmt: skip
    return replace(made, **changes)


def message(tries: int = 0, due_ms: int = 0, **changes: object) -> Message:
    return replace(Message(id="m", notices=("n",), content=SAYS, tries=tries, due_ms=due_ms), **changes)


def test_one_notice_goes_as_it_is_and_its_id_is_the_message_s() -> None:
    one = notice(1)
    assert joined([one]) == one
    assert message_id(one) == one.id


def test_one_that_is_sent_again_by_hand_is_another_message() -> None:
    assert message_id(notice(1, resends=1)) == f"{notice(1).id}-1"


def test_several_become_a_digest_with_the_first_ten_whole_and_all_counted() -> None:
    storm = notice(0, told(0), groups=(Group(kind=EventKind.LOST, worker="w3", count=180),))
    digest = joined([storm, *(notice(number) for number in range(1, 33))])
    assert digest.kind is NoticeKind.DIGEST
    assert digest.id == storm.id
    assert [one.event.job for one in digest.told] == [f"job-{number}" for number in range(MOST_TOLD)]
    assert digest.groups == (
        Group(kind=EventKind.LOST, worker="w3", count=180), Group(kind=EventKind.FAILED, worker="w1", count=32),
    )  # fmt: skip
    assert digest.total == 212


def test_of_a_hundred_workers_only_the_kinds_are_counted() -> None:
    digest = joined([notice(number, told(number, worker=f"w{number}")) for number in range(MOST_GROUPS + 1)])
    assert digest.groups == (Group(kind=EventKind.FAILED, worker=None, count=MOST_GROUPS + 1),)


def test_tests_that_wait_together_are_one_test() -> None:
    tests = [notice(number, kind=NoticeKind.TEST, told=()) for number in range(2)]
    assert (joined(tests).kind, joined(tests).total) == (NoticeKind.TEST, 0)


def test_what_still_is_so_is_said_as_such_also_where_it_goes_together() -> None:
    again = [notice(number, kind=NoticeKind.REPEAT) for number in range(2)]
    assert joined(again).kind is NoticeKind.REPEAT
    assert joined([*again, notice(2)]).kind is NoticeKind.DIGEST


@dataclass(frozen=True)
class Rests:
    state: ChannelState
    more_wait: bool
    rest_ms: int


def state(*messages: Message, **changes: object) -> ChannelState:
    return replace(ChannelState(channel="ops", messages=messages), **changes)


DONE = Outcome(message="m", notices=("n",), state=NoticeState.SENT, error="", at_ms=NOW)
RESTS = {
    "what waits goes at once": Rests(state(), True, 0),
    "after a message the channel is quiet for the rest of 10 s": Rests(
        state(last_sent_ms=NOW - 4_000), True, EVERY_MS - 4_000
    ),
    "what a clock that is ahead has sent keeps nothing back": Rests(state(last_sent_ms=NOW + 60_000), True, 0),
    "a message that was never tried goes": Rests(state(message()), False, 0),
    "one that was put off waits": Rests(state(message(1, NOW + 7_000)), False, 7_000),
    "and holds up what came meanwhile": Rests(state(message(1, NOW + 7_000)), True, 7_000),
    "but no longer once it is stuck": Rests(state(message(STUCK, NOW + HOUR_MS // 60)), True, 0),
    "for one other message": Rests(state(message(STUCK, NOW + 70_000), message(1, NOW + 5_000)), True, 5_000),
    "another's clock that is ahead keeps it no longer than its pause": Rests(
        state(message(1, NOW + 500_000)), False, 10_000
    ),
    "what is not settled is settled, however quiet": Rests(state(last_sent_ms=NOW, done=(DONE,)), False, 0),
}


@pytest.mark.parametrize("case", RESTS.values(), ids=RESTS.keys())
def test_when_a_channel_has_something_to_do(case: Rests) -> None:
    assert rest_ms(case.state, NOW, more_wait=case.more_wait) == case.rest_ms


def test_pauses_grow_from_ten_seconds_to_an_hour_for_a_day() -> None:
    one, pauses, now = message(), list[int](), NOW
    while not one.is_given_up:
        one = one.put_off(now)
        pauses.append(one.due_ms - now)
        now = one.due_ms
    assert pauses[:4] == [10_000, 20_000, 40_000, 80_000]
    assert max(pauses) == HOUR_MS
    assert 24 * HOUR_MS <= sum(pauses[:-1]) < 25 * HOUR_MS


TWO = message(accepted=("a@x",))


@dataclass(frozen=True)
class Comes:
    before: Message
    result: Result
    why: PutOffError | RefusedError | None
    state: NoticeState
    error: str


COMES = {
    "taken": Comes(message(), Result(accepted=("a@x",)), None, NoticeState.SENT, ""),
    "refused": Comes(message(), Result(), RefusedError("550 no"), NoticeState.FAILED, "550 no"),
    "put off": Comes(message(), Result(), PutOffError("421 later"), NoticeState.SENDING, "421 later"),
    "put off for a day": Comes(message(40), Result(), PutOffError("421 later"), NoticeState.FAILED, "421 later"),
    "one of two refused": Comes(
        message(), Result(accepted=("a@x",), refused={"b@x": "550 who?"}), None, NoticeState.SENT, "b@x: 550 who?"
    ),
    "one of two put off": Comes(
        message(), Result(accepted=("a@x",), put_off="b@x: 451"), None, NoticeState.SENDING, "b@x: 451"
    ),
    "the other one refused later": Comes(TWO, Result(refused={"b@x": "550"}), None, NoticeState.SENT, "b@x: 550"),
    "the other one put off for a day": Comes(
        replace(TWO, tries=40), Result(put_off="b@x: 451"), None, NoticeState.SENT, "b@x: 451"
    ),
    "all refused": Comes(message(), Result(refused={"a@x": "550"}), None, NoticeState.FAILED, "a@x: 550"),
}


@pytest.mark.parametrize("case", COMES.values(), ids=COMES.keys())
def test_what_comes_of_a_message(case: Comes) -> None:
    after, outcome = came_to(state(case.before), case.before, case.result, case.why, now_ms=NOW)
    assert (outcome.state, outcome.error) == (case.state, case.error)
    if case.state is NoticeState.SENDING:
        (kept,) = after.messages
        assert (kept.id, kept.content, kept.tries) == (case.before.id, SAYS, case.before.tries + 1)
        assert set(case.result.accepted) <= set(kept.accepted)
        assert after.done == ()
    else:
        assert (after.messages, after.done, after.last_sent_ms) == ((), (outcome,), NOW)
        assert after.failing is (case.error != "")  # somebody does not have it


def test_a_channel_fails_once_a_message_is_stuck_and_until_one_is_sent() -> None:
    was = [
        came_to(state(one), one, Result(), PutOffError("later"), now_ms=NOW)[0].failing
        for one in map(message, range(STUCK))
    ]
    assert was == [False] * (STUCK - 1) + [True]
    ended, _ = came_to(state(message(), failing=True), message(), Result(accepted=("a",)), None, now_ms=NOW)
    assert not ended.failing
