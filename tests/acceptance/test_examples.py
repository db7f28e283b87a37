"""The example services, run against a whole etcron, as their READMEs say."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import Application, Request

from tests.support.cluster import ROOT, Cluster, running_cluster
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.etcd, pytest.mark.logstore, pytest.mark.slow]

Client = TestClient[Request, Application]


def service(name: str) -> Any:
    """The module of an example."""
    spec = importlib.util.spec_from_file_location(f"{name}_service", ROOT / "examples" / name / "service.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@asynccontextmanager
async def serving(app: Application) -> AsyncIterator[Client]:
    async with TestClient(TestServer(app)) as client:
        yield client


async def call(client: Client, method: str, path: str, body: object = None) -> dict[str, Any]:
    found: list[tuple[int, dict[str, Any]]] = []

    async def has_answered() -> bool:
        answer = await client.request(method, path, json=body)
        found[:] = [(answer.status, await answer.json())]
        return answer.status != 503  # so it answers where a busy etcd does not answer in time

    await wait_until(has_answered, description=f"{path} is answered")
    [(status, document)] = found
    assert status in (200, 201), document
    return document


def server_of(cluster: Cluster) -> str:
    return f"http://127.0.0.1:{cluster.ports[0]}"


def one_shot_of(cluster: Cluster) -> AbstractAsyncContextManager[Client]:
    return serving(service("one_shot").create_app(server_of(cluster)))


async def test_a_command_is_run_once_at_its_time_and_tells_its_phases(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, workers=2, managers=1) as cluster, one_shot_of(cluster) as client:
        tomorrow, at = ((datetime.now(UTC) + timedelta(seconds=away)).isoformat() for away in (86_400, 2))
        far = await call(client, "POST", "/schedule", {"command": "echo hi", "scheduled_at": tomorrow})
        good = await call(client, "POST", "/schedule", {"command": "echo hi", "scheduled_at": at})
        bad = await call(client, "POST", "/schedule", {"command": "exit 3", "scheduled_at": at})

        async def phases(task: str) -> dict[str, Any] | None:
            status = await call(client, "GET", f"/status?task_id={task}")
            return status if status["completed_at"] or status["failed_at"] else None

        done = await until(lambda: phases(good["task_id"]), "the task is done")
        assert done["picked_at"] <= done["started_at"] <= done["completed_at"]
        assert done["failed_at"] is None
        assert _ms(at) <= _ms(done["started_at"])
        failed = await until(lambda: phases(bad["task_id"]), "the other has failed")
        assert (failed["completed_at"], failed["verdict"]) == (None, "failed")
        assert failed["failed_at"] is not None
        waiting = await call(client, "GET", f"/status?task_id={far['task_id']}")
        assert (waiting["picked_at"], waiting["completed_at"], waiting["failed_at"]) == (None, None, None)
        for body, field in ((None, "body"), ({"command": "a"}, "scheduled_at"), ({"scheduled_at": at}, "command")):
            refused = await client.post("/schedule", json=body)
            assert refused.status == 400
            assert field in (await refused.json())["error"]
        assert (await client.get("/status?task_id=none")).status == 404


async def test_jobs_are_deduplicated_timed_out_and_told(tmp_path: Path) -> None:
    command = 'echo "$OBJECT_ID"; [ "$OBJECT_ID" != 2 ] || sleep 60; [ "$OBJECT_ID" != 3 ] || exit 7'
    environ = {"JOB_TIMEOUT": "2", "JOB_COMMAND": command}
    async with (
        running_cluster(tmp_path, workers=1, managers=1) as cluster,
        started_by_script(cluster, tmp_path, 2),
    ):
        app = service("job_api").create_app(server_of(cluster), tmp_path / "jobs.sqlite", environ)
        async with serving(app) as client:
            first = await call(client, "POST", "/v1/jobs", {"object_id": 1})
            again = await call(client, "POST", "/v1/jobs", {"object_id": 1})
            assert first == again == {"job_id": 1}
            numbers = [(await call(client, "POST", "/v1/jobs", {"object_id": one}))["job_id"] for one in (2, 3)]

            async def ended(number: int) -> dict[str, Any] | None:
                job = await call(client, "GET", f"/v1/jobs/{number}")
                assert job["status"] in ("created", "running", "success", "failed")
                return job if job["status"] in ("success", "failed") else None

            done = await until(lambda: ended(1), "job 1 has ended")
            assert (done["status"], done["object_id"], done["message"]) == ("success", 1, "")
            assert done["created_at"] <= done["start_time"] <= done["end_time"]
            late = await until(lambda: ended(numbers[0]), "job 2 has timed out")
            assert (late["status"], "timed out after 2 s" in late["message"]) == ("failed", True)
            failed = await until(lambda: ended(numbers[1]), "job 3 has failed")
            assert (failed["status"], failed["message"]) == ("failed", "exit status 7")
            assert (await client.get("/v1/jobs/99")).status == 404
            assert (await client.post("/v1/jobs", json={"object_id": "x"})).status == 400


@asynccontextmanager
async def started_by_script(cluster: Cluster, directory: Path, count: int) -> AsyncIterator[None]:
    """The workers of examples/job_api/workers.sh, until they are ended by its end."""
    etcron = directory / "etcron"
    etcron.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -P -m cli "$@"\n')
    etcron.chmod(0o755)
    config = directory / "worker-1.json"
    config.write_text(json.dumps({"etcdEndpoints": [cluster.etcd.endpoint], "mongodbUri": cluster.log_store.uri}))
    environ = {
        "PATH": os.environ["PATH"], "HOME": str(directory), "ETCRON": str(etcron), "JOB_PREFETCH": "2",
        "DATA": str(directory / "data"), "CONFIG": str(config),
    }  # fmt: skip
    script = await asyncio.create_subprocess_exec(
        ROOT / "examples" / "job_api" / "workers.sh", str(count), env=environ, cwd=directory, start_new_session=True
    )
    try:
        yield
    finally:
        os.killpg(script.pid, signal.SIGTERM)
        await script.wait()


async def until(fetch: Callable[[], Awaitable[dict[str, Any] | None]], description: str) -> dict[str, Any]:
    """The first thing that is fetched."""
    found: dict[str, Any] | None = None

    async def is_there() -> bool:
        nonlocal found
        found = await fetch()
        return found is not None

    await wait_until(is_there, description=description)
    assert found is not None
    return found


def _ms(text: str) -> float:
    return datetime.fromisoformat(text).timestamp() * 1000
