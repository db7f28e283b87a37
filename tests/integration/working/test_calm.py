"""A large catalog costs what is due, not what is there: work is counted, not timed."""

from __future__ import annotations

from typing import cast

import pytest

from common.clock import SystemClock
from common.etcd import Mirror
from common.jobs.reader import parse_job
from common.protocol.keys import Watched, encode_mark
from common.protocol.saved_job import SavedJob
from common.protocol.txn import Operation, Put, Txn
from common.schedules.schedule import CronSchedule
from common.timings import Timings
from tests.support.background import running
from tests.support.etcd_metrics import etcd_counts
from tests.support.working import Place, SteppingClock, World
from worker.absences import Absences
from worker.catalog import Catalog
from worker.lead.leader import Term
from worker.lead.roster import Roster
from worker.lead.stuck_fires import StuckFires
from worker.members import Beats, Members
from worker.record.settlement import Settlement

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

JOBS, IN_ONE = 5_000, 60
A_MINUTE = 60


class Count:
    """How often a schedule was asked for a fire."""

    def __init__(self) -> None:
        self.asked = 0


@pytest.fixture
def evaluations(monkeypatch: pytest.MonkeyPatch) -> Count:
    count, after, before = Count(), CronSchedule.next_after_ms, CronSchedule.last_before_ms

    def next_after_ms(schedule: CronSchedule, ms: int) -> int | None:
        count.asked += 1
        return after(schedule, ms)

    def last_before_ms(schedule: CronSchedule, ms: int) -> int | None:
        count.asked += 1
        return before(schedule, ms)

    monkeypatch.setattr(CronSchedule, "next_after_ms", next_after_ms)
    monkeypatch.setattr(CronSchedule, "last_before_ms", last_before_ms)
    return count


@pytest.fixture
async def catalog(world: World) -> Catalog:
    """5,000 jobs that fire once a year, each of some hundred schedules."""
    now_ms, keys, puts = SystemClock().wall_ms(), world.keys, list[Operation]()
    for number in range(JOBS):
        name = f"job-{number:05}"
        expr = f"0 0 0 {number % 28 + 1} {number // 28 % 12 + 1} * 2199"
        spec = parse_job({"name": name, "command": "true", "cronExpr": expr})
        value = SavedJob(spec=spec, anchor_ms=now_ms).to_json()
        puts += [Put(keys.job(name), value), Put(keys.mark(name), encode_mark(now_ms))]
    for start in range(0, len(puts), 2 * IN_ONE):
        await world.etcd.txn(Txn([], [Put(keys.seen(Watched.JOBS), b""), *puts[start : start + 2 * IN_ONE]]))
    catalog = Catalog(keys, on_changed=lambda _: None)
    mirror = Mirror(world.etcd, keys.jobs, catalog.on_changes, clock=SystemClock())
    async with running(mirror.run()):
        await mirror.synced.wait()
    return catalog


async def test_steward_asks_once_for_each_job_then_for_what_was_due(
    world: World, place: Place, term: Term, catalog: Catalog, evaluations: Count
) -> None:
    clock = SteppingClock()
    fires = StuckFires(
        client=world.etcd, keys=world.keys, worker="w1", catalog=catalog,
        members=Members(world.keys, "w1", on_changed=lambda: None), beats=Beats(world.keys),
        absences=Absences(worker="w1", clock=SystemClock()), roster=Roster(world.keys, SystemClock()),
        settlement=cast(Settlement, None), timings=Timings(), clock=clock,
    )  # fmt: skip
    fires.begin()
    before = await etcd_counts(place.etcd)
    for _ in range(JOBS // 1000):
        await fires.perform(term)
    first = await etcd_counts(place.etcd) - before
    assert evaluations.asked <= 3 * JOBS
    assert first.requests <= JOBS / 1000 * 4, "marks are read in ranges"

    evaluations.asked, before = 0, await etcd_counts(place.etcd)
    for _ in range(A_MINUTE):
        clock.advance(1)
        await fires.perform(term)
    idle = await etcd_counts(place.etcd) - before
    assert (evaluations.asked, idle.mutations) == (0, 0)
    assert idle.requests <= 10, "other tests' servers are others: only what was left on this one"
