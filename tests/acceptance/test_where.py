"""Where runs run, on a whole cluster: selectors, slots, broadcast to all workers, drains."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from common.clock import SystemClock
from tests.support.cluster import EVERY_SECOND, Cluster, running_cluster
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

ALL = {"worker-1", "worker-2", "worker-3"}


def second(after_s: int = 0) -> int:
    """A whole second, so long from now."""
    return SystemClock().wall_ms() // 1000 * 1000 + after_s * 1000


def fired(cluster: Cluster, job: str) -> dict[int, set[str]]:
    """Plan time to the workers on which the job has started for it; nothing starts twice."""
    starts = Counter((start.plan_ms, start.worker) for start in cluster.starts() if start.job == job)
    assert set(starts.values()) <= {1}, starts
    plans: dict[int, set[str]] = {}
    for plan_ms, worker in starts:
        plans.setdefault(plan_ms, set()).add(worker)
    return plans


async def fires_on(cluster: Cluster, job: str, plan_ms: int, workers: set[str], *, since_ms: int | None = None) -> None:
    """The job has started there for this fire, and for all since then."""

    def have_started() -> bool:
        plans, first_ms = fired(cluster, job), plan_ms if since_ms is None else since_ms
        return all(at in plans and plans[at] >= workers for at in range(first_ms, plan_ms + 1, 1000))

    await wait_until(have_started, description=f"{workers} at {plan_ms}")


async def takes_part(cluster: Cluster, job: str, worker: str, *, since: int) -> None:
    """The worker has started the job for a fire of then or later."""
    await wait_until(
        lambda: any(worker in workers for at, workers in fired(cluster, job).items() if at >= since),
        description=f"{worker} takes part",
    )  # fmt: skip


async def recorded(cluster: Cluster, job: str, wanted: set[tuple[int, str]]) -> list[dict[str, Any]]:
    """The job's records, once these (plan time, worker) are among them."""
    records: list[dict[str, Any]] = []

    async def there() -> bool:
        records[:] = await cluster.runs(job=job)
        return wanted <= {(record["planTime"], record["worker"]) for record in records}

    await wait_until(there, description=f"{len(wanted)} fires of {job} are recorded")
    return records


async def state_of(cluster: Cluster, name: str) -> dict[str, Any]:
    items = (await cluster.get("/api/v1/workers"))["items"]
    found: dict[str, Any] = next(item for item in items if item["name"] == name)
    return found


async def test_a_broadcast_job_follows_the_workers_as_they_come_and_go(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, managers=1) as cluster:
        # A run that a busy machine holds up for a second must not keep the next one from it.
        await cluster.save("all", cluster.evidence_command(), EVERY_SECOND, broadcast=True, overlap="allow")
        begun = second(2)
        await fires_on(cluster, "all", begun + 5000, ALL, since_ms=begun)
        assert {frozenset(fired(cluster, "all")[at]) for at in range(begun, begun + 5001, 1000)} == {frozenset(ALL)}

        await cluster.workers[2].end(signal.SIGKILL)
        two = ALL - {"worker-3"}
        killed = second(2)
        await fires_on(cluster, "all", killed + 3000, two, since_ms=killed)
        assert {frozenset(fired(cluster, "all")[at]) for at in range(killed, killed + 3001, 1000)} == {frozenset(two)}

        fourth = cluster.add_worker("worker-4")
        fourth.start()
        await takes_part(cluster, "all", "worker-4", since=killed)
        joined = second(2)
        await fires_on(cluster, "all", joined + 3000, two | {"worker-4"}, since_ms=joined)
        cluster.workers[2].start()
        await takes_part(cluster, "all", "worker-3", since=joined)
        back = second(2)
        four = ALL | {"worker-4"}
        await fires_on(cluster, "all", back + 3000, four, since_ms=back)
        await cluster.post("/job/delete", name="all")

        starts = fired(cluster, "all")
        assert all(starts[at] == two | {"worker-4"} for at in range(joined, joined + 3001, 1000))
        assert all(starts[at] == four for at in range(back, back + 3001, 1000))
        last = max(starts)
        ran = {(plan_ms, worker) for plan_ms, workers in starts.items() for worker in workers}
        records = await recorded(cluster, "all", ran)
        by_fire = Counter((record["planTime"], record["worker"]) for record in records)
        assert set(by_fire.values()) == {1}, "one record for each fire of each worker"
        # What worker-3 had claimed when it was killed is lost; what it was away for is not owed; nothing is missed.
        others = [record for record in records if record["status"] != "success"]
        assert {record["status"] for record in others} <= {"lost", "skipped"}, others
        assert not {at for at, worker in by_fire if worker == "worker-3" and killed <= at < joined}
        print(f"{len(records)} records of {len(starts)} fires until {last}: {Counter(r['status'] for r in records)}")


