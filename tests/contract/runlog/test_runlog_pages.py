"""Pages: the right records in the right order, each once, from whatever filter."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pymongo
import pytest
from bson import ObjectId

from common.cursors import encode_cursor
from common.errors import InvalidInputError
from common.protocol.keys import RunId
from common.protocol.run import RunRecord, Trigger
from common.runlog import RunFilter, RunLog
from common.runlog.causes import cause_of
from common.runlog.pages import plan_page
from common.verdicts import Verdict
from tests.support.log_store import LogStore
from tests.support.records import PLAN_0_MS, logged, record

FAILED_OR_LOST = frozenset({Verdict.FAILED, Verdict.LOST})


def history() -> list[RunRecord]:
    """90 fires of 3 jobs on 2 workers: every third failed or lost, every ninth skipped; three share each plan time."""
    statuses = [Verdict.SUCCESS, Verdict.SUCCESS, Verdict.FAILED, Verdict.SUCCESS, Verdict.SKIPPED, Verdict.LOST]
    triggers, teams = [Trigger.SCHEDULE, Trigger.MANUAL, Trigger.RETRY, Trigger.SCHEDULE], ["a", "b", None]
    return [
        record(
            number // 3, job=f"job-{number % 3}", status=statuses[number % 6], worker=f"w{number % 2}",
            trigger=triggers[number % 4], exit_code=number % 5,
            labels={"team": team} if (team := teams[number // 7 % 3]) else {},
        )
        for number in range(90)
    ]  # fmt: skip


def matching(records: Sequence[RunRecord], wanted: RunFilter) -> list[str]:
    """The run ids that a filter must give, in order: the simplest reading of it."""
    hits = [
        one
        for one in records
        if wanted.job in (None, one.run_id.job)
        and (not wanted.statuses or one.status in wanted.statuses)
        and wanted.worker in (None, one.worker)
        and (not wanted.jobs or one.run_id.job in wanted.jobs)
        and wanted.part.lower() in one.run_id.job.lower()
        and (not wanted.triggers or one.trigger in wanted.triggers)
        and all(name in one.labels and value in (None, one.labels[name]) for name, value in wanted.labels)
        and wanted.cause in (None, cause_of(one.to_document()))
        and (wanted.from_ms is None or one.plan_ms >= wanted.from_ms)
        and (wanted.to_ms is None or one.plan_ms < wanted.to_ms)
    ]
    return [str(one.run_id) for one in sorted(hits, key=lambda one: (one.plan_ms, str(one.run_id)), reverse=True)]


async def all_pages(runlog: RunLog, wanted: RunFilter, limit: int) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page = await runlog.runs(wanted, cursor=cursor, limit=limit)
        assert len(page.items) <= limit
        items += page.items
        cursor = page.next_cursor
        if cursor is None:
            return items


@pytest.mark.parametrize("limit", [1, 7, 30, 200])
@pytest.mark.parametrize(
    "wanted",
    [
        RunFilter(),
        RunFilter(job="job-1"),
        RunFilter(worker="w1"),
        RunFilter(statuses=FAILED_OR_LOST),
        RunFilter(job="job-2", statuses=FAILED_OR_LOST),
        RunFilter(job="job-0", worker="w0"),
        RunFilter(worker="w1", statuses=frozenset({Verdict.LOST})),
        RunFilter(job="job-2", worker="w1", statuses=FAILED_OR_LOST),
        RunFilter(from_ms=PLAN_0_MS + 5000, to_ms=PLAN_0_MS + 20_000),
        RunFilter(job="job-1", from_ms=PLAN_0_MS + 5000),
        RunFilter(job="none such"),
        RunFilter(jobs=("job-0", "job-2", "none such")),
        RunFilter(jobs=("job-0", "job-2"), part="JOB", statuses=FAILED_OR_LOST, worker="w1"),
        RunFilter(jobs=("job-0", "job-1", "job-2"), statuses=frozenset(Verdict) - {Verdict.SUCCESS}),
        RunFilter(part="B-1"),
        RunFilter(triggers=frozenset({Trigger.MANUAL, Trigger.RETRY}), labels=(("team", "a"),)),
        RunFilter(labels=(("team", None),), worker="w0"),
        RunFilter(cause="failed: exit status 2", statuses=FAILED_OR_LOST),
    ],
)
async def test_pages_give_each_matching_record_once_newest_first(runlog: RunLog, wanted: RunFilter, limit: int) -> None:
    records = history()
    await runlog.write(records)
    items = await all_pages(runlog, wanted, limit)
    assert [item["_id"] for item in items] == matching(records, wanted)


async def test_each_range_of_a_page_is_one_of_an_index(runlog: RunLog) -> None:
    """The logs of years are as quick to read as those of a day."""

    async def indexed(collection: Any) -> set[tuple[str, ...]]:
        information = await collection.index_information()
        return {tuple(field for field, _ in index["key"]) for index in information.values()}

    indexes = await indexed(runlog._log)
    for job, worker, statuses in itertools.product((None, "j"), (None, "w"), (frozenset[Verdict](), FAILED_OR_LOST)):
        for equal in plan_page(RunFilter(job=job, worker=worker, statuses=statuses), None).streams:
            assert (*equal, "pageKey") in indexes
    assert ("jobName", "startTime", "pageKey") in indexes, "of the job log"
    assert ("failing", "jobName") in await indexed(runlog._jobs)


async def test_items_are_documents_without_output_and_without_our_own_fields(runlog: RunLog) -> None:
    await runlog.write([record(1)])
    (item,) = (await runlog.runs()).items
    assert item == {name: value for name, value in record(1).to_document().items() if name != "output"}


async def test_records_that_come_meanwhile_shift_no_page(runlog: RunLog) -> None:
    await runlog.write([record(number) for number in range(10)])
    first = await runlog.runs(limit=5)
    await runlog.write([record(number) for number in range(10, 20)])
    second = await runlog.runs(cursor=first.next_cursor, limit=5)
    assert second.next_cursor is None
    before = await runlog.runs(RunFilter(to_ms=record(2).plan_ms), cursor=first.next_cursor)
    assert [item["planTime"] for item in before.items] == [record(number).plan_ms for number in (1, 0)]
    assert [item["planTime"] for item in second.items] == [record(number).plan_ms for number in (4, 3, 2, 1, 0)]


@pytest.fixture
def short_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page looks at 12 records at most where no index decides all of its conditions, and fetches 4 at once."""
    monkeypatch.setattr("common.runlog.store.WALK", 12)
    monkeypatch.setattr("common.runlog.pages._WALK_STEP", 4)


