"""Saves and deletes beside other managers, workers and clocks: marks never go back, no fire is lost, none in doubt."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from common.access.rights import OWNER
from common.clock import SystemClock
from common.errors import OvertakenError, UnavailableError
from common.etcd import EtcdClient
from common.instants import iso
from common.jobs.reader import parse_job
from common.protocol.keys import Keys, RunId, encode_mark
from common.protocol.run import EntryState, RunEntry, RunRecord
from common.protocol.saved_job import SavedJob
from common.protocol.txn import Put, Txn, TxnResult
from common.timings import Timings
from common.verdicts import Verdict
from manager.background.housekeeping import Delivery
from manager.http.errors import failure_of
from manager.use_cases.jobs import JobService
from tests.support.managing import Managed, Place, ShiftedClock, managing, problem_of
from tests.support.proxy import Mode, Proxy
from tests.support.waiting import wait_until

SECOND_MS = 1_000
MINUTE_MS = 60_000
DAY_MS = 86_400_000
HOURLY = "0 0 * * * * *"


def job(command: str = "echo 0", cron: str = "* * * * * * *", **more: Any) -> str:
    return json.dumps({"name": "j", "command": command, "cronExpr": cron, **more})


async def set_back(manager: Managed, by_ms: int, name: str = "j") -> int:
    """As if the newest decided fire had been so long ago: job and mark as an older save would have left them."""
    kv = await manager.etcd.get(manager.keys.job(name))
    assert kv is not None
    saved = SavedJob.from_json(kv.value, name=name)
    mark_ms = saved.anchor_ms - by_ms
    older = SavedJob(spec=saved.spec, anchor_ms=mark_ms, saved_ms=mark_ms)
    await manager.etcd.put(manager.keys.job(name), older.to_json())
    await manager.etcd.put(manager.keys.mark(name), encode_mark(mark_ms))
    return mark_ms


async def run_entries(manager: Managed) -> dict[RunId, RunEntry]:
    found = {}
    async for page in manager.etcd.read_prefix(manager.keys.runs):
        found.update({manager.keys.run_of(kv.key): RunEntry.from_json(kv.value) for kv in page.kvs})
    return found


async def test_one_more_than_max_jobs_is_refused_and_what_is_there_goes_on(place: Place) -> None:
    async with managing(place, maxJobs=2) as manager:
        spec = {"command": "a", "cronExpr": HOURLY}

        async def are_known(count: int) -> None:
            await wait_until(lambda: len(manager.parts.watching.catalog) == count, description=f"{count} are known")

        for name in ("a", "b"):
            await manager.call("PUT", f"/api/v1/jobs/{name}", spec)
        await are_known(2)
        problem = await problem_of(await manager.http.put("/api/v1/jobs/c", json=spec), 409)
        assert problem["code"] == "too-many-jobs"
        assert "there are 2 jobs, and maxJobs is 2" in problem["detail"]
        assert await manager.etcd.get(manager.keys.job("c")) is None
        await manager.call("PUT", "/api/v1/jobs/a", {**spec, "command": "another"})
        await manager.call("DELETE", "/api/v1/jobs/b")
        await are_known(1)
        await manager.call("PUT", "/api/v1/jobs/c", spec)


# What an edit leaves behind


async def test_first_save_starts_from_now(manager: Managed) -> None:
    before_ms = SystemClock().wall_ms()
    await manager.save(job())
    mark = await manager.mark("j")
    assert mark is not None
    assert before_ms <= mark <= SystemClock().wall_ms()
    assert await run_entries(manager) == {}
    seen = await manager.etcd.get(manager.keys.seen_prefix + "jobs")
    assert seen is not None
    assert seen.value == b"j"


async def test_edit_records_the_old_specs_undecided_fires_as_one_skipped_range(manager: Managed) -> None:
    await manager.save(job())
    old_mark = await set_back(manager, 10 * SECOND_MS)
    await manager.save(job("echo 1", HOURLY))
    new_mark = await manager.mark("j")
    assert new_mark is not None
    ((run, entry),) = (await run_entries(manager)).items()
    record = entry.record
    assert record is not None
    assert entry.state is EntryState.FINAL
    first = old_mark // SECOND_MS * SECOND_MS + SECOND_MS
    last = new_mark // SECOND_MS * SECOND_MS
    assert run == RunId.planned("j", first)
    assert (record.plan_ms, record.range_end_ms) == (first, last)
    assert record.count == (last - first) // SECOND_MS + 1
    assert (record.reason, record.by, record.command) == ("edited", "api 127.0.0.1", "echo 0")


async def test_long_range_is_counted_to_a_thousand(manager: Managed) -> None:
    await manager.save(job())
    await set_back(manager, 3 * DAY_MS)
    await manager.save(job("echo 1", HOURLY))
    ((_, entry),) = (await run_entries(manager)).items()
    assert entry.record is not None
    assert (entry.record.count, entry.record.count_is_minimum) == (1000, True)


async def test_edit_without_undecided_fires_records_nothing(manager: Managed) -> None:
    await manager.save(job(cron="0 0 0 1 1 * 2190"))
    await set_back(manager, 10 * SECOND_MS)
    await manager.save(job("echo 1"))
    assert await run_entries(manager) == {}


async def test_pause_records_paused_and_a_paused_job_nothing(manager: Managed) -> None:
    await manager.save(job())
    await set_back(manager, 10 * SECOND_MS)
    await manager.save(job(enabled=False))
    ((_, entry),) = (await run_entries(manager)).items()
    assert entry.record is not None
    assert entry.record.reason == "paused"
    await set_back(manager, 20 * SECOND_MS)
    await manager.save(job())
    assert len(await run_entries(manager)) == 1


async def test_edit_of_something_else_leaves_the_waiting_fires_to_the_new_spec(manager: Managed) -> None:
    await manager.save(job())
    mark = await set_back(manager, 10 * SECOND_MS)
    answer = await manager.save(job("echo 1", labels={"team": "billing"}))
    assert not [text for text in answer["warnings"] if "skips" in text]
    assert await manager.mark("j") == mark
    assert await run_entries(manager) == {}
    kv = await manager.etcd.get(manager.keys.job("j"))
    assert kv is not None
    assert SavedJob.from_json(kv.value, name="j").anchor_ms == mark


async def test_each_edit_that_takes_fires_away_says_which_before_and_after(manager: Managed) -> None:
    spec = json.loads(job())
    await manager.save(job())
    first = iso(await set_back(manager, 10 * SECOND_MS) // SECOND_MS * SECOND_MS + SECOND_MS)
    for change, skips in (({"command": "echo 1"}, False), ({"cronExpr": HOURLY}, True), ({"enabled": False}, True)):
        checked = await manager.call("POST", "/api/v1/jobs/check", spec | change)
        assert bool(checked["skips"]) is skips
        assert all(text in checked["warnings"] and f"from {first} to " in text for text in checked["skips"])
    paused = await manager.call("POST", "/api/v1/jobs/j/pause", {})
    assert f"from {first} to " in paused["warnings"][0]
    await manager.call("POST", "/api/v1/jobs/j/resume", {})
    await set_back(manager, 10 * SECOND_MS)
    deleted = await manager.call("DELETE", "/api/v1/jobs/j")
    assert "which were due and have not started" in deleted["warnings"][0]


async def test_delete_records_deleted(manager: Managed) -> None:
    await manager.save(job())
    await set_back(manager, 10 * SECOND_MS)
    await manager.post("/job/delete", name="j")
    ((_, entry),) = (await run_entries(manager)).items()
    assert entry.record is not None
    assert entry.record.reason == "deleted"
    assert await manager.etcd.get(manager.keys.job("j")) is None


async def test_run_key_that_somebody_else_has_put_again_stays(working_manager: Managed) -> None:
    manager = working_manager
    records = [RunRecord(run_id=RunId.planned("j", plan_ms), status=Verdict.SKIPPED) for plan_ms in (1000, 2000)]
    keys = [manager.keys.run(record.run_id) for record in records]
    revisions = [await manager.etcd.put(key, b"the record") for key in keys]
    await manager.etcd.put(keys[0], b"another's")
    for record, key, revision in zip(records, keys, revisions, strict=True):
        manager.parts.housekeeping.deliver(Delivery(record=record, key=key, revision=revision))

    async def delivered() -> bool:
        return await manager.etcd.get(keys[1]) is None

    await wait_until(delivered, description="both are delivered")
    assert await manager.etcd.get(keys[0]) is not None


async def test_record_reaches_the_log_store_and_leaves_etcd(working_manager: Managed) -> None:
    manager = working_manager
    await manager.save(job())
    mark = await set_back(manager, 10 * SECOND_MS)
    await manager.save(job("echo 1", HOURLY))
    first = mark // SECOND_MS * SECOND_MS + SECOND_MS

    async def delivered() -> bool:
        return not await manager.has_run_keys()

    await wait_until(delivered, description="the run key to be deleted")
    document = await manager.record(f"j@{first}#1")
    assert (document["status"], document["reason"], document["planTime"]) == ("skipped", "edited", first)
    shown = await manager.get("/api/v1/jobs")
    assert shown["items"][0]["lastResult"]["status"] == "skipped"


async def test_fire_whose_run_key_is_taken_is_left_alone(manager: Managed) -> None:
    await manager.save(job())
    mark = await set_back(manager, 10 * SECOND_MS)
    first = mark // SECOND_MS * SECOND_MS + SECOND_MS
    taken = RunId.planned("j", first)
    await manager.etcd.put(manager.keys.run(taken), b"somebody set the mark back by hand")
    await manager.save(job("echo 1", HOURLY))
    skipped = await manager.etcd.get(manager.keys.run(RunId.planned("j", first + SECOND_MS)))
    assert skipped is not None
    kept = await manager.etcd.get(manager.keys.run(taken))
    assert kept is not None
    assert kept.value == b"somebody set the mark back by hand"


async def test_same_save_again_writes_nothing(manager: Managed) -> None:
    first = await manager.save(job())
    await set_back(manager, 10 * SECOND_MS)
    before = await manager.stored()
    again = await manager.save(job(timezone="UTC", labels={}))
    assert again["msg"] == "success: the same job was there already; nothing was written"
    assert await manager.stored() == before
    assert first["revision"] != again["revision"] == before[manager.keys.job("j")].mod_revision


# Clocks


async def test_mark_ahead_of_this_managers_clock_stays(place: Place) -> None:
    async with managing(place) as ahead, managing(place, clock=ShiftedClock(-2 * SECOND_MS)) as behind:
        await ahead.save(job())
        mark = await ahead.mark("j")
        await behind.save(job("echo 1"))
        assert await behind.mark("j") == mark
        await behind.post("/job/delete", name="j")
        assert await behind.mark("j") == mark
        assert await run_entries(ahead) == {}


async def test_save_between_a_claim_and_its_plan_time_starts_after_that_fire(manager: Managed) -> None:
    await manager.save(job())
    claimed_ms = SystemClock().wall_ms() + 60 * SECOND_MS
    await manager.etcd.put(manager.keys.mark("j"), encode_mark(claimed_ms))
    await manager.save(job("echo 1"))
    kv = await manager.etcd.get(manager.keys.job("j"))
    assert kv is not None
    assert SavedJob.from_json(kv.value, name="j").anchor_ms == claimed_ms == await manager.mark("j")
    (item,) = (await manager.get("/api/v1/jobs"))["items"]
    assert item["nextFire"]["ms"] > claimed_ms


async def test_mark_in_a_far_future_is_shown_as_a_fault(manager: Managed) -> None:
    far_ms = SystemClock().wall_ms() + 2 * DAY_MS
    await manager.save(job())
    await manager.etcd.put(manager.keys.mark("j"), encode_mark(far_ms))
    answer = await manager.save(job("echo 1"))
    assert iso(far_ms) in answer["warnings"][0]
    (item,) = (await manager.get("/api/v1/jobs"))["items"]
    assert "etcron job unblock" in item["problem"]


async def test_job_made_again_at_once_fires_no_fire_of_its_first_life(place: Place) -> None:
    async with managing(place) as one, managing(place, clock=ShiftedClock(-5 * SECOND_MS)) as other:
        await one.save(job())
        await one.post("/job/delete", name="j")
        mark = await one.mark("j")
        await other.save(job())
        assert await one.mark("j") == mark
        kv = await one.etcd.get(one.keys.job("j"))
        assert kv is not None
        assert SavedJob.from_json(kv.value, name="j").anchor_ms == mark


# Races


async def test_20_saves_at_once_over_two_managers_are_carried_out_one_after_the_other(place: Place) -> None:
    async with managing(place) as one, managing(place) as two:
        await one.save(job("echo before"))
        await set_back(one, 10 * SECOND_MS)
        start = await one.mark("j")
        managers = [one, two]
        answers = await asyncio.gather(*(managers[n % 2].save(job(f"echo {n}", f"0 {n} * * * * *")) for n in range(20)))
        replaced = [answer["data"]["command"] for answer in answers]
        final = (await one.get("/job/list"))["data"][0]["command"]
        # A chain: each replaced another one, and the last one stands.
        assert sorted([*replaced, final]) == sorted(["echo before", *(f"echo {n}" for n in range(20))])
        assert len({answer["revision"] for answer in answers}) == 20
        in_order = sorted(range(20), key=lambda n: answers[n]["revision"])
        marks = [await _mark_at(one, answers[n]["revision"]) for n in in_order]
        assert start is not None
        assert [start, *marks] == sorted([start, *marks])
        assert final == f"echo {in_order[-1]}"
        # The fires before the first of them are recorded once.
        covered = [
            (entry.record.plan_ms, entry.record.range_end_ms or entry.record.plan_ms)
            for entry in (await run_entries(one)).values()
            if entry.record
        ]
        covered.sort()
        assert covered[0][0] == start // SECOND_MS * SECOND_MS + SECOND_MS
        assert all(last < first for (_, last), (first, _) in itertools.pairwise(covered))


async def _mark_at(manager: Managed, revision: int) -> int:
    kv = await manager.etcd.get(manager.keys.mark("j"), revision=revision)
    assert kv is not None
    return int(kv.value)


async def test_saves_and_deletes_at_once_leave_a_whole_state(place: Place) -> None:
    async with managing(place) as one, managing(place) as two:
        calls: list[Awaitable[Any]] = []
        for n in range(10):
            calls += [one.save(job(f"echo {n}")), two.post("/job/delete", name="j")]
        await asyncio.gather(*calls)
        await one.save(job("echo last"))
        kv = await one.etcd.get(one.keys.job("j"))
        assert kv is not None
        assert SavedJob.from_json(kv.value, name="j").anchor_ms == await one.mark("j")


async def test_save_with_a_stale_revision_is_refused(manager: Managed) -> None:
    first = await manager.save(job("echo 1"))
    second = await manager.save(job("echo 2"), **{"If-Match": f'"{first["revision"]}"'})
    stale = await manager.http.post(
        "/job/save", data={"job": job("echo 3")}, headers={"If-Match": f'"{first["revision"]}"'}
    )
    assert stale.status == 412
    assert f"is at revision {second['revision']}" in (await stale.json())["msg"]
    new = await manager.http.post("/job/save", data={"job": job("echo 3")}, headers={"If-Match": '"0"'})
    assert new.status == 412
    assert (await manager.get("/job/list"))["data"][0]["command"] == "echo 2"


async def test_if_match_that_is_no_etag_is_refused(manager: Managed) -> None:
    response = await manager.http.post("/job/save", data={"job": job()}, headers={"If-Match": "seven"})
    assert response.status == 400
    assert (await response.json())["msg"].startswith("If-Match: is 'seven'")


# Doubt: the answer is lost after the commit


class Disturbed(EtcdClient):
    """Does something of the test's before each edit is sent."""

    def __init__(self, endpoint: str, before: Callable[[int], Awaitable[None]], timeout_s: float = 10) -> None:
        super().__init__([endpoint], timeout=timeout_s)
        self._before = before
        self.edits = 0

    async def txn(self, transaction: Txn) -> TxnResult:
        if transaction.compares:
            self.edits += 1
            await self._before(self.edits)
        return await super().txn(transaction)