async def test_selectors_and_slots_say_where(tmp_path: Path) -> None:
    flags = {
        "worker-1": ("--labels", "zone=eu", "--slots", "8"), "worker-2": ("--labels", "zone=us", "--slots", "4"),
        "worker-3": ("--labels", "zone=eu,gpu=a100", "--slots", "4"),
    }  # fmt: skip
    async with running_cluster(tmp_path, managers=1, flags_of=flags) as cluster:
        evidence = cluster.evidence_command()
        await cluster.save("eu", evidence, EVERY_SECOND, workers={"zone": "eu"})
        await cluster.save("gpu", evidence, EVERY_SECOND, workers={"zone": ["eu", "ap"], "gpu": ["a100", "h100"]})
        await cluster.save("big", evidence, EVERY_SECOND, slots=5)
        policy = {"policy": "skip", "graceSeconds": 1}
        answer = await cluster.save("nowhere", evidence, EVERY_SECOND, workers={"zone": "mars"}, misfire=policy)
        assert any("zone=mars" in warning for warning in answer["warnings"])
        answer = await cluster.save("too-big", evidence, EVERY_SECOND, slots=9, misfire=policy)
        assert any("9 slots" in warning for warning in answer["warnings"])
        last = second(12)
        for job, worker in (("gpu", "worker-3"), ("big", "worker-1")):
            await takes_part(cluster, job, worker, since=last)
        await wait_until(lambda: max(fired(cluster, "eu"), default=0) >= last, description="the last of zone eu")
        # One has a third of the slots, and so by chance none of a dozen fires, once in a hundred runs of this test.
        of_eu = {"worker-1", "worker-3"}
        await wait_until(
            lambda: {start.worker for start in cluster.starts() if start.job == "eu"} >= of_eu,
            description="both of zone eu have their share",
        )  # fmt: skip
        workers = {job: Counter(start.worker for start in cluster.starts() if start.job == job)
                   for job in ("eu", "gpu", "big", "nowhere", "too-big")}  # fmt: skip
        assert set(workers["eu"]) == {"worker-1", "worker-3"}
        assert (set(workers["gpu"]), set(workers["big"])) == ({"worker-3"}, {"worker-1"})
        assert not workers["nowhere"] + workers["too-big"]
        for job in ("eu", "gpu", "big"):
            await cluster.call("POST", f"/api/v1/jobs/{job}/pause", {"reason": "seen"})
        for job in ("nowhere", "too-big"):
            missed: list[dict[str, Any]] = []

            async def is_missed(job: str = job, missed: list[dict[str, Any]] = missed) -> bool:
                missed[:] = await cluster.runs(job=job)
                return bool(missed)

            await wait_until(is_missed, description=f"{job} is missed", timeout=120)
            assert {one["status"] for one in missed} == {"missed"}
            assert all(one["reason"].startswith("no worker: ") for one in missed)
        print({job: dict(count) for job, count in workers.items()})


async def test_a_drained_worker_finishes_and_takes_nothing_until_it_is_undrained(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, managers=1) as cluster:
        # A run that a busy machine holds up for a second must not keep the next one from it.
        for number in range(5):
            await cluster.save(f"job-{number}", cluster.evidence_command(), EVERY_SECOND, overlap="allow")
        await cluster.save("all", cluster.evidence_command(), EVERY_SECOND, broadcast=True, overlap="allow")
        long = cluster.evidence_command("sleep 6; echo to the end")
        await cluster.save("long", long, "*/2 * * * * * *", broadcast=True)
        await fires_on(cluster, "all", second(3), ALL)
        await wait_until(
            lambda: {start.worker for start in cluster.starts() if start.job == "long"} == ALL, description="it runs"
        )
        done = await cluster.call("POST", "/api/v1/workers/worker-1/drain", {"reason": "new kernel"})
        assert done["changed"]

        async def knows() -> bool:
            return "drained by" in ((await state_of(cluster, "worker-1"))["problem"] or "")

        await wait_until(knows, description="the worker says that it is drained")
        assert (await state_of(cluster, "worker-1"))["drained"]["reason"] == "new kernel"
        quiet = second(2)
        await fires_on(cluster, "all", quiet + 6000, ALL - {"worker-1"})

        async def drained() -> bool:
            return bool((await state_of(cluster, "worker-1"))["state"] == "drained")

        await wait_until(drained, description="nothing runs there any more")
        await cluster.workers[0].end(signal.SIGTERM)
        assert (await state_of(cluster, "worker-1"))["state"] == "drained", "also while it is down"
        cluster.workers[0].start()

        async def back() -> bool:
            worker = await state_of(cluster, "worker-1")
            return "session" in worker and worker["state"] == "drained"

        await wait_until(back, description="it is there again, and drained")
        still = second(2)
        await fires_on(cluster, "all", still + 2000, ALL - {"worker-1"})
        taken = {start.plan_ms for start in cluster.starts() if start.worker == "worker-1"}
        assert not {at for at in taken if at >= quiet}, "it takes nothing"
        assert (await cluster.call("POST", "/api/v1/workers/worker-1/undrain", {}))["changed"]
        again = second(2)
        for worker in sorted(ALL):
            await takes_part(cluster, "all", worker, since=again)
        jobs = {f"job-{number}" for number in range(5)}
        await wait_until(
            lambda: any(s.worker == "worker-1" and s.job in jobs and s.plan_ms >= again for s in cluster.starts()),
            description="it takes its share again",
        )
        records = await cluster.runs(job="long")
        mine = [one for one in records if one["worker"] == "worker-1" and one["planTime"] < quiet]
        assert "success" in {one["status"] for one in mine}, "what ran went on to its end"
        assert {one["status"] for one in mine} <= {"success", "skipped"}
        for job in sorted(jobs):
            first_ms = min(fired(cluster, job))
            await fires_on(cluster, job, again, set(), since_ms=first_ms)
            assert all(len(workers) == 1 for workers in fired(cluster, job).values())
