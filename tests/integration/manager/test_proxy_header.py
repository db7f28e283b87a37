"""A trusted proxy names the user in a header; whoever else sends it is refused."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import ClientError, ClientSession, web

from common.access.rights import Role
from common.configuration.config import load_manager_config
from common.errors import ConfigError
from common.tls import server_context
from manager.access.proxy import SECRET_HEADER, proxy_way
from tests.support.access import Accessing
from tests.support.certificates import Authority, Pair
from tests.support.managing import Managed, Place, managing, problem_of

SECRET = "a secret of the proxy and of the manager"
USER, GROUPS = "X-Remote-User", "X-Remote-Groups"
PROVEN = {SECRET_HEADER: SECRET}


@asynccontextmanager
async def behind_proxy(place: Place, folder: Path) -> AsyncIterator[Managed]:
    secret = folder / "secret"
    secret.write_text(SECRET + "\n")
    async with managing(
        place, auth="required", proxyUserHeader=USER, proxyGroupsHeader=GROUPS, proxySecretFile=str(secret)
    ) as manager:
        yield manager


@pytest.fixture
async def proxied(place: Place, tmp_path: Path) -> AsyncIterator[Managed]:
    async with behind_proxy(place, tmp_path) as manager:
        yield manager


async def test_caller_has_the_rights_of_the_user_whom_the_proxy_names(proxied: Managed) -> None:
    access = Accessing(proxied)
    await access.bind("user:alice", Role.VIEWER)
    async with proxied.http.get("/api/v1/jobs", headers={USER: "alice", **PROVEN}) as answer:
        assert answer.status == 200
    async with proxied.http.get("/api/v1/jobs", headers={USER: "bob", **PROVEN}) as answer:
        await problem_of(answer, 403)


async def test_caller_has_the_rights_of_the_groups_that_the_proxy_names(proxied: Managed) -> None:
    await Accessing(proxied).bind("group:on call", Role.VIEWER)
    named = {USER: "bob", GROUPS: "dba, on call ,,", **PROVEN}
    async with proxied.http.get("/api/v1/jobs", headers=named) as answer:
        assert answer.status == 200


async def test_user_who_is_disabled_here_may_do_nothing(proxied: Managed) -> None:
    access = Accessing(proxied)
    await access.user("alice", Role.ADMIN)
    await access.change_user("alice", disabled=True)
    async with proxied.http.get("/api/v1/jobs", headers={USER: "alice", **PROVEN}) as answer:
        await problem_of(answer, 403)


SPOOFED: dict[str, list[tuple[str, str]]] = {
    "from loopback, without a proof": [(USER, "alice")],
    "in another spelling": [(USER.lower(), "alice")],
    "with an address that a proxy may have": [(USER, "alice"), ("X-Forwarded-For", "127.0.0.1")],
    "with a wrong secret": [(USER, "alice"), (SECRET_HEADER, "guessed")],
    "with a part of the secret": [(USER, "alice"), (SECRET_HEADER, SECRET[:-1])],
    "with an empty secret": [(USER, "alice"), (SECRET_HEADER, "")],
    "with a second secret": [(USER, "alice"), (SECRET_HEADER, SECRET), (SECRET_HEADER, "guessed")],
    "groups alone, without a proof": [(GROUPS, "admins")],
    "a secret alone, and a wrong one": [(SECRET_HEADER, "guessed")],
    "two users": [(USER, "bob"), (USER, "alice"), (SECRET_HEADER, SECRET)],
    "groups twice": [(USER, "alice"), (GROUPS, "a"), (GROUPS, "admins"), (SECRET_HEADER, SECRET)],
    "groups of nobody": [(GROUPS, "admins"), (SECRET_HEADER, SECRET)],
    "no name": [(USER, ""), (SECRET_HEADER, SECRET)],
    "a list of names": [(USER, "alice, bob"), (SECRET_HEADER, SECRET)],
    "markup": [(USER, "<script>"), (SECRET_HEADER, SECRET)],
    "another kind of caller": [(USER, "service:ci"), (SECRET_HEADER, SECRET)],
    "too many groups": [(USER, "alice"), (GROUPS, ",".join(map(str, range(201)))), (SECRET_HEADER, SECRET)],
}


@pytest.mark.parametrize("headers", SPOOFED.values(), ids=SPOOFED)
async def test_attack_that_names_a_user_past_the_proxy(proxied: Managed, headers: list[tuple[str, str]]) -> None:
    access = Accessing(proxied)
    good = await access.user("alice", Role.ADMIN)
    async with proxied.http.get("/api/v1/jobs", headers=headers) as answer:
        problem = await problem_of(answer, 401)
        assert problem["code"] == "login-needed"
        assert SECRET not in problem["detail"]
    # A good token beside it does not help: the call came past the proxy.
    async with proxied.http.get("/api/v1/jobs", headers=[*headers, *good.items()]) as answer:
        await problem_of(answer, 401)


@pytest.mark.parametrize("character", ["\x01", "\x7f", "\x80", "é"])
async def test_attack_with_a_control_character_in_the_name(proxied: Managed, character: str) -> None:
    request = (
        f"GET /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\n{SECRET_HEADER}: {SECRET}\r\n"
        f"{USER}: alice{character}\r\nConnection: close\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", proxied.http.port)
    writer.write(request.encode("latin-1"))
    status = (await reader.read()).split(b" ", 2)[1]
    writer.close()
    assert status in (b"400", b"401")


async def test_caller_whom_the_proxy_does_not_know_may_log_in_otherwise(proxied: Managed) -> None:
    token = await Accessing(proxied).user("alice", Role.VIEWER)
    async with proxied.http.get("/api/v1/jobs", headers={**PROVEN, **token}) as answer:
        assert answer.status == 200
    async with proxied.http.get("/api/v1/jobs", headers=PROVEN) as answer:
        await problem_of(answer, 401)


async def test_header_means_nothing_where_none_is_configured(place: Place) -> None:
    async with managing(place, auth="required") as manager:
        token = await Accessing(manager).user("alice", Role.VIEWER)
        async with manager.http.get("/api/v1/jobs", headers={USER: "root", **PROVEN, **token}) as answer:
            assert answer.status == 200
        async with manager.http.get("/api/v1/jobs", headers={USER: "alice", **PROVEN}) as answer:
            await problem_of(answer, 401)


async def _named(
    way_of: dict[str, object], server: Pair, authority: Authority, client: ssl.SSLContext
) -> tuple[int, str]:
    """What the way says of a call with this client's certificate."""
    way = proxy_way(load_manager_config(None, {}, way_of), groups_of=lambda user: frozenset({user}))
    assert way is not None

    async def tell(request: web.Request) -> web.Response:
        try:
            identity = await way(request)
        except Exception as error:
            return web.Response(status=401, text=str(error))
        return web.Response(text="nobody" if identity is None else identity.name)

    app = web.Application()
    app.router.add_get("/", tell)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(
            runner, "127.0.0.1", 0, ssl_context=server_context(server.cert, server.key, client_ca=authority.ca)
        )
        await site.start()
        url = f"https://localhost:{runner.addresses[0][1]}/"
        async with ClientSession() as http, http.get(url, ssl=client, headers={USER: "alice"}) as answer:
            return answer.status, await answer.text()
    finally:
        await runner.cleanup()


