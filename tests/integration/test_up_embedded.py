"""The embedded servers as `etcron up` starts them: ready, on loopback, with their data after a hard end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import aiohttp
import psutil
import pytest

from cli.errors import CommandError
from cli.processes.children import answers, store_specs
from cli.processes.data_dir import DataDir
from cli.processes.plan import Options, Plan, make_plan
from cli.processes.ports import PortClaims
from cli.processes.supervisor import Child
from common.errors import EtcdAccessError
from common.etcd import EtcdClient, EtcdUser
from tests.support.etcd_server import VERSIONS, etcd_of, free_port
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    """An HTTP client."""
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def data(tmp_path: Path) -> DataDir:
    """A data directory."""
    return DataDir(tmp_path / "data")


@pytest.fixture(params=["3.4", "3.5", "3.5.1"])
def etcd_on_path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of those that `etcron up` starts without being told, on the PATH."""
    if (binary := etcd_of(request.param)) is None:
        pytest.skip(f"no etcd {request.param} here ({VERSIONS[request.param]})")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/etcd").symlink_to(binary)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")


@pytest.fixture
async def stores(
    etcd_on_path: None, data: DataDir, http: aiohttp.ClientSession
) -> AsyncIterator[tuple[Plan, Child, Child]]:
    """A running etcd and log store, and the plan by which they were started."""
    async with AsyncExitStack() as stack:
        stack.enter_context(data.held())
        ports = stack.enter_context(PortClaims())
        plan = make_plan(Options(data_dir=data.path, port=free_port()), data, ports, {})
        etcd, log_store = (Child(spec, print) for spec in store_specs(plan, data, http))
        for child in (etcd, log_store):
            await child.start()
            stack.push_async_callback(child.stop, asyncio.Event())
        yield plan, etcd, log_store


def _client(plan: Plan) -> EtcdClient:
    assert plan.manager.etcd_user is not None
    assert plan.manager.etcd_password_file is not None
    user = EtcdUser.with_password_file(plan.manager.etcd_user, plan.manager.etcd_password_file)
    return EtcdClient(plan.manager.etcd_endpoints, user=user)


async def test_etcd_has_its_data_after_a_hard_end(stores: tuple[Plan, Child, Child]) -> None:
    plan, etcd, _ = stores
    async with _client(plan) as client:
        await client.put("k", b"v")
    assert etcd.pid is not None
    os.kill(etcd.pid, 9)
    await wait_until(lambda: etcd.pid is None, description="etcd is dead")

    await etcd.start()

    async with _client(plan) as client:
        assert await client.get("k") is not None


async def test_etcd_lets_nobody_in_without_its_password(
    stores: tuple[Plan, Child, Child], http: aiohttp.ClientSession
) -> None:
    plan, _, _ = stores
    async with EtcdClient(plan.manager.etcd_endpoints) as stranger:
        with pytest.raises(EtcdAccessError):
            await stranger.get("k")
    for path in ("/v3/kv/range", "/v3/maintenance/status", "/v3beta/kv/range", "/v3alpha/kv/range"):
        async with http.post(f"http://{plan.manager.etcd_endpoints[0]}{path}", data='{"key": "AA=="}') as answer:
            assert answer.status == 404, path


async def test_data_directory_of_an_etcd_without_users_gets_one(
    etcd_on_path: None, data: DataDir, http: aiohttp.ClientSession
) -> None:
    async with AsyncExitStack() as stack:
        stack.enter_context(data.held())
        ports = stack.enter_context(PortClaims())
        plan = make_plan(Options(data_dir=data.path, port=free_port()), data, ports, {})
        now = store_specs(plan, data, http)[0]
        etcd = Child(
            replace(now, is_ready=lambda: answers(http, f"http://{plan.manager.etcd_endpoints[0]}/health")), print
        )
        await etcd.start()
        async with EtcdClient(plan.manager.etcd_endpoints) as earlier:
            await earlier.put("k", b"v")
        await etcd.stop(asyncio.Event())
        stack.push_async_callback((etcd := Child(now, print)).stop, asyncio.Event())

        await etcd.start()

        async with _client(plan) as client:
            assert await client.get("k") is not None
        async with EtcdClient(plan.manager.etcd_endpoints) as stranger:
            with pytest.raises(EtcdAccessError):
                await stranger.get("k")


async def test_password_that_is_not_the_one_of_the_data_is_said(
    stores: tuple[Plan, Child, Child], data: DataDir
) -> None:
    _, etcd, _ = stores
    data.etcd_password.unlink()
    data.own_password()
    with pytest.raises(CommandError, match=r"does not hold the password that .*/etcd was made with"):
        await etcd.spec.is_ready()


async def test_the_log_store_starts_although_its_pid_file_names_a_living_process(
    stores: tuple[Plan, Child, Child], data: DataDir
) -> None:
    _, _, log_store = stores
    assert log_store.pid is not None
    os.kill(log_store.pid, 9)
    await wait_until(lambda: log_store.pid is None, description="the log store is dead")
    data.log_store_pid.write_text(str(os.getpid()))

    await log_store.start()

    assert log_store.pid is not None


async def test_etcd_listens_on_loopback_for_clients_alone_and_the_log_store_on_no_port(
    stores: tuple[Plan, Child, Child],
) -> None:
    plan, *children = stores

    def listening() -> list[tuple[str, int]]:
        return [
            (connection.laddr.ip, connection.laddr.port)
            for child in children
            for connection in psutil.Process(child.pid).net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN
        ]

    client, peer = plan.etcd_ports
    assert plan.log_store_socket is not None
    peers = plan.log_store_socket.with_name(f"127.0.0.1:{peer}")
    await wait_until(peers.is_socket, description="etcd listens for peers")
    assert listening() == [("127.0.0.1", client)], "its peers need no password: another user would write every key"
    assert plan.log_store_socket.is_socket()
    assert plan.log_store_socket.parent.stat().st_mode & 0o777 == 0o700


async def test_everything_that_the_servers_write_is_in_the_data_directory(
    stores: tuple[Plan, Child, Child], data: DataDir
) -> None:
    _, *children = stores
    files = {
        Path(file.path)
        for child in children
        for file in psutil.Process(child.pid).open_files()
        if file.mode != "r" and not file.path.startswith("/dev/")
    }

    assert files
    assert all(file.is_relative_to(data.path) for file in files)
