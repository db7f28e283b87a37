"""The steward sees to it that the log store forgets: what goes, what stays, and when nothing goes. Real servers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from common.errors import UnavailableError
from common.protocol.keys import RunId
from common.protocol.run import RunRecord
from common.runlog import Chunk, RunFilter, RunLog
from common.verdicts import Verdict
from tests.support.background import running
from tests.support.records import PLAN_0_MS, record
from tests.support.waiting import wait_until
from tests.support.working import SteppingClock, World
from worker.lead import retention
from worker.lead.retention import LIVE_MS, Retention

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

DAY_MS = 86_400_000


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "STEP", 3)
    monkeypatch.setattr(retention, "REST", 0.0)
    monkeypatch.setattr(retention, "_LEAST_REST_S", 0.0)
    monkeypatch.setattr(retention, "PASS_EVERY_S", 0.02)
    monkeypatch.setattr(retention, "_AWAY_S", 0.02)


class Keeper:
    """The steward's retention, and what there is to forget."""

    def __init__(self, world: World, *, days: int = 0, per_job: int = 0, store: RunLog | None = None) -> None:
        self.world = world
        self.clock_is_off = False
        self.clock = SteppingClock()
        self.retention = Retention(
            store=store or world.runlog, client=world.etcd, keys=world.keys, worker="w1", days=days, per_job=per_job,
            is_clock_off=lambda: self.clock_is_off, clock=self.clock,
        )  # fmt: skip

    def aged(self, days: float, job: str = "job") -> RunRecord:
        """A record planned so many days ago."""
        return record(job=job, plan_ms=self.clock.wall_ms() - round(days * DAY_MS))

    async def passed(self) -> int:
        """Waits for the end of a pass that began after this call; how many records went."""
        passes = {await self._at_ms()}

        async def two_more() -> bool:
            passes.add(await self._at_ms())
            return len(passes) > 2

        await wait_until(two_more, description="two passes have ended")
        state = await self.world.runlog.retention()
        assert state is not None
        return state.removed

    async def _at_ms(self) -> int:
        state = await self.world.runlog.retention()
        return 0 if state is None else state.at_ms


async def ids(world: World) -> set[str]:
    page = await world.runlog.runs(RunFilter(), limit=1000)
    return {str(item["_id"]) for item in page.items}


def ids_of(records: Iterable[RunRecord]) -> set[str]:
    return {str(one.run_id) for one in records}


async def test_records_go_by_age(world: World) -> None:
    keeper = Keeper(world, days=30)
    old, new = [keeper.aged(30 + number) for number in range(1, 9)], [keeper.aged(29.9), keeper.aged(0)]
    await world.save()
    await world.runlog.write([*old, *new])
    async with running(keeper.retention.run()):
        await keeper.passed()
        assert await ids(world) == ids_of(new)


async def test_live_output_that_was_left_goes_after_an_hour(world: World) -> None:
    keeper, run = Keeper(world, days=30), RunId.planned("job", 1)
    for start, age_ms in ((0, LIVE_MS + 1_000), (1, LIVE_MS - 600_000)):
        chunk = Chunk(run=str(run), start=start, size=1, text="x")
        await world.runlog.tails.put([chunk], keeper.clock.wall_ms() - age_ms)
    async with running(keeper.retention.run()):
        await keeper.passed()
    assert [chunk.start for chunk in await world.runlog.tails.read(run, 0)] == [1]


async def test_record_of_many_fires_goes_with_the_newest_of_them(world: World) -> None:
    """Those of yesterday were missed as well, and nothing else says so."""
    keeper = Keeper(world, days=30)
    now_ms = keeper.clock.wall_ms()
    recent, past = (
        record(
            job=job, status=Verdict.MISSED, plan_ms=now_ms - 60 * DAY_MS, range_end_ms=now_ms - days * DAY_MS, count=9
        )
        for job, days in (("recent", 1), ("past", 31))
    )
    await world.runlog.write([recent, past])
    async with running(keeper.retention.run()):
        await keeper.passed()
        assert await ids(world) == ids_of([recent])


async def test_records_go_by_number_of_each_job(world: World) -> None:
    keeper = Keeper(world, per_job=4)
    many, few = [keeper.aged(number) for number in range(12)], [keeper.aged(number, "few") for number in range(4)]
    await world.save()
    await world.save("few")
    await world.runlog.write([*many, *few])
    async with running(keeper.retention.run()):
        assert await keeper.passed() == 0, "the first pass has removed all of them"
        assert await ids(world) == ids_of([*many[:4], *few])


async def test_records_of_the_last_two_hours_do_not_go_by_number(world: World) -> None:
    """The statistics count an hour for good when it is over."""
    keeper = Keeper(world, per_job=2)
    new, old = [keeper.aged(hours / 24) for hours in (0, 0.5, 1, 1.9)], [keeper.aged(hours / 24) for hours in (2.1, 3)]
    await world.save()
    await world.runlog.write([*new, *old])
    async with running(keeper.retention.run()):
        await keeper.passed()
        assert await ids(world) == ids_of(new)


async def test_record_that_a_run_still_waits_for_stays(world: World) -> None:
    keeper = Keeper(world, days=1, per_job=1)
    old = [keeper.aged(2 + number) for number in range(9)]
    for number in (0, 7, 8):
        await world.open_run(old[number].plan_ms)
    await world.runlog.write(old)
    async with running(keeper.retention.run()):
        await keeper.passed()
        assert await ids(world) == ids_of([old[0], old[7], old[8]])


