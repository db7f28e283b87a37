"""Edits while the job fires, at the worst moments, also by a manager whose clock is behind: no fire twice or silent."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.support.cluster import EVERY_SECOND, Cluster, covered, planned_between, running_cluster
from tests.support.managing import Managed, Place, ShiftedClock, managing
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

JOB = "edited"
BEHIND_MS = -200
ROUNDS = 12


async def just_before_a_second(ms: int) -> None:
    """Returns this many ms before a whole second, by the wall clock: its fire has been claimed, and not started."""
    remaining = (-(time.time() * 1000) - ms) % 1000
    await asyncio.sleep(remaining / 1000)


def text(cluster: Cluster, number: int) -> str:
    """The job, a little different each time."""
    return json.dumps({"name": JOB, "command": f"{cluster.evidence_command()} # {number}", "cronExpr": EVERY_SECOND})


async def edit(cluster: Cluster, behind: Managed, number: int, chance: random.Random) -> range:
    """One of the edits, at a moment when the next fire has been claimed already, or at any.

    Returns the times in ms whose fires may have no record: between a deletion and the next save there is no job; and
    a deletion by a manager that is behind takes fires that nobody had claimed for such as are still to come
    (docs/explanation/guarantees.md). Where the machine keeps up, there is no whole second among them.
    """
    await just_before_a_second(chance.choice([30, 90, 150, 400]))
    match number % 4:
        case 0:
            await done(behind, "/job/save", job=text(cluster, number))
        case 1:
            await cluster.post("/job/save", job=text(cluster, number))
        case 2:
            asked_ms = now_ms()
            await cluster.post("/job/delete", name=JOB)
            await done(behind, "/job/save", job=text(cluster, number))
            return range(asked_ms, now_ms() + BEHIND_MS + 1)  # what came due later is owed by the new job
        case _:
            asked_ms = now_ms()
            await done(behind, "/job/delete", name=JOB)
            await cluster.post("/job/save", job=text(cluster, number))
            return range(asked_ms + BEHIND_MS, now_ms() + 1)
    return range(0)


async def done(manager: Managed, path: str, **form: str) -> None:
    """It has done so: where its fires change faster than a busy etcd answers, it gives up, and says so."""

    async def is_done() -> bool:
        answer = await manager.http.post(path, data=form)
        assert answer.status in (200, 503), await answer.text()
        return answer.status == 200

    await wait_until(is_done, description=f"{path} is done")


def now_ms() -> int:
    return int(time.time() * 1000)


async def test_edits_at_the_worst_moments_neither_double_nor_silence_a_fire(tmp_path: Path) -> None:
    chance = random.Random(7)
    async with running_cluster(tmp_path, workers=3, managers=2) as cluster:
        place = Place(etcd=cluster.etcd.endpoint, log_store=cluster.log_store.uri, prefix="/etcron", database="cron")
        async with managing(place, clock=ShiftedClock(BEHIND_MS), loops=True) as behind:
            await cluster.post("/job/save", job=text(cluster, -1))
            await wait_until(lambda: bool(cluster.starts()), description="the job fires")
            first_ms = min(start.plan_ms for start in cluster.starts())
            unseen = [await edit(cluster, behind, number, chance) for number in range(ROUNDS)]
            last_edit_ms = now_ms()
            await wait_until(
                lambda: max(s.plan_ms for s in cluster.starts()) > last_edit_ms + 3000, description="it fires on"
            )
            last_ms = max(start.plan_ms for start in cluster.starts()) - 1000
            wanted = set(planned_between(first_ms, last_ms))
            missing: set[int] = set()

            async def recorded() -> bool:
                missing.clear()
                uncovered = wanted - set(covered(await cluster.runs(job=JOB), JOB))
                missing.update(plan for plan in uncovered if not any(plan in times for times in unseen))
                return not missing

            try:
                await wait_until(recorded, description="every fire has a record")
            except AssertionError as error:
                raise AssertionError(f"{error}: not {sorted(missing)}") from None
            records = await cluster.runs(job=JOB)
        assert max(Counter(start.plan_ms for start in cluster.starts()).values()) == 1
        assert {plan: count for plan, count in covered(records, JOB).items() if count > 1} == {}
        ran = {record["planTime"] for record in records if record["status"] == "success"}
        assert {start.plan_ms for start in cluster.starts() if start.plan_ms <= last_ms} <= ran | {
            record["planTime"] for record in records if record["status"] == "killed"
        }
        assert len(ran) > ROUNDS / 2, "edits do not stop the job from running"
        print(dict(Counter((r["status"], r.get("reason")) for r in records)))
