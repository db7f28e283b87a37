"""Who is let in by a token or a session, and that nobody is any more once it is taken away: attacks among them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest

from common.access.credentials import SessionWay, digest_of
from common.access.rights import Role
from common.jobs.reader import parse_job
from common.protocol.saved_job import SavedJob
from tests.support.access import HOUR_MS, Accessing, kept_of, token_id
from tests.support.clocks import OffClock
from tests.support.event_stream import EventStream, listening
from tests.support.managing import Managed, Place, managing, problem_of
from tests.support.open_runs import claim, now_ms
from tests.support.waiting import wait_until

JOBS = "/api/v1/jobs"


@pytest.fixture
def clock() -> OffClock:
    return OffClock()


@pytest.fixture
async def guarded(place: Place, clock: OffClock) -> AsyncIterator[Managed]:
    """A manager that asks everybody who they are."""
    async with managing(place, auth="required", clock=clock) as managed:
        yield managed


@pytest.fixture
def access(guarded: Managed) -> Accessing:
    return Accessing(guarded)


async def status(manager: Managed, headers: dict[str, str], method: str = "GET", path: str = JOBS) -> int:
    async with manager.http.request(method, path, headers=headers) as response:
        await response.read()
        return response.status


async def test_nobody_is_let_in_without_a_credential(guarded: Managed) -> None:
    problem = await problem_of(await guarded.http.get(JOBS), 401)
    assert problem["code"] == "login-needed"


async def test_token_lets_its_owner_in(guarded: Managed, access: Accessing) -> None:
    headers = await access.user("alice", Role.VIEWER)
    assert await status(guarded, headers) == 200


async def test_session_lets_its_user_in_and_counts_with_their_groups(guarded: Managed, access: Accessing) -> None:
    await access.user("alice", groups=["dba"])
    cookie = await access.session("user:alice")
    assert await status(guarded, cookie.headers) == 403
    await access.bind("group:dba", Role.VIEWER)
    assert await status(guarded, cookie.headers) == 200


async def test_attack_two_authorization_headers_of_which_one_is_good(guarded: Managed, access: Accessing) -> None:
    good = (await access.user("alice", Role.ADMIN))["Authorization"]
    for pair in ([good, "Bearer x"], ["Basic eDp5", good], [good, good]):
        response = await guarded.http.get(JOBS, headers=[("Authorization", one) for one in pair])
        await problem_of(response, 400)


@pytest.mark.parametrize("spoilt", ["Bearer {}x", "Bearer  ", "Bearer etcron_", "Bearer {} {}", "bearer \x80"])
async def test_attack_token_that_is_nearly_good(guarded: Managed, access: Accessing, spoilt: str) -> None:
    good = (await access.user("alice", Role.ADMIN))["Authorization"].removeprefix("Bearer ")
    assert await status(guarded, {"Authorization": spoilt.format(good, good)}) == 401


@pytest.mark.parametrize("mode", ["off", "warn", "required"])
async def test_token_of_another_program_is_passed_over_unless_callers_have_to_be_known(place: Place, mode: str) -> None:
    async with managing(place, auth=mode) as manager:
        foreign = 401 if mode == "required" else 200
        assert await status(manager, {"Authorization": "Bearer eyJhbGciOiJub25lIn0.e30."}) == foreign
        assert await status(manager, {"Authorization": "Bearer etcron_0_0"}) == 401


async def test_attack_wrong_token_beside_a_good_session(guarded: Managed, access: Accessing) -> None:
    headers = await access.user("alice", Role.ADMIN)
    cookie = await access.session("user:alice")
    wrong = headers["Authorization"][:-1] + ("0" if headers["Authorization"][-1] != "0" else "1")
    assert await status(guarded, cookie.headers | {"Authorization": wrong}) == 401


async def test_attack_expired_token(guarded: Managed, access: Accessing, clock: OffClock) -> None:
    headers = await access.user("alice", Role.ADMIN)
    clock.offset_ms += HOUR_MS - 60_000
    assert await status(guarded, headers) == 200
    clock.offset_ms += 60_000
    assert await status(guarded, headers) == 401


async def test_attack_session_that_is_used_past_its_end(guarded: Managed, access: Accessing, clock: OffClock) -> None:
    await access.user("alice", Role.ADMIN)
    cookie = await access.session("user:alice")
    assert await status(guarded, cookie.headers) == 200
    clock.offset_ms += HOUR_MS
    assert await status(guarded, cookie.headers) == 401


async def test_attack_token_and_session_of_a_disabled_user(guarded: Managed, access: Accessing) -> None:
    headers = await access.user("alice", Role.ADMIN)
    cookie = await access.session("user:alice")
    by_provider = await access.session("user:alice", way=SessionWay.OIDC)
    await access.change_user("alice", disabled=True)
    for given in (headers, cookie.headers, by_provider.headers):
        assert await status(guarded, given) == 401


async def test_attack_token_of_a_deleted_user_whose_name_somebody_else_gets(
    guarded: Managed, access: Accessing
) -> None:
    headers = await access.user("alice", Role.ADMIN)
    cookie = await access.session("user:alice")
    await access.delete(access.keys.user("alice"))
    assert await status(guarded, headers) == 401
    await access.user("alice")
    assert await status(guarded, headers) == 401
    assert await status(guarded, cookie.headers) == 401


async def test_attack_user_whose_record_is_spoilt_logs_in_by_a_provider(guarded: Managed, access: Accessing) -> None:
    await access.bind("user:alice", Role.ADMIN)
    cookie = await access.session("user:alice", way=SessionWay.OIDC)
    assert await status(guarded, cookie.headers) == 200
    await access.put(access.keys.user("alice"), b'{"disabled": ')
    assert await status(guarded, cookie.headers) == 401


async def test_attack_token_whose_role_is_wider_than_its_owner(guarded: Managed, access: Accessing) -> None:
    await access.user("alice", Role.VIEWER)
    headers = await access.token("user:alice", role=Role.ADMIN)
    assert await status(guarded, headers) == 200
    assert await status(guarded, headers, "POST", "/api/v1/workers/w1/drain") == 403


async def test_token_is_capped_by_its_role(guarded: Managed, access: Accessing) -> None:
    await access.user("alice", Role.ADMIN)
    headers = await access.token("user:alice", role=Role.VIEWER)
    assert await status(guarded, headers) == 200
    assert await status(guarded, headers, "POST", "/api/v1/workers/w1/drain") == 403


async def test_service_account_that_is_deleted_has_no_token_any_more(guarded: Managed, access: Accessing) -> None:
    headers = await access.service("ci", Role.VIEWER)
    assert await status(guarded, headers) == 200
    await access.delete(access.keys.service("ci"))
    assert await status(guarded, headers) == 401


async def test_attack_cookie_that_another_port_has_read_without_the_second_secret(
    guarded: Managed, access: Accessing
) -> None:
    await access.user("alice", Role.ADMIN)
    cookie = await access.session("user:alice")
    alone = {name: value for name, value in cookie.headers.items() if name != "X-Etcron-Session"}
    assert await status(guarded, alone) == 401
    assert await status(guarded, alone | {"X-Etcron-Session": cookie.secret}) == 401
    other = await access.session("user:alice")
    assert await status(guarded, alone | {"X-Etcron-Session": other.second}) == 401


async def test_attack_cookie_named_for_another_port(guarded: Managed, access: Accessing) -> None:
    await access.user("alice", Role.ADMIN)
    cookie = await access.session("user:alice")
    foreign = cookie.headers | {"Cookie": f"etcron_session_1={cookie.secret}"}
    assert await status(guarded, foreign) == 401


async def test_attack_cookie_that_a_program_on_another_port_has_set_beside_ours(
    guarded: Managed, access: Accessing
) -> None:
    await access.user("alice", Role.ADMIN)
    cookie = await access.session("user:alice")
    ours, theirs = f"{cookie.name}={cookie.secret}", f"{cookie.name}={'ab' * 32}"
    for twice in (f"{theirs}; {ours}", f"{ours}; {theirs}"):
        assert await status(guarded, cookie.headers | {"Cookie": twice}) == 401


@pytest.mark.parametrize("path", ["/api", "/api/v1/", "/api/v1/whoami"])
async def test_attack_cookie_of_another_port_keeps_a_browser_out_for_good(
    guarded: Managed, access: Accessing, path: str
) -> None:
    """It is for a longer path, so the browser sends both, and a login replaces only ours."""
    kept = await kept_of("three words in a row")
    await access.user("alice", Role.ADMIN, password=kept)
    name = f"etcron_session_{guarded.http.port}"
    browser: dict[tuple[str, str], str] = {(name, path): "ab" * 32, (name, "/"): "cd" * 32}

    async def ask(method: str, target: str, second: str = "", body: object = None) -> tuple[int, dict[str, Any]]:
        sent = "; ".join(f"{name}={value}" for (name, of), value in browser.items() if target.startswith(of))
        headers = {"Cookie": sent, "X-Etcron": "1", "X-Etcron-Session": second}
        async with guarded.http.request(method, target, json=body, headers=headers) as response:
            for text in response.headers.getall("Set-Cookie", ()):
                (name, _, value), *fields = (one.strip().partition("=") for one in text.split(";"))
                said = {field.casefold(): value for field, _, value in fields}
                if said.get("max-age") == "0":
                    browser.pop((name, said["path"]), None)
                else:
                    browser[name, said["path"]] = value
            guarded.http.session.cookie_jar.clear()
            return response.status, await response.json()

    async def log_in() -> int:
        password = {"name": "alice", "password": "three words in a row"}
        status, opened = await ask("POST", "/api/v1/login", body=password)
        assert status == 200
        return (await ask("GET", "/api/v1/whoami", opened["csrf"]))[0]

    assert await log_in() == (200 if "/api/v1/login".startswith(path) else 401)
    assert await log_in() == 200, f"still out, by {browser}"


async def test_attack_form_of_another_page_changes_something_by_the_cookie(guarded: Managed, access: Accessing) -> None:
    await access.user("alice", Role.ADMIN)
    cookie = await access.session("user:alice")
    form = {name: value for name, value in cookie.headers.items() if name != "X-Etcron"}
    response = await guarded.http.post("/job/save", data={"job": "{}"}, headers=form)
    assert response.status == 403
    assert await status(guarded, form) == 200  # reading needs no such header


async def test_attack_fetch_of_another_page_with_the_cookie(guarded: Managed, access: Accessing) -> None:
    await access.user("alice", Role.ADMIN)
    cookie = await access.session("user:alice")
    for foreign in (
        {"Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ):
        response = await guarded.http.post("/job/save", data={"job": "{}"}, headers=cookie.headers | foreign)
        assert response.status == 403


async def test_attack_link_on_another_page_that_is_followed_with_the_cookie(
    guarded: Managed, access: Accessing
) -> None:
    await access.user("alice", Role.ADMIN)
    cookie = await access.session("user:alice")
    navigation = {"Cookie": cookie.headers["Cookie"], "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "cross-site"}
    for path in ("/api/v1/logout", "/job/save", "/api/v1/jobs/j/kill"):
        assert await status(guarded, navigation, path=path) == 405
    assert await status(guarded, navigation) == 401  # a navigation has no second secret
    assert await status(guarded, cookie.headers) == 200


async def test_cookie_of_a_session_that_is_over_is_forgotten_by_the_browser(
    guarded: Managed, access: Accessing
) -> None:
    await access.user("alice", Role.VIEWER)
    cookie = await access.session("user:alice")
    async with guarded.http.get(JOBS, headers={"Cookie": cookie.headers["Cookie"]}) as response:
        assert response.status == 401
        assert not response.cookies  # the second secret was missing: the session goes on
    await access.delete(access.keys.session(digest_of(cookie.secret)))
    async with guarded.http.get(JOBS, headers=cookie.headers) as response:
        assert response.status == 401
        assert response.cookies[cookie.name]["max-age"] == "0"


async def test_attack_open_event_stream_outlives_the_token_that_was_revoked(
    guarded: Managed, access: Accessing
) -> None:
    headers = await access.user("alice", Role.VIEWER)
    async with listening(guarded, headers) as stream:
        await stream.until("health")
        await guarded.etcd.delete(access.keys.token(token_id(headers)))
        told = {event.kind for event in await stream.rest()}
        assert told <= {"ping", "failing"}, told  # the count of what fails may be on its way already


async def test_attack_open_event_stream_outlives_the_binding_that_was_taken_away(
    guarded: Managed, access: Accessing
) -> None:
    await access.user("alice")
    binding = await access.bind("user:alice", Role.VIEWER)
    cookie = await access.session("user:alice")
    async with listening(guarded, {"Cookie": cookie.headers["Cookie"]}) as stream:
        await stream.until("health")
        await access.delete(access.keys.binding(binding))
        await stream.rest()
    await wait_until(lambda: len(guarded.parts.events) == 0, description="the stream to be forgotten")


async def test_attack_open_stream_of_output_outlives_the_token_that_was_revoked(
    guarded: Managed, access: Accessing
) -> None:
    headers = await access.user("alice", Role.VIEWER)
    run = await claim(guarded, "j", now_ms())
    await wait_until(lambda: guarded.parts.watching.open_runs.has(run), description="it goes")
    path = f"/api/v1/runs/{quote(str(run), safe='')}/output"
    async with guarded.http.get(path, params={"follow": "true"}, headers=headers) as response:
        stream = EventStream(response)
        assert (await stream.until("state")).data["state"] in ("running", "waiting")
        await guarded.etcd.delete(access.keys.token(token_id(headers)))
        assert [event for event in await stream.rest() if event.kind != "state"] == []
    await wait_until(lambda: guarded.parts.tails.viewers == 0, description="nobody follows any more")


async def test_attack_open_event_stream_outlives_the_end_of_its_token(
    guarded: Managed, access: Accessing, clock: OffClock
) -> None:
    headers = await access.user("alice", Role.VIEWER)
    async with listening(guarded, headers) as stream:
        await stream.until("health")
        clock.offset_ms += HOUR_MS
        await stream.rest()


async def test_attack_long_answer_outlives_the_token_that_was_revoked(guarded: Managed, access: Accessing) -> None:
    """Whoever takes it slowly would read for hours what is read meanwhile."""
    await _put_long_jobs(guarded)
    headers = await access.user("alice", Role.VIEWER)
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(slow, (guarded.http.host, guarded.http.port))
        token = f"Authorization: {headers['Authorization']}"
        lines = ["GET /job/list HTTP/1.1", "Host: localhost", "Connection: close", token]
        await loop.sock_sendall(slow, "\r\n".join([*lines, "", ""]).encode())
        assert (await loop.sock_recv(slow, 12)).endswith(b"200")
        await access.delete(access.keys.token(token_id(headers)))
        taken = b""
        with suppress(ConnectionError):
            while piece := await loop.sock_recv(slow, 65_536):
                taken += piece
        assert len(taken) > 65_536
        assert b'"name":"j399"' not in taken


async def _put_long_jobs(manager: Managed) -> None:
    """12 MB: more than the system holds of a connection."""
    value = SavedJob(spec=parse_job({"name": "j", "command": "x" * 30_000, "cronExpr": "@yearly"}), anchor_ms=1)
    for number in range(400):
        job = replace(value, spec=replace(value.spec, name=f"j{number:03}"))
        await manager.etcd.put(manager.keys.job(f"j{number:03}"), job.to_json())


async def test_attack_another_manager_is_called_with_what_one_has_taken_away(
    guarded: Managed, place: Place, clock: OffClock
) -> None:
    async with managing(place, auth="required", clock=clock) as other:
        access = Accessing(guarded, other)
        root, alice = await access.user("root", Role.ADMIN), await access.user("alice", Role.VIEWER)
        bob, carol = await access.user("bob"), await access.user("carol", Role.VIEWER)
        binding = await access.bind("user:bob", Role.VIEWER)
        session = await access.session("user:alice")
        cookie = replace(session, name=f"etcron_session_{other.http.port}").headers
        taken = {
            f"tokens/{token_id(alice)}": (alice, 401), f"sessions/{session.id}": (cookie, 401),
            f"bindings/{binding}": (bob, 403), "users/carol": (carol, 401),
        }  # fmt: skip
        async with listening(other, alice) as stream:
            await stream.until("health")
            for path, (headers, refusal) in taken.items():
                assert await status(other, headers) == 200, path
                assert await status(guarded, root, "DELETE", f"/api/v1/{path}") == 200

                async def is_refused(headers: dict[str, str] = headers, refusal: int = refusal) -> bool:
                    return await status(other, headers) == refusal

                await wait_until(is_refused, description=f"{path} to count no more")
            await stream.rest()