@pytest.mark.usefixtures("short_walks")
@pytest.mark.parametrize("limit", [1, 3, 7])
@pytest.mark.parametrize(
    "wanted",
    [
        RunFilter(job="job-0", worker="w0"),
        RunFilter(worker="w1", statuses=FAILED_OR_LOST),
        RunFilter(job="uneven", worker="w1", statuses=frozenset({Verdict.FAILED, Verdict.SUCCESS})),
        RunFilter(jobs=("uneven", "job-1", "job-2"), triggers=frozenset({Trigger.RETRY})),
        RunFilter(part="uneven", statuses=FAILED_OR_LOST),
    ],
)
async def test_walks_of_many_steps_miss_nothing(runlog: RunLog, wanted: RunFilter, limit: int) -> None:
    statuses = [Verdict.FAILED, *([Verdict.SUCCESS] * 4)]
    uneven = [
        record(number, job="uneven", status=statuses[number % 5], worker=f"w{number // 2 % 2}") for number in range(60)
    ]
    records = [*history(), *uneven]
    await runlog.write(records)
    assert [item["_id"] for item in await all_pages(runlog, wanted, limit)] == matching(records, wanted)


@pytest.mark.usefixtures("short_walks")
async def test_a_page_looks_at_a_bounded_number_of_records(runlog: RunLog) -> None:
    """A filter that no index decides alone goes on from page to page, and ends."""
    await runlog.write([record(number) for number in range(24)])
    wanted = RunFilter(worker="w1", statuses=frozenset({Verdict.KILLED}))
    first = await runlog.runs(wanted, limit=3)
    assert first.items == ()
    assert first.next_cursor is not None
    assert first.looked_ms == record(12).plan_ms, "it says how far it has looked"
    assert await all_pages(runlog, wanted, 3) == []


