"""Who is steward, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from common.clock import SystemClock
from common.errors import UnavailableError
from common.etcd import Session
from tests.support.background import running
from tests.support.waiting import wait_until
from tests.support.working import Place, SteppingClock, World, working
from worker.lead.leader import STAND_DOWN_S, Steward, Term

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]


class Counting:
    """A duty that counts, and fails as the test says."""

    every_s = 0.0

    def __init__(self, name: str = "counting") -> None:
        self.name = name
        self.begun = self.ended = self.performed = 0
        self.error: Exception | None = None

    def begin(self) -> None:
        self.begun += 1

    def end(self) -> None:
        self.ended += 1

    async def perform(self, term: Term) -> None:
        self.performed += 1
        if self.error is not None:
            raise self.error


class Candidate:
    def __init__(self, world: World, name: str) -> None:
        self.world, self.name, self.clock, self.duty = world, name, SteppingClock(), Counting()
        self.in_company = False
        self.timeless, self.is_clock_off, self.others_decide = Counting("measuring"), False, False
        self.is_spool_refusing = False
        self.steward = Steward(
            client=world.etcd, keys=world.keys, worker=name, duties=[self.duty], companion=self.company,
            clock=self.clock, timeless=[self.timeless], is_clock_off=lambda: self.is_clock_off,
            is_spool_refusing=lambda: self.is_spool_refusing, others_decide=lambda: self.others_decide,
        )  # fmt: skip

    async def company(self) -> None:
        self.in_company = True
        try:
            await asyncio.Event().wait()
        finally:
            self.in_company = False

    async def session(self) -> Session:
        return await Session.open(
            self.world.etcd, key_of=lambda lease: self.world.keys.worker(self.name, lease), value=b"{}", ttl=30,
            clock=SystemClock(),
        )  # fmt: skip


@asynccontextmanager
async def standing(world: World, name: str) -> AsyncIterator[tuple[Candidate, Session]]:
    candidate = Candidate(world, name)
    session = await candidate.session()
    async with running(candidate.steward.run(), session.run()):
        candidate.steward.stand_under(session)
        yield candidate, session
    await session.close()


async def test_leads_performs_and_lets_go_with_its_session(world: World) -> None:
    async with standing(world, "w1") as (one, session):
        await wait_until(lambda: one.duty.performed > 1, description="it performs")
        assert one.steward.leading
        assert one.in_company
        await session.close()
        await wait_until(lambda: one.duty.ended == 1, description="its term ends")
        assert not one.in_company
        await wait_until(lambda: not one.steward.leading, description="it leads no more")


async def test_stands_again_under_a_new_session(world: World) -> None:
    async with standing(world, "w1") as (one, session):
        await wait_until(lambda: one.duty.performed > 0, description="it performs")
        await session.close()
        second = await one.session()
        async with running(second.run()):
            one.steward.stand_under(second)
            await wait_until(lambda: one.duty.begun == 2, description="it has a second term")
        await second.close()


async def test_who_failed_stands_down_for_ten_minutes_and_another_leads(world: World) -> None:
    async with standing(world, "w1") as (one, _):
        await wait_until(lambda: one.duty.performed > 0, description="the first leads")
        async with standing(world, "w2") as (other, _):
            one.duty.error = KeyError("nobody foresaw this")
            await wait_until(lambda: other.duty.performed > 0, description="the other leads")
            # Which may be before etcd's answer has told the first that its key is gone.
            await wait_until(lambda: not one.steward.leading, description="the first leads no more")
            assert one.duty.ended == 1
        performed, one.duty.error = one.duty.performed, None
        one.clock.advance(STAND_DOWN_S - 60)
        await wait_until(lambda: one.duty.performed == performed, description="it stays down")
        one.clock.advance(120)
        await wait_until(lambda: one.duty.performed > performed, description="it leads again")


async def test_who_does_not_know_the_time_decides_nothing_and_leaves_it_to_who_does(world: World) -> None:
    async with standing(world, "w1") as (one, _):
        await wait_until(lambda: one.duty.performed > 0, description="it leads")
        one.is_clock_off = True
        performed, measured = one.duty.performed, one.timeless.performed
        await wait_until(lambda: one.timeless.performed > measured, description="it still measures clocks")
        assert one.steward.leading  # there is nobody else
        assert one.duty.performed == performed
        async with standing(world, "w2") as (other, _):
            one.others_decide = True
            await wait_until(lambda: other.duty.performed > 0, description="the other leads")
            # Which may be before etcd's answer has told the first that its key is gone.
            await wait_until(lambda: not one.steward.leading, description="the first leads no more")
            assert one.duty.performed == performed


async def test_whose_disk_takes_no_records_goes_on_where_nobody_else_takes_fires(world: World) -> None:
    async with standing(world, "w1") as (one, _), standing(world, "w2") as (other, _):
        await wait_until(lambda: one.duty.performed + other.duty.performed > 0, description="one of them leads")
        leads, waits = (one, other) if one.duty.performed else (other, one)
        leads.is_spool_refusing = True
        performed = leads.duty.performed
        await wait_until(lambda: leads.duty.performed > performed + 1, description="it goes on")
        leads.others_decide = True
        await wait_until(lambda: waits.duty.performed > 0, description="the other leads")


async def test_whose_disk_takes_no_records_performs_once_nobody_has_taken_the_office_that_it_left(world: World) -> None:
    async with standing(world, "w1") as (one, _):
        await wait_until(lambda: one.duty.performed > 0, description="it leads")
        one.others_decide = one.is_spool_refusing = True
        await wait_until(lambda: one.duty.ended == 1, description="it leaves the office")
        performed = one.duty.performed
        one.clock.advance(16)
        await wait_until(lambda: one.duty.performed > performed + 1, description="it performs all the same")
        assert (one.duty.begun, one.duty.ended) == (2, 1)
        one.clock.advance(STAND_DOWN_S)
        await wait_until(lambda: one.duty.ended == 2, description="it leaves the office to others again")


async def test_etcd_being_away_is_borne_and_said_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    async with standing(world, "w1") as (one, _):
        one.duty.error = UnavailableError("no etcd")
        await wait_until(lambda: one.duty.performed > 2, description="it tries again and again")
        assert caplog.text.count("counting is postponed") == 1
        assert one.steward.leading


async def test_a_session_that_is_not_confirmed_makes_no_busy_loop(world: World) -> None:
    async with standing(world, "w1") as (one, session):
        opened = session.confirmed_boottime
        await wait_until(lambda: one.duty.performed > 0, description="it performs")
        await wait_until(lambda: session.confirmed_boottime > opened, description="no keep-alive is on its way")
        session._keep_alive = asyncio.Event().wait  # type: ignore[method-assign]
        session.confirmed_boottime -= 1000
        await wait_until(lambda: one.duty.ended == 1, description="its term ends")
        later = asyncio.get_running_loop().time() + 0.6
        await wait_until(lambda: asyncio.get_running_loop().time() > later, description="the election has noticed")
        assert one.duty.begun == 1


async def test_another_worker_takes_over_at_once_when_the_steward_stops(place: Place, world: World) -> None:
    async with working(place, "w2", lease_ttl_s=60) as other:  # it does not wait for the end of a session
        async with working(place, "w1", lease_ttl_s=60) as one:
            await one.deciding()
            await other.deciding()
            await wait_until(
                lambda: one.parts.steward.leading or other.parts.steward.leading, description="one of them leads"
            )
        await wait_until(lambda: other.parts.steward.leading, description="the other leads")


async def test_clock_that_jumps_during_a_duty_dates_nothing(world: World) -> None:
    async with standing(world, "w1") as (one, _):
        refused: list[bool] = []

        async def decide(term: Term) -> None:
            assert term.holds
            one.is_clock_off = True
            try:
                assert term.holds
            except UnavailableError:
                refused.append(True)
                raise

        async def measure(term: Term) -> None:
            assert term.holds
            one.timeless.performed += 1

        one.duty.perform, one.timeless.perform = decide, measure  # type: ignore[method-assign]
        await wait_until(lambda: bool(refused), description="it would decide by a clock that has jumped")
        before = one.timeless.performed
        await wait_until(lambda: one.timeless.performed > before, description="clocks are compared")
        begun, one.is_clock_off = one.duty.begun, False
        await wait_until(lambda: one.duty.begun > begun, description="it begins anew by the right clock")
