"""A mount that never answers: the jobs that touch it hang, each by itself; nothing and nobody else notices."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.cluster import EVERY_SECOND, Cluster, running_cluster
from tests.support.dead_mount import DeadMount, dead_mount
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow

FIRES = int(os.environ.get("ETCRON_ACCEPTANCE_FIRES", "20"))
"""Of each job beside the hung ones: two sessions long. `make scenarios` has 60."""
OVERLAPS = ("skip", "queue", "replace", "allow")
BESIDE = [f"beside-{number}" for number in range(8)]
SOON = "*/5 * * * * * *"


@pytest.fixture
def mount(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[DeadMount]:
    made = dead_mount(tmp_path / "dead", is_unkillable=getattr(request, "param", False))
    try:
        mounted = made.__enter__()
    except OSError as error:
        pytest.skip(f"nothing can be mounted here: {error}")
    yield mounted
    made.__exit__(None, None, None)


@pytest_asyncio.fixture
async def cluster(tmp_path: Path, mount: DeadMount) -> AsyncIterator[Cluster]:
    """The mount is there first, and goes last."""
    async with running_cluster(tmp_path, workers=2, managers=1) as running:
        yield running


def sessions(cluster: Cluster) -> dict[str, int]:
    """How many each worker has had, by its log, which may be a moment behind."""
    return {worker.name: worker.log.count("session.opened") for worker in cluster.workers}


async def going(cluster: Cluster, job: str) -> list[str]:
    """Its runs that have not ended."""
    items = (await cluster.get("/api/v1/runs", job=job, limit=100))["items"]
    return [run["id"] for run in items if run["state"] != "finished"]


async def test_hung_jobs_hold_up_nothing_and_end_as_any_other(cluster: Cluster, mount: DeadMount) -> None:
    for overlap in OVERLAPS:
        hung = {"overlap": overlap, "killGraceSeconds": 1}
        await cluster.save(f"dir-{overlap}", "echo", SOON, workdir=str(mount.directory), **hung)
        await cluster.save(f"program-{overlap}", f"exec {mount.directory}/program", SOON,
                           shell=f"{mount.directory}/sh", **hung)  # fmt: skip
    await cluster.save("times-out", "echo", SOON, workdir=str(mount.directory), timeoutSeconds=3, killGraceSeconds=1)
    for job in BESIDE:
        # A run that a busy machine holds up for a second must not keep the next one from it.
        await cluster.save(job, cluster.evidence_command(), EVERY_SECOND, overlap="allow")

    def fired() -> bool:
        plans = {job: {start.plan_ms for start in cluster.starts() if start.job == job} for job in BESIDE}
        return all(
            of_job and {min(of_job) + number * 1000 for number in range(FIRES)} <= of_job for of_job in plans.values()
        )

    await wait_until(fired, description=f"every other job fires {FIRES} times", timeout=FIRES + PATIENCE_S)

    assert set(sessions(cluster).values()) == {1}, "no session was lost"

    async def is_well() -> bool:
        return not (await cluster.get("/readyz"))["problems"]

    await wait_until(is_well, description="no problem is told: one may be, where a busy server is slow")
    for job in BESIDE:
        plans = Counter(start.plan_ms for start in cluster.starts() if start.job == job)
        assert set(plans.values()) == {1}
        assert {run["status"] for run in await cluster.runs(job=job)} == {"success"}

    timed_out: set[str] = set()

    async def has_timed_out() -> bool:
        timed_out.update(run["err"] for run in await cluster.runs(job="times-out", status="timeout"))
        return bool(timed_out)

    await wait_until(has_timed_out, description="it times out")
    assert timed_out == {"timed out after 3 s; it hung while it entered its directory"}
    [run] = await going(cluster, "dir-skip")
    await cluster.post("/job/kill", name="dir-skip")
    await wait_until(lambda: ended(cluster, "dir-skip", run), description="it is killed")
    assert len(await going(cluster, "dir-allow")) > 2
    mount.come_back()
    for overlap in OVERLAPS:
        for kind in ("dir", "program"):
            await cluster.call("POST", f"/api/v1/jobs/{kind}-{overlap}/pause", {"reason": "mended"})
    await wait_until(lambda: nothing_goes(cluster), description="they are over")


async def ended(cluster: Cluster, job: str, run_id: str) -> bool:
    return any(run["id"] == run_id and run["status"] == "killed" for run in await cluster.runs(job=job))


async def nothing_goes(cluster: Cluster) -> bool:
    return not any([await going(cluster, f"{kind}-{overlap}") for kind in ("dir", "program") for overlap in OVERLAPS])


@pytest.mark.parametrize("mount", [True], indirect=True)
async def test_what_cannot_be_killed_gives_its_slots_back_and_holds_up_no_stop(
    tmp_path: Path, mount: DeadMount
) -> None:
    async with running_cluster(tmp_path, workers=1, managers=1) as cluster:
        await stuck_runs_are_given_up(cluster, mount)


async def stuck_runs_are_given_up(cluster: Cluster, mount: DeadMount) -> None:
    hung = {"overlap": "allow", "timeoutSeconds": 1, "killGraceSeconds": 1, "slots": 1}
    await cluster.save("stuck", "echo", EVERY_SECOND, workdir=str(mount.directory), **hung)
    await cluster.save("beside", cluster.evidence_command(), EVERY_SECOND, overlap="allow")

    async def skipped() -> list[str]:
        return [run["err"] for run in await cluster.runs(job="stuck") if run["status"] == "skipped"]

    async def some_skipped() -> bool:
        return bool(await skipped())

    await wait_until(some_skipped, description="its fires are skipped", timeout=90)
    assert set(await skipped()) == {"skipped: 16 runs of it on worker worker-1 cannot be ended"}
    assert len(await going(cluster, "stuck")) >= 16, "they are still shown"
    assert {run["status"] for run in await cluster.runs(job="beside")} == {"success"}
    assert await cluster.workers[0].end() == 0
