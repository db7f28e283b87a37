"""What follows a run's end on a cluster whose workers are killed: attempts by the policy, a chain that never breaks."""

from __future__ import annotations

import json
import signal
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from common.etcd import EtcdClient
from common.instants import iso
from common.protocol.keys import Keys
from tests.support.cluster import Cluster, Process, running_cluster
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

QUICK = ("--lease-ttl-seconds", "3", "--lost-after-seconds", "13")
"""A worker that is gone is noticed soon; its runs are lost a little later."""
LOST_AFTER = {"lostAfterSeconds": 15, "killGraceSeconds": 0}


async def save(cluster: Cluster, name: str, command: str, **fields: Any) -> None:
    await cluster.post("/job/save", job=json.dumps({"name": name, "command": command, **fields}))


def soon(cluster: Cluster, seconds: int = 2) -> dict[str, Any]:
    """A one-shot job's trigger."""
    return {"at": iso(int(cluster.second_from_now(seconds).timestamp() * 1000))}


async def records(cluster: Cluster, job: str) -> list[dict[str, Any]]:
    """The job's, in the order of their attempts, or of their starts."""
    return sorted(await cluster.runs(job=job), key=lambda one: (one["planTime"], one["attempt"]))


async def has_records(cluster: Cluster, job: str, count: int) -> list[dict[str, Any]]:
    async def there() -> bool:
        return len(await cluster.runs(job=job)) >= count

    await wait_until(there, description=f"{job} has {count} records")
    return await records(cluster, job)


async def retry_is_asked_for(cluster: Cluster, job: str) -> None:
    """Before that, the end of the run is not in etcd: a worker that is killed then is found out by the steward."""
    async with EtcdClient([cluster.etcd.endpoint]) as etcd:

        async def there() -> bool:
            return await etcd.count(Keys().requests_of(job)) > 0

        await wait_until(there, description=f"{job} is to be tried again")


def worker_of(cluster: Cluster, name: str) -> Process:
    return next(one for one in cluster.workers if one.name == name)


async def drain(cluster: Cluster, worker: Process) -> None:
    """It takes nothing from now on."""
    await cluster.call("POST", f"/api/v1/workers/{worker.name}/drain", {"reason": "a test"})

    async def knows() -> bool:
        items = (await cluster.get("/api/v1/workers"))["items"]
        return any(one["name"] == worker.name and "drained by" in (one["problem"] or "") for one in items)

    await wait_until(knows, description=f"{worker.name} says that it is drained")


async def test_fails_twice_and_its_worker_is_killed_between_attempts(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, workers=2, managers=1, worker_flags=QUICK) as cluster:
        retry, may_end = {"limit": 4, "delaySeconds": 4, "backoff": 1}, tmp_path / "may-end"
        then = f"until [ -e {may_end} ]; do sleep 0.1; done; test $ETCRON_ATTEMPT = 3"
        await save(cluster, "shaky", cluster.evidence_command(then), retry=retry, **LOST_AFTER, **soon(cluster))
        await wait_until(lambda: bool(cluster.starts()), description="it runs")
        for worker in cluster.workers:  # so that none of them begins the next attempt before the kill
            await drain(cluster, worker)
        may_end.touch()
        await retry_is_asked_for(cluster, "shaky")
        [first] = await has_records(cluster, "shaky", 1)
        await worker_of(cluster, first["worker"]).end(signal.SIGKILL)
        [other] = {worker.name for worker in cluster.workers} - {first["worker"]}
        await cluster.call("POST", f"/api/v1/workers/{other}/undrain", {})
        all_three = await has_records(cluster, "shaky", 3)
        assert [one["status"] for one in all_three] == ["failed", "failed", "success"]
        assert [one["trigger"] for one in all_three] == ["schedule", "retry", "retry"]
        for former, later in pairwise(all_three):
            assert later["startTime"] - former["endTime"] >= 4000
        assert [(start.attempt, start.plan_ms) for start in cluster.starts()] == [
            (attempt, first["planTime"]) for attempt in (1, 2, 3)
        ]
        job = await cluster.get("/api/v1/jobs/shaky")
        print({"last": job.get("lastResult") or job.get("last")})


