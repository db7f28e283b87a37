"""Logging in and out, sessions, tokens and passwords; each attack on them is a test that names it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import ClientResponse, ClientSession, CookieJar, TCPConnector

from common.access.accounts import User
from common.access.credentials import SessionWay, digest_of
from common.access.rights import Role
from common.access.subjects import Subject
from manager.access.logins import make_link
from manager.access.passwords import Passwords
from manager.access.sessions import MOST_OF_A_USER
from manager.http.idempotency import HEADER
from tests.support.access import HOUR_MS, Accessing, kept_of, token_id
from tests.support.clocks import OffClock
from tests.support.managing import Managed, Place, managing, problem_of
from tests.support.waiting import wait_until

PASSWORD = "correct horse battery"
ANOTHER = "staple horse correct"
SLOW = "slow to compare"
DRAIN = "/api/v1/workers/w1/drain"
"""What administrators of everything alone may do."""


class MovingClock(OffClock):
    """The monotonic clock is the test's, too: it counts how long somebody has to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.later_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.later_s


class CountingPasswords(Passwords):
    """How often a password was compared, which is what takes the time; in these tests it takes little."""

    compared = 0
    held = asyncio.Event()
    """Until it is set, the comparison of the password SLOW goes on."""

    def __init__(self) -> None:
        super().__init__(memory_kib=64)

    async def is_right(self, kept: str | None, password: str) -> bool:
        type(self).compared += 1
        if password == SLOW:
            await self.held.wait()
        return await super().is_right(kept, password)


@pytest.fixture(autouse=True)
def counting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manager.wiring.Passwords", CountingPasswords)
    CountingPasswords.compared, CountingPasswords.held = 0, asyncio.Event()


@pytest.fixture
def clock() -> MovingClock:
    return MovingClock()


@pytest.fixture
async def guarded(place: Place, clock: MovingClock) -> AsyncIterator[Managed]:
    """A manager that asks everybody who they are, and counts comparisons of passwords."""
    async with managing(place, auth="required", clock=clock, proxies=["127.0.0.1"]) as managed:
        yield managed


@pytest.fixture
async def access(guarded: Managed) -> Accessing:
    """With alice, who has a password and may look at jobs."""
    accessing = Accessing(guarded)
    await accessing.user("alice", Role.VIEWER, password=await kept_of(PASSWORD, CountingPasswords))
    return accessing


class Browser:
    """Keeps cookies, and sends the second secret and the header that forms cannot send."""

    def __init__(self, manager: Managed, *, address: str | None = None) -> None:
        self.manager = manager
        self.jar = CookieJar(unsafe=True)
        self.headers: dict[str, str] = {"X-Etcron": "1"}
        if address is not None:
            self.headers["X-Forwarded-For"] = address

    @property
    def cookies(self) -> dict[str, str]:
        return {one.key: one.value for one in self.jar}

    async def request(self, method: str, path: str, body: object = None, **headers: str) -> ClientResponse:
        url = self.manager.http.make_url(path)
        sent = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())} if self.cookies else {}
        response = await self.manager.http.request(method, path, json=body, headers=self.headers | sent | headers)
        self.jar.update_cookies(response.cookies, url)
        self.manager.http.session.cookie_jar.clear()
        return response

    async def log_in(self, name: str = "alice", password: str = PASSWORD) -> ClientResponse:
        response = await self.request("POST", "/api/v1/login", {"name": name, "password": password})
        if response.status == 200:
            self.headers["X-Etcron-Session"] = (await response.json())["csrf"]
        return response

    async def get(self, path: str) -> Any:
        response = await self.request("GET", path)
        assert response.status == 200, await response.text()
        return await response.json()

    @property
    def secret(self) -> str:
        return next(value for name, value in self.cookies.items() if name.startswith("etcron_session_"))


async def logged_in(manager: Managed) -> Browser:
    browser = Browser(manager)
    response = await browser.log_in()
    assert response.status == 200, await response.text()
    return browser