class Doubtful:
    """A service whose way to etcd the test disturbs. ``timeout_s``: short only where silence is to be met."""

    def __init__(
        self,
        place: Place,
        proxy: Proxy,
        before: Callable[[int], Awaitable[None]],
        *,
        patience_s: float = 30,
        timeout_s: float = 10,
    ) -> None:
        self.etcd = Disturbed(proxy.endpoint, before, timeout_s)
        self.delivered: list[Delivery] = []
        self.service = JobService(
            self.etcd,
            Keys(place.prefix),
            clock=SystemClock(),
            timings=Timings(),
            deliver=self.delivered.append,
            patience_s=patience_s,
        )


async def test_save_whose_answer_is_lost_is_found_to_be_saved(manager: Managed, place: Place) -> None:
    await manager.save(job())
    await set_back(manager, 10 * SECOND_MS)
    async with Proxy(place.etcd) as proxy:

        async def cut(edit: int) -> None:
            if edit == 1:
                proxy.set(Mode.CUT_REPLY)

        doubtful = Doubtful(place, proxy, cut)
        async with doubtful.etcd:
            saved = await doubtful.service.save(parse_job(json.loads(job("echo 1", HOURLY))), by="test", rights=OWNER)
    assert proxy.cuts == 1
    assert doubtful.etcd.edits == 2
    kv = await manager.etcd.get(manager.keys.job("j"))
    assert kv is not None
    assert saved.revision == kv.mod_revision
    assert kv.version == 3  # saved, set back, saved once
    (delivery,) = doubtful.delivered
    assert delivery.revision == kv.mod_revision


