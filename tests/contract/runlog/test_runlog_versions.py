"""The former specs of jobs: the newest of each, whatever is repeated, and which of a batch the store does not take."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo.errors import BulkWriteError

from common.protocol.saved_job import EditKind, JobVersion
from common.runlog import RunLog
from common.runlog.versions import KEPT


def version(number: int, job: str = "backup", **spec: Any) -> JobVersion:
    return JobVersion(
        job=job, revision=number, spec={"command": f"echo {number}", **spec}, saved_ms=number, saved_by="me",
        ended_ms=1_790_000_000_000 + number // 2, ended_by="me", ended_with=EditKind.SAVE,
    )  # fmt: skip


async def test_of_each_job_the_newest_fifty_stay_however_often_they_are_put(runlog: RunLog) -> None:
    of_backup = [version(number) for number in range(KEPT + 3)]
    for start in (0, 20):
        assert await runlog.versions.put([*of_backup[start:], version(1, "other")]) == {}
    assert await runlog.versions.newest("backup", limit=100) == of_backup[:2:-1]
    assert await runlog.versions.newest("backup", limit=2) == of_backup[:-3:-1]
    assert await runlog.versions.newest("other") == [version(1, "other")]


async def test_what_the_store_does_not_take_is_told_by_its_place(
    runlog: RunLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = runlog.versions._collection
    write = versions.bulk_write

    async def refusing(operations: list[Any], **options: Any) -> None:
        await write([operations[0], operations[2]], **options)
        raise BulkWriteError({"nMatched": 0, "writeErrors": [{"index": 1, "code": 121, "errmsg": "no"}]})

    monkeypatch.setattr(versions, "bulk_write", refusing)
    batch = [version(0, note="\ud800"), version(2), version(4), version(6)]
    refused = await runlog.versions.put(batch)
    assert (list(refused), refused[2]) == ([0, 2], "no (code 121)")
    assert [one.revision for one in await runlog.versions.newest("backup")] == [6, 2]


async def test_what_is_no_version_harms_no_other_and_is_told_of(
    runlog: RunLog, caplog: pytest.LogCaptureFixture
) -> None:
    await runlog.versions.put([version(1)])
    [good] = await runlog.versions._collection.find({}).to_list()
    odd: list[dict[str, Any]] = [{}, {**good, "revision": "x"}, {**good, "jobName": 7, "endedMs": None}]
    odd += [{**good, "specJson": text} for text in (None, 5, "", "[", "[" * 9999, "[]")]
    ids = [f"{good['_id']}{number}" for number in range(len(odd))]
    await runlog.versions._collection.insert_many(
        [{**one, "_id": one_id} for one, one_id in zip(odd, ids, strict=True)]
    )
    assert await runlog.versions.newest("backup") == [version(1)]
    assert [one.__dict__.get("id") for one in caplog.records] == ids[::-1]
