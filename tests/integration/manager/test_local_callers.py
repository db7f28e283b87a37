"""System users of the manager's own machine: who gets in by its Unix socket, who over loopback, and who does not."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import sys
import tempfile
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import ClientSession, UnixConnector

from common.access.rights import Role
from common.errors import ConfigError
from manager.access.proxy import SECRET_HEADER
from manager.http import tcp_owner
from manager.http.unix_socket import UnixSocketSite, unix_socket
from tests.integration.manager.test_manager_process import address_of, process
from tests.support.access import Accessing
from tests.support.managing import Managed, Place, managing
from tests.support.other_user import OtherUser
from tests.support.waiting import wait_until

GROUP = 54321
JOBS = "/api/v1/jobs"

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can call as another user")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory with a short path, to which a group gets."""
    with tempfile.TemporaryDirectory(prefix="etcron-") as path:
        if os.geteuid() == 0:
            os.chown(path, 0, GROUP)
            os.chmod(path, 0o2750)
        yield Path(path)


@asynccontextmanager
async def on_socket(place: Place, path: Path) -> AsyncIterator[Managed]:
    async with managing(place, auth="required", trustOwner=True) as manager:
        with unix_socket(path) as bound:
            runner = manager.http.server.runner
            assert runner is not None
            site = UnixSocketSite(runner, bound)
            await site.start()
            yield manager
            await site.stop()


@pytest.fixture
async def manager(place: Place, folder: Path) -> AsyncIterator[Managed]:
    async with on_socket(place, folder / "manager.sock") as managed:
        yield managed


def through(path: Path) -> ClientSession:
    return ClientSession("http://localhost", connector=UnixConnector(str(path)))


def port_of(manager: Managed) -> tuple[str, int]:
    return "127.0.0.1", manager.http.port or 0


# Through the Unix socket


async def test_socket_knows_the_managers_own_user_as_owner(manager: Managed, folder: Path) -> None:
    async with through(folder / "manager.sock") as http:
        job = {"command": "true", "cronExpr": "0 0 0 1 1 * *"}
        async with http.put(f"{JOBS}/a", json=job, headers={"If-None-Match": "*"}) as answer:
            assert answer.status == 201, await answer.text()
        async with http.get(f"{JOBS}/a") as answer:
            assert (await answer.json())["savedBy"] == f"uid {os.geteuid()}"


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "x-forwarded-host", "Via"])
async def test_socket_refuses_requests_that_are_passed_on(manager: Managed, folder: Path, header: str) -> None:
    """The attack: a proxy whose user has rights carries the requests of strangers."""
    headers = {header: "127.0.0.1"}
    async with through(folder / "manager.sock") as http, http.get(JOBS, headers=headers) as answer:
        assert answer.status == 403
        assert "passed on" in (await answer.json())["detail"]


@pytest.mark.parametrize("header", ["Origin", "Host"])
async def test_socket_refuses_foreign_pages(manager: Managed, folder: Path, header: str) -> None:
    headers = {header: "http://evil.example"}
    async with through(folder / "manager.sock") as http, http.post(f"{JOBS}/a/pause", headers=headers) as answer:
        assert answer.status == 403
        assert (await answer.json())["code"] in ("foreign-origin", "foreign-host")


@as_root
async def test_socket_gives_other_users_what_their_bindings_give(manager: Managed, folder: Path) -> None:
    path, other = str(folder / "manager.sock"), OtherUser(groups=(GROUP,))
    assert (await other.get(path))[0] == 403, "bound to nothing"
    access = Accessing(manager)
    await access.bind("uid:1", Role.ADMIN)
    assert (await other.get(path))[0] == 403, "another user's binding"
    await access.bind(f"gid:{GROUP}", Role.VIEWER)
    assert (await other.get(path))[0] == 200
    assert (await OtherUser(gid=GROUP).get(path))[0] == 200, "its first group counts, too"