async def test_save_that_did_not_arrive_is_sent_again(manager: Managed, place: Place) -> None:
    await manager.save(job())
    async with Proxy(place.etcd) as proxy:

        async def swallow(edit: int) -> None:
            proxy.set(Mode.SWALLOW if edit == 1 else Mode.PASS)
            if edit == 2:
                proxy.reset()  # so that the first one is lost for good

        doubtful = Doubtful(place, proxy, swallow, timeout_s=1.5)
        async with doubtful.etcd:
            saved = await doubtful.service.save(parse_job(json.loads(job("echo 1"))), by="test", rights=OWNER)
    kv = await manager.etcd.get(manager.keys.job("j"))
    assert kv is not None
    assert saved.changed
    assert (saved.revision, kv.version) == (kv.mod_revision, 2)


async def test_save_in_doubt_that_another_overtook_is_repeated(manager: Managed, place: Place) -> None:
    await manager.save(job())
    async with Proxy(place.etcd) as proxy:

        async def overtake(edit: int) -> None:
            if edit == 1:
                proxy.set(Mode.CUT_REPLY)
            if edit == 2:
                await manager.save(job("echo other"))

        doubtful = Doubtful(place, proxy, overtake)
        async with doubtful.etcd:
            saved = await doubtful.service.save(parse_job(json.loads(job("echo 1"))), by="test", rights=OWNER)
    assert saved.before.saved is not None
    assert saved.before.saved.spec.command == "echo other"
    assert (await manager.get("/job/list"))["data"][0]["command"] == "echo 1"


