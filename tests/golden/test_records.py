"""What the log store keeps, to the letter: each kind of document is exactly what its file in `records/` says."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest
from pymongo import MongoClient

from common.jobs.reader import parse_job
from common.protocol.keys import RunId
from common.protocol.planned_job import PlannedJob
from common.protocol.planner import FireRange
from common.protocol.records import fire_record, lost_record, single
from common.protocol.run import EntryState, RunEntry, RunRecord, Trigger
from common.protocol.saved_job import EditKind, JobVersion
from common.runlog.retention import RetentionState
from common.runlog.statistics import HOUR_MS, Counts
from common.verdicts import Verdict
from tests.golden.stage import NOON, Stage
from tests.support.golden import check
from tests.support.records import PLAN_0_MS, record
from tests.support.waiting import wait_until
from tests.support.working import Working, World, working
from tests.support.workshop import NOON as SHOP_MS
from tests.support.workshop import Workshop, workshop

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

FILES: Final = Path(__file__).parent / "records"
OF_THIS_MACHINE: Final = (
    "host", "scheduleTime", "dueTime", "createTime", "claimTime", "startTime", "endTime", "cpuSeconds", "fence",
    "revision",
)  # fmt: skip
"""Of a run that has really been carried out."""
NOT_ALWAYS_KNOWN: Final = ("maxRss",)


def file_of(kind: str) -> Path:
    return FILES / f"{re.sub('[^a-z]+', '_', kind)}.json"


def documents(stage: Stage, database: str, collection: str, *, measured: bool = False) -> list[dict[str, Any]]:
    """All of them, by id, as they lie there."""
    with MongoClient[dict[str, Any]](stage.log_store) as client:
        found = list(client[database][collection].find(sort=[("_id", 1)]))
    if measured:
        found = [{name: f"<{name}>" if name in OF_THIS_MACHINE else one[name] for name in one} for one in found]
        for one, name in itertools.product(found, NOT_ALWAYS_KNOWN):
            one.pop(name, None)
    return found


Meanwhile = Callable[[Working, World, RunId], Awaitable[None]]


async def kill_it(worker: Working, world: World, run_id: RunId) -> None:
    await wait_until(lambda: run_id in worker.running(), description="it runs")
    await world.kill(run_id)


RUNS: Final[dict[str, tuple[dict[str, Any], Meanwhile | None]]] = {
    "success": ({"command": "echo hello", "labels": {"team": "a"}}, None),
    "failed": ({"command": "echo oh >&2; exit 3"}, None),
    "failed by a signal": ({"command": "kill -9 $$"}, None),
    "could not be started": ({"command": "true", "workdir": "/nowhere"}, None),
    "timeout": ({"command": "sleep 60", "timeoutSeconds": 1}, None),
    "killed": ({"command": "sleep 60"}, kill_it),
    "output that is cut": ({"command": "yes | head -c 5000", "outputLimitBytes": 1024}, None),
}


@pytest.mark.parametrize("kind", RUNS)
async def test_record_of_a_run(kind: str, stage: Stage) -> None:
    fields, meanwhile = RUNS[kind]
    async with stage.world() as world:
        job = await world.save(mark_ms=NOON, **fields)
        run_id = await world.ask(job, NOON)
        async with working(world.place) as worker:
            if meanwhile is not None:
                await meanwhile(worker, world, run_id)
            await world.record(run_id)
        check(file_of(kind), documents(stage, world.place.database, "log", measured=True))


SPEC: Final = parse_job({"name": "backup", "command": "echo hello", "every": "1m", "labels": {"team": "a"}})
JOB: Final = PlannedJob(spec=SPEC, schedule=SPEC.schedule, anchor_ms=0, revision=12, create_revision=9)
MANY: Final = FireRange(lo_ms=PLAN_0_MS, hi_ms=PLAN_0_MS + 60_000_000, count=1000, at_least=True)
LEFT: Final = RunEntry(
    state=EntryState.OPEN, worker="w1", session="7b", revision=12, locked=True, plan_ms=PLAN_0_MS,
    dispatch_ms=PLAN_0_MS, claim_ms=PLAN_0_MS - 55,
)  # fmt: skip

OTHERS: Final = {
    "skipped": fire_record(JOB, fires=single(PLAN_0_MS), status=Verdict.SKIPPED,
                           reason="overlap: backup@1#1 was going", now_ms=PLAN_0_MS + 7),
    "missed range": fire_record(JOB, fires=MANY, status=Verdict.MISSED, reason="late", now_ms=MANY.hi_ms + 60_001),
    "lost": lost_record(JOB.run_of(PLAN_0_MS), LEFT, fence=34, reason="worker gone", now_ms=PLAN_0_MS + 300_000,
                        command=SPEC.command_line, labels=SPEC.labels),
    "asked for": record(run_id=RunId("backup", "r-1-a"), trigger=Trigger.API, by="me", note="because"),
    "of a worker's own sequence": record(run_id=RunId.planned("backup~w1", PLAN_0_MS)),
}  # fmt: skip


@pytest.mark.parametrize("kind", OTHERS)
async def test_record_of_a_fire(kind: str, stage: Stage) -> None:
    async with stage.world() as world:
        await world.runlog.write([OTHERS[kind]])
        check(file_of(kind), documents(stage, world.place.database, "log"))


async def not_started(stage: Stage, make: Callable[[Workshop], Awaitable[None]], kind: str) -> None:
    """The record of a claimed run of which nothing was started."""
    async with stage.world() as world, workshop(stage.etcd, stage.prefix, slots=1) as shop:
        await make(shop)
        await wait_until(lambda: shop.spool.records != [], description="its verdict")
        await world.runlog.write(shop.spool.records)
        check(file_of(kind), documents(stage, world.place.database, "log", measured=True))


async def test_record_of_a_run_that_was_killed_before_its_start(stage: Stage) -> None:
    async def make(shop: Workshop) -> None:
        run = await shop.claim(plan_ms=SHOP_MS + 100)
        shop.kill(run)
        shop.passes(100)

    await not_started(stage, make, "killed before start")


async def test_record_of_a_run_that_was_too_late_to_start(stage: Stage) -> None:
    async def make(shop: Workshop) -> None:
        await shop.started(await shop.claim("first"))
        await shop.claim("late", grace_s=5)
        shop.passes(5_001)

    await not_started(stage, make, "claimed, not started")


async def test_late_record_replaces_one_that_says_lost(stage: Stage) -> None:
    async with stage.world() as world:
        await world.runlog.write([record(status=Verdict.LOST, reason="worker gone", end_ms=None)])
        await world.runlog.write([record()])
        check(file_of("late"), documents(stage, world.place.database, "log"))


async def test_what_a_job_came_to(stage: Stage) -> None:
    async with stage.world() as world:
        await world.runlog.write([record(0), record(1, status=Verdict.FAILED), record(2, status=Verdict.SKIPPED)])
        check(file_of("what a job came to"), documents(stage, world.place.database, "last"))


async def test_statistics_as_they_are_counted_and_rolled_up(stage: Stage) -> None:
    async with stage.world() as world:
        await world.runlog.write([record(0), record(1, status=Verdict.FAILED), record(2, job="other")])
        found: dict[str, Counts] = {}
        await world.runlog.count_hour(PLAN_0_MS // HOUR_MS, after="", limit=10, to=found)
        await world.runlog.put_hour(PLAN_0_MS // HOUR_MS, found)
        await world.runlog.put_counted_hours({PLAN_0_MS // HOUR_MS: NOON})
        counted = documents(stage, world.place.database, "statistics")
        while await world.runlog.roll_up_statistics(PLAN_0_MS // HOUR_MS // 24 + 1):
            pass
        rolled_up = documents(stage, world.place.database, "statistics")
        check(file_of("statistics"), {"counted": counted, "rolled up": rolled_up})


async def test_former_spec_of_a_job(stage: Stage) -> None:
    version = JobVersion(
        job="backup", revision=12, spec={"name": "backup", "command": "true"}, saved_ms=NOON, saved_by="me",
        ended_ms=NOON + 1000, ended_by="you", ended_with=EditKind.PAUSE,
    )  # fmt: skip
    async with stage.world() as world:
        await world.runlog.versions.put([version])
        check(file_of("former spec"), documents(stage, world.place.database, "versions"))


async def test_how_long_records_are_kept(stage: Stage) -> None:
    state = RetentionState(days=30, per_job=100, worker="w1", at_ms=NOON, removed=7)
    async with stage.world() as world:
        await world.runlog.put_retention(state)
        check(file_of("how long records are kept"), documents(stage, world.place.database, "retention"))


def test_every_verdict_and_every_field_of_a_record_is_in_a_file() -> None:
    files = [json.loads(file.read_text()) for file in FILES.glob("*.json")]
    kept = [one for file in files if isinstance(file, list) for one in file if "pageKey" in one]
    any_value: dict[str, Any] = dict.fromkeys(RunRecord.__struct_fields__, 1)
    full = RunRecord(**any_value | {"run_id": RunId("j", "1"), "labels": {}})
    assert full.to_document().keys() <= {name for one in kept for name in one}
    assert {one["status"] for one in kept} == set(Verdict)
