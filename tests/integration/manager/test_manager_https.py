"""The manager's own port with TLS, and what it says at start where etcd does not let it in."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path

import pytest
from aiohttp import ClientConnectorCertificateError, ClientSession, ServerDisconnectedError
from aiohttp.test_utils import make_mocked_request
from aiohttp.web import Response

from common.errors import Problem
from manager.http.https import Certificate, add_hsts
from tests.integration.manager.test_manager_process import process
from tests.support.certificates import Authority, Pair
from tests.support.managing import Place
from tests.support.waiting import wait_until

SECRET = "hunter2"


async def _port_of(log: Path) -> int:
    def found() -> re.Match[str] | None:
        return re.search(r"serving at https://127.0.0.1:(\d+)", log.read_text())

    await wait_until(lambda: found() is not None, description="the manager serves with TLS")
    match = found()
    assert match is not None
    return int(match[1])


async def test_serves_with_tls_alone(place: Place, tmp_path: Path) -> None:
    authority, foreign = Authority(tmp_path / "tls"), Authority(tmp_path / "foreign")
    authority.pair("manager", "127.0.0.1", "localhost", "cron.test")
    (tmp_path / "manager.json").write_text(
        json.dumps({"tlsCert": "tls/manager.pem", "tlsKey": "tls/manager.key", "allowedHosts": ["cron.test"]})
    )
    flags = ("--api-port", "0", "--config", "manager.json")
    async with process(place, tmp_path, *flags) as (_, log), ClientSession() as http:
        port = await _port_of(log)
        async with http.get(f"https://127.0.0.1:{port}/readyz", ssl=authority.context()) as answer:
            assert answer.status == 200
            assert "Strict-Transport-Security" not in answer.headers  # an address
        named = {"Host": "cron.test"}
        async with http.get(f"https://127.0.0.1:{port}/readyz", ssl=authority.context(), headers=named) as answer:
            assert answer.headers["Strict-Transport-Security"].startswith("max-age=")
        origin = {"Origin": f"https://localhost:{port}"}
        save = f"https://localhost:{port}/job/delete"
        async with http.post(save, ssl=authority.context(), data={"name": "none"}, headers=origin) as answer:
            assert answer.status == 200
        with pytest.raises(ClientConnectorCertificateError):
            await http.get(f"https://127.0.0.1:{port}/readyz", ssl=foreign.context())
        with pytest.raises((ServerDisconnectedError, OSError)):
            await http.get(f"http://127.0.0.1:{port}/readyz")


async def test_a_renewed_certificate_is_served_without_a_restart(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    first, second = authority.pair("first", "first.test"), authority.pair("second", "second.test")
    cert, key = _in_use(first, tmp_path)
    certificate = Certificate(cert, key)
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=certificate.context)
    port = server.sockets[0].getsockname()[1]
    async with server:
        await _shake_hands(port, authority, "first.test")
        shutil.copy(second.cert, cert)  # the key is not there yet
        await certificate.renew_if_changed()
        await _shake_hands(port, authority, "first.test")
        shutil.copy(second.key, key)
        await certificate.renew_if_changed()
        await _shake_hands(port, authority, "second.test")


async def test_a_key_that_is_written_while_the_pair_is_looked_at_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    first, second = authority.pair("first", "first.test"), authority.pair("second", "second.test")
    cert, key = _in_use(first, tmp_path)
    certificate = Certificate(cert, key)

    def good_until_now(*_: object, **__: object) -> list[Problem]:
        shutil.copy(second.key, key)
        return []

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr("manager.http.https.pair_problems", good_until_now)
        shutil.copy(first.cert, cert)
        await certificate.renew_if_changed()
    shutil.copy(second.cert, cert)
    await certificate.renew_if_changed()
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=certificate.context)
    async with server:
        await _shake_hands(server.sockets[0].getsockname()[1], authority, "second.test")


def _in_use(pair: Pair, directory: Path) -> tuple[Path, Path]:
    """The pair in files that may be renewed."""
    cert, key = directory / "cert.pem", directory / "key.pem"
    shutil.copy(pair.cert, cert)
    shutil.copy(pair.key, key)
    return cert, key


async def _shake_hands(port: int, authority: Authority, name: str) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=authority.context(), server_hostname=name)
    writer.transport.abort()


@pytest.mark.parametrize("host", ["localhost:8070", "127.0.0.1", "[::1]:8070"])
async def test_browsers_are_not_bound_to_https_on_names_of_every_machine(host: str) -> None:
    response = Response()
    await add_hsts(make_mocked_request("GET", "/", headers={"Host": host}), response)
    assert not response.headers


async def test_an_etcd_that_asks_nobody_refuses_a_start_with_a_user_and_shows_no_password(
    place: Place, tmp_path: Path
) -> None:
    (tmp_path / "password").write_text(SECRET)
    (tmp_path / "manager.json").write_text(json.dumps({"etcdUser": "etcron", "etcdPasswordFile": "password"}))
    async with process(place, tmp_path, "--api-port", "0", "--config", "manager.json") as (manager, log):
        assert await manager.ended() == 2
        said = log.read_text()
    assert "etcdUser: is set, and etcd asks nobody for a password" in said
    assert SECRET not in said
    assert "Traceback" not in said


async def test_tls_to_an_etcd_without_refuses_a_start(place: Place, tmp_path: Path) -> None:
    Authority(tmp_path / "tls")
    (tmp_path / "manager.json").write_text(json.dumps({"etcdTls": {"ca": "tls/ca.pem"}}))
    flags = ("--api-port", "0", "--config", "manager.json", "--etcd-endpoints", f"https://{place.etcd}")
    async with process(place, tmp_path, *flags) as (manager, log):
        assert await manager.ended() == 2
        assert f"etcdEndpoints: what listens at {place.etcd} does not speak TLS" in log.read_text()
        assert "Traceback" not in log.read_text()