async def test_save_in_doubt_with_a_revision_does_not_overwrite_another(manager: Managed, place: Place) -> None:
    first = await manager.save(job())
    async with Proxy(place.etcd) as proxy:

        async def overtake(edit: int) -> None:
            if edit == 1:
                proxy.set(Mode.CUT_REPLY)
            if edit == 2:
                await manager.save(job("echo other"))

        doubtful = Doubtful(place, proxy, overtake)
        async with doubtful.etcd:
            with pytest.raises(UnavailableError, match="may or may not have been saved"):  # it was, before the other
                await doubtful.service.save(
                    parse_job(json.loads(job("echo 1"))), by="t", rights=OWNER, if_match=first["revision"]
                )
    assert (await manager.get("/job/list"))["data"][0]["command"] == "echo other"


async def test_delete_in_doubt_spares_the_job_that_was_made_again(manager: Managed, place: Place) -> None:
    await manager.save(job())
    async with Proxy(place.etcd) as proxy:

        async def overtake(edit: int) -> None:
            if edit == 1:
                proxy.set(Mode.CUT_REPLY)
            if edit == 2:
                await manager.save(job("echo again"))

        doubtful = Doubtful(place, proxy, overtake)
        async with doubtful.etcd:
            deleted = await doubtful.service.delete("j", by="test", rights=OWNER)
    assert deleted is not None
    assert (await manager.get("/job/list"))["data"][0]["command"] == "echo again"


