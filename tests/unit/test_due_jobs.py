"""Which jobs have a request that is due, whatever was written, taken and written again before."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from common.protocol.keys import RunId
from common.protocol.request import Origin, Request
from worker.plan.pending_requests import DueJobs, Lineup


class Queue:
    """Line-ups, kept as the request queue keeps them."""

    def __init__(self) -> None:
        self.by_job: dict[str, Lineup] = {}
        self.due = DueJobs(self.by_job)
        self.due.begin()
        self.revision = 0

    def put(self, job: str, key: str, at_ms: int) -> None:
        self.revision += 1
        request = Request(
            run_id=RunId.planned(job, 5), origin=Origin.CHAIN, job_create_revision=1, plan_ms=5, dispatch_ms=at_ms,
            not_before_ms=at_ms, revision=self.revision,
        )  # fmt: skip
        self.by_job.setdefault(job, Lineup()).put(key, request)
        self.due.expect(job, at_ms)

    def remove(self, job: str, key: str) -> None:
        if (lineup := self.by_job.get(job)) is not None:
            lineup.remove(key)
            if not lineup:
                del self.by_job[job]

    def due_at(self, now_ms: int) -> list[str]:
        return asyncio.run(self.due.at(now_ms))

    def really_due(self, now_ms: int) -> set[str]:
        requests = ((job, one) for job, lineup in self.by_job.items() for one in lineup.values())
        return {job for job, one in requests if one.not_before_ms <= now_ms}


def test_a_job_is_due_once_its_time_has_come_and_until_its_request_is_gone() -> None:
    queue = Queue()
    queue.put("a", "k", 100)
    assert queue.due_at(99) == []
    assert queue.due_at(100) == ["a"]
    assert queue.due_at(101) == ["a"]
    queue.remove("a", "k")
    assert queue.due_at(102) == []


def test_it_does_not_grow_with_what_is_written_again_and_again() -> None:
    queue = Queue()
    for number in range(10_000):
        queue.put("a", "k", 1_000_000 + number)
        assert len(queue.due._times) < 2_000
    assert queue.due_at(2_000_000) == ["a"]


def test_who_begins_to_ask_hears_of_what_was_there_before_and_nobody_else_keeps_times() -> None:
    queue = Queue()
    queue.due.end()
    for number in range(2_000):
        queue.put("a", "k", number)
    queue.put("b", "k", 5_000)
    assert not queue.due._times
    queue.due.begin()
    assert queue.due_at(3_000) == ["a"]
    assert queue.due_at(5_000) == ["a", "b"]
    queue.due.end()
    assert not queue.due._due


async def test_nothing_is_kept_waiting_by_thousands_that_are_due_at_once() -> None:
    queue, turns = Queue(), 0
    for number in range(10_000):
        queue.put(str(number), "k", 100)

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    for _ in range(2):  # when they come up, and while they stay
        before = turns
        assert len(await queue.due.at(100)) == 10_000
        assert turns - before >= 15
    counting.cancel()


_steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abc"), st.sampled_from("xy"), st.integers(0, 20)),
        st.tuples(st.just("remove"), st.sampled_from("abc"), st.sampled_from("xy"), st.just(0)),
        st.tuples(st.sampled_from(["ask", "begin", "end"]), st.just(""), st.just(""), st.integers(0, 20)),
    ),
    max_size=40,
)


@given(steps=_steps)
def test_it_says_what_a_look_at_all_would_say(steps: list[tuple[str, str, str, int]]) -> None:
    queue, asked = Queue(), True
    for what, job, key, number in [*steps, ("ask", "", "", 20), ("begin", "", "", 0), ("ask", "", "", 20)]:
        match what:
            case "put":
                queue.put(job, key, number)
            case "remove":
                queue.remove(job, key)
            case "end":
                queue.due.end()
                asked = False
            case "begin":
                queue.due.begin()
                asked = True
            case _:
                assert set(queue.due_at(number)) == (queue.really_due(number) if asked else set())