async def test_results_of_a_deleted_job_go_once_they_are_as_old_as_records_get(world: World) -> None:
    keeper = Keeper(world, days=30)
    await world.save("there")
    await world.runlog.write([keeper.aged(40, "there"), keeper.aged(40, "gone"), keeper.aged(20, "just-gone")])
    async with running(keeper.retention.run()):
        await keeper.passed()
        left = await world.runlog.kept_jobs(after="", limit=10)
        assert [job.name for job in left] == ["just-gone", "there"]


async def test_results_of_a_deleted_job_stay_for_30_days_where_records_go_by_number(world: World) -> None:
    keeper = Keeper(world, per_job=4)
    await world.runlog.write([keeper.aged(31, "gone"), keeper.aged(29, "just-gone")])
    async with running(keeper.retention.run()):
        await keeper.passed()
        assert [job.name for job in await world.runlog.kept_jobs(after="", limit=10)] == ["just-gone"]


async def test_nothing_goes_by_a_clock_that_is_off(world: World) -> None:
    keeper = Keeper(world, days=30)
    keeper.clock_is_off = True
    old = keeper.aged(31)
    await world.runlog.write([old])
    looks = 0

    def is_off() -> bool:
        nonlocal looks
        looks += 1
        return keeper.clock_is_off

    keeper.retention._is_clock_off = is_off
    async with running(keeper.retention.run()):
        await wait_until(lambda: looks > 3, description="it has looked at its clock")
        assert await ids(world) == ids_of([old])
        assert await world.runlog.retention() is None, "it has nothing to say"
        keeper.clock_is_off = False
        await keeper.passed()
        assert await ids(world) == set()


async def test_clock_that_goes_off_in_the_middle_of_a_pass_ends_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper, looks = Keeper(world, days=30), 0
    await world.runlog.write([keeper.aged(31 + number) for number in range(9)])
    remove = world.runlog.remove

    async def remove_some(run_ids: Sequence[str]) -> None:
        await remove(run_ids)
        keeper.clock_is_off = True

    def is_off() -> bool:
        nonlocal looks
        looks += keeper.clock_is_off
        return keeper.clock_is_off

    monkeypatch.setattr(world.runlog, "remove", remove_some)
    keeper.retention._is_clock_off = is_off
    async with running(keeper.retention.run()):
        await wait_until(lambda: looks > 3, description="passes end at the look at its clock")
    assert len(await ids(world)) == 6
    assert len(await world.runlog.kept_jobs(after="", limit=10)) == 1, "nor is a job too long gone"


async def test_after_a_long_pass_rests_are_shorter(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has come meanwhile is to go in less time than that, however much it is: else the store grows for ever."""
    monkeypatch.setattr(retention, "REST", 20.0)
    monkeypatch.setattr(retention, "_LONGEST_REST_S", 0.0)
    monkeypatch.setattr(retention, "PASS_EVERY_S", 600.0)
    assert [retention.rests_after(pass_s) for pass_s in (1, 600, 2400, 86_400)] == [20.0, 20.0, 5.0, 1.0]
    monkeypatch.setattr(retention, "PASS_EVERY_S", 0.0001)
    keeper = Keeper(world, days=30)
    async with running(keeper.retention.run()):
        await keeper.passed()
        assert keeper.retention._rests < 20.0


async def test_log_store_that_is_away_is_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    keeper = Keeper(world, days=30)
    await world.runlog.write([keeper.aged(31)])
    refused = asyncio.Event()
    find = world.runlog.old_records

    async def away_once(*arguments: object, **options: object) -> object:
        if not refused.is_set():
            refused.set()
            raise UnavailableError("told to be away")
        return await find(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(world.runlog, "old_records", away_once)
    async with running(keeper.retention.run()):
        await keeper.passed()
    assert refused.is_set()
    assert await ids(world) == set()
    assert [entry.__dict__.get("action") for entry in caplog.records] == ["retention.postponed"]


async def test_documents_that_are_none_of_ours_harm_nothing(world: World) -> None:
    keeper = Keeper(world, days=30, per_job=5)
    old = keeper.aged(31, "zoo")
    await world.runlog.write([old])
    odd: list[dict[str, Any]] = [{"_id": "job/odd"}, {"_id": "job/a/b", "jobName": ["a"]}]
    odd.append({"_id": "job/" + "x" * 70_000, "order": 5})
    await world.runlog._jobs.insert_many(odd)
    odd_record = {"_id": "job/with/slashes", "pageKey": "0000000000000000/?", "jobName": 7, "rangeEndTime": "soon"}
    await world.runlog._log.insert_one(odd_record)
    async with running(keeper.retention.run()):
        await keeper.passed()
        assert await ids(world) == set()


async def test_a_fault_of_its_own_is_said_and_ends_no_term_of_office(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    keeper = Keeper(world, days=30)
    old = keeper.aged(31)
    await world.runlog.write([old])

    async def fails(*_: object, **__: object) -> object:
        failed.set()
        raise KeyError("what nobody has foreseen")

    failed = asyncio.Event()
    with monkeypatch.context() as patched:
        patched.setattr(world.runlog, "kept_jobs", fails)
        async with running(keeper.retention.run()):
            await wait_until(failed.is_set, description="it has failed")
            patched.undo()
            await keeper.passed()
    assert "retention.failed" in [entry.__dict__.get("action") for entry in caplog.records]


async def test_everything_is_kept_unless_told_otherwise(world: World) -> None:
    told = Keeper(world, days=30)
    async with running(told.retention.run()):
        await told.passed()
    keeper = Keeper(world)
    ancient = record(plan_ms=PLAN_0_MS - 10_000 * DAY_MS)
    await world.runlog.write([ancient])

    async def nothing_is_said() -> bool:
        return await world.runlog.retention() is None

    async with running(keeper.retention.run()):
        await wait_until(nothing_is_said, description="it has said that all is kept")
        assert await ids(world) == ids_of([ancient])