async def test_save_that_stays_in_doubt_says_so(manager: Managed, place: Place) -> None:
    await manager.save(job())
    async with Proxy(place.etcd) as proxy:

        async def one_way(edit: int) -> None:
            proxy.set(Mode.ONE_WAY)

        doubtful = Doubtful(place, proxy, one_way, patience_s=0.6, timeout_s=1.5)
        async with doubtful.etcd:
            with pytest.raises(UnavailableError, match=r"may or may not have been saved.*Look at the job"):
                await doubtful.service.save(parse_job(json.loads(job("echo 1"))), by="test", rights=OWNER)
    assert (await manager.get("/job/list"))["data"][0]["command"] == "echo 1"


async def test_an_edit_waits_for_those_before_it_and_no_longer_than_it_may(manager: Managed, place: Place) -> None:
    await manager.save(job())
    began, goes_on = asyncio.Event(), asyncio.Event()

    async def hold(_edit: int) -> None:
        began.set()
        await goes_on.wait()

    etcd = Disturbed(place.etcd, hold)
    service = JobService(
        etcd, Keys(place.prefix), clock=SystemClock(), timings=Timings(), deliver=lambda _: None, patience_s=0.2
    )
    async with etcd, asyncio.TaskGroup() as tasks:
        first = tasks.create_task(service.save(parse_job(json.loads(job("echo 1"))), by="test", rights=OWNER))
        await began.wait()
        with pytest.raises(OvertakenError, match="nothing was changed: edits of it that came before"):
            await service.save(parse_job(json.loads(job("echo 2"))), by="test", rights=OWNER)
        goes_on.set()
    assert first.result().changed
    assert (await manager.get("/job/list"))["data"][0]["command"] == "echo 1"


