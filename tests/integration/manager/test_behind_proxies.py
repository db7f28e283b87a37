"""deploy/nginx.conf and deploy/Caddyfile with the real programs: a login, live events, who calls, and from where;
and what a call comes to whose manager falls silent."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.access import Accessing, as_administrator
from tests.support.certificates import Authority
from tests.support.etcd_server import free_port
from tests.support.managing import Managed, Place, managing
from tests.support.proxy import Mode, Proxy
from tests.support.tls_proxy import TlsProxy
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

ROOT = Path(__file__).parents[3]
NAME = "etcron.example.org"
SECRET = "a-secret-of-the-proxy-alone"


def program(name: str, place: str, version: str) -> str:
    """The one that was unpacked, else that of the PATH; a test is skipped where neither runs on this machine."""
    for found in (str(ROOT / ".tools" / place), shutil.which(name)):
        with contextlib.suppress(OSError):
            if found is not None and subprocess.run([found, version], capture_output=True, check=False).returncode == 0:
                return found
    pytest.skip(f"no {name} runs here: make debian-proxies")


def with_user_lines(text: str) -> str:
    """With the lines that are for a proxy which knows who people are."""
    return re.sub(r"^(\s*)#((?:auth_basic|proxy_set_header|include|header_up).*)$", r"\1\2", text, flags=re.MULTILINE)


def nginx(directory: Path, port: int, upstreams: list[str], *, knows_users: bool, patience: str) -> list[str]:
    text = (ROOT / "deploy" / "nginx.conf").read_text()
    text = with_user_lines(text) if knows_users else text
    for shipped, here in (
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        (
            "    server 10.0.0.5:8070;\n    server 10.0.0.6:8070;\n",
            "".join(f"    server {one};\n" for one in upstreams),
        ),
        ("proxy_read_timeout 20s", f"proxy_read_timeout {patience}"),
        ("/etc/nginx/etcron/", f"{directory}/tls/"),
        ("/etc/nginx/", f"{directory}/"),
    ):
        assert shipped in text, shipped
        text = text.replace(shipped, here)
    (directory / "etcron.htpasswd").write_text("alice:{PLAIN}wonderland\n")
    (directory / "etcron-proxy-secret.conf").write_text(f'proxy_set_header X-Etcron-Proxy-Secret "{SECRET}";\n')
    places = "".join(
        f"{kind}_temp_path {directory}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;" if os.geteuid() == 0 else ""
    (directory / "nginx.conf").write_text(
        f"{user} daemon off; master_process off; pid {directory}/pid; error_log stderr; events {{}}\n"
        f"http {{ access_log off; {places}\n{text}\n}}\n"
    )
    return [program("nginx", "nginx/usr/sbin/nginx", "-v"), "-c", str(directory / "nginx.conf"), "-p", str(directory)]


def caddy(directory: Path, port: int, upstreams: list[str], *, knows_users: bool, patience: str) -> list[str]:
    text = (ROOT / "deploy" / "Caddyfile").read_text()
    assert not knows_users, "its sample needs a module that knows who people are"
    site = f"https://{NAME}:{port} {{\n\tbind 127.0.0.1\n\ttls {directory}/tls/web.pem {directory}/tls/web.key\n"
    for shipped, here in (
        (f"\n{NAME} {{\n", f"\n{site}"),
        ("https://10.0.0.5:8070 https://10.0.0.6:8070", " ".join(f"https://{one}" for one in upstreams)),
        ("read_timeout 20s", f"read_timeout {patience}"),
        ("/etc/caddy/", f"{directory}/tls/"),
    ):
        assert shipped in text, shipped
        text = text.replace(shipped, here)
    (directory / "Caddyfile").write_text(f"{{\n\tadmin off\n\tauto_https disable_redirects\n}}\n{text}")
    return [program("caddy", "caddy/usr/bin/caddy", "version"), "run", "--config", str(directory / "Caddyfile")]


PROXIES = {"nginx": nginx, "caddy": caddy}


class Proxied:
    """A browser or a program on the other side of the proxy."""

    def __init__(self, port: int, tls: ssl.SSLContext) -> None:
        self.origin = f"https://{NAME}:{port}"
        self._port = port
        self._tls = tls

    @asynccontextmanager
    async def call(
        self, method: str, path: str, *, headers: dict[str, str] | None = None, json: object = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        async with (
            aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http,
            http.request(
                method, f"https://127.0.0.1:{self._port}{path}", json=json, ssl=self._tls, server_hostname=NAME,
                headers={"Host": f"{NAME}:{self._port}", **(headers or {})},
            ) as answer,
        ):  # fmt: skip
            yield answer


@dataclass(frozen=True, slots=True)
class Way:
    """From the proxy to a manager."""

    network: Proxy
    tls: TlsProxy
    answers: Proxy
    """Behind the TLS."""


@asynccontextmanager
async def way(manager: Managed, context: ssl.SSLContext) -> AsyncIterator[Way]:
    async with (
        Proxy(f"127.0.0.1:{manager.http.port}", http2=False) as answers,
        TlsProxy(answers.endpoint, context) as tls,
        Proxy(f"127.0.0.1:{tls.port}", http2=False) as network,
    ):
        yield Way(network, tls, answers)


@asynccontextmanager
async def proxied_to_both(
    name: str, directory: Path, manager: Managed, *, knows_users: bool = False, patience: str = "20s"
) -> AsyncIterator[tuple[Proxied, list[Way]]]:
    """Two ways to one manager."""
    authority, port = Authority(directory / "tls"), free_port()
    web = authority.pair("web", NAME)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(web.cert, web.key)
    async with way(manager, context) as first, way(manager, context) as second:
        ways = [first, second]
        endpoints = [one.network.endpoint for one in ways]
        command = PROXIES[name](directory, port, endpoints, knows_users=knows_users, patience=patience)
        async with serving(command, Proxied(port, authority.context()), directory) as one:
            yield one, ways


@asynccontextmanager
async def proxied(name: str, directory: Path, manager: Managed, *, knows_users: bool = False) -> AsyncIterator[Proxied]:
    async with proxied_to_both(name, directory, manager, knows_users=knows_users) as (one, _):
        yield one


async def status_of(proxy: Proxied, method: str, path: str, body: object = None) -> int:
    async with proxy.call(method, path, json=body) as answer:
        return answer.status


async def way_of_calls(proxy: Proxied, ways: list[Way]) -> Way:
    """One that calls take: of a proxy by turns either, of one that goes by who calls the same each time."""
    before = [one.tls.handshakes for one in ways]
    for _ in range(6):
        async with proxy.call("GET", "/livez") as answer:
            assert answer.status == 200
    return max(zip(ways, before, strict=True), key=lambda pair: pair[0].tls.handshakes - pair[1])[0]


@asynccontextmanager
async def serving(command: list[str], one: Proxied, directory: Path) -> AsyncIterator[Proxied]:
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(directory), "XDG_DATA_HOME": str(directory)}
    log = (directory / "log").open("wb")
    process = await asyncio.create_subprocess_exec(*command, env=environ, stdout=log, stderr=log)
    try:

        async def answers() -> bool:
            assert process.returncode is None, (directory / "log").read_text()
            try:
                async with one.call("GET", "/livez") as answer:
                    return answer.status in (200, 401)
            except aiohttp.ClientConnectionError:
                return False

        await wait_until(answers, description="the proxy passes calls on")
        yield one
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        log.close()


@pytest.mark.parametrize("name", PROXIES)
async def test_a_browser_changes_things_and_hears_of_them_at_once(place: Place, tmp_path: Path, name: str) -> None:
    options: dict[str, Any] = {"auth": "required", "allowedHosts": [NAME], "proxies": ["127.0.0.1"]}
    async with managing(place, **options) as manager, proxied(name, tmp_path, manager) as proxy:
        token = await Accessing(manager).user("alice", None)
        admin = await as_administrator(manager)
        async with proxy.call("GET", "/api/v1/events", headers=admin) as events:
            assert events.status == 200
            job = {"command": "true", "cronExpr": "@yearly"}
            browser = {**admin, "Origin": proxy.origin, "Sec-Fetch-Site": "same-origin"}
            async with proxy.call("PUT", "/api/v1/jobs/j", headers=browser, json=job) as answer:
                assert answer.status == 201, await answer.text()
            async with asyncio.timeout(60):
                heard = b""
                while b'"j"' not in heard:
                    heard += await events.content.readany()
        elsewhere = {**admin, "Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
        async with proxy.call("DELETE", "/api/v1/jobs/j", headers=elsewhere) as answer:
            assert answer.status == 403
        async with proxy.call("GET", "/api/v1/jobs/j", headers=token) as answer:
            assert answer.status in (403, 404)


@pytest.mark.parametrize("name", PROXIES)
async def test_callers_go_by_their_own_address_whatever_they_send(place: Place, tmp_path: Path, name: str) -> None:
    options: dict[str, Any] = {"auth": "required", "allowedHosts": [NAME], "proxies": ["127.0.0.1"]}
    async with managing(place, **options) as manager, proxied(name, tmp_path, manager) as proxy:
        admin = await as_administrator(manager)
        forged = {**admin, "X-Forwarded-For": "198.51.100.7"}
        job = {"command": "true", "cronExpr": "@yearly"}
        async with proxy.call("PUT", "/api/v1/jobs/j", headers=forged, json=job) as answer:
            assert answer.status == 201, await answer.text()
        saved = await manager.etcd.get(manager.keys.job("j"))
        assert saved is not None
        assert b"198.51.100.7" not in saved.value


async def test_nginx_says_who_people_are_and_nobody_says_it_past_it(place: Place, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    options: dict[str, Any] = {
        "auth": "required", "allowedHosts": [NAME], "proxies": ["127.0.0.1"], "proxyUserHeader": "X-Remote-User",
        "proxySecretFile": str(secret),
    }  # fmt: skip
    async with managing(place, **options) as manager, proxied("nginx", tmp_path, manager, knows_users=True) as proxy:
        await Accessing(manager).user("alice", None)
        login = {"Authorization": aiohttp.encode_basic_auth("alice", "wonderland")}
        async with proxy.call("GET", "/api/v1/whoami", headers={**login, "X-Remote-User": "root"}) as answer:
            assert answer.status == 200, await answer.text()
            assert (await answer.json())["user"] == "user:alice"
        wrong = {"Authorization": aiohttp.encode_basic_auth("alice", "wrong")}
        async with proxy.call("GET", "/api/v1/whoami", headers=wrong) as answer:
            assert answer.status == 401
        async with manager.http.get("/api/v1/whoami", headers={"X-Remote-User": "alice"}) as past_it:
            assert past_it.status == 401


@pytest.mark.parametrize("name", PROXIES)
async def test_no_call_waits_for_a_manager_that_is_gone_without_a_word(place: Place, tmp_path: Path, name: str) -> None:
    async with (
        managing(place, allowedHosts=[NAME], proxies=["127.0.0.1"]) as manager,
        proxied_to_both(name, tmp_path, manager) as (proxy, ways),
    ):
        await manager.save('{"name": "j", "command": "true", "cronExpr": "@yearly"}')
        gone = await way_of_calls(proxy, ways)
        gone.network.set(Mode.SWALLOW)
        gone.network.refuses()
        async with asyncio.timeout(PATIENCE_S):
            got = [await status_of(proxy, "POST", "/api/v1/jobs/j/pause", {}) for _ in range(6)]
        assert got[1:] == [200] * 5
        assert got[0] == {"nginx": 200, "caddy": 502}[name]


@pytest.mark.parametrize("name", PROXIES)
async def test_a_post_whose_answer_does_not_come_is_not_sent_again(place: Place, tmp_path: Path, name: str) -> None:
    async with (
        managing(place, allowedHosts=[NAME], proxies=["127.0.0.1"]) as manager,
        proxied_to_both(name, tmp_path, manager, patience="3s") as (proxy, ways),
    ):
        await manager.save('{"name": "j", "command": "true", "cronExpr": "@yearly"}')
        silent = await way_of_calls(proxy, ways)
        silent.answers.set(Mode.ONE_WAY)
        got = await asyncio.gather(*(status_of(proxy, "POST", "/api/v1/jobs/j/run", {}) for _ in range(4)))
        assert 504 in got
        assert set(got) <= {202, 504}
        assert await manager.etcd.count(manager.keys.requests) == 4


async def test_nginx_sends_a_get_again_whose_answer_does_not_come(place: Place, tmp_path: Path) -> None:
    async with (
        managing(place, allowedHosts=[NAME], proxies=["127.0.0.1"]) as manager,
        proxied_to_both("nginx", tmp_path, manager, patience="3s") as (proxy, ways),
    ):
        silent = await way_of_calls(proxy, ways)
        silent.answers.set(Mode.ONE_WAY)
        assert await asyncio.gather(*(status_of(proxy, "GET", "/livez") for _ in range(4))) == [200] * 4