@as_root
async def test_socket_knows_other_users_by_their_number(manager: Managed, folder: Path) -> None:
    await Accessing(manager).bind("uid:65534", Role.VIEWER)
    assert (await OtherUser(groups=(GROUP,)).get(str(folder / "manager.sock")))[0] == 200


@as_root
async def test_who_is_not_of_the_sockets_group_cannot_open_it(manager: Managed, folder: Path) -> None:
    assert (await OtherUser().get(str(folder / "manager.sock")))[0] == "PermissionError"
    folder.chmod(0o755)
    assert (await OtherUser().get(str(folder / "manager.sock")))[0] == "PermissionError"


async def test_socket_has_its_mode_whatever_the_umask(folder: Path) -> None:
    before = os.umask(0)
    try:
        with unix_socket(folder / "of" / "its" / "own" / "manager.sock") as bound:
            path = Path(bound.getsockname())
            assert stat.S_IMODE(path.stat().st_mode) == 0o660
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o750
        assert not path.exists()
    finally:
        os.umask(before)


async def test_socket_of_a_dead_manager_is_replaced_and_a_live_ones_is_not(folder: Path) -> None:
    path = folder / "manager.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with unix_socket(path) as bound:
        bound.listen()
        with pytest.raises(ConfigError, match="another process's"), unix_socket(path):
            pass
        assert path.exists()
    with socket.socket(socket.AF_UNIX) as foreign:
        foreign.bind(str(path))
        foreign.listen()
        with pytest.raises(ConfigError, match="another process's"), unix_socket(path):
            pass


async def test_socket_is_not_put_where_others_could_replace_it(folder: Path) -> None:
    path = folder / "manager.sock"
    folder.chmod(0o1777)
    with pytest.raises(ConfigError, match="every user"), unix_socket(path):
        pass
    folder.chmod(0o700)
    path.write_text("a file")
    with pytest.raises(ConfigError, match="no socket"), unix_socket(path):
        pass
    assert path.read_text() == "a file"
    if os.geteuid() == 0:
        os.chown(folder, OtherUser().uid, -1)
        with pytest.raises(ConfigError, match="another user"), unix_socket(path):
            pass


# Over loopback


async def test_managers_own_user_is_the_owner_over_loopback(manager: Managed) -> None:
    async with manager.http.get(JOBS) as answer:
        assert answer.status == 200


@as_root
async def test_another_user_of_this_machine_has_to_log_in(manager: Managed) -> None:
    status, body = await OtherUser().get(port_of(manager))
    assert (status, "login-needed" in body) == (401, True)


@as_root
@pytest.mark.parametrize("header", ["X-Forwarded-For", "X-Real-IP", "Forwarded", "Host", "X-Remote-User"])
async def test_no_header_makes_another_user_the_owner(manager: Managed, header: str) -> None:
    """The attack: a job says that it is somebody else's request, from this machine."""
    value = "for=127.0.0.1" if header == "Forwarded" else "127.0.0.1"
    assert (await OtherUser().get(port_of(manager), headers={header: value}))[0] == 401


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "X-Forwarded-User"])
async def test_owners_proxy_is_not_the_owner(manager: Managed, header: str) -> None:
    """The attack: a proxy that the same user has started carries the requests of strangers."""
    async with manager.http.get(JOBS, headers={header: "127.0.0.1"}) as answer:
        assert answer.status == 401


async def test_attack_stranger_whom_the_proxy_does_not_know_is_not_the_owner(place: Place, tmp_path: Path) -> None:
    """The owner's own proxy proves that it is the proxy, names nobody, and says nothing of passing a request on."""
    secret = tmp_path / "secret"
    secret.write_text("of the proxy and of the manager")
    ours = managing(
        place, auth="required", trustOwner=True, proxyUserHeader="X-Remote-User", proxySecretFile=str(secret)
    )  # fmt: skip
    headers = {SECRET_HEADER: "of the proxy and of the manager"}
    async with ours as manager, manager.http.get(JOBS, headers=headers) as answer:
        assert answer.status == 401