@pytest.mark.parametrize(
    "cursor", ["", "x", "!!!", "bm90IGEgY3Vyc29y", "ü", encode_cursor("0" * 16), encode_cursor("a" * 16 + "/j@1#1")]
)
async def test_a_cursor_that_is_none_is_the_callers_mistake(runlog: RunLog, cursor: str) -> None:
    with pytest.raises(InvalidInputError, match="cursor"):
        await runlog.runs(cursor=cursor)


async def test_job_log_has_the_runs_that_started_newest_start_first(runlog: RunLog) -> None:
    late_start = record(0, start_ms=PLAN_0_MS + 99_000)
    others = [record(number) for number in range(1, 5)]
    not_started = [record(5, status=Verdict.SKIPPED), record(6, status=Verdict.KILLED, start_ms=None, end_ms=None)]
    await runlog.write([late_start, *others, *not_started, record(7, job="another")])
    expected = [str(one.run_id) for one in (late_start, *reversed(others))]
    assert list((await runlog.job_log("backup")).sizes) == expected
    assert list((await runlog.job_log("backup", skip=1, limit=2)).sizes) == expected[1:3]
    assert not (await runlog.job_log("backup", skip=100)).sizes
    assert (await logged(runlog, "backup"))[0] == late_start.to_document()


async def test_job_log_can_be_read_in_parts(runlog: RunLog) -> None:
    await runlog.write([*(record(number, output_bytes=number) for number in range(6)), record(7, job="another")])
    await runlog.write([record(8, status=Verdict.SKIPPED)])
    assert len((await runlog.job_log("backup")).sizes) == 6, "those that started"
    sizes = (await runlog.job_log("backup", skip=1, limit=4)).sizes
    assert list(sizes.items()) == [(str(record(number).run_id), number) for number in (4, 3, 2, 1)]
    ids = list(sizes)
    documents = await runlog.documents([*ids[2:], "removed@1#1", ids[0]])
    assert documents == [record(number, output_bytes=number).to_document() for number in (2, 1, 4)]


async def test_job_log_comes_in_one_where_no_output_is_longer_than_asked_for(runlog: RunLog) -> None:
    whole = [record(number, output="x" * number, output_bytes=number) for number in range(1, 5)]
    await runlog.write(whole)
    expected = [one.to_document() for one in reversed(whole)]
    assert (await runlog.job_log("backup", most_bytes=4)).documents == expected
    log = await runlog.job_log("backup", most_bytes=3)
    assert (log.documents, list(log.sizes.values())) == (None, [4, 3, 2, 1])
    assert (await runlog.job_log("backup", skip=1, limit=2, most_bytes=3)).documents == expected[1:3]
    assert (await runlog.job_log("backup", skip=4, most_bytes=3)).documents == []


async def test_job_log_has_a_stable_order_where_runs_started_together(runlog: RunLog) -> None:
    together = [record(1, run_id=RunId("backup", f"r-{letter}"), start_ms=PLAN_0_MS) for letter in ("b", "c", "a")]
    await runlog.write(together)
    pages = [await runlog.job_log("backup", skip=skip, limit=1) for skip in range(3)]
    assert [one for page in pages for one in page.sizes] == ["backup@r-c#1", "backup@r-b#1", "backup@r-a#1"]


async def test_job_log_gives_big_outputs_whole(runlog: RunLog) -> None:
    outputs = [f"{number} " + "x" * 262_144 for number in range(70)]
    for number, output in enumerate(outputs):
        await runlog.write([record(number, output=output)])
    documents = await logged(runlog, "backup", limit=1000)
    assert [document["output"] for document in documents] == outputs[::-1]


async def test_job_log_shows_what_the_parent_wrote(runlog: RunLog, shared_store: LogStore, database: str) -> None:
    old_id = ObjectId()
    old = {"_id": old_id, "jobName": "backup", "command": "echo", "err": "", "output": "hi\n", "planTime": 1,
           "scheduleTime": 2, "startTime": 3, "endTime": 4}  # fmt: skip
    async with pymongo.AsyncMongoClient[dict[str, Any]](shared_store.uri) as client:
        await client[database]["log"].insert_one(dict(old))
    await runlog.write([record(1)])
    assert [document["_id"] for document in await logged(runlog, "backup")] == [str(record(1).run_id), str(old_id)]
    assert (await runlog.job_log("backup", most_bytes=1000)).documents is None, "its output may have any length"
