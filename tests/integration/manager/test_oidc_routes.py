"""A browser logs in through an OpenID Connect provider, and has a session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import pytest
from aiohttp import ClientSession, CookieJar
from yarl import URL

from common.access.rights import Role
from tests.support.access import Accessing
from tests.support.managing import Managed, Place, managing, problem_of
from tests.support.oidc import CLIENT, LyingProvider, lying_provider, query_of

BEGIN = "/api/v1/login/oidc"
CALLBACK = f"{BEGIN}/callback"


class Browser:
    """Keeps cookies, follows nothing by itself."""

    def __init__(self, manager: Managed, http: ClientSession) -> None:
        self.base = f"http://127.0.0.1:{manager.http.port}"
        self._http = http

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        """The status, and where it leads to."""
        async with self._http.get(
            URL(self.base + path, encoded=True), headers=headers, allow_redirects=False
        ) as answer:
            return answer.status, answer.headers.get("Location", "")

    async def begin(self, back: str = "/runs") -> str:
        status, place = await self.get(f"{BEGIN}?back={back}")
        assert status == 302
        return place

    async def finish(self, provider: LyingProvider, place: str) -> str:
        back = provider.allow(place)
        status, place = await self.get(f"{CALLBACK}?code={back['code']}&state={back['state']}")
        assert status == 302
        return place

    async def who(self, second: str) -> dict[str, object]:
        headers = {"X-Etcron-Session": second}
        async with self._http.get(f"{self.base}/api/v1/whoami", headers=headers) as answer:
            found: dict[str, object] = await answer.json()
            return found


@asynccontextmanager
async def browser_of(manager: Managed) -> AsyncIterator[Browser]:
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as http:
        yield Browser(manager, http)


def fragment(place: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(place).fragment).items()}


@pytest.fixture
async def provider() -> AsyncIterator[LyingProvider]:
    async with lying_provider() as lying:
        yield lying


@pytest.fixture
async def manager(place: Place, provider: LyingProvider) -> AsyncIterator[Managed]:
    async with managing(
        place, auth="required", oidcIssuer=provider.issuer, oidcClientId=CLIENT, oidcLabel="Our company"
    ) as managed:
        yield managed


async def test_user_of_the_provider_needs_no_user_here(manager: Managed, provider: LyingProvider) -> None:
    provider.groups = ("dba",)
    await Accessing(manager).bind("group:dba", Role.OPERATOR)
    async with browser_of(manager) as browser:
        arrived = await browser.finish(provider, await browser.begin())
        assert arrived.startswith("/login#")
        assert fragment(arrived)["back"] == "/runs"
        who = await browser.who(fragment(arrived)["session"])
        assert (who["name"], who["subjects"], who["roles"]) == ("alice", ["group:dba", "user:alice"], ["operator"])


async def test_login_page_is_told_of_the_provider(manager: Managed) -> None:
    assert (await manager.get("/api/v1/login"))["oidc"] == {"name": "Our company", "url": BEGIN}


async def test_session_needs_its_second_secret_and_the_state_cookie_is_gone(
    manager: Managed, provider: LyingProvider
) -> None:
    async with browser_of(manager) as browser:
        arrived = await browser.finish(provider, await browser.begin())
        assert (await browser.who("guessed"))["status"] == 401
        names = {cookie.key for cookie in browser._http.cookie_jar}
        assert names == {f"etcron_session_{manager.http.port}"}
        assert fragment(arrived)["session"]


async def test_cookies_are_of_this_browser_alone(manager: Managed) -> None:
    async with manager.http.get(BEGIN, allow_redirects=False) as answer:
        cookie = answer.headers["Set-Cookie"]
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        for part in ("HttpOnly", "SameSite=Lax", "Max-Age=600", "Path=/"):
            assert part in cookie


async def test_user_here_without_a_password_is_the_providers_user(manager: Managed, provider: LyingProvider) -> None:
    access = Accessing(manager)
    await access.user("alice", Role.EDITOR, groups=["billing"])
    async with browser_of(manager) as browser:
        arrived = await browser.finish(provider, await browser.begin())
        who = await browser.who(fragment(arrived)["session"])
        assert who["subjects"] == ["group:billing", "user:alice"]


async def test_attack_with_the_name_of_a_user_who_has_a_password_here(
    manager: Managed, provider: LyingProvider
) -> None:
    await Accessing(manager).user("alice", Role.ADMIN, password="$argon2id$not-one")
    async with browser_of(manager) as browser:
        assert await browser.finish(provider, await browser.begin()) == "/login?problem=name-taken"
        assert (await browser.who(""))["status"] == 401


async def test_user_who_is_disabled_here_is_not_let_in(manager: Managed, provider: LyingProvider) -> None:
    access = Accessing(manager)
    await access.user("alice", Role.ADMIN)
    await access.change_user("alice", disabled=True)
    async with browser_of(manager) as browser:
        assert await browser.finish(provider, await browser.begin()) == "/login?problem=name-taken"


async def test_user_who_is_disabled_later_is_out_at_once(manager: Managed, provider: LyingProvider) -> None:
    access = Accessing(manager)
    await access.user("alice", Role.ADMIN)
    async with browser_of(manager) as browser:
        arrived = await browser.finish(provider, await browser.begin())
        second = fragment(arrived)["session"]
        assert (await browser.who(second))["name"] == "alice"
        await access.change_user("alice", disabled=True)
        assert (await browser.who(second))["status"] == 401


async def test_attack_that_has_a_victim_log_in_as_the_attacker(manager: Managed, provider: LyingProvider) -> None:
    async with browser_of(manager) as attacker, browser_of(manager) as victim:
        answer = provider.allow(await attacker.begin())
        await victim.begin()
        for browser in (victim, victim):
            _, place = await browser.get(f"{CALLBACK}?code={answer['code']}&state={answer['state']}")
            assert place == "/login?problem=login-stale"
        assert (await victim.who(""))["status"] == 401


async def test_attack_that_replays_the_way_back(manager: Managed, provider: LyingProvider) -> None:
    provider.spends_codes = False
    async with browser_of(manager) as browser:
        answer = provider.allow(await browser.begin())
        way_back = f"{CALLBACK}?code={answer['code']}&state={answer['state']}"
        kept = [(cookie.key, cookie.value) for cookie in browser._http.cookie_jar]
        assert (await browser.get(way_back))[1].startswith("/login#")
        assert await browser.get(way_back) == (302, "/login?problem=login-stale")
        stolen = "; ".join(f"{name}={value}" for name, value in kept)
        async with browser_of(manager) as thief:
            assert await thief.get(way_back, Cookie=stolen) == (302, "/login?problem=login-stale")


@pytest.mark.parametrize(
    "query", ["", "?state=x", "?code=a&code=b&state=c", "?error=access_denied", "?state=%ff&code=%ed%a0%80"]
)
async def test_way_back_that_nobody_began(manager: Managed, query: str) -> None:
    async with browser_of(manager) as browser:
        assert await browser.get(CALLBACK + query) == (302, "/login?problem=login-stale")
        await browser.begin()
        assert (await browser.get(CALLBACK + query))[1].startswith("/login?problem=")


@pytest.mark.parametrize(
    "back", ["//evil.test", "https://evil.test", "%2F%5Cevil.test", "%09//evil.test", "/api/v1/jobs"]
)
async def test_attack_that_leads_elsewhere_afterwards(manager: Managed, provider: LyingProvider, back: str) -> None:
    async with browser_of(manager) as browser:
        arrived = await browser.finish(provider, await browser.begin(back))
        assert fragment(arrived)["back"] == "/"


async def test_attack_provider_is_kept_busy_with_codes_that_are_none(place: Place, provider: LyingProvider) -> None:
    async with managing(
        place, auth="required", oidcIssuer=provider.issuer, oidcClientId=CLIENT, proxies=["127.0.0.1"]
    ) as manager, browser_of(manager) as mallory, browser_of(manager) as alice:  # fmt: skip
        leads_to = list[str]()
        while leads_to.count("/login?problem=too-many-logins") < 2:  # time gives some of the tries back
            state = query_of(await mallory.begin())["state"]
            _, place_ = await mallory.get(f"{CALLBACK}?code=none&state={state}", **{"X-Forwarded-For": "10.0.0.1"})
            leads_to.append(place_)
            assert len(leads_to) <= 320
        assert provider.asked.count("/token") == leads_to.count("/login?problem=provider-refused") == len(leads_to) - 2
        for _ in range(32):  # those that are let in are no such tries
            assert (await alice.finish(provider, await alice.begin())).startswith("/login#")


async def test_provider_is_away_and_passwords_go_on(place: Place) -> None:
    async with (
        managing(place, auth="required", oidcIssuer="http://127.0.0.1:1", oidcClientId=CLIENT) as manager,
        browser_of(manager) as browser,
    ):
        assert await browser.get(BEGIN) == (302, "/login?problem=provider-away")
        await Accessing(manager).user("bob", password="$argon2id$not-one")
        async with manager.http.post("/api/v1/login", json={"name": "bob", "password": "wrong"}) as answer:
            assert (await problem_of(answer, 401))["code"] == "login-failed"


async def test_there_is_no_such_login_where_none_is_configured(place: Place) -> None:
    async with managing(place, auth="required") as manager:
        assert (await manager.get("/api/v1/login"))["oidc"] is None
        for path in (BEGIN, CALLBACK):
            async with manager.http.get(path, allow_redirects=False) as answer:
                await problem_of(answer, 404)


async def test_another_session_of_the_browser_ends(manager: Managed, provider: LyingProvider) -> None:
    async with browser_of(manager) as browser:
        before = manager.parts.directory.sessions
        await browser.finish(provider, await browser.begin())
        first = set(before)
        arrived = await browser.finish(provider, await browser.begin())
        await browser.who(fragment(arrived)["session"])
        assert len(first) == 1
        assert len(manager.parts.directory.sessions) == 1
        assert set(manager.parts.directory.sessions) != first
