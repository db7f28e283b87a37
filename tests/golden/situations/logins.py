"""Who logs in and out, and makes tokens, through a manager."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from common.access.accounts import User
from common.access.credentials import SessionWay
from common.access.rights import Role
from common.access.subjects import Subject
from manager.access.logins import make_link
from manager.access.passwords import Passwords
from tests.golden.stage import Stage, situation
from tests.support.access import Accessing
from tests.support.managing import Managed

PASSWORD: Final = "correct horse battery"
HASH: Final = "$argon2id$v=19$m=19456,t=2,p=1$MDEyMzQ1Njc4OWFiY2RlZg$69I7qCjDTsQwhQqFvpQJiqEI0lGQvxC84fXE0Ktxca4"
"""Of that password."""
DAY_MS: Final = 86_400_000
BROWSER: Final = {"User-Agent": "a browser"}


class SameHash(Passwords):
    """A hash has a salt, which is another one each time."""

    async def hash(self, password: str) -> str:
        return HASH


class Dated(SameHash):
    """All hashes are of former parameters."""

    def is_dated(self, kept: str) -> bool:
        return True


@asynccontextmanager
async def manager(stage: Stage, passwords: type[Passwords] = SameHash) -> AsyncIterator[tuple[Managed, Accessing]]:
    """With alice, who has a password and administers everything."""
    stage.patch.setattr("manager.wiring.Passwords", passwords)
    async with stage.manager() as managed:
        access = Accessing(managed)
        user = User(name="alice", password=HASH, created_ms=0, created_by="t", changed_ms=0)
        await access.put(access.keys.user("alice"), user.to_json())
        await access.bind("user:alice", Role.ADMIN)
        yield managed, access


async def log_in(managed: Managed) -> dict[str, str]:
    """The headers that its browser sends from then on."""
    body = {"name": "alice", "password": PASSWORD}
    async with managed.http.post("/api/v1/login", json=body, headers=BROWSER) as response:
        assert response.status == 200, await response.text()
        cookies = "; ".join(f"{name}={cookie.value}" for name, cookie in response.cookies.items())
        second = (await response.json())["csrf"]
    managed.http.session.cookie_jar.clear()
    return {"Cookie": cookies, "X-Etcron-Session": second, "X-Etcron": "1"}


@situation
async def user_logs_in(stage: Stage) -> None:
    async with manager(stage) as (managed, _), stage.recorded():
        await log_in(managed)


@situation
async def login_in_doubt(stage: Stage) -> None:
    async with manager(stage) as (managed, _), stage.recorded(losing=1):
        await log_in(managed)


@situation
async def user_logs_in_whose_password_is_hashed_anew(stage: Stage) -> None:
    async with manager(stage, Dated) as (managed, _), stage.recorded():
        await log_in(managed)


@situation
async def user_logs_out(stage: Stage) -> None:
    async with manager(stage) as (managed, _):
        headers = await log_in(managed)
        async with stage.recorded():
            await managed.call("POST", "/api/v1/logout", **headers)


@situation
async def user_changes_the_password(stage: Stage) -> None:
    async with manager(stage) as (managed, access):
        await access.session("user:alice")
        cookie = await access.session("user:alice")
        stage.patch.setattr("secrets.token_hex", lambda size: "cd" * size)
        async with stage.recorded():
            body = {"old": PASSWORD, "new": "staple horse correct"}
            await managed.call("POST", "/api/v1/password", body, **cookie.headers, **BROWSER)


@situation
async def link_that_works_once_is_used(stage: Stage) -> None:
    async with manager(stage) as (managed, access), stage.recorded():
        secret = await make_link(
            managed.etcd, access.keys, subject=Subject.parse("uid:1000"), reason="first start",
            role=Role.ADMIN, now_ms=stage.clock.wall_ms(),
        )  # fmt: skip
        await managed.call("POST", "/api/v1/login/link", {"secret": secret}, **BROWSER)


async def make_token(managed: Managed, headers: dict[str, str], **wish: object) -> Any:
    return await managed.call("POST", "/api/v1/tokens", {"name": "ci", **wish}, **headers)


@situation
async def token_is_made(stage: Stage) -> None:
    async with manager(stage) as (managed, _):
        headers = await log_in(managed)
        async with stage.recorded():
            await make_token(managed, headers)


@situation
async def token_is_made_by_a_user_of_whom_there_is_no_record(stage: Stage) -> None:
    async with manager(stage) as (managed, access):
        cookie = await access.session("user:olga", way=SessionWay.OIDC)
        async with stage.recorded():
            await make_token(managed, cookie.headers)


@situation
async def token_is_revoked(stage: Stage) -> None:
    async with manager(stage) as (managed, _):
        headers = await log_in(managed)
        made = await make_token(managed, headers)
        async with stage.recorded():
            await managed.call("DELETE", f"/api/v1/tokens/{made['id']}", **headers)


@situation
async def token_that_expired_a_week_ago_is_swept(stage: Stage) -> None:
    async with manager(stage) as (managed, access):
        await access.token("user:alice")
        stage.passes(8 * DAY_MS)
        async with stage.recorded():
            await managed.parts.tokens.sweep()