async def test_job_that_changes_each_time_before_is_to_be_tried_again(manager: Managed, place: Place) -> None:
    await manager.save(job())

    async def overtake(edit: int) -> None:
        await manager.save(job(f"echo other {edit}"))

    etcd = Disturbed(place.etcd, overtake)
    service = JobService(
        etcd, Keys(place.prefix), clock=SystemClock(), timings=Timings(), deliver=lambda _: None, patience_s=0.2
    )
    async with etcd:
        with pytest.raises(OvertakenError, match="was not saved, and nothing was changed") as raised:
            await service.save(parse_job(json.loads(job("echo 1"))), by="test", rights=OWNER)
    failure = failure_of(raised.value)
    assert (failure.status, failure.code) == (503, "overtaken")


# Warnings


async def test_warns_of_a_change_of_the_clocks_among_the_next_fires(place: Place) -> None:
    at_ms = 1_774_656_000_000  # 2026-03-28T00:00:00Z, the day before the clocks change in Berlin
    async with managing(place, clock=ShiftedClock(at_ms - SystemClock().wall_ms())) as manager:
        answer = await manager.save(job(cron="0 30 2 * * * *", timezone="Europe/Berlin"))
    assert answer["warnings"] == ["02:30 does not exist on 2026-03-29 in Europe/Berlin; runs at 03:00"]


async def test_warns_where_both_day_fields_are_restricted(manager: Managed) -> None:
    answer = await manager.save(job(cron="0 0 0 13 * 5 *"))
    (warning,) = answer["warnings"]
    assert warning.startswith("both day fields are restricted, so a day fires when either matches; the next fires: ")
    assert "Fri " in warning


@pytest.mark.parametrize("must_know", [[], ["mood"]])
async def test_a_job_that_a_later_version_saved_is_not_edited_by_this_one(
    manager: Managed, must_know: list[str]
) -> None:
    stored = {"name": "j", "command": "a", "cronExpr": "@daily", "anchorMs": 1, "mood": "grim"}
    value = json.dumps(stored | {"mustKnow": must_know, "savedVersion": "9.1.0"}).encode()
    await manager.etcd.txn(Txn([], [Put(manager.keys.job("j"), value), Put(manager.keys.mark("j"), encode_mark(1))]))
    for method, path, body in (
        ("PUT", "", {"command": "b", "cronExpr": "@daily"}), ("POST", "/pause", {}), ("POST", "/unblock", {}),
    ):  # fmt: skip
        answer = await manager.http.request(method, f"/api/v1/jobs/j{path}", json=body)
        problem = await problem_of(answer, 409)
        assert "etcron 9.1.0 has saved it with mood, which this one" in problem["detail"]
    kv = await manager.etcd.get(manager.keys.job("j"))
    assert kv is not None
    assert kv.value == value
    await manager.call("DELETE", "/api/v1/jobs/j")
    assert not await manager.etcd.get(manager.keys.job("j"))
