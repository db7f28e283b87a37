"""The outbox: what is put once is there once, in order, until it is deleted; and when a job succeeded last."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from common.notices.events import Event
from common.runlog import OutboxDocument, RunLog, outbox_documents
from common.verdicts import EventKind, Verdict
from tests.support.records import PLAN_0_MS, record


def event(number: int, **changes: Any) -> Event:
    return Event(kind=EventKind.FAILED, at_ms=PLAN_0_MS, job=f"job-{number}", order=f"{number:016d}", **changes)


async def test_document_is_there_once_however_often_it_is_put(runlog: RunLog) -> None:
    first, second = outbox_documents([event(0)], PLAN_0_MS), outbox_documents([event(1)], PLAN_0_MS)
    for documents in (first, second, [*first, *second]):
        await runlog.outbox.put(documents)
    assert await runlog.outbox.read(10) == [*first, *second]
    assert await runlog.outbox.read(1) == first
    for _ in range(2):
        await runlog.outbox.delete([first[0].id])
    assert await runlog.outbox.read(10) == second


async def test_older_ones_come_first_whoever_has_put_them(runlog: RunLog) -> None:
    ids = [f"outbox/{1_000_000 - number:016d}/writer/0" for number in range(30)]
    await runlog.outbox.put([OutboxDocument(id=one, events=(event(0),)) for one in ids])
    assert [one.id for one in await runlog.outbox.read(100)] == sorted(ids)


async def test_many_events_are_spread_over_documents_that_the_store_takes(runlog: RunLog) -> None:
    long = [event(number, labels={str(label): "\N{SNOWMAN}" * 4_096 for label in range(15)}) for number in range(40)]
    short = [event(number, reason="x" * 500, err="x" * 500) for number in range(1_100)]
    documents = outbox_documents([*long, *short], PLAN_0_MS)
    assert max(len(one.events) for one in documents) == 500
    await runlog.outbox.put(documents)
    found = []
    while some := await runlog.outbox.read(100):  # as many at a time as a notifier may hold
        found += [one for document in some for one in document.events]
        await runlog.outbox.delete([document.id for document in some])
    assert found == [*long, *short]


async def test_no_characters_keep_an_event_from_being_told(runlog: RunLog) -> None:
    await runlog.outbox.put(outbox_documents([event(0, err="\ud800", labels={"a": "007", "b.$c": "2026-01-01"})], 1))
    [document] = await runlog.outbox.read(1)
    assert (document.events[0].err, document.events[0].labels) == ("?", {"a": "007", "b.$c": "2026-01-01"})


async def test_what_is_none_of_ours_is_left_out_and_logged(runlog: RunLog, caplog: pytest.LogCaptureFixture) -> None:
    good = event(0)
    await runlog.outbox._collection.insert_many([
        {"_id": "outbox/1", "events": [good.to_document(), {"kind": "of-a-later-version", "atMs": 1}, 5]},
        {"_id": "outbox/2", "events": "none"}, {"_id": "outbox/3"},
    ])  # fmt: skip
    with caplog.at_level(logging.ERROR):
        found = await runlog.outbox.read(10)
    assert [(one.id, one.events) for one in found] == [("outbox/1", (good,)), ("outbox/2", ()), ("outbox/3", ())]
    assert "has what is no event" in caplog.text


async def test_last_success_goes_forward_only_and_says_nothing_of_failures(runlog: RunLog) -> None:
    async def last_success() -> int | None:
        return (await runlog.job_results(["backup"]))["backup"].success_ms

    await runlog.write([record(1, status=Verdict.FAILED)])
    assert await last_success() is None
    for number, newest in ((3, 3), (2, 3), (4, 4)):
        await runlog.write([record(number)])
        assert await last_success() == record(newest).end_ms
    await runlog.write([record(5, end_ms=PLAN_0_MS), record(6, status=Verdict.MISSED)])  # ended before the one before
    assert await last_success() == record(4).end_ms
    await runlog.write([record(7)])
    assert await last_success() == record(7).end_ms