async def test_password_lets_its_user_in(guarded: Managed, access: Accessing) -> None:
    browser = Browser(guarded)
    response = await browser.log_in()
    said = await response.json()
    assert said["caller"]["name"] == "alice"
    assert said["caller"]["roles"] == ["viewer"]
    assert (await browser.get("/api/v1/whoami")) == said["caller"]
    assert (await browser.get("/api/v1/jobs"))["items"] == []
    cookie = response.cookies[f"etcron_session_{guarded.http.port}"]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"], cookie["domain"]) == (True, "Strict", "/", "")


async def test_cookie_over_tls_is_bound_to_the_host(place: Place) -> None:
    async with managing(place, auth="required", proxies=["127.0.0.1"]) as manager:
        access = Accessing(manager)
        await access.user("alice", Role.VIEWER, password=await kept_of(PASSWORD, CountingPasswords))
        tls = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "10.1.1.1"}
        response = await manager.http.post("/api/v1/login", json={"name": "alice", "password": PASSWORD}, headers=tls)
        cookie = response.cookies["__Host-etcron"]
        assert (cookie["secure"], cookie["httponly"], cookie["samesite"], cookie["path"], cookie["domain"]) == (
            True, True, "Strict", "/", "",
        )  # fmt: skip
        sent = tls | {"Cookie": f"__Host-etcron={cookie.value}"}
        assert (await manager.http.get("/api/v1/jobs", headers=sent)).status == 200
        plain = {"Cookie": f"__Host-etcron={cookie.value}"}
        assert (await manager.http.get("/api/v1/jobs", headers=plain)).status == 401


async def test_attack_session_without_tls_is_replayed_as_one_over_tls(place: Place) -> None:
    async with managing(place, auth="required", proxies=["127.0.0.1"]) as manager:
        access = Accessing(manager)
        await access.user("alice", Role.VIEWER, password=await kept_of(PASSWORD, CountingPasswords))
        response = await manager.http.post("/api/v1/login", json={"name": "alice", "password": PASSWORD})
        stolen = response.cookies[f"etcron_session_{manager.http.port}"].value
        replayed = {
            "X-Forwarded-Proto": "https", "X-Forwarded-For": "10.1.1.1", "Cookie": f"__Host-etcron={stolen}",
        }  # fmt: skip
        assert (await manager.http.get("/api/v1/jobs", headers=replayed)).status == 401
        second = {"X-Etcron-Session": (await response.json())["csrf"]}
        assert (await manager.http.get("/api/v1/jobs", headers=replayed | second)).status == 200


async def test_logout_ends_the_session_everywhere(guarded: Managed, access: Accessing) -> None:
    browser = await logged_in(guarded)
    kept = browser.cookies
    assert (await browser.request("POST", "/api/v1/logout")).status == 200
    assert not [name for name in browser.cookies if "session" in name]
    cookie = {"Cookie": "; ".join(f"{name}={value}" for name, value in kept.items())}
    assert (await browser.request("GET", "/api/v1/whoami", **cookie)).status == 401


async def test_attack_fixation_a_cookie_that_was_there_before_the_login_is_not_adopted(
    guarded: Managed, access: Accessing
) -> None:
    planted = "ab" * 32
    browser = Browser(guarded)
    browser.jar.update_cookies({f"etcron_session_{guarded.http.port}": planted}, guarded.http.make_url("/"))
    assert (await browser.log_in()).status == 200
    assert browser.secret != planted
    before, second = browser.secret, browser.headers["X-Etcron-Session"]
    assert (await browser.log_in()).status == 200
    assert len((await browser.get("/api/v1/sessions"))["items"]) == 1
    for cookie, beside in ((before, second), (planted, browser.headers["X-Etcron-Session"])):
        old = {"Cookie": f"etcron_session_{guarded.http.port}={cookie}", "X-Etcron-Session": beside}
        assert (await guarded.http.get("/api/v1/whoami", headers=old)).status == 401


