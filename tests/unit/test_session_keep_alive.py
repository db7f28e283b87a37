"""A session that is used is kept alive, and etcd hears of it once a minute at most."""

from __future__ import annotations

from common.access.credentials import LoginSession, SessionWay
from common.access.subjects import Subject
from common.errors import UnavailableError
from manager.access.directory import Versioned
from manager.access.keep_alive import SessionKeepAlive
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
        expires_ms=1, address="", agent="",
    )  # fmt: skip
    return Versioned(record=record, made_at=1, changed_at=1, lease=lease)


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
