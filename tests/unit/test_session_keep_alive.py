"""A session that is used is kept alive, and etcd hears of it once a minute at most."""

from __future__ import annotations

from typing import cast

import pytest
from aiohttp.test_utils import make_mocked_request

from common.access.callers import Identity, Via
from common.access.credentials import LoginSession, SessionWay
from common.access.subjects import Subject
from common.errors import UnavailableError
from manager.access.cookies import Cookies
from manager.access.directory import Directory, Versioned
from manager.access.keep_alive import SessionKeepAlive
from manager.access.ways import UNATTENDED, CookieWay
from tests.support.background import running
from tests.support.fake_clock import FakeClock
from tests.support.waiting import wait_until


class Leases:
    """What etcd is asked."""

    def __init__(self) -> None:
        self.kept: list[int] = []
        self.is_away = False

    async def lease_keep_alive(self, lease_id: int) -> bool:
        self.kept.append(lease_id)
        if self.is_away:
            raise UnavailableError
        return True


def session(lease: int) -> Versioned[LoginSession]:
    record = LoginSession(
        id="0" * 12, second="0" * 64, subject=Subject.parse("user:alice"), way=SessionWay.PASSWORD, created_ms=0,
        expires_ms=1, address="", agent="", secure=True,
    )  # fmt: skip
    return Versioned(record=record, made_at=1, changed_at=1, lease=lease)


class Sessions:
    """The one that there is."""

    def __init__(self, held: Versioned[LoginSession]) -> None:
        self._held = held

    async def ready(self) -> None:
        """It is read."""

    async def wait_for_session(self, _: str) -> None:
        """It is there."""

    def by_session(self, _: str) -> tuple[Identity, Versioned[LoginSession]]:
        subject = self._held.record.subject
        return Identity(name=subject.name, subjects=frozenset({subject}), via=Via.SESSION), self._held


async def test_sessions_that_are_used_are_kept_alive_once_a_minute() -> None:
    leases, clock = Leases(), FakeClock()
    keep_alive = SessionKeepAlive(leases, clock=clock)
    async with running(keep_alive.run()):
        for lease in (1, 1, 2, 1, 0):
            keep_alive.used(session(lease))
        await wait_until(lambda: leases.kept == [1, 2], description="each to be kept alive once")
        clock.advance(61_000)
        keep_alive.used(session(1))
        await wait_until(lambda: leases.kept == [1, 2, 1], description="it to be kept alive again")


@pytest.mark.parametrize(
    ("path", "headers", "is_use"),
    [("/api/v1/alerts", {}, True), ("/api/v1/alerts", {UNATTENDED: "1"}, False), ("/api/v1/events", {}, False)],
)
async def test_what_a_page_asks_while_nobody_touches_it_is_no_use_of_the_session(
    path: str, headers: dict[str, str], is_use: bool
) -> None:
    used: list[Versioned[LoginSession]] = []
    cookies, held = Cookies(has_tls=True, proxies=()), session(1)
    way = CookieWay(cast(Directory, Sessions(held)), cookies, used=used.append)
    request = make_mocked_request("GET", path, headers=headers | {"Cookie": "__Host-etcron=secret"})
    assert await way(request) is not None
    assert used == ([held] if is_use else [])


async def test_session_is_kept_alive_by_its_next_use_where_etcd_was_away() -> None:
    leases = Leases()
    leases.is_away = True
    keep_alive = SessionKeepAlive(leases, clock=FakeClock())
    async with running(keep_alive.run()):
        keep_alive.used(session(1))
        await wait_until(lambda: leases.kept == [1], description="it to be tried")
        leases.is_away = False
        keep_alive.used(session(1))
        await wait_until(lambda: leases.kept == [1, 1], description="it to be kept alive")
