"""Whose turn a request is, and when: by rank, by the job's lock, by slots. Nothing is sent; time passes when told."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from common.etcd import Change
from common.protocol.keys import Keys, RunId
from common.protocol.planned_job import PlannedJob
from common.protocol.request import Origin, Request
from common.protocol.run import Trigger
from common.timings import Timings
from tests.support.fake_clock import FakeClock
from tests.support.stored import kv, planned, spec_of
from worker.admission import Admission, Reason
from worker.plan.lock_waits import LockPoll
from worker.plan.request_claiming import NOTHING, Tried
from worker.plan.request_queue import AT_ONCE, RequestQueue
from worker.runs import RunTable

KEYS = Keys()
NEVER = "0 0 0 1 1 * 2099"
HEDGE_MS = 500


class Tasks:
    """Tasks that begin when they are told to."""

    def __init__(self) -> None:
        self.left: list[Any] = []

    def create_task(self, work: Any, *, name: str) -> None:
        assert name == "request"
        self.left.append(work)


class Worker:
    """The requests of worker `w1`: what it tries, and what becomes of that, as the test says."""

    def __init__(self, *, slots: int = 10, order: Sequence[str] = ("w1",)) -> None:
        self.clock = FakeClock()
        self.jobs: dict[str, PlannedJob] = {}
        self.killed: dict[RunId, object] = {}
        self.order = tuple(order)
        self.held: set[str] = set()
        self.won: list[object] = []
        self.table = RunTable(slots=slots)
        self.revision = 100
        unneeded = cast(Any, None)
        self.locks = LockPoll(cast(Any, self), KEYS)
        self.admission = Admission()
        self.queue = RequestQueue(
            client=cast(Any, self), keys=KEYS, identity=cast(Any, SimpleNamespace(worker="w1")),
            catalog=cast(Any, SimpleNamespace(of_run=lambda run_id: self.jobs.get(run_id.job_name))),
            members=cast(Any, SimpleNamespace(place=self._place)),
            kills=cast(Any, SimpleNamespace(by_run=self.killed)), table=self.table,
            refusals=unneeded, locks=self.locks, timings=Timings(), on_won=self.won.append,
            admission=self.admission, clock=self.clock,
        )  # fmt: skip
        self.tasks = Tasks()
        self.queue._tasks = cast(Any, self.tasks)
        self.queue.session = cast(Any, "a session")
        self.answer = NOTHING
        cast(Any, self.queue._claiming).claim = self._claim

    def _place(self, job: PlannedJob, fire: str, *, last: str | None) -> int | None:
        order = sorted(self.order, key=lambda name: name == last)
        return order.index("w1") if "w1" in order else None

    async def _claim(self, request: Request, *_: object) -> Tried:
        return self.answer

    def job(self, name: str = "job", **fields: Any) -> None:
        self.jobs[name] = planned(spec_of(name, cronExpr=NEVER, **fields), revision=5, created=3)

    def ask(self, number: int = 1, name: str = "job", *, in_ms: int = 0, **changes: Any) -> Change:
        """A request is there now, the plan times in the order of the numbers."""
        plan_ms = self.clock.wall_ms() - 1_000 + number
        values: dict[str, Any] = {
            "run_id": RunId(name, f"r-{number}"), "origin": Origin.RUN_NOW, "job_create_revision": 3,
            "plan_ms": plan_ms, "dispatch_ms": plan_ms, "not_before_ms": self.clock.wall_ms() + in_ms,
        }  # fmt: skip
        request = Request(**(values | changes))
        self.revision += 1
        key = request.key(KEYS)
        change = Change(key=key, old_mod=None, new=kv(key, request.to_json(), self.revision))
        self.queue.on_changes([change])
        return change

    def gone(self, change: Change) -> None:
        self.queue.on_changes([Change(key=change.key, old_mod=1, new=None)])

    def tries(self, *, after_ms: int = 0) -> list[str]:
        """What it tries once so much time has passed, and all that has waited so long has had its turn."""
        self.clock.advance(after_ms)
        before, now_ms = len(self.tasks.left), self.clock.wall_ms()
        next_ms: int | None = now_ms
        while next_ms is not None and next_ms <= now_ms:
            next_ms = self.queue._try_due(now_ms)
        return [self._name(work) for work in self.tasks.left[before:]]

    def _name(self, work: Any) -> str:
        run_id = work.cr_frame.f_locals["pending"].request.run_id
        return run_id.fire.removeprefix("r-") if run_id.job == "job" else str(run_id.job)

    async def answered(self, answer: Tried = NOTHING) -> None:
        """All tries that are under way have ended so."""
        self.answer = answer
        left, self.tasks.left = self.tasks.left, []
        for work in left:
            await work
        assert self.queue.claims_in_flight == 0

    async def get_many(self, keys: list[str]) -> dict[str, object]:
        """etcd's answer to a look at the locks."""
        return {key: "a lock" for key in keys if key in self.held}

    def end(self) -> None:
        for work in self.tasks.left:
            work.close()