async def test_nobody_is_the_owner_by_loopback_where_that_is_not_asked_for(place: Place) -> None:
    async with managing(place, auth="required") as manager, manager.http.get(JOBS) as answer:
        assert answer.status == 401


async def test_known_proxies_address_is_nobodys(place: Place) -> None:
    ours = managing(place, auth="required", trustOwner=True, proxies=["127.0.0.1"])
    async with ours as manager, manager.http.get(JOBS) as answer:
        assert answer.status == 401


async def test_owners_browser_does_not_act_for_foreign_pages(manager: Managed) -> None:
    """The attack: a page in the owner's browser sends a request to this machine."""
    async with manager.http.post(f"{JOBS}/a/pause", headers={"Origin": "http://evil.example"}) as answer:
        assert answer.status == 403
    async with manager.http.get(JOBS, headers={"Host": "rebound.example"}) as answer:
        assert answer.status == 403


@pytest.mark.parametrize(
    ("listens", "calls"), [("127.0.0.1", "127.0.0.1"), ("127.0.0.1", "127.0.0.7"), ("::1", "::1"), ("::", "127.0.0.1")]
)
def test_kernel_says_whose_connection_it_is(listens: str, calls: str) -> None:
    """By sock_diag as well as by the files; and nobody's once it is closed."""
    family = socket.AF_INET6 if ":" in listens else socket.AF_INET
    with socket.socket(family) as server:
        if listens == "::":
            server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        server.bind((listens, 0))
        server.listen()
        calling = socket.socket(socket.AF_INET6 if ":" in calls else socket.AF_INET)
        if listens == "127.0.0.1":
            calling.bind((calls, 0))
        calling.connect(("::1" if calls == "::1" else "127.0.0.1", server.getsockname()[1]))
        accepted, _ = server.accept()
        with accepted:
            ours = tcp_owner.loopback_of(accepted.getsockname(), accepted.getpeername())
            assert ours is not None
            assert tcp_owner.by_sock_diag(ours.other) == os.geteuid()
            assert tcp_owner.by_files(ours.other) == os.geteuid()
            calling.close()
            assert tcp_owner.by_sock_diag(ours.other) is None
            assert tcp_owner.by_files(ours.other) is None


@pytest.mark.parametrize(
    ("local", "remote"),
    [("127.0.0.1", "10.0.0.7"), ("10.0.0.7", "127.0.0.1"), ("::1", "fe80::1%eth0"), ("::ffff:10.0.0.7", "::1")],
)
def test_only_loopback_on_both_ends_is_looked_at(local: str, remote: str) -> None:
    assert tcp_owner.loopback_of((local, 8070), (remote, 40_000)) is None


# The manager's process


@as_root
async def test_process_serves_both_and_removes_its_socket(place: Place, tmp_path: Path, folder: Path) -> None:
    path = folder / "manager.sock"
    flags = ("--api-port", "0", "--auth", "required", "--trust-owner", "true", "--socket", str(path))
    async with process(place, tmp_path, *flags) as (running, log):
        address = await address_of(log)
        await wait_until(path.exists, description="the socket to be there")
        port = ("127.0.0.1", int(address.rpartition(":")[2]))
        async with ClientSession() as http, http.get(address + JOBS) as answer:
            assert answer.status == 200
        assert (await OtherUser().get(port))[0] == 401
        assert (await OtherUser(groups=(GROUP,)).get(str(path)))[0] == 403
        async with through(path) as http, http.get(JOBS) as answer:
            assert answer.status == 200
        listed = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "cli", "whoami", "--server", f"unix:{path}", stdout=PIPE,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[3]), "HOME": str(tmp_path)},
        )  # fmt: skip
        out, _ = await listed.communicate()
        assert (listed.returncode, f"uid {os.geteuid()}" in out.decode()) == (0, True), out
        running.send_signal(signal.SIGTERM)
        assert await running.ended() == 0
    assert not path.exists()
