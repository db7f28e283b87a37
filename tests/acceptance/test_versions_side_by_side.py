"""This version beside an older one in a cluster: each worker runs what each manager saves, each reads the other."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.cluster import ROOT, Cluster, covered, running_cluster
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

OLDER = "36234b84a3df"
"""A commit of the main branch, before live output, durations beside results, and what workers say of their users."""


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code of that commit."""
    done = subprocess.run(["git", "-C", str(ROOT), "archive", OLDER], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"the history of this checkout does not reach back to {OLDER}")
    code = tmp_path_factory.mktemp("older")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
        tar.extractall(code)
    return code


async def get(cluster: Cluster, manager: int, path: str) -> Any:
    return await cluster.call_of(manager, "GET", path)


async def test_each_runs_and_reads_what_the_other_has_written(tmp_path: Path, older: Path) -> None:
    flags = {"worker-1": ("--labels", "version=new"), "worker-2": ("--labels", "version=old")}
    code = {"manager-2": older, "worker-2": older}
    async with running_cluster(tmp_path, workers=2, managers=2, flags_of=flags, code_of=code) as cluster:
        new, old = 0, 1
        # Fires of one job, shared by both; saved by the older one.
        spec: dict[str, Any] = {"command": cluster.evidence_command(), "cronExpr": "* * * * * * *"}
        await cluster.call_of(old, "PUT", "/api/v1/jobs/shared", spec)
        await wait_until(
            lambda: {start.worker for start in cluster.starts()} == {"worker-1", "worker-2"},
            description="both have run some",
        )  # fmt: skip
        await cluster.call_of(new, "POST", "/api/v1/jobs/shared/pause", {"reason": "enough"})
        starts = cluster.starts()
        assert len({start.plan_ms for start in starts}) == len(starts), "each fire ran once"

        # Runs that were asked for, tried again, and killed: by each manager on each worker.
        for manager in (new, old):
            for version in ("new", "old"):
                name = f"asked-{manager}-{version}"
                chosen = {"cronExpr": "@yearly", "workers": {"version": version}}
                failing = {"command": "exit 3", "retry": {"limit": 1, "delaySeconds": 0}}
                await cluster.call_of(manager, "PUT", f"/api/v1/jobs/{name}", {**chosen, **failing})
                await cluster.call_of(manager, "POST", f"/api/v1/jobs/{name}/run", {})
                going = {"command": f"echo begun; {cluster.evidence_command('sleep 300')}"}
                await cluster.call_of(manager, "PUT", f"/api/v1/jobs/{name}-going", {**chosen, **going})
                await cluster.call_of(manager, "POST", f"/api/v1/jobs/{name}-going/run", {})
        names = [f"asked-{manager}-{version}" for manager in (new, old) for version in ("new", "old")]

        async def all_go() -> bool:
            runs = (await get(cluster, new, "/api/v1/runs?status=running"))["items"]
            wanted = {f"{name}-going" for name in names}
            have_printed = {start.job for start in cluster.starts()} >= wanted
            return have_printed and {run["jobName"] for run in runs if run["state"] == "running"} >= wanted

        await wait_until(all_go, description="all of them run")
        for number, name in enumerate(names):
            await cluster.call_of(number % 2, "POST", f"/api/v1/jobs/{name}-going/kill", {"reason": "a test"})

        # Each manager reads what both have written.
        for manager in (new, old):

            async def has_all(manager: int = manager) -> bool:
                page = await get(cluster, manager, "/api/v1/runs?limit=500")
                found = [(run["jobName"], run.get("status")) for run in page["items"]]
                return all(
                    found.count((name, "failed")) == 2 and found.count((f"{name}-going", "killed")) == 1
                    for name in names
                )

            await wait_until(has_all, description=f"manager {manager} lists all")
            row: dict[str, Any] = {}

            async def shows_its_result(manager: int = manager, row: dict[str, Any] = row) -> bool:
                row.update(await get(cluster, manager, "/api/v1/jobs/asked-0-old"))
                return bool(row["lastResult"] and row["recent"])

            await wait_until(shows_its_result, description=f"manager {manager} has heard how it ended")
            assert row["lastResult"]["status"] == "failed"
            assert [one["status"] for one in row["recent"]] == ["failed"]
            log = await get(cluster, manager, "/job/log?name=asked-1-new-going")
            assert log["data"][0]["output"] == "begun\n"
            listed = await get(cluster, manager, "/api/v1/workers")
            assert {(one["name"], one["state"]) for one in listed["items"]} == {
                ("worker-1", "accepting"), ("worker-2", "accepting")
            }  # fmt: skip
        counts = covered(await cluster.runs(job="shared"), "shared")
        assert set(counts.values()) == {1}
        for process in (*cluster.workers, *cluster.managers):
            assert "Traceback" not in process.log, process.log[-3000:]
            assert "cannot be read" not in process.log, process.log[-3000:]


async def test_live_output_of_an_older_worker_is_said_to_be_unavailable(tmp_path: Path, older: Path) -> None:
    async with running_cluster(tmp_path, workers=1, managers=1, code_of={"worker-1": older}) as cluster:
        await cluster.call("PUT", "/api/v1/jobs/j", {"command": "echo x; sleep 300", "cronExpr": "@yearly"})
        await cluster.call("POST", "/api/v1/jobs/j/run", {})

        async def goes() -> bool:
            runs = (await cluster.get("/api/v1/runs", status="running"))["items"]
            return bool(runs) and runs[0]["state"] == "running"

        await wait_until(goes, description="it runs")
        run = (await cluster.get("/api/v1/runs", status="running"))["items"][0]["id"]
        assert cluster.http is not None
        path = cluster._url(f"/api/v1/runs/{run.replace('#', '%23')}/output?follow=true")
        async with cluster.http.get(path, timeout=aiohttp.ClientTimeout(total=60)) as answer:
            said = ""
            async for line in answer.content:
                said += line.decode()
                if "unavailable" in said:
                    break
        assert '"state":"unavailable"' in said.replace(" ", "")
        await cluster.call("POST", "/api/v1/jobs/j/kill", {})
