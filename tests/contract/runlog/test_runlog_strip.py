"""What each job came to: its last run, and the strip of its newest verdicts, however often and in whatever order."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from common.errors import UnavailableError
from common.protocol.keys import RunId
from common.protocol.run import RunRecord
from common.runlog import JobResults, RunLog
from common.runlog.client import WriteFaults, bulk
from common.runlog.last import KEPT, SHOWN, LastResults
from common.verdicts import Verdict
from tests.support.records import PLAN_0_MS, record

MANY = [record(number, status=Verdict.FAILED if number % 3 == 0 else Verdict.SUCCESS) for number in range(80)]


async def results(runlog: RunLog, job: str = "backup") -> JobResults:
    return (await runlog.job_results([job]))[job]


async def strip(runlog: RunLog) -> list[str]:
    return [str(entry["runId"]) for entry in (await results(runlog)).recent]


def ids(records: list[RunRecord]) -> list[str]:
    return [str(one.run_id) for one in records]


async def kept(runlog: RunLog) -> int:
    """How many entries the strip takes room for."""
    [document] = await runlog._jobs.find({"_id": "job/backup"}).to_list()
    return len(document["recent"])


async def test_holds_the_newest_sixty_oldest_first(runlog: RunLog) -> None:
    for one in MANY:
        await runlog.write([one])
    assert await strip(runlog) == ids(MANY[-SHOWN:])
    assert await kept(runlog) == KEPT
    newest = (await results(runlog)).recent[-1]
    assert newest == {
        "status": "success", "planTime": MANY[-1].plan_ms, "runId": str(MANY[-1].run_id), "durationMs": 5,
    }  # fmt: skip


async def test_one_batch_of_many_records_says_the_same(runlog: RunLog) -> None:
    await runlog.write(MANY)
    assert await strip(runlog) == ids(MANY[-SHOWN:])


async def test_newer_records_are_one_write_and_no_read(runlog: RunLog, monkeypatch: pytest.MonkeyPatch) -> None:
    async def reading(*_: object) -> None:
        pytest.fail("so it would be for every run")

    with monkeypatch.context() as writing:
        writing.setattr(LastResults, "read", reading)
        for number in (1, 2, 4):
            await runlog.write([record(number)] if number < 4 else [record(3), record(4), record(5)])
    assert await strip(runlog) == ids([record(number) for number in (1, 2, 3, 4, 5)])


async def test_delivering_again_changes_nothing(runlog: RunLog) -> None:
    await runlog.write(MANY)
    before = await results(runlog)
    await runlog.write(MANY)
    await runlog.write(MANY[10:30])
    await runlog.advance_last(MANY[-1:])
    assert await results(runlog) == before


@pytest.mark.parametrize("seed", range(4))
async def test_any_order_any_batches_and_repetition_come_to_the_same(runlog: RunLog, seed: int) -> None:
    chance = random.Random(seed)
    left = MANY + chance.choices(MANY, k=20)
    chance.shuffle(left)
    while left:
        size = chance.randrange(1, 9)
        await runlog.write(left[:size])
        left = left[size:]
    assert await strip(runlog) == ids(MANY[-SHOWN:])
    assert await kept(runlog) == KEPT
    assert (await results(runlog)).last == (await results(runlog)).last_run
    assert ((await results(runlog)).last or {})["runId"] == str(MANY[-1].run_id)


async def test_writers_at_the_same_time_lose_nothing(runlog: RunLog) -> None:
    await asyncio.gather(*(runlog.advance_last(MANY[start::8]) for start in range(8)))
    assert await strip(runlog) == ids(MANY[-SHOWN:])


async def test_who_merges_by_what_it_has_read_before_a_newer_record_came_takes_nothing_back(
    runlog: RunLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    async def interrupted(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:  # the first one has found something newer there
            monkeypatch.setattr("common.runlog.last.bulk", bulk)
            await runlog.write([record(6)])
        return await bulk(*arguments)

    for number in (5, 3):
        await runlog.write([record(number)])
    monkeypatch.setattr("common.runlog.last.bulk", interrupted)
    await runlog.write([record(4)])
    assert await strip(runlog) == ids([record(number) for number in (3, 4, 5, 6)])
    assert calls == 2


async def test_record_that_the_store_does_not_add_to_what_is_there_is_merged(
    runlog: RunLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refusing(*_: object) -> tuple[int, WriteFaults]:
        monkeypatch.setattr("common.runlog.last.bulk", bulk)
        return 0, WriteFaults(refused={0: "The field 'recent' must be an array"})

    await runlog.write([record(1)])
    monkeypatch.setattr("common.runlog.last.bulk", refusing)
    await runlog.write([record(2)])
    assert await strip(runlog) == ids([record(1), record(2)])


async def test_who_finds_others_there_again_and_again_says_so(runlog: RunLog, monkeypatch: pytest.MonkeyPatch) -> None:
    async def too_late(*_: object) -> tuple[int, WriteFaults]:
        return 0, WriteFaults(duplicates=(0,), refused={})

    monkeypatch.setattr("common.runlog.last.bulk", too_late)
    with pytest.raises(UnavailableError, match="tried again"):
        await runlog.advance_last([record(1)])


async def test_the_late_verdict_takes_the_place_of_lost(runlog: RunLog) -> None:
    await runlog.write([record(1, status=Verdict.LOST)])
    await runlog.write([record(2)])
    await runlog.write([record(1)])
    await runlog.write([record(1, status=Verdict.LOST)])
    assert [entry["status"] for entry in (await results(runlog)).recent] == ["success", "success"]


async def test_verdicts_that_came_late_leave_sixty_entries(runlog: RunLog) -> None:
    await runlog.write(MANY)
    await runlog.write([record(number, status=Verdict.LOST) for number in (81, 82)])
    await runlog.write([record(number) for number in (81, 82)])
    assert await strip(runlog) == ids([*MANY[-SHOWN + 2 :], record(81), record(82)])


async def test_says_how_long_each_run_took_that_started_and_ended_and_what_is_usual(runlog: RunLog) -> None:
    of_worker = record(5, run_id=RunId("backup~w2", str(PLAN_0_MS + 5000)), end_ms=PLAN_0_MS + 6002)
    await runlog.write([record(0), record(1, status=Verdict.FAILED, end_ms=PLAN_0_MS + 90_000)])
    await runlog.write([record(2, status=Verdict.LOST), record(3, status=Verdict.SKIPPED), record(4, end_ms=None)])
    assert "usualMs" not in (await results(runlog)).strip()
    await runlog.write([of_worker, record(6, end_ms=PLAN_0_MS + 9_002)])
    await runlog.write([record(2)])
    found = await results(runlog)
    assert [one.get("durationMs") for one in found.recent] == [5, 88_998, 5, None, None, 1000, 3000]
    assert found.strip(2) == {"recent": list(found.recent[-2:]), "usualMs": 502}


async def test_durations_that_are_not_ours_end_nobody(runlog: RunLog) -> None:
    plan_ms = record(1).plan_ms
    await runlog.write([record(1)])
    for odd in ([5, "", "x", f"@{plan_ms}#1 x"], "text", None, {"a": 1}):
        of_former = {"recent": [f"{plan_ms:016d}/100001/1/{record(1).run_id} success {plan_ms}"], "took": odd}
        await runlog._jobs.update_one({"_id": "job/backup"}, {"$set": of_former})
        assert "durationMs" not in (await results(runlog)).recent[0]
    for odd_text in (f"1/1//@{plan_ms}#1 success 1", f"{plan_ms:016d}/100001/1:x/@{plan_ms}#1 success {plan_ms}"):
        await runlog._jobs.update_one({"_id": "job/backup"}, {"$set": {"recent": [odd_text]}})
        assert "durationMs" not in (await results(runlog)).recent[0]
    await runlog.write([record(2)])
    assert [one.get("durationMs") for one in (await results(runlog)).recent] == [None, 5]


async def test_last_run_is_the_newest_that_started(runlog: RunLog) -> None:
    await runlog.write([record(3, status=Verdict.SKIPPED, reason="overlap")])
    assert (await results(runlog)).last_run is None
    await runlog.write([record(1), record(2, status=Verdict.MISSED)])
    found = await results(runlog)
    assert ((found.last or {})["runId"], (found.last_run or {})["runId"]) == tuple(ids([record(3), record(1)]))
    await runlog.write([record(4), record(5, status=Verdict.SKIPPED)])
    assert ((await results(runlog)).last_run or {})["runId"] == str(record(4).run_id)
    await runlog.write([record(6, status=Verdict.SKIPPED)])
    assert ((await results(runlog)).last_run or {})["runId"] == str(record(4).run_id)
    await runlog.write([record(2, run_id=RunId("backup", "r-1"), plan_ms=PLAN_0_MS)])
    assert ((await results(runlog)).last_run or {})["runId"] == str(record(4).run_id)


async def test_runs_whose_records_came_this_moment_can_be_included(runlog: RunLog) -> None:
    await runlog.write([record(1), record(1, job="third")])
    news = [record(2, status=Verdict.FAILED), record(0, job="other"), record(2, job="third", status=Verdict.SKIPPED)]
    await runlog.write(news, advance_last=False)
    there = await runlog.job_results(
        ["backup", "other", "third"], including=[*(one.run_id for one in news), RunId("no", "1")]
    )
    assert [entry["status"] for entry in there["backup"].recent] == ["success", "failed"]
    assert (there["other"].last or {})["status"] == "success"
    assert (there["third"].last or {})["status"] == "skipped"
    assert (there["third"].last_run or {})["runId"] == str(record(1, job="third").run_id)
    assert [entry["status"] for entry in (await results(runlog)).recent] == ["success"]


async def test_a_document_of_an_earlier_version_is_no_obstacle(runlog: RunLog, database: str) -> None:
    await runlog._jobs.insert_one(
        {"_id": "job/backup", "jobName": "backup", "order": "0000000000000001/000001/1/backup@1#1", "status": "failed"}
    )
    assert (await results(runlog)).last is None
    await runlog.write([record(1)])
    assert ((await results(runlog)).last or {})["status"] == "success"


async def test_failing_jobs_are_found_by_their_newest_record(runlog: RunLog) -> None:
    bad = [Verdict.FAILED, Verdict.TIMEOUT, Verdict.LOST, Verdict.MISSED]
    good = [Verdict.SUCCESS, Verdict.KILLED, Verdict.SKIPPED]
    await runlog.write([record(1, job=f"job-{status}", status=status) for status in [*bad, *good]])
    assert await runlog.failing_jobs(limit=10) == sorted(f"job-{status}" for status in bad)
    assert await runlog.failing_jobs(limit=2) == ["job-failed", "job-lost"]
    assert await runlog.failing_jobs(after="job-lost", limit=10) == ["job-missed", "job-timeout"]
    await runlog.write([record(2, job="job-failed"), record(2, job="job-success", status=Verdict.FAILED)])
    assert await runlog.failing_jobs(limit=10) == ["job-lost", "job-missed", "job-success", "job-timeout"]
    await runlog.write([record(0, job="job-failed", status=Verdict.FAILED)])
    assert "job-failed" not in await runlog.failing_jobs(limit=10)
    await runlog.write([record(number, job="job-killed", status=Verdict.FAILED) for number in (0, 3)])
    assert "job-killed" in await runlog.failing_jobs(limit=10), "one older and one newer than what was there"


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("numbers", [(1, 2, 3), (3, 2, 1), (2, 3, 1)])
async def test_fires_that_were_skipped_tell_nothing_of_how_well_a_job_is(
    runlog: RunLog, numbers: tuple[int, ...], at_once: bool
) -> None:
    for bad in (Verdict.FAILED, Verdict.MISSED):
        job = f"job-{bad}"
        then = {1: record(1, status=bad, job=job, reason="why", labels={"team": "ours"})}
        then |= {number: record(number, status=Verdict.SKIPPED, job=job) for number in (2, 3)}
        await runlog.write([record(0, job=job)])
        for batch in [[then[number] for number in numbers]] if at_once else [[then[number]] for number in numbers]:
            await runlog.write(batch)
    found = {one.job: one for one in await runlog.failing_results(after="", limit=10)}
    assert list(found) == ["job-failed", "job-missed"]
    for one in found.values():
        assert (one.result["planTime"], one.result["reason"], one.since_ms) == (
            record(1).plan_ms,
            "why",
            record(1).plan_ms,
        )
        last = (await results(runlog, one.job)).last
        assert last is not None
        assert (last["status"], last["planTime"]) == ("skipped", record(3).plan_ms), "it is the newest all the same"
    await runlog.write([record(4, job="job-failed"), record(5, job="job-failed", status=Verdict.SKIPPED)])
    assert await runlog.failing_jobs(limit=10) == ["job-missed"]


def on_each(number: int, *, bad: str = "") -> list[RunRecord]:
    """A fire of a broadcast job on three workers; it fails on those that are named."""
    plan_ms = record(number).plan_ms
    return [
        record(
            number, run_id=RunId.planned(f"backup~{worker}", plan_ms), worker=worker,
            status=Verdict.FAILED if worker in bad else Verdict.SUCCESS,
        )
        for worker in "abc"
    ]  # fmt: skip


@pytest.mark.parametrize("at_once", [True, False])
async def test_broadcast_job_fails_while_it_does_on_any_worker(runlog: RunLog, at_once: bool) -> None:
    async def write(records: list[RunRecord]) -> None:
        for batch in [records] if at_once else [[one] for one in random.Random(records[0].plan_ms).sample(records, 3)]:
            await runlog.write(batch)

    async def successes() -> tuple[str, ...]:
        return (await runlog.came_to(["backup"]))["backup"].successes

    await write(on_each(0))
    assert len(await successes()) == 3
    for number in (1, 2, 3):
        await write(on_each(number, bad="a"))
        [found] = await runlog.failing_results(after="", limit=10)
        assert found.result["runId"] == f"backup~a@{record(number).plan_ms}#1"
        assert found.since_ms == record(1).plan_ms
        assert len(await successes()) == 3, "it is not well again"
    await write(on_each(4, bad="c"))
    assert await runlog.failing_jobs(limit=10) == ["backup"]
    assert len(await successes()) == 3
    await write(on_each(5))
    assert await runlog.failing_jobs(limit=10) == []
    assert (await successes())[-1].endswith(f"/backup~c@{record(5).plan_ms}#1")


@pytest.mark.parametrize("at_once", [True, False])
async def test_run_beside_which_more_fires_were_skipped_than_are_kept_ends_a_failure(
    runlog: RunLog, at_once: bool
) -> None:
    skipped = [record(number, status=Verdict.SKIPPED) for number in range(2, KEPT + 10)]
    await runlog.write([record(0, status=Verdict.FAILED)])
    for batch in [[*skipped, record(1)]] if at_once else [skipped, [record(1)]]:
        await runlog.write(batch)
    assert await runlog.failing_jobs(limit=10) == []
    came_to = (await runlog.came_to(["backup"]))["backup"]
    assert [order.rpartition("/")[2] for order in came_to.successes] == ids([record(1)])
    assert await kept(runlog) == KEPT
    await runlog.write([record(KEPT + 10, status=Verdict.SKIPPED)])
    assert await runlog.failing_jobs(limit=10) == []


async def test_shown_failure_of_a_broadcast_job_is_of_a_worker_where_it_fails_now(runlog: RunLog) -> None:
    def ran(worker: str, number: int, exit_code: int) -> RunRecord:
        run_id = RunId.planned(f"backup~{worker}", record(number).plan_ms)
        status = Verdict.FAILED if exit_code else Verdict.SUCCESS
        return record(number, run_id=run_id, worker=worker, status=status, exit_code=exit_code, labels={"team": "ours"})

    async def found() -> tuple[object, ...]:
        [one] = await runlog.failing_results(after="", limit=10)
        result = one.result
        return result["runId"], result.get("exitCode"), result.get("labels"), (one.since_ms - PLAN_0_MS) // 1000

    await runlog.write([ran("a", 1, 7)])
    await runlog.write([ran("a", 2, 8)])
    await runlog.write([ran("b", 3, 3)])
    assert await found() == (f"backup~b@{record(3).plan_ms}#1", 3, {"team": "ours"}, 1), "it has failed on a since 1"
    await runlog.write([ran("b", 4, 0)])
    assert await found() == (f"backup~a@{record(2).plan_ms}#1", 8, {"team": "ours"}, 1), "that on b is over"
    await runlog._log.delete_many({})
    assert await found() == (f"backup~a@{record(2).plan_ms}#1", None, None, 1), "of an old one no more is known"


HOUR = 3_600


@pytest.mark.parametrize(
    ("numbers", "fails"),
    [
        ((HOUR, 2 * HOUR), True),
        ((HOUR, 2 * HOUR, 3 * HOUR), False),
        ((1, 2, 3, HOUR - 1), True),
        ((1, 2, 3, HOUR + 1), False),
    ],
)
async def test_worker_that_has_no_records_beside_three_fires_of_another_for_an_hour_holds_no_job_to_fail(
    runlog: RunLog, numbers: tuple[int, ...], fails: bool
) -> None:
    async def state() -> tuple[list[str], str]:
        newest = (await runlog.came_to(["backup"]))["backup"].newest()
        return await runlog.failing_jobs(limit=10), newest.rpartition("/")[2]

    failed, *others = on_each(0, bad="a")
    await runlog.write([failed, *others[:1]])
    for number in numbers:
        assert await state() == (["backup"], "")
        await runlog.write(on_each(number)[1:2])
    assert await state() == ((["backup"], "") if fails else ([], f"backup~b@{record(numbers[-1]).plan_ms}#1"))


@pytest.mark.parametrize("by_hand", [True, False])
async def test_worker_that_skips_each_fire_has_not_left_nor_do_runs_by_hand_elsewhere_tell_so(
    runlog: RunLog, by_hand: bool
) -> None:
    await runlog.write(on_each(0, bad="a"))
    for number in range(HOUR, 6 * HOUR, HOUR):
        plan_ms = record(number).plan_ms
        fire = f"r-{plan_ms}-x" if by_hand else str(plan_ms)
        await runlog.write([record(number, run_id=RunId("backup~b", fire), worker="b")])
        if not by_hand:
            skipped = RunId.planned("backup~a", plan_ms)
            await runlog.write([record(number, run_id=skipped, worker="a", status=Verdict.SKIPPED)])
    assert await runlog.failing_jobs(limit=10) == ["backup"]


async def test_worker_of_which_each_run_takes_hours_has_not_left(runlog: RunLog) -> None:
    def took(number: int, hours: int, worker: str, status: Verdict) -> RunRecord:
        plan_ms = record(number).plan_ms
        run = RunId.planned(f"backup~{worker}", plan_ms)
        end_ms = plan_ms + 2 + hours * HOUR * 1_000
        return record(number, run_id=run, worker=worker, status=status, end_ms=end_ms)

    for number in range(0, 6 * HOUR, HOUR):
        await runlog.write([took(number, 0, "b", Verdict.SUCCESS)])
        if number >= 3 * HOUR:
            await runlog.write([took(number - 3 * HOUR, 3, "a", Verdict.TIMEOUT)])
            assert await runlog.failing_jobs(limit=10) == ["backup"]
    [failing] = await runlog.failing_results(limit=10)
    assert (failing.since_ms, (await runlog.came_to(["backup"]))["backup"].successes) == (record(0).plan_ms, ())


async def test_failing_jobs_whose_names_look_like_numbers_are_found_by_these(runlog: RunLog) -> None:
    names = ["007", "1e5", "7.50", "job", "null", "true"]
    await runlog.write([record(1, job=name, status=Verdict.FAILED) for name in names])
    assert await runlog.failing_jobs(limit=10) == names
    assert await runlog.failing_jobs(after="1e5", limit=2) == ["7.50", "job"]


@pytest.mark.parametrize("odd", [["junk", 5, {"a": 1}, "a b c"], "text", None, [["a"]]])
async def test_a_strip_that_is_not_ours_ends_nobody_and_is_ours_again_with_the_next_record(
    runlog: RunLog, odd: object
) -> None:
    await runlog._jobs.insert_one({"_id": "job/backup", "order": "x", "recent": odd})
    assert (await results(runlog)).recent == ()
    await runlog.write([record(1)])
    assert await strip(runlog) == [str(record(1).run_id)]


@pytest.mark.parametrize("odd", [None, "x", -1, True, [], {}, 10**18, (1 << 63) - 1], ids=repr)
async def test_what_is_nearly_ours_keeps_no_record_from_the_results(runlog: RunLog, odd: object) -> None:
    for field in ("writes", "order", "runOrder", "recent", "result", "run", "failing"):
        for also, job in ((1, f"{field}-again"), (2, f"{field}-newer")):
            if job == "recent-newer" and odd == "x":
                continue  # MongoDB refuses it, and it is merged; nx-27017 does not say whose fault it is
            await runlog.write([record(1, job=job)])
            await runlog._jobs.update_one({"_id": f"job/{job}"}, {"$set": {field: odd}})
            await runlog.write([record(also, job=job), record(3, job=job)])
            await runlog.write([record(0, job=job)])
            came_to = await results(runlog, job)
            assert came_to.last is None or came_to.last["runId"] == str(record(3, job=job).run_id), job
