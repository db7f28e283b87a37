"""The order of a job's requests, and the times of a worker's turns at them, as the plainest way to say it has them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from common.protocol.keys import RunId
from common.protocol.request import Origin, Request
from worker.plan.pending_requests import Lineup, PendingRequest, PendingRequests, order_of


def request(fire: str, plan_ms: int = 0, not_before_ms: int = 0, revision: int = 1) -> Request:
    return Request(
        run_id=RunId("job", fire), origin=Origin.RUN_NOW, job_create_revision=1, plan_ms=plan_ms,
        dispatch_ms=plan_ms, not_before_ms=not_before_ms, revision=revision,
    )  # fmt: skip


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "remove", "advance"]), st.sampled_from("abcde"), st.integers(0, 9),
        st.integers(0, 9),
    ),
    max_size=40,
)  # fmt: skip


@given(steps=STEPS)
def test_the_lineup_is_those_whose_time_has_come_oldest_first(steps: list[tuple[str, str, int, int]]) -> None:
    lineup, there, now_ms = Lineup(), dict[str, Request](), 0
    for number, (what, key, plan_ms, at_ms) in enumerate(steps):
        match what:
            case "put":
                there[key] = request(key, plan_ms, at_ms, number)
                lineup.put(key, there[key])
            case "remove":
                there.pop(key, None)
                lineup.remove(key)
            case _:
                now_ms = max(now_ms, at_ms)
        later = [one.not_before_ms for one in there.values() if one.not_before_ms > now_ms]
        assert lineup.advance(now_ms) == min(later, default=None)
        ready = sorted((one for one in there.values() if one.not_before_ms <= now_ms), key=order_of)
        assert [one for _, one in lineup.heads(3)] == ready[:3]
        assert len(lineup) == len(there)
        assert sorted(lineup.values(), key=order_of) == sorted(there.values(), key=order_of)


def test_what_is_put_twice_stands_there_once() -> None:
    """As a mirror may tell it that reads again."""
    lineup, one = Lineup(), request("a")
    for _ in range(2):
        lineup.put("a", one)
    lineup.advance(0)
    assert list(lineup.heads(3)) == [("a", one)]
    lineup.remove("a")
    assert list(lineup.heads(3)) == []


def due(times: PendingRequests) -> list[str]:
    found = []
    while (turn := times.line.first()) is not None:
        found.append(turn.key)
        turn.due = False
    return found


def test_turns_come_up_at_their_time_the_most_urgent_first() -> None:
    times = PendingRequests()
    turns = {
        key: PendingRequest(key=key, request=request(key, plan_ms), rank=0)
        for key, plan_ms in (("a", 3), ("b", 2), ("c", 1), ("d", 0))
    }
    for key, at_ms in (("a", 5), ("b", 5), ("c", 4), ("d", 9)):
        times.arm(turns[key], at_ms)
    assert times.cues.next_ms == 4
    assert times.collect(5, urgency=lambda one: 7 if one.run_id.fire == "a" else 0) == []
    assert due(times) == ["a", "c", "b"]
    assert times.cues.next_ms == 9


def test_a_turn_that_is_gone_or_locked_or_armed_anew_does_not_come_up() -> None:
    times = PendingRequests()
    gone, locked, later, busy = (PendingRequest(key=key, request=request(key), rank=0) for key in "abcd")
    for turn in (gone, locked, later, busy):
        times.arm(turn, 1)
    gone.gone, locked.parked, busy.busy = True, True, True
    times.arm(later, 3)
    times.collect(2, urgency=lambda _: 0)
    assert due(times) == []
    times.collect(3, urgency=lambda _: 0)
    assert due(times) == ["c"]


def test_one_that_is_armed_while_it_is_due_waits_for_its_new_time() -> None:
    times, turn = PendingRequests(), PendingRequest(key="a", request=request("a"), rank=0)
    times.arm(turn, 1)
    times.collect(1, urgency=lambda _: 0)
    times.arm(turn, 5)
    assert due(times) == []
    times.collect(5, urgency=lambda _: 0)
    assert due(times) == ["a"]


def test_a_job_is_reminded_of_once_for_each_time() -> None:
    times = PendingRequests()
    for _ in range(1000):
        times.remind("job", 5)
    assert len(times.cues) == 1
    assert times.collect(5, urgency=lambda _: 0) == ["job"]
    assert times.cues.next_ms is None


def test_a_job_is_reminded_of_at_each_time_of_its_requests_however_they_come_and_go() -> None:
    times = PendingRequests()
    times.remind("job", 30)
    times.remind("job", 10)
    times.remind("job", 20)  # said again when the job is planned at 10
    assert times.collect(10, urgency=lambda _: 0) == ["job"]
    times.remind("job", 20)
    assert times.collect(20, urgency=lambda _: 0) == ["job"]
    times.remind("job", 30)
    assert times.collect(30, urgency=lambda _: 0) == ["job"]
    assert times.cues.next_ms is None


def test_a_request_of_next_month_takes_no_room_for_each_that_comes_and_goes_until_then() -> None:
    """As an `after` job's next links do, beside a run of it that somebody wants in a month."""
    times, month_ms = PendingRequests(), 30 * 86_400_000
    for now_ms in range(0, 100_000, 1_000):
        times.remind("job", now_ms + 1_000)
        assert times.collect(now_ms + 1_000, urgency=lambda _: 0) == ["job"]
        times.remind("job", month_ms)
    assert len(times.cues) == 1
    assert times.collect(month_ms, urgency=lambda _: 0) == ["job"]