async def test_worker_killed_as_many_runs_fail_asks_for_each_retry_once(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, workers=2, managers=1, worker_flags=QUICK) as cluster:
        names = [f"job{number}" for number in range(40)]
        begins = soon(cluster, 4)
        for number, name in enumerate(names):
            command = cluster.evidence_command(f"sleep {0.4 + number * 0.02:.2f}; test $ETCRON_ATTEMPT = 2")
            retry = {"limit": 1, "delaySeconds": 2}
            await save(cluster, name, command, retry=retry, onWorkerLost="record", **LOST_AFTER, **begins)

        async def some_have_failed() -> bool:
            return len(await cluster.runs(status="failed")) >= 5

        await wait_until(some_have_failed, description="the first have failed")
        killed = cluster.workers[0]
        await killed.end(signal.SIGKILL)
        killed.start()

        async def all_are_over() -> bool:
            by_job = Counter(one["jobName"] for one in await cluster.runs() if one["status"] in ("success", "lost"))
            return all(by_job[name] == 1 for name in names)

        await wait_until(all_are_over, description="every fire has its verdict")
        found = await cluster.runs()
        firsts = Counter(one["status"] for one in found if one["attempt"] == 1)
        seconds = Counter(one["status"] for one in found if one["attempt"] == 2)
        print(dict(firsts), dict(seconds))
        assert seconds.total() == firsts["failed"], "each is tried again once; where the kill meets that, it is lost"
        assert set(seconds) <= {"success", "lost"}
        assert firsts["failed"] + firsts["lost"] == len(names)
        starts = Counter((start.job, start.attempt) for start in cluster.starts())
        assert max(starts.values()) == 1


async def test_lost_run_is_run_again_once(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, workers=2, managers=1, worker_flags=QUICK) as cluster:
        command = cluster.evidence_command("test $ETCRON_ATTEMPT = 2 || sleep 300")
        await save(cluster, "precious", command, onWorkerLost="rerun", **LOST_AFTER, **soon(cluster))
        await wait_until(lambda: bool(cluster.starts()), description="it runs")
        await worker_of(cluster, cluster.starts()[0].worker).end(signal.SIGKILL)
        first, second = await has_records(cluster, "precious", 2)
        assert (first["status"], first["reason"]) == ("lost", "worker gone")
        assert (second["status"], second["trigger"]) == ("success", "rerun")
        assert [start.attempt for start in cluster.starts()] == [1, 2]


async def test_chain_keeps_its_delay_never_overlaps_and_survives_kill_9(tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    async with running_cluster(tmp_path, workers=2, managers=1, worker_flags=QUICK) as cluster:
        then = f"flock --nonblock --conflict-exit-code 9 {alone} sleep 0.3"  # free again when its holder is killed
        await save(cluster, "chain", cluster.evidence_command(then), after="2s", **LOST_AFTER)
        undisturbed = await has_records(cluster, "chain", 6)
        gaps = [later["startTime"] - former["endTime"] for former, later in pairwise(undisturbed)]
        print("drift in ms:", [gap - 2000 for gap in gaps])
        assert min(gaps) >= 2000
        count = len(cluster.starts())
        await wait_until(lambda: len(cluster.starts()) > count, description="it runs")
        await worker_of(cluster, cluster.starts()[-1].worker).end(signal.SIGKILL)
        killed = len(cluster.starts())
        await wait_until(
            lambda: len(cluster.starts()) >= killed + 3, description="the chain goes on without its worker"
        )
        found = await records(cluster, "chain")
        print(dict(Counter(one["status"] for one in found)))
        assert Counter(one["status"] for one in found)["lost"] <= 1
        assert {one["status"] for one in found} <= {"success", "lost"}, "none met another"
        assert max(Counter(start.plan_ms for start in cluster.starts()).values()) == 1
