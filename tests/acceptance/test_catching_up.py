"""All workers are stopped for a while, then started: each job makes up for what its policy says, and no more."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import EVERY_SECOND, Cluster, covered, planned_between, running_cluster
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow

AWAY_S = int(os.environ.get("ETCRON_ACCEPTANCE_AWAY_SECONDS", "15"))
LIMIT = 4
RARE_S = 20
RARELY = f"*/{RARE_S} * * * * * *"
POLICIES: dict[str, dict[str, Any]] = {
    "latest": {"policy": "latest", "graceSeconds": 10},
    "all": {"policy": "all", "graceSeconds": 10, "limit": LIMIT},
    "skip": {"policy": "skip", "graceSeconds": 1},
}


async def stopped_and_started(cluster: Cluster) -> tuple[int, int]:
    """From when until when (ms) no worker was there; started again 3 s after a fire of the rare job."""
    await asyncio.gather(*(worker.end() for worker in cluster.workers))
    stopped_s = time.time()
    await wait_until(
        lambda: time.time() - stopped_s > AWAY_S and 3 <= time.time() % RARE_S < 5,
        description="long enough without workers",
        timeout=AWAY_S + PATIENCE_S,
    )
    back_ms = int(time.time() * 1000)
    for worker in cluster.workers:
        worker.start()
    return int(stopped_s * 1000), back_ms


def of_the_gap(records: list[dict[str, Any]], job: str, status: str, lo_ms: int, hi_ms: int) -> list[dict[str, Any]]:
    found = [one for one in records if (one["jobName"], one["status"]) == (job, status)]
    return sorted(
        (one for one in found if lo_ms < (one.get("rangeEndTime") or one["planTime"]) and one["planTime"] <= hi_ms),
        key=lambda one: one["planTime"],
    )


def started(cluster: Cluster, job: str, plans: list[int]) -> list[int]:
    """Those of these fires that have started, in the order of their starts."""
    return [start.plan_ms for start in cluster.starts() if start.job == job and start.plan_ms in plans]


async def test_workers_stopped_for_a_while_make_up_for_what_the_policy_says(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, workers=2, managers=1) as cluster:
        for name, misfire in POLICIES.items():
            every = RARELY if name == "skip" else EVERY_SECOND
            await cluster.save(name, cluster.evidence_command(), every, misfire=misfire)
        await wait_until(
            lambda: {"latest", "all"} <= {start.job for start in cluster.starts()}, description="both fire"
        )
        stopped_ms, back_ms = await stopped_and_started(cluster)

        def fires_again() -> bool:
            newest = max(start.plan_ms for start in cluster.starts() if start.job == "latest")
            return newest > back_ms + 6000

        await wait_until(fires_again, description="fires run again")
        last_ms = max(start.plan_ms for start in cluster.starts()) - 2000
        records: list[dict[str, Any]] = []

        def of_the_rare() -> list[dict[str, Any]]:
            """Together with a fire that was due while the workers were ending."""
            of_it = [one for one in records if one["jobName"] == "skip"]
            return [one for one in of_it if stopped_ms < (one.get("rangeEndTime") or one["planTime"]) <= back_ms]

        def is_whole(job: str) -> bool:
            """One worker may tell its fires later than another, and those before the gap later than those behind it."""
            plans = set(covered(records, job))
            return set(planned_between(min([*plans, stopped_ms]), last_ms)) <= plans

        async def complete() -> bool:
            records[:] = await cluster.runs()
            return of_the_rare() != [] and is_whole("latest") and is_whole("all")

        await wait_until(complete, description="every fire has its record")
        for job in ("latest", "all"):
            counts = covered(records, job)
            first_ms = min(counts)
            assert [counts[plan] for plan in range(first_ms, last_ms + 1, 1000)] == [1] * (
                (last_ms - first_ms) // 1000 + 1
            )
            # A fire that was claimed, and that the stop left unstarted, has a record of its own.
            (missed,) = [one for one in of_the_gap(records, job, "missed", stopped_ms, back_ms) if "count" in one]
            print(f"{job}: {missed['count']} missed as one")
            after_ms = missed["rangeEndTime"]
            expected = [after_ms + number * 1000 for number in range(1, (1 if job == "latest" else LIMIT) + 1)]
            await wait_until(
                lambda job=job, plans=expected: len(started(cluster, job, plans)) >= len(plans),  # type: ignore[misc]
                description=f"{job} is made up for",
            )  # fmt: skip
            assert started(cluster, job, expected) == expected, "each once, oldest first"
            assert missed["count"] == (after_ms - missed["planTime"]) // 1000 + 1
        assert {one["status"] for one in of_the_rare()} == {"missed"}
        assert len(of_the_rare()) == 1
        assert not [s for s in cluster.starts() if s.job == "skip" and stopped_ms < s.plan_ms <= back_ms]