@pytest.fixture
def worker(request: pytest.FixtureRequest) -> Any:
    one = Worker(**getattr(request, "param", {}))
    one.job()
    one.job("free", overlap="allow")
    yield one
    one.end()


MET_LOCK = Tried(met_lock=True)
WON = Tried(run=cast(Any, "a run"))


@pytest.mark.parametrize(
    ("worker", "avoid", "after_ms"),
    [
        pytest.param({"order": ("w1", "w2")}, None, 0, id="the first at once"),
        pytest.param({"order": ("w2", "w1")}, None, HEDGE_MS, id="the second a hedge later"),
        pytest.param({"order": ("w2", "w3", "w1")}, None, 2 * HEDGE_MS, id="the third two hedges later"),
        pytest.param({"order": ("w1",)}, "w1", 0, id="to be avoided, and there is nobody else"),
        pytest.param({"order": ("w1", "w2")}, "w1", 2 * HEDGE_MS, id="to be avoided"),
        pytest.param({"order": ("w1", "w2", "w3", "w4")}, "w1", 1_500, id="to be avoided, and there are many"),
    ],
    indirect=["worker"],
)
def test_each_rank_tries_a_hedge_later_and_who_is_to_be_avoided_two(
    worker: Worker, avoid: str | None, after_ms: int
) -> None:
    worker.ask(avoid=avoid)
    if after_ms:
        assert worker.tries(after_ms=after_ms - 1) == []
        after_ms = 1
    assert worker.tries(after_ms=after_ms) == ["1"]


@pytest.mark.parametrize(
    ("worker", "after_ms"),
    [({"order": ("w2", "w3")}, 60_000), ({"order": ("w2", "w3", "w1")}, 0)],
    indirect=["worker"],
    ids=["not eligible", "last"],
)
def test_who_comes_to_be_the_first_tries_at_once(worker: Worker, after_ms: int) -> None:
    worker.ask()
    assert worker.tries(after_ms=after_ms) == []
    worker.order = ("w1",)
    worker.queue.replan()
    worker.queue._plan_some()
    assert worker.tries() == ["1"]


@pytest.mark.parametrize("worker", [{"order": ("w2", "w1")}], indirect=True)
def test_who_comes_behind_one_that_is_to_be_avoided_is_the_first(worker: Worker) -> None:
    worker.ask(avoid="w2")
    assert worker.tries() == ["1"]


async def test_a_jobs_requests_go_one_by_one_and_the_oldest_first(worker: Worker) -> None:
    for number in (2, 1, 3):
        worker.ask(number)
    assert worker.tries() == ["1"]
    assert worker.tries(after_ms=5_000) == []
    await worker.answered(WON)
    assert worker.won == ["a run"]
    assert worker.tries() == ["2"]
    await worker.answered(NOTHING)
    assert worker.tries(after_ms=999) == []
    assert worker.tries(after_ms=1) == ["2"], "a second later"


async def test_an_older_one_that_comes_during_a_try_waits_for_its_answer(worker: Worker) -> None:
    worker.ask(2)
    assert worker.tries() == ["2"]
    worker.ask(1)
    assert worker.tries(after_ms=1_000) == []
    await worker.answered(MET_LOCK)
    assert worker.tries() == ["1"]


@pytest.mark.parametrize("worker", [{"slots": 100}], indirect=True)
async def test_requests_of_a_job_without_lock_go_several_at_once(worker: Worker) -> None:
    for number in range(AT_ONCE + 3):
        worker.ask(number, "free")
    assert len(worker.tries()) == AT_ONCE
    assert worker.tries(after_ms=1_000) == []
    await worker.answered(WON)
    assert len(worker.tries()) == 3


def test_those_that_make_up_for_misfires_go_one_by_one_also_without_lock(worker: Worker) -> None:
    for number in (1, 2):
        worker.ask(number, "free", origin=Origin.CATCH_UP)
    assert worker.tries() == ["free"]