async def test_proxy_proves_itself_by_its_certificate(tmp_path: Path) -> None:
    ours, proxies = Authority(tmp_path / "ours"), Authority(tmp_path / "proxies")
    server, proxy = ours.pair("manager", "localhost"), proxies.pair("proxy", "proxy.test")
    keys: dict[str, object] = {
        "proxyUserHeader": USER, "proxyCa": str(proxies.ca), "proxyName": "Proxy.test",
        "tlsCert": str(server.cert), "tlsKey": str(server.key),
    }  # fmt: skip
    assert await _named(keys, server, proxies, ours.context(proxy)) == (200, "alice")
    assert (await _named(keys, server, proxies, ours.context()))[0] == 401
    other = proxies.pair("other", "other.test")
    assert (await _named(keys, server, proxies, ours.context(other)))[0] == 401


async def test_certificate_of_another_authority_does_not_get_as_far_as_a_call(tmp_path: Path) -> None:
    ours, proxies = Authority(tmp_path / "ours"), Authority(tmp_path / "proxies")
    server, foreign = ours.pair("manager", "localhost"), ours.pair("foreign", "proxy.test")
    keys: dict[str, object] = {
        "proxyUserHeader": USER, "proxyCa": str(proxies.ca), "proxyName": "proxy.test",
        "tlsCert": str(server.cert), "tlsKey": str(server.key),
    }  # fmt: skip
    with pytest.raises(ClientError):
        await _named(keys, server, proxies, ours.context(foreign))


UNFIT: dict[str, tuple[dict[str, object], str, str]] = {
    "no proof": ({"proxyUserHeader": USER}, "proxyUserHeader", "whoever reaches the port"),
    "an address is no proof": ({"proxyUserHeader": USER, "proxies": ["10.0.0.7"]}, "proxyUserHeader", "whoever"),
    "proof without a header": ({"proxyUid": 33}, "proxyUserHeader", "is missing"),
    "one header for both": (
        {"proxyUserHeader": USER, "proxyGroupsHeader": USER.lower(), "proxyUid": 33}, "proxyGroupsHeader", "too",
    ),
    "header with a meaning": ({"proxyUserHeader": "Authorization", "proxyUid": 33}, "proxyUserHeader", "Authorization"),
    "certificate without TLS": ({"proxyUserHeader": USER, "proxyCa": "/dev/null"}, "proxyCa", "without TLS"),
    "authority without a name": ({"proxyUserHeader": USER, "proxyCa": "/dev/null"}, "proxyName", "is missing"),
    "name without an authority": ({"proxyUserHeader": USER, "proxyUid": 33, "proxyName": "a"}, "proxyCa", "is missing"),
    "no such file": ({"proxyUserHeader": USER, "proxySecretFile": "/nowhere"}, "proxySecretFile", "does not exist"),
    "provider without a client": ({"oidcIssuer": "https://login.test"}, "oidcClientId", "is missing"),
    "client without a provider": ({"oidcClientId": "etcron"}, "oidcIssuer", "is missing"),
    "provider without TLS": ({"oidcIssuer": "http://login.test", "oidcClientId": "e"}, "oidcIssuer", "login.test"),
    "way back without TLS": (
        {
            "oidcIssuer": "https://login.test", "oidcClientId": "e",
            "oidcRedirectUri": "http://cron.test/api/v1/login/oidc/callback",
        },
        "oidcRedirectUri", "plain HTTP",
    ),
    "nothing of OpenID is asked for": ({"oidcScopes": "profile openid2"}, "oidcScopes", "profile"),
}  # fmt: skip


@pytest.mark.parametrize(("keys", "field", "words"), UNFIT.values(), ids=UNFIT)
def test_configuration_does_not_fit(keys: dict[str, object], field: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_manager_config(None, {}, keys)
    assert words in str([problem for problem in refused.value.problems if problem.field == field])


def test_secret_that_can_be_guessed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hunter2")
    with pytest.raises(ConfigError, match="can be guessed"):
        load_manager_config(None, {}, {"proxyUserHeader": USER, "proxySecretFile": str(tmp_path / "secret")})
