"""Which jobs have a request that is due, whatever was written, taken and written again before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from common.stored.keys import RunId
from common.stored.request import Origin, Request
from worker.requests.due_jobs import DueJobs
from worker.requests.lineup import Lineup


class Queue:
    """Line-ups, kept as the request queue keeps them."""

    def __init__(self) -> None:
        self.by_job: dict[str, Lineup] = {}
        self.due = DueJobs(self.by_job)
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

    def really_due(self, now_ms: int) -> set[str]:
        requests = ((job, one) for job, lineup in self.by_job.items() for one in lineup.values())
        return {job for job, one in requests if one.not_before_ms <= now_ms}


def test_a_job_is_due_once_its_time_has_come_and_until_its_request_is_gone() -> None:
    queue = Queue()
    queue.put("a", "k", 100)
    assert queue.due.at(99) == []
    assert queue.due.at(100) == ["a"]
    assert queue.due.at(101) == ["a"]
    queue.remove("a", "k")
    assert queue.due.at(102) == []


def test_a_clock_that_went_back_has_it_wait_again() -> None:
    queue = Queue()
    queue.put("a", "k", 100)
    assert queue.due.at(100) == ["a"]
    assert queue.due.at(50) == []
    assert queue.due.at(100) == ["a"]


def test_it_does_not_grow_with_what_is_written_again_and_again() -> None:
    queue = Queue()
    for number in range(10_000):
        queue.put("a", "k", 1_000_000 + number)
    assert len(queue.due._times) < 2_000
    assert queue.due.at(2_000_000) == ["a"]


_steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abc"), st.sampled_from("xy"), st.integers(0, 20)),
        st.tuples(st.just("remove"), st.sampled_from("abc"), st.sampled_from("xy"), st.just(0)),
        st.tuples(st.just("ask"), st.just(""), st.just(""), st.integers(0, 20)),
    ),
    max_size=40,
)


@given(steps=_steps)
def test_it_says_what_a_look_at_all_would_say(steps: list[tuple[str, str, str, int]]) -> None:
    queue = Queue()
    for what, job, key, number in [*steps, ("ask", "", "", 20)]:
        match what:
            case "put":
                queue.put(job, key, number)
            case "remove":
                queue.remove(job, key)
            case _:
                assert set(queue.due.at(number)) == queue.really_due(number)