@pytest.mark.parametrize("worker", [{"slots": 100}], indirect=True)
def test_so_many_claims_are_under_way_at_once_and_no_more(worker: Worker) -> None:
    for number in range(AT_ONCE + 3):
        worker.job(f"job-{number}")
        worker.ask(number, f"job-{number}")
    assert len(worker.tries()) == AT_ONCE


@pytest.mark.parametrize("worker", [{"slots": 3}], indirect=True)
async def test_no_more_is_tried_than_there_are_slots_for_the_most_urgent_first(worker: Worker) -> None:
    worker.job("big", slots=2, priority=1)
    worker.job("urgent", priority=2)
    for name in ("job", "free", "big", "urgent"):
        worker.ask(1, name)
    assert worker.tries() == ["urgent", "big"]
    assert worker.tries(after_ms=5_000) == [], "none is free"
    await worker.answered(NOTHING)
    for name in ("big", "urgent"):
        del worker.jobs[name]
    assert sorted(worker.tries()) == ["1", "free"]


@pytest.mark.parametrize("worker", [{"slots": 2}], indirect=True)
def test_one_that_needs_more_slots_than_are_free_is_not_overtaken(worker: Worker) -> None:
    worker.job("big", slots=2, priority=1)
    worker.table.running_slots = 1
    for name in ("job", "big"):
        worker.ask(1, name)
    assert worker.tries() == []
    assert worker.table.kept_from("fires") == 2, "what comes free is kept for it"
    worker.table.running_slots = 0
    assert worker.tries() == ["big"]
    assert worker.table.kept_from("fires") == 1, "for the next one"


def test_slots_that_are_kept_for_more_urgent_fires_are_not_taken(worker: Worker) -> None:
    worker.table.running_slots = 9
    worker.table.wait_for("fires", 1, urgency=9)
    worker.ask()
    assert worker.tries() == []
    worker.table.wait_for("fires", 0)
    assert worker.tries() == ["1"]
    assert worker.table.kept_from("fires") == 0


@pytest.mark.parametrize("why", ["no session", "not accepting"])
def test_nothing_is_tried_without_a_session_or_by_who_does_not_accept(worker: Worker, why: str) -> None:
    worker.ask()
    if why == "no session":
        worker.queue.session = None
    else:
        worker.admission.set(Reason.STOP, "stopping")
    assert worker.tries() == []


@pytest.mark.parametrize("what", ["made again", "killed", "expired", "paused", "deleted"])
def test_one_that_may_not_run_is_left_to_the_steward(worker: Worker, what: str) -> None:
    expires_ms = worker.clock.wall_ms() + 10 if what == "expired" else None
    made = 2 if what == "made again" else 3
    change = worker.ask(run_id=RunId.planned("job", 7), job_create_revision=made, expires_ms=expires_ms)
    match what:
        case "killed":
            worker.killed[RunId.planned("job", 7)] = "a kill"
        case "paused":
            worker.job(enabled=False)
        case "deleted":
            del worker.jobs["job"]
        case _:
            pass
    assert worker.tries(after_ms=11) == []
    assert worker.tries(after_ms=5_000) == []
    worker.gone(change)
    assert not worker.queue.by_job


@pytest.mark.parametrize(("trigger", "tries"), [(Trigger.API, ["7"]), (Trigger.RETRY, [])])
def test_a_paused_job_runs_what_somebody_asks_for(worker: Worker, trigger: Trigger, tries: list[str]) -> None:
    worker.job(enabled=False)
    worker.ask(run_id=RunId.planned("job", 7), trigger=trigger)
    assert worker.tries() == tries


def test_a_later_request_lines_up_when_its_time_comes(worker: Worker) -> None:
    worker.ask(1, in_ms=60_000)
    worker.ask(2, in_ms=30_000)
    assert worker.tries() == []
    assert worker.queue._try_due(worker.clock.wall_ms()) == worker.clock.wall_ms() + 30_000
    assert worker.tries(after_ms=29_999) == []
    assert worker.tries(after_ms=1) == ["2"]


def test_one_that_is_written_again_has_the_time_that_it_says_then(worker: Worker) -> None:
    worker.ask(in_ms=0)
    worker.ask(in_ms=500)
    assert worker.tries() == []
    worker.clock.advance(500)
    worker.queue._try_due(worker.clock.wall_ms())
    worker.ask(in_ms=0)
    assert worker.tries() == ["1"]
    [turn] = worker.queue._pending["job"].values()
    assert turn.request.revision == worker.revision, "as it is now"


