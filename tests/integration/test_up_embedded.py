"""The embedded servers as `etcron up` starts them: ready, on loopback, with their data after a hard end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp
import psutil
import pytest
import pytest_asyncio

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

pytestmark = [pytest.mark.etcd, pytest.mark.logstore, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    """An HTTP client."""
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture(scope="module", params=["3.4", "3.5", "3.5.1"])
def etcd(request: pytest.FixtureRequest) -> Path:
    """Each of those that `etcron up` starts without being told."""
    if (binary := etcd_of(request.param)) is None:
        pytest.skip(f"no etcd {request.param} here ({VERSIONS[request.param]})")
    return binary


@contextmanager
def _planned(etcd: Path, directory: Path) -> Iterator[tuple[Plan, DataDir]]:
    """With this etcd on the PATH; what is planned may be started inside the block."""
    (directory / "bin").mkdir()
    (directory / "bin/etcd").symlink_to(etcd)
    data = DataDir(directory / "data")
    with data.held(), PortClaims() as ports:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", f"{directory / 'bin'}:{os.environ['PATH']}")
            plan = make_plan(Options(data_dir=data.path, port=free_port()), data, ports, {})
        yield plan, data


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """A running etcd and log store, and the plan by which they were started."""

    plan: Plan
    data: DataDir
    etcd: Child
    log_store: Child


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stores(
    etcd: Path, http: aiohttp.ClientSession, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Stores]:
    """Of one version, for all tests; each leaves them running, with the same password."""
    async with AsyncExitStack() as stack:
        plan, data = stack.enter_context(_planned(etcd, tmp_path_factory.mktemp("stores")))
        children = [Child(spec, print) for spec in store_specs(plan, data, http)]
        for child in children:
            await child.start()
            stack.push_async_callback(child.stop, asyncio.Event())
        yield Stores(plan=plan, data=data, etcd=children[0], log_store=children[1])


def _client(plan: Plan) -> EtcdClient:
    assert plan.manager.etcd_user is not None
    assert plan.manager.etcd_password_file is not None
    user = EtcdUser.with_password_file(plan.manager.etcd_user, plan.manager.etcd_password_file)
    return EtcdClient(plan.manager.etcd_endpoints, user=user)


async def test_etcd_has_its_data_after_a_hard_end(stores: Stores) -> None:
    plan, etcd = stores.plan, stores.etcd
    async with _client(plan) as client:
        await client.put("k", b"v")
    assert etcd.pid is not None
    os.kill(etcd.pid, 9)
    await wait_until(lambda: etcd.pid is None, description="etcd is dead")

    await etcd.start()

    async with _client(plan) as client:
        assert await client.get("k") is not None


async def test_etcd_lets_nobody_in_without_its_password(stores: Stores, http: aiohttp.ClientSession) -> None:
    plan = stores.plan
    async with EtcdClient(plan.manager.etcd_endpoints) as stranger:
        with pytest.raises(EtcdAccessError):
            await stranger.get("k")
    for path in ("/v3/kv/range", "/v3/maintenance/status", "/v3beta/kv/range", "/v3alpha/kv/range"):
        async with http.post(f"http://{plan.manager.etcd_endpoints[0]}{path}", data='{"key": "AA=="}') as answer:
            assert answer.status == 404, path


async def test_data_directory_of_an_etcd_without_users_gets_one(
    etcd: Path, tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with AsyncExitStack() as stack:
        plan, data = stack.enter_context(_planned(etcd, tmp_path))
        now = store_specs(plan, data, http)[0]
        without_users = Child(
            replace(now, is_ready=lambda: answers(http, f"http://{plan.manager.etcd_endpoints[0]}/health")), print
        )
        await without_users.start()
        async with EtcdClient(plan.manager.etcd_endpoints) as earlier:
            await earlier.put("k", b"v")
        await without_users.stop(asyncio.Event())
        stack.push_async_callback((child := Child(now, print)).stop, asyncio.Event())

        await child.start()

        async with _client(plan) as client:
            assert await client.get("k") is not None
        async with EtcdClient(plan.manager.etcd_endpoints) as stranger:
            with pytest.raises(EtcdAccessError):
                await stranger.get("k")


async def test_password_that_is_not_the_one_of_the_data_is_said(stores: Stores) -> None:
    kept = stores.data.etcd_password.rename(stores.data.path / "kept")
    try:
        stores.data.own_password()
        with pytest.raises(CommandError, match=r"does not hold the password that .*/etcd was made with"):
            await stores.etcd.spec.is_ready()
    finally:
        kept.rename(stores.data.etcd_password)
    assert await stores.etcd.spec.is_ready()


async def test_the_log_store_starts_although_its_pid_file_names_a_living_process(
    stores: Stores,
) -> None:
    log_store = stores.log_store
    assert log_store.pid is not None
    os.kill(log_store.pid, 9)
    await wait_until(lambda: log_store.pid is None, description="the log store is dead")
    stores.data.log_store_pid.write_text(str(os.getpid()))

    await log_store.start()

    assert log_store.pid is not None


async def test_etcd_listens_on_loopback_for_clients_alone_and_the_log_store_on_no_port(
    stores: Stores,
) -> None:
    plan, children = stores.plan, (stores.etcd, stores.log_store)

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


async def test_everything_that_the_servers_write_is_in_the_data_directory(stores: Stores) -> None:
    files = {
        Path(file.path)
        for child in (stores.etcd, stores.log_store)
        for file in psutil.Process(child.pid).open_files()
        if file.mode != "r" and not file.path.startswith("/dev/")
    }

    assert files
    assert all(file.is_relative_to(stores.data.path) for file in files)