async def test_attack_names_are_found_out_by_how_long_a_login_takes(guarded: Managed, access: Accessing) -> None:
    await access.user("carol")  # without a password
    kept = await kept_of(PASSWORD, CountingPasswords)
    bob = User(name="bob", password=kept, created_ms=0, created_by="t", changed_ms=0)
    await access.put(access.keys.user("bob"), replace(bob, disabled=True).to_json())
    answers = []
    for name, password in (("alice", "wrong"), ("nobody", "wrong"), ("bob", PASSWORD), ("carol", ""), ("x" * 900, "y")):
        before = CountingPasswords.compared
        problem = await problem_of(await Browser(guarded).log_in(name, password or "z"), 401)
        answers.append((CountingPasswords.compared - before, problem["code"], problem["detail"]))
    assert len(set(answers)) == 1, answers
    assert answers[0][0] == 1


async def test_attack_guessing_one_account_from_many_addresses(place: Place, clock: MovingClock) -> None:
    async with managing(place, auth="required", clock=clock, proxies=["127.0.0.1"]) as manager:
        access = Accessing(manager)
        await access.user("alice", Role.VIEWER, password=await kept_of(PASSWORD, CountingPasswords))
        known = Browser(manager, address="10.0.0.1")
        assert (await known.log_in()).status == 200
        for number in range(10):
            assert (await Browser(manager, address=f"10.9.{number}.1").log_in(password="wrong")).status == 401
        refused = await Browser(manager, address="10.8.0.1").log_in()
        assert (await problem_of(refused, 429))["code"] == "too-many-logins"
        assert 0 < int(refused.headers["Retry-After"]) <= 30
        assert (await known.log_in()).status == 200  # its user is not locked out by others
        clock.later_s += 31
        await wait_until(lambda: manager.parts.directory.silent_s < 5, description="etcd to have been heard of since")
        assert (await Browser(manager, address="10.8.0.1").log_in()).status == 200


async def test_attack_spraying_one_password_over_many_names_from_one_address(
    guarded: Managed, access: Accessing, clock: MovingClock
) -> None:
    statuses = [(await Browser(guarded).log_in(f"user{number}", "wrong")).status for number in range(40)]
    assert statuses[:30] == [401] * 30
    assert 429 in statuses
    assert CountingPasswords.compared < 40


async def test_attack_spraying_from_many_addresses_of_this_machine(guarded: Managed, access: Accessing) -> None:
    """Each user of a machine, a job among them, may call from 16 million of them (127.0.0.0/8)."""

    async def log_in(number: int) -> int:
        connector = TCPConnector(local_addr=(f"127.0.0.{number}", 0))
        async with ClientSession(connector=connector) as http:
            body = {"name": f"user{number}", "password": "wrong"}
            return (await http.post(guarded.http.make_url("/api/v1/login"), json=body)).status

    statuses = await asyncio.gather(*map(log_in, range(2, 42)))
    assert statuses.count(429) >= 9