def test_one_that_lies_where_another_kind_lies_is_set_aside(worker: Worker) -> None:
    change = worker.ask()
    worker.gone(change)
    assert change.new is not None
    key = KEYS.chain("job")
    worker.queue.on_changes([Change(key=key, old_mod=None, new=replace(change.new, key=key))])
    assert not worker.queue.by_job


def test_one_that_goes_while_it_waits_for_slots_is_not_tried(worker: Worker) -> None:
    worker.table.running_slots = 10
    change = worker.ask()
    assert worker.tries() == []
    worker.gone(change)
    worker.table.running_slots = 0
    assert worker.tries() == []


def test_one_of_a_paused_job_is_tried_soon_after_that_goes_on(worker: Worker) -> None:
    worker.job(enabled=False)
    worker.ask(run_id=RunId.planned("job", 7))
    assert worker.tries() == []
    worker.job()
    worker.queue.job_changed("job")
    assert worker.tries(after_ms=1_000) == ["7"]


async def test_the_steward_hears_of_those_that_are_due(worker: Worker) -> None:
    worker.queue.due_jobs.begin()
    worker.ask(in_ms=500)
    assert await worker.queue.due_jobs.at(worker.clock.wall_ms()) == []
    assert await worker.queue.due_jobs.at(worker.clock.wall_ms() + 500) == ["job"]


async def test_one_that_goes_during_its_try_comes_back_in_no_turn(worker: Worker) -> None:
    change = worker.ask()
    assert worker.tries() == ["1"]
    worker.gone(change)
    await worker.answered(NOTHING)
    assert worker.tries(after_ms=5_000) == []
    assert not worker.queue._pending


# The lock


async def look_at_locks(worker: Worker) -> list[str]:
    """One look; what it tries after it."""
    await worker.locks.look()
    return worker.tries()


@pytest.mark.parametrize(
    ("worker", "looks"),
    [({"order": ("w1", "w2", "w3")}, True), ({"order": ("w2", "w1")}, True), ({"order": ("w2", "w3", "w1")}, False)],
    indirect=["worker"],
)
async def test_while_the_lock_is_held_the_first_two_look_at_it(worker: Worker, looks: bool) -> None:
    worker.held = {KEYS.lock("job")}
    worker.ask()
    assert worker.tries(after_ms=2_000) == ["1"]
    await worker.answered(MET_LOCK)
    assert worker.tries(after_ms=60_000) == []
    assert worker.locks.is_idle is not looks
    assert await look_at_locks(worker) == []
    worker.held.clear()
    assert await look_at_locks(worker) == (["1"] if looks else [])
    worker.queue.lock_freed("job")
    assert worker.tries() == ([] if looks else ["1"]), "who frees it tries at once"


@pytest.mark.parametrize("worker", [{"order": ("w1", "w2")}], indirect=True)
async def test_who_is_to_be_avoided_leaves_a_free_lock_to_the_others_for_two_hedges(worker: Worker) -> None:
    worker.ask(avoid="w1")
    assert worker.tries(after_ms=2 * HEDGE_MS) == ["1"]
    await worker.answered(MET_LOCK)
    worker.queue.lock_freed("job")
    assert worker.tries(after_ms=2 * HEDGE_MS - 1) == []
    assert worker.tries(after_ms=1) == ["1"]


async def test_a_look_at_the_locks_hastens_nothing_that_met_none(worker: Worker) -> None:
    worker.ask()
    assert worker.tries() == ["1"]
    await worker.answered(NOTHING)
    assert await look_at_locks(worker) == []


async def test_a_lock_that_comes_free_during_a_try_that_met_it_is_tried_again_at_once(worker: Worker) -> None:
    worker.ask()
    assert worker.tries() == ["1"]
    worker.queue.lock_freed("job")
    assert worker.tries() == [], "one at a time"
    await worker.answered(MET_LOCK)
    assert worker.tries() == ["1"]
    await worker.answered(MET_LOCK)
    assert worker.tries(after_ms=60_000) == []


@pytest.mark.parametrize("sequence", ["job", "job~w1"])
async def test_a_job_that_takes_no_lock_any_more_goes_several_at_once(worker: Worker, sequence: str) -> None:
    for number in (1, 2):
        worker.ask(number, sequence)
    assert len(worker.tries()) == 1
    await worker.answered(MET_LOCK)
    worker.job(overlap="allow")
    worker.queue.job_changed("job")
    assert len(worker.tries()) == 1, "the one that has met no lock"
