"""`etcron up` as a user runs it: real processes, from another directory."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp
import psutil
import pytest
import pytest_asyncio

from common.errors import EtcdAccessError
from common.etcd import EtcdClient
from tests.support.etcd_server import free_port
from tests.support.other_user import OtherUser
from tests.support.running_up import RunningUp, running_up
from tests.support.waiting import wait_until

EXAMPLES = Path(__file__).parents[2] / "examples" / "http"

pytestmark = [pytest.mark.slow, pytest.mark.etcd, pytest.mark.logstore, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def common_up() -> AsyncIterator[RunningUp]:
    """For tests that leave it as it was. Its data directory was there before it, and others may look into it."""
    with TemporaryDirectory(prefix="etcron-", dir="/tmp") as home:
        data = Path(home) / "data"
        data.mkdir()
        for directory in (data.parent, data):
            directory.chmod(0o755)
        async with running_up(data.parent, "--example") as up:
            yield up


async def test_examples_run_within_seconds_and_all_of_it_stops_in_order(tmp_path: Path) -> None:
    async with running_up(tmp_path, "--example", "--workers", "2") as up:
        assert len(await up.get("/worker/list")) == 2

        async def has_run() -> bool:
            return any(log["status"] == "success" for log in await up.get("/job/log?name=hello"))

        await wait_until(has_run, description="a green run of the example")
        children = up.children()
        assert len(children) == 5

        up.process.send_signal(signal.SIGINT)

        assert await up.ends() == 0
        assert up.out.endswith("stopped\n")
        assert not any(child.is_running() for child in children)


async def test_whoever_has_started_it_makes_the_calls_of_the_legacy_api_without_a_login(common_up: RunningUp) -> None:
    up, order = common_up, ("save_job", "list_jobs", "job_log", "kill_job", "list_workers", "delete_job")
    assert {path.stem for path in EXAMPLES.glob("*.http")} == set(order)
    for name in order:
        head, _, body = (EXAMPLES / f"{name}.http").read_text().partition("\n\n")
        first, *lines = head.splitlines()
        method, _, url = first.partition(" ")
        headers = dict(line.split(": ", 1) for line in lines)
        there = up.url + url.removeprefix("http://localhost:8070")
        async with up.http.request(method, there, data=body.strip() or None, headers=headers) as answer:
            assert answer.status == 200, name
            assert (await answer.json())["errno"] == 0, name


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can call as another user")
async def test_another_user_of_the_machine_gets_at_nothing(common_up: RunningUp) -> None:
    """Also where the data directory is one that was there, into which others may look."""
    up, other, data = common_up, OtherUser(), common_up.printed.parent / "data"
    manager = ("127.0.0.1", int(up.url.rpartition(":")[2]))
    for path in ("/job/list", "/worker/list", "/job/log?name=hello", "/api/v1/jobs", "/metrics"):
        assert (await other.get(manager, path))[0] == 401, path
    for one in (data / "run" / name for name in ("manager.sock", "logs.sock")):
        assert one.exists()
        assert (await other.get(str(one), "/"))[0] == "PermissionError", one
    as_other = ("setpriv", f"--reuid={other.uid}", f"--regid={other.gid}", "--clear-groups")
    look = ("find", str(data), "-type", "f", "-readable")
    found = await asyncio.to_thread(subprocess.run, [*as_other, *look], capture_output=True, text=True)
    assert found.stdout == ""
    port = json.loads((data / "remembered.json").read_text())["etcdPort"]
    async with EtcdClient([f"127.0.0.1:{port}"]) as etcd:
        with pytest.raises(EtcdAccessError):
            await etcd.get("/etcron/jobs/hello")


async def test_nothing_is_left_when_it_is_killed_and_the_next_start_goes_on(tmp_path: Path) -> None:
    async with running_up(tmp_path, "--example") as up:
        jobs = await up.get("/job/list")
        children = up.children()

        up.process.kill()

        await wait_until(
            lambda: not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children),
            description="no server is left",
        )

    async with running_up(tmp_path, "--example") as up:
        assert await up.get("/job/list") == jobs
        assert "none saved" in up.out
        up.process.terminate()
        assert await up.ends() == 0


async def test_a_child_that_is_killed_is_started_again(common_up: RunningUp) -> None:
    up = common_up
    children = up.children()
    assert len(children) == 4
    for child in children:
        child.kill()

    async def ready() -> bool:
        try:
            async with up.http.get(f"{up.url}/readyz") as answer:
                return answer.status == 200 and len(await up.get("/worker/list")) == 1
        except aiohttp.ClientError:
            return False

    await wait_until(lambda: up.out.count("starting it again") >= 4, description="all were missed")
    await wait_until(ready, description="everything works again")


async def test_an_etcd_that_is_not_there_is_named_and_waited_for(tmp_path: Path) -> None:
    port = free_port()
    waiting = asyncio.create_task(_collect(tmp_path, "--etcd-endpoints", f"127.0.0.1:{port}"))

    printed = tmp_path / "printed"
    await wait_until(
        lambda: printed.exists() and "not ready yet" in printed.read_text(),
        description="says that it waits",
    )
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert f"127.0.0.1:{port} (flag --etcd-endpoints)" in printed.read_text()


async def _collect(tmp_path: Path, *options: str) -> None:
    async with running_up(tmp_path, *options):
        pass