@pytest.mark.parametrize("is_known", [False, True])
async def test_attack_logins_that_succeed_keep_everybody_else_out(
    place: Place, is_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What succeeds is no try: seven at a time, of each account or each browser that is known, go on for ever."""
    monkeypatch.setattr("manager.wiring.Passwords", Passwords)  # each takes its time
    async with managing(place, auth="required", proxies=["127.0.0.1"]) as manager:
        access, kept = Accessing(manager), await kept_of(PASSWORD)
        for name in ("alice", "m0", "m1", "m2", "m3"):
            await access.user(name, Role.VIEWER, password=kept)
        theirs = [Browser(manager, address="10.0.0.1") for _ in range(6 if is_known else 4)]
        names = ["m0"] * len(theirs) if is_known else ["m0", "m1", "m2", "m3"]
        if is_known:
            for browser in theirs:
                assert (await browser.log_in("m0")).status == 200
        logins = [
            asyncio.create_task(browser.log_in(name)) for browser, name in zip(theirs, names, strict=True)
            for _ in range(7)
        ]  # fmt: skip
        await wait_until(lambda: any(one.done() for one in logins), description="they are on their way")
        before = sum(one.done() for one in logins)
        assert (await Browser(manager, address="10.0.0.2").log_in()).status == 200
        assert sum(one.done() for one in logins) - before < len(logins) / 2  # she had not to wait for them
        assert {one.status for one in await asyncio.gather(*logins)} == {200}


async def test_attack_guessing_with_many_logins_at_once(guarded: Managed, access: Accessing) -> None:
    """Of one account; then of many from many addresses, to take the processor."""
    known = await logged_in(guarded)
    before = CountingPasswords.compared
    tries = [Browser(guarded).log_in(password="wrong") for _ in range(40)]
    statuses = [response.status for response in await asyncio.gather(*tries)]
    assert statuses.count(401) <= 10
    assert CountingPasswords.compared <= before + 10

    before = CountingPasswords.compared
    async with asyncio.TaskGroup() as tasks:
        slow = [
            tasks.create_task(Browser(guarded, address=f"10.9.{number}.1").log_in(f"user{number}", SLOW))
            for number in range(30)
        ]
        await wait_until(lambda: sum(one.done() for one in slow) == 10, description="some are turned away")
        assert CountingPasswords.compared == before + 1, "the others wait for their turn"
        assert (await known.log_in()).status == 200
        CountingPasswords.held.set()
    assert sorted(one.result().status for one in slow) == [401] * 20 + [503] * 10


async def test_attack_guesses_from_many_addresses_keep_out_who_logs_in_from_a_new_browser(
    guarded: Managed, access: Accessing
) -> None:
    assert (await Browser(guarded, address="10.0.0.1").log_in()).status == 200
    async with asyncio.TaskGroup() as tasks:
        slow = [
            tasks.create_task(Browser(guarded, address=f"10.9.{number}.1").log_in(f"user{number}", SLOW))
            for number in range(30)
        ]
        await wait_until(lambda: sum(one.done() for one in slow) == 10, description="some are turned away")
        assert (await Browser(guarded, address="10.0.0.2").log_in()).status == 200
        # It is the password alone: neither the name nor the address helps a wrong one.
        # Who is sent away learns that it was wrong: so that is a try.
        wrong = [await Browser(guarded, address="10.0.0.2").log_in(password="wrong password") for _ in range(9)]
        assert [one.status for one in wrong] == [503] * 8 + [429]
        assert (await Browser(guarded, address="10.0.0.3").log_in()).status == 200
        CountingPasswords.held.set()


async def test_attack_guessing_with_a_device_cookie_of_ones_own(guarded: Managed, access: Accessing) -> None:
    await access.user("mallory", password=await kept_of(PASSWORD, CountingPasswords))
    browser = Browser(guarded)
    assert (await browser.log_in("mallory")).status == 200
    # It is not known as alice's.
    statuses = [(await browser.log_in("alice", "wrong")).status for _ in range(9)]
    assert statuses == [401] * 8 + [429]


async def test_attack_password_typed_as_the_name_or_a_token_ends_up_in_the_log(
    guarded: Managed, access: Accessing, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    browser = await logged_in(guarded)
    made = await (await browser.request("POST", "/api/v1/tokens", {"name": "ci"})).json()
    await Browser(guarded).log_in("my secret passphrase", PASSWORD)
    await Browser(guarded).request("POST", "/api/v1/login", {"name": "alice", "password": PASSWORD, "more": PASSWORD})
    await guarded.http.get("/api/v1/jobs", headers={"Authorization": f"Bearer {made['token']}"})
    await guarded.http.get("/api/v1/jobs", headers={"Authorization": f"Bearer {made['token']}x"})
    logged = "\n".join(f"{record.getMessage()} {vars(record)}" for record in caplog.records)
    assert "has logged in" in logged
    for secret in (
        PASSWORD, "my secret passphrase", made["token"].split("_")[2], browser.secret, digest_of(browser.secret),
        browser.headers["X-Etcron-Session"],
    ):  # fmt: skip
        assert secret not in logged


async def test_attack_secrets_are_read_from_lists(guarded: Managed, access: Accessing) -> None:
    browser = await logged_in(guarded)
    made = await (await browser.request("POST", "/api/v1/tokens", {"name": "ci"})).json()
    secret = made["token"].split("_")[2]
    listed = str(await browser.get("/api/v1/sessions")) + str(await browser.get("/api/v1/tokens"))
    for hidden in (
        secret, digest_of(secret), browser.secret, digest_of(browser.secret), browser.headers["X-Etcron-Session"],
        digest_of(browser.headers["X-Etcron-Session"]),
    ):  # fmt: skip
        assert hidden not in listed
    stored = "".join([page.kvs[0].key + str(page.kvs) async for page in guarded.etcd.read_prefix(access.keys.prefix)])
    assert secret not in stored
    assert browser.secret not in stored


async def test_session_is_listed_and_revoked_by_its_user_alone(guarded: Managed, access: Accessing) -> None:
    first, second = await logged_in(guarded), await logged_in(guarded)
    items = (await first.get("/api/v1/sessions"))["items"]
    assert [item["current"] for item in items].count(True) == 1
    other = next(item["id"] for item in items if not item["current"])
    bob = await access.user("bob", Role.EDITOR)
    for method, path in (("DELETE", f"/api/v1/sessions/{other}"), ("GET", "/api/v1/sessions?user=alice")):
        async with guarded.http.request(method, path, headers=bob) as response:
            assert response.status in (403, 404)
    assert (await first.request("DELETE", f"/api/v1/sessions/{other}")).status == 200
    assert (await second.request("GET", "/api/v1/whoami")).status == 401
    root = await access.user("root", Role.ADMIN)
    async with guarded.http.get("/api/v1/sessions?user=alice", headers=root) as response:
        assert len((await response.json())["items"]) == 1


async def test_oldest_session_ends_where_a_user_has_too_many(guarded: Managed, access: Accessing) -> None:
    for number in range(MOST_OF_A_USER):
        await access.session("user:alice", expires_in_ms=HOUR_MS + number)
    await logged_in(guarded)
    await wait_until(
        lambda: len(guarded.parts.directory.sessions) == MOST_OF_A_USER, description="the oldest to be gone"
    )


async def test_password_is_changed_and_other_sessions_are_over(guarded: Managed, access: Accessing) -> None:
    browser, other = await logged_in(guarded), await logged_in(guarded)
    before = browser.secret
    wrong = await browser.request("POST", "/api/v1/password", {"old": "wrong", "new": ANOTHER})
    assert (await problem_of(wrong, 400))["errors"][0]["field"] == "old"
    weak = await browser.request("POST", "/api/v1/password", {"old": PASSWORD, "new": "password1"})
    assert (await problem_of(weak, 400))["errors"][0]["field"] == "new"
    changed = await browser.request("POST", "/api/v1/password", {"old": PASSWORD, "new": ANOTHER})
    assert changed.status == 200
    browser.headers["X-Etcron-Session"] = (await changed.json())["csrf"]
    assert browser.secret != before
    assert (await browser.request("GET", "/api/v1/whoami")).status == 200
    assert (await other.request("GET", "/api/v1/whoami")).status == 401
    assert (await Browser(guarded).log_in(password=PASSWORD)).status == 401
    assert (await Browser(guarded).log_in(password=ANOTHER)).status == 200


async def test_session_is_over_when_an_administrator_sets_another_password(guarded: Managed, access: Accessing) -> None:
    browser = await logged_in(guarded)
    await access.put(access.keys.user("alice"), User(
        name="alice", password=await kept_of(ANOTHER, CountingPasswords), created_ms=0, created_by="t", changed_ms=0
    ).to_json())  # fmt: skip
    assert (await browser.request("GET", "/api/v1/whoami")).status == 401


async def test_link_logs_in_once(guarded: Managed, access: Accessing) -> None:
    secret = await make_link(
        guarded.etcd, access.keys, subject=Subject.parse("uid:1000"), reason="first start", role=Role.ADMIN,
        now_ms=guarded.parts.clock.wall_ms(),
    )  # fmt: skip
    browsers = [Browser(guarded) for _ in range(4)]
    answers = await asyncio.gather(
        *(browser.request("POST", "/api/v1/login/link", {"secret": secret}) for browser in browsers)
    )
    assert sorted(response.status for response in answers).count(200) == 1
    said = await next(response for response in answers if response.status == 200).json()
    assert said["caller"]["via"] == "session"
    assert said["caller"]["roles"] == ["owner"]
    assert (await Browser(guarded).request("POST", "/api/v1/login/link", {"secret": secret})).status == 401


async def test_attack_others_at_the_same_address_keep_nobody_out_who_has_a_link(
    guarded: Managed, access: Accessing
) -> None:
    """Any job on the machine fails at logins until its address, which is that of a recovery too, may try no more."""
    secret = await make_link(
        guarded.etcd, access.keys, subject=Subject.parse("uid:0"), reason="recovery", role=Role.ADMIN,
        now_ms=guarded.parts.clock.wall_ms(),
    )  # fmt: skip
    statuses: list[int] = []
    while 429 not in statuses and len(statuses) < 100:
        guess = {"secret": f"{len(statuses):064x}"}
        statuses.append((await Browser(guarded).request("POST", "/api/v1/login/link", guess)).status)
    assert (set(statuses[:-1]), statuses[-1]) == ({401}, 429)
    assert (await Browser(guarded).request("POST", "/api/v1/login/link", {"secret": secret})).status == 200


async def test_token_is_made_shown_once_and_revoked(guarded: Managed, access: Accessing) -> None:
    browser = await logged_in(guarded)
    response = await browser.request("POST", "/api/v1/tokens", {"name": "backup", "role": "viewer", "days": 1})
    made = await response.json()
    assert response.status == 201
    assert made["expiresMs"] - made["createdMs"] == 24 * HOUR_MS
    headers = {"Authorization": f"Bearer {made['token']}"}
    async with guarded.http.get("/api/v1/whoami", headers=headers) as response:
        assert (await response.json())["name"] == "alice (token backup)"
    ids = [one["id"] for one in (await browser.get("/api/v1/tokens"))["items"]]
    assert made["id"] in ids
    assert (await browser.request("DELETE", f"/api/v1/tokens/{made['id']}")).status == 200
    assert (await guarded.http.get("/api/v1/whoami", headers=headers)).status == 401


async def test_user_whom_only_a_login_provider_knows_makes_a_token_and_stays_logged_in(
    guarded: Managed, access: Accessing
) -> None:
    await access.bind("user:olga", Role.VIEWER)
    cookie = await access.session("user:olga", way=SessionWay.OIDC)
    async with guarded.http.post("/api/v1/tokens", json={"name": "x"}, headers=cookie.headers) as response:
        made = await response.json()
        assert response.status == 201, made
    token = {"Authorization": f"Bearer {made['token']}"}
    for headers, expected in ((cookie.headers, 200), (token, 200)):
        async with guarded.http.get("/api/v1/jobs", headers=headers) as response:
            assert response.status == expected
    await access.change_user("olga", disabled=True)
    for headers in (cookie.headers, token):
        async with guarded.http.get("/api/v1/jobs", headers=headers) as response:
            assert response.status == 401


async def test_attack_session_of_a_provider_outlives_that_its_name_is_given_to_a_local_user(
    guarded: Managed, access: Accessing
) -> None:
    cookie = await access.session("user:olga", way=SessionWay.OIDC)
    await access.user("olga", Role.ADMIN, password=await kept_of(PASSWORD, CountingPasswords))
    async with guarded.http.get("/api/v1/jobs", headers=cookie.headers) as response:
        assert response.status == 401


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        ({"name": "x", "days": 400}, "days"), ({"days": 1}, "name"), ({"name": "x", "role": "root"}, "role"),
        ({"name": "x", "owner": "group:dba"}, "owner"), ({"name": "\n"}, "name"),
    ],
)  # fmt: skip
async def test_token_with_a_mistake_is_refused(
    guarded: Managed, access: Accessing, wish: dict[str, object], field: str
) -> None:
    browser = await logged_in(guarded)
    problem = await problem_of(await browser.request("POST", "/api/v1/tokens", wish), 400)
    assert [error["field"] for error in problem["errors"]] == [field]


async def test_attack_token_makes_a_wider_or_longer_token_of_its_owner(guarded: Managed, access: Accessing) -> None:
    headers = await access.token("user:alice", role=Role.VIEWER)
    async with guarded.http.post("/api/v1/tokens", json={"name": "more"}, headers=headers) as response:
        assert response.status == 403


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("taken", ["token", "right"])
async def test_attack_call_is_kept_open_until_its_right_has_been_taken_away(
    guarded: Managed, access: Accessing, taken: str, idempotent: bool
) -> None:
    """Whoever fears to be thrown out sends all but the end of a body, and the end afterwards."""
    headers = await access.service("mallory")
    binding = await access.bind("service:mallory", Role.ADMIN)
    is_taken, is_begun = asyncio.Event(), asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b'{"name": "backdoor",'
        is_begun.set()
        await is_taken.wait()
        yield b' "description": ""}'

    sent = headers | {"Content-Type": "application/json"} | ({HEADER: "once"} if idempotent else {})
    call = asyncio.create_task(guarded.http.post("/api/v1/services", data=body(), headers=sent))
    await is_begun.wait()  # and the manager has seen it, as it sees what comes after it:
    assert (await guarded.http.get("/api/v1/services", headers=headers)).status == 200
    if taken == "token":
        await access.delete(access.keys.token(token_id(headers)))
    else:
        await access.delete(access.keys.binding(binding))
    is_taken.set()
    assert (await call).status == (401 if taken == "token" else 403)
    assert set(guarded.parts.directory.services) == {"mallory"}


async def test_attack_token_revokes_the_others_of_its_owner(guarded: Managed, access: Accessing) -> None:
    narrow = await access.token("user:alice", role=Role.VIEWER)
    other = await access.token("user:alice")
    async with guarded.http.delete(f"/api/v1/tokens/{token_id(other)}", headers=narrow) as response:
        assert response.status == 404
    async with guarded.http.delete(f"/api/v1/tokens/{token_id(narrow)}", headers=narrow) as response:
        assert response.status == 200


async def test_attack_token_is_made_for_somebody_else(guarded: Managed, access: Accessing) -> None:
    await access.service("ci", Role.EDITOR)
    browser, root = await logged_in(guarded), await access.user("root", Role.ADMIN)
    assert (await browser.request("POST", "/api/v1/tokens", {"name": "x", "owner": "service:ci"})).status == 403
    for owner, status in (("service:ci", 201), ("user:alice", 403), ("service:none", 404)):
        async with guarded.http.post("/api/v1/tokens", json={"name": "x", "owner": owner}, headers=root) as response:
            assert response.status == status, await response.text()


async def test_attack_what_is_made_while_warn_lets_everybody_in_outlives_it(place: Place) -> None:
    """A viewer, and a stranger, make what would let them do everything once a login is asked for."""
    async with managing(place, auth="warn") as manager:
        access = Accessing(manager)
        await access.service("ci", Role.ADMIN)
        eve = await access.user("eve", Role.VIEWER, password=await kept_of(PASSWORD, CountingPasswords))
        browser, stranger = Browser(manager), Browser(manager)
        assert (await browser.log_in("eve")).status == 200
        assert (await browser.request("POST", DRAIN, {})).status == 404, "warn refuses no call of today"
        for path, body in (
            ("/api/v1/tokens", {"name": "x", "owner": "service:ci"}),
            ("/api/v1/users", {"name": "mallory"}),
            ("/api/v1/services", {"name": "mallory"}),
            ("/api/v1/bindings", {"subject": "user:eve", "role": "admin", "labels": "all", "workers": "all"}),
            ("/api/v1/channels", {"name": "mallory", "kind": "command", "job": "backup"}),
        ):
            assert (await browser.request("POST", path, body)).status == 403, path
            assert (await stranger.request("POST", path, body)).status == 401, path
        assert (await stranger.request("POST", "/api/v1/tokens", {"name": "x"})).status == 401
        made = await (await browser.request("POST", "/api/v1/tokens", {"name": "x", "role": "admin"})).json()
        session = browser.secret
    async with managing(place, auth="required") as manager:
        await wait_until(lambda: "eve" in manager.parts.directory.users, description="users to be known")
        kept = {**browser.headers, "Cookie": f"etcron_session_{manager.http.port}={session}"}
        for headers in ({"Authorization": f"Bearer {made['token']}"}, kept, eve):
            assert (await manager.http.get("/api/v1/jobs", headers=headers)).status == 200
            assert (await manager.http.post(DRAIN, json={}, headers=headers)).status == 403


async def test_attack_idempotency_key_of_another_user_replays_their_answer(guarded: Managed, access: Accessing) -> None:
    alice, bob = await access.user("ann", Role.EDITOR), await access.user("bob", Role.EDITOR)
    await guarded.save('{"name": "j", "command": "true", "cronExpr": "0 0 0 1 1 * *"}', **alice)
    key = {HEADER: "same-key"}
    for headers, replayed in ((alice, False), (alice, True), (bob, False)):
        async with guarded.http.post("/api/v1/jobs/j/pause", json={}, headers=headers | key) as response:
            assert response.status == 200
            assert ("Idempotency-Replayed" in response.headers) is replayed


async def test_change_is_recorded_under_the_name_of_whose_token_it_was(guarded: Managed, access: Accessing) -> None:
    headers = await access.user("ann", Role.EDITOR)
    await guarded.save('{"name": "j", "command": "true", "cronExpr": "0 0 0 1 1 * *"}', **headers)
    async with guarded.http.get("/api/v1/jobs/j", headers=headers) as response:
        assert (await response.json())["savedBy"] == "ann (token test)"


async def test_attack_token_is_read_from_the_memory_of_idempotent_calls(guarded: Managed, access: Accessing) -> None:
    """Workers read it; and who may do what, and the URLs of channels, are nothing for them either."""
    await access.bind("user:alice", Role.ADMIN)
    browser = await logged_in(guarded)
    for path, body in (
        ("/api/v1/tokens", {"name": "ci"}),
        ("/api/v1/bindings", {"subject": "group:dba", "role": "viewer", "labels": "all"}),
        ("/api/v1/channels", {"name": "ops", "kind": "webhook", "url": "https://hooks.example.org/secret-path"}),
    ):
        await problem_of(await browser.request("POST", path, body, **{HEADER: "k"}), 400)
    assert await guarded.etcd.count(guarded.keys.dedupe) == 0


async def test_expired_token_is_swept_a_week_later(guarded: Managed, access: Accessing, clock: MovingClock) -> None:
    headers = await access.token("user:alice")
    clock.offset_ms += 2 * HOUR_MS
    await guarded.parts.tokens.sweep()
    assert await guarded.etcd.get(access.keys.token(token_id(headers))) is not None
    clock.offset_ms += 8 * 24 * HOUR_MS
    await guarded.parts.tokens.sweep()
    assert await guarded.etcd.get(access.keys.token(token_id(headers))) is None


async def test_nobody_is_asked_for_a_login_where_auth_is_off_but_sessions_are_ones_own(manager: Managed) -> None:
    assert (await manager.get("/api/v1/whoami"))["via"] == "nobody"
    assert (await manager.get("/api/v1/login")) == {"auth": "off", "password": False, "oidc": None}
    for path in ("/api/v1/sessions", "/api/v1/tokens"):
        await problem_of(await manager.http.get(path), 401)
