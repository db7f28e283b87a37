"""Fills an etcd and a log store with as much as the console has to bear: 10,000 jobs, 1,000,000 records.

    python -m bench.console_data --etcd 127.0.0.1:2379 --log-store mongodb://127.0.0.1:27017 [--jobs N] [--records N]

It writes what a year of use would leave, by bulk: jobs with their marks, records without indexes in the way, and what
each job came to. The jobs fire once a year, so that workers that are there leave them alone. Meant for empty stores.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from pymongo import AsyncMongoClient

from bench.filling import fill
from common.etcd import EtcdClient
from common.jobs.job import JobSpec
from common.protocol.keys import Keys, RunId
from common.protocol.run import RunRecord
from common.protocol.saved_job import Pause, SavedJob
from common.runlog import RunLog
from common.runlog.documents import PAGE_KEY, page_key
from common.verdicts import Verdict

JOBS: Final = 10_000
RECORDS: Final = 1_000_000
_RECORDS_A_WRITE: Final = 5_000
_STRIP: Final = 20
_EVERY_MS: Final = 900_000
_TEAMS: Final = ("billing", "search", "media", "infra", "growth")
_VERDICTS: Final = (Verdict.SUCCESS,) * 46 + (Verdict.FAILED, Verdict.TIMEOUT, Verdict.MISSED, Verdict.SKIPPED)


def job_name(number: int) -> str:
    """The name of the job with this number."""
    return f"{_TEAMS[number % len(_TEAMS)]}.job-{number:06d}"


def saved_job(number: int, now_ms: int) -> SavedJob:
    """One job in twenty is paused."""
    paused = number % 20 == 7
    spec = JobSpec(
        name=job_name(number), command=f"/opt/{_TEAMS[number % 5]}/bin/step-{number % 97} --shard {number}",
        cron_exprs=(f"0 {number % 60} {number % 24} {1 + number % 28} {1 + number % 12} * *",), enabled=not paused,
        labels={"team": _TEAMS[number % 5], "tier": str(number % 3)}, timezone=("UTC", "Europe/Berlin")[number % 2],
    )  # fmt: skip
    pause = Pause(since_ms=now_ms, by="bench", reason="not needed now") if paused else None
    return SavedJob(spec=spec, anchor_ms=now_ms, saved_ms=now_ms, saved_by="bench", pause=pause)


def record(job: int, fire: int, now_ms: int) -> RunRecord:
    """The record of a job's fire, the newest being number 0."""
    plan_ms = now_ms // _EVERY_MS * _EVERY_MS - fire * _EVERY_MS - job % 900 * 1000
    status = _VERDICTS[random.Random(job * 1_000_003 + fire).randrange(len(_VERDICTS))]
    started: dict[str, Any] = {}
    if status.is_of_a_run:
        code = {Verdict.SUCCESS: 0, Verdict.FAILED: 1}.get(status)
        started = {"start_ms": plan_ms + 3, "end_ms": plan_ms + 250, "exit_code": code, "worker": f"w{job % 5}",
                   "output": "a line of output that says what was done\n" * 5}  # fmt: skip
    reason = None if status.is_of_a_run else "overlap" if status is Verdict.SKIPPED else "worker away"
    return RunRecord(
        run_id=RunId.planned(job_name(job), plan_ms), status=status, plan_ms=plan_ms, schedule_ms=plan_ms,
        create_ms=plan_ms, command="/opt/bin/step", reason=reason, host="host", revision=1, fence=1, **started,
    )  # fmt: skip


async def fill_etcd(endpoint: str, prefix: str, jobs: int, now_ms: int) -> None:
    """Put the jobs with their marks."""
    async with EtcdClient([endpoint], timeout=30) as etcd:
        await fill(etcd, Keys(prefix), (saved_job(number, now_ms) for number in range(jobs)))


async def fill_log_store(uri: str, database: str, jobs: int, records: int, now_ms: int) -> None:
    """Insert the records, then make the indexes, then what each job came to."""
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(uri)
    log = client.get_database(database).get_collection("log")
    try:
        for batch in _batches(jobs, records, now_ms):
            await log.insert_many(batch, ordered=False)
    finally:
        await client.close()
    async with RunLog(uri, database=database) as runlog:
        await runlog.prepare()
        each = max(1, min(_STRIP, records // jobs))
        for start in range(0, jobs, 500):
            newest = [record(job, fire, now_ms) for job in range(start, min(start + 500, jobs)) for fire in range(each)]
            await runlog.advance_last(newest, deadline_seconds=120)


def _batches(jobs: int, records: int, now_ms: int) -> Iterator[list[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    for number in range(records):
        one = record(number % jobs, number // jobs, now_ms)
        batch.append({**one.to_document(), PAGE_KEY: page_key(one)})
        if len(batch) == _RECORDS_A_WRITE:
            yield batch
            batch = []
    if batch:
        yield batch


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Fill the stores that the arguments name; how long it took."""
    parser = argparse.ArgumentParser(prog="bench.console_data", description="Fills stores for the console's benchmark.")
    parser.add_argument("--etcd", help="host:port")
    parser.add_argument("--log-store", help="MongoDB URI")
    parser.add_argument("--prefix", default="/etcron")
    parser.add_argument("--database", default="cron")
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--records", type=int, default=RECORDS)
    given = parser.parse_args(() if argv is None else argv)
    took: dict[str, float] = {}
    now_ms = time.time_ns() // 1_000_000
    if given.etcd:
        began = time.monotonic()
        asyncio.run(fill_etcd(given.etcd, given.prefix, given.jobs, now_ms))
        took["etcd_s"] = round(time.monotonic() - began, 1)
    if given.log_store:
        began = time.monotonic()
        asyncio.run(fill_log_store(given.log_store, given.database, given.jobs, given.records, now_ms))
        took["log_store_s"] = round(time.monotonic() - began, 1)
    print(took or "nothing to fill: name --etcd and --log-store")
    return took


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
