"""A process's judgement of its own clock, on a real etcd, under a clock that the test moves."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import cast

import pytest

from common.clocks.check import FIRST_S, ClockCheck
from common.clocks.watch import ClockWatch
from common.errors import EtcdError, UnavailableError
from common.etcd import EtcdClient
from common.instants import from_ms
from common.protocol.clocks import Clocks
from common.protocol.txn import KeyValue
from tests.support.background import running
from tests.support.clocks import say_clocks
from tests.support.fake_clock import FakeClock
from tests.support.waiting import wait_until
from tests.support.working import World

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """A process that checks its clock, and what a steward says of it."""

    world: World
    clock: FakeClock
    watch: ClockWatch
    check: ClockCheck

    async def told(self, offset_ms: int | None, *, others: bool = True, within_ms: int = 0) -> str | None:
        """A steward has measured it (None: has not), and others (or nobody); the fault that there is now."""
        other = ClockWatch(self.clock, max_skew_ms=250, on_jump=lambda _: None)
        of = {"other": (other, 0)} if others else {}
        await say_clocks(
            self.world.etcd, self.world.keys, of if offset_ms is None else {**of, "own": (self.watch, offset_ms)},
            within_ms=within_ms,
        )  # fmt: skip
        await self.check.look()
        return self.check.fault

    async def alone(self) -> str | None:
        """A steward says that there are too few to compare."""
        await say_clocks(self.world.etcd, self.world.keys, count=2)
        await self.check.look()
        return self.check.fault

    async def for_seconds(self, seconds: int, *, others: bool = True, alone: bool = False) -> str | None:
        """For so long the steward puts comparisons without it, every 10 s."""
        for _ in range(seconds // 10):
            self.clock.advance(10_000)
            await (self.alone() if alone else self.told(None, others=others))
        return self.check.fault

    def jump(self, by_ms: int) -> None:
        self.clock.set_wall(self.clock.wall_ms() + by_ms)
        self.watch.look()


@pytest.fixture
def own(world: World) -> Own:
    return checked(world, FakeClock())


def checked(world: World, clock: FakeClock, *, is_patient: bool = True) -> Own:
    """A process whose clock is judged."""
    watch = ClockWatch(clock, max_skew_ms=250, on_jump=lambda by_s: check.jumped(by_s))
    check = ClockCheck(
        world.etcd, world.keys, process="own", watch=watch, clock=clock, max_skew_ms=250, on_change=_nobody,
        is_patient=is_patient,
    )  # fmt: skip
    return Own(world=world, clock=clock, watch=watch, check=check)


async def _nobody(fault: str | None) -> None:
    """Nobody is told."""


@pytest.mark.parametrize("others", [True, False])
@pytest.mark.parametrize("why", ["jumped, and was never compared", "jumped from where it was right", "found off"])
async def test_who_is_not_compared_is_not_trusted_for_two_minutes(own: Own, why: str, *, others: bool) -> None:
    await own.told({"found off": 30_000, "jumped from where it was right": 3}.get(why))
    if "jumped" in why:
        own.jump(30_000)
    assert await own.for_seconds(110, others=others) is not None
    assert await own.for_seconds(10, others=others) is None
    assert await own.told(30_000) is not None


async def test_who_has_jumped_is_vouched_for_once_it_was_compared_or_too_few_are_there(own: Own) -> None:
    await own.told(0)
    assert own.check.is_vouched_for
    own.jump(30_000)
    assert not own.check.is_vouched_for
    await own.for_seconds(150, others=False)
    assert own.check.fault is None
    assert not own.check.is_vouched_for  # it is trusted for want of a comparison
    assert await own.told(30_000) is not None
    assert not own.check.is_vouched_for
    own.jump(-30_000)
    assert await own.told(0) is None
    assert own.check.is_vouched_for
    own.jump(30_000)
    own.clock.advance(120_000)
    await say_clocks(own.world.etcd, own.world.keys, count=2)
    await own.check.look()
    assert own.check.is_vouched_for  # too few to tell, and it is trusted again


async def test_clock_that_is_set_right_is_trusted_once_it_was_compared(own: Own) -> None:
    await own.told(30_000)
    own.jump(-30_000)
    assert await own.told(None) is not None
    assert await own.told(0) is None


async def test_clock_that_was_off_and_has_not_jumped_is_not_found_right_by_clocks_that_have_moved(own: Own) -> None:
    await own.told(30_000)
    for _ in range(11):
        own.clock.advance(10_000)
        assert await own.told(3) is not None, "two others are wrong, each in its own way"
    own.clock.advance(10_000)
    assert await own.told(3) is None, "it is believed in the end: it may be the others that were off before"


async def test_clock_that_is_slewed_is_trusted_as_soon_as_it_is_within_the_bound(own: Own) -> None:
    assert await own.told(440) is not None
    assert await own.told(240) is None


async def test_clock_that_jumped_and_may_be_right_is_trusted_once_that_is_certain(own: Own) -> None:
    await own.told(None)
    own.jump(400)
    assert await own.told(300, within_ms=251) is not None
    assert await own.told(100, within_ms=250) is None


async def test_clock_that_may_be_right_is_none_that_was_found_wrong(own: Own) -> None:
    assert await own.told(700, within_ms=450) is None
    assert await own.told(701, within_ms=450) is not None


@pytest.mark.parametrize("is_right", [True, False])
async def test_that_too_few_are_left_to_compare_makes_no_wrong_clock_right(own: Own, *, is_right: bool) -> None:
    await own.told(-40 if is_right else 30_000)
    if is_right:
        await own.alone()
        own.jump(30_000)
    assert await own.for_seconds(110, alone=True) is not None
    assert await own.for_seconds(10, alone=True) is None
    own.jump(300)
    assert own.check.fault is None, "it is taken for right where it was"


async def test_clock_that_has_not_jumped_is_judged_however_badly_it_was_measured(own: Own) -> None:
    assert await own.told(100, within_ms=600) is None
    async with asyncio.timeout(60):
        await own.check.first()  # waits for nothing


async def test_small_steps_of_a_clock_that_is_found_right_each_time_are_no_jump(own: Own) -> None:
    name = own.watch.name
    for _ in range(3):
        await own.told(0)
        own.jump(200)
    assert own.watch.name == name


async def test_jump_in_the_first_seconds_of_a_process_waits_for_a_comparison(own: Own, world: World) -> None:
    """Where etcd was away, nobody knows yet whether others are compared."""
    own.jump(-30_000)
    await own.check.look()
    assert own.check.fault is not None
    assert await own.told(None) is not None
    assert await own.told(-30_000) is not None


async def test_jump_while_nobody_knows_whether_others_are_compared_is_borne_for_two_minutes(own: Own) -> None:
    own.clock.advance(61_000)
    own.jump(-30_000)
    own.clock.advance(119_000)
    await own.check.look()
    assert own.check.fault is not None
    own.clock.advance(1_000)
    await own.check.look()
    assert own.check.fault is None


async def test_jump_that_is_borne_at_the_first_look_is_told_to_who_has_decided_nothing_since(own: Own) -> None:
    heard: list[str | None] = []

    async def hear(fault: str | None) -> None:
        heard.append(fault)

    own.check._on_change = hear
    own.jump(-30_000)
    assert own.check.fault is not None
    await say_clocks(own.world.etcd, own.world.keys, count=1)
    await own.check.look()
    await own.check.look()
    assert own.check.fault is None
    assert heard == [None], "it is told, and once"
    for offset_ms in (400, 400, 0):
        await own.told(offset_ms, within_ms=100)
    assert [fault is None for fault in heard] == [True, False, True], "so is what a comparison says"


@pytest.mark.parametrize("error", [EtcdError("refused"), UnavailableError("away")], ids=["refused", "away"])
async def test_time_in_which_etcd_cannot_be_read_changes_no_verdict(own: Own, error: Exception) -> None:
    class Away:
        async def get(self, _key: str) -> KeyValue | None:
            raise error

    await own.told(None)
    own.jump(30_000)
    there, own.check._client = own.check._client, cast(EtcdClient, Away())
    for _ in range(10):
        own.clock.advance(10_000)
        assert not await own.check.look()
    assert own.check.clocks is not None
    own.check._client = there
    assert await own.told(None) is not None, "nobody has compared it since"
    assert await own.for_seconds(110) is not None
    own.check._client = cast(EtcdClient, Away())
    own.clock.advance(10_000)
    assert not await own.check.look()
    own.check._client = there
    assert await own.told(None) is not None, "etcd has answered for 110 s"
    assert await own.for_seconds(10) is None, "the two minutes in which it answered need not follow each other"


async def test_it_looks_every_second_while_something_is_open_or_it_has_just_begun(own: Own) -> None:
    await own.told(None)
    assert own.check._pause_s() == 1, "it is not compared, though others are"
    await own.alone()
    pauses = []
    for passed_s in (0, 6, 24, 30, 60):
        own.clock.advance(passed_s * 1000)
        pauses.append(own.check._pause_s())
    assert pauses == [1, 1, 5, 10, 10], "others may come, ever less likely"
    await own.told(0)
    assert own.check._pause_s() == 10
    own.jump(30_000)
    assert own.check._pause_s() == 1
    await own.told(30_000)
    assert own.check._pause_s() == 1
    own.jump(-30_000)
    await own.told(0)
    assert own.check._pause_s() == 10
    for measured in ({}, {"offset_ms": 100, "within_ms": 600}):
        own.jump(30_000)
        own.clock.advance(120_000)
        await say_clocks(own.world.etcd, own.world.keys, count=2)
        await own.check.look()
        assert own.check._pause_s() == 10, "nobody can tell"
        await own.told(measured.get("offset_ms"), within_ms=measured.get("within_ms", 0))
        assert own.check._pause_s() == 1


async def test_jump_is_looked_into_at_once(own: Own) -> None:
    heard = asyncio.Event()

    async def hear(fault: str | None) -> None:
        if fault is not None:
            heard.set()

    own.check._on_change = hear
    await own.told(0)
    await say_clocks(own.world.etcd, own.world.keys, count=7)
    async with running(own.check.run()):
        await wait_until(lambda: own.check.clocks == Clocks(count=7), description="it has looked")
        own.jump(30_000)
        async with asyncio.timeout(60):
            await heard.wait()


@pytest.mark.parametrize(("others", "for_s"), [(False, FIRST_S), (True, 15.0)])
async def test_first_decision_waits_no_longer_than_that(own: Own, others: bool, for_s: float) -> None:
    await own.told(None, others=others)
    own.check._first_s = own.clock.monotonic() - for_s
    async with asyncio.timeout(60):
        await own.check.first()


async def test_comparison_that_is_not_written_anew_for_30_s_says_nothing_more(own: Own) -> None:
    await own.told(0)
    for value in (None, b"garbage"):
        own.clock.advance(30_000)
        await own.check.look()
        assert own.check.clocks is not None
        own.clock.advance(1)
        if value is not None:
            await own.world.etcd.put(own.world.keys.clocks, value)
        await own.check.look()
        assert own.check.clocks is None
        await own.told(0)


async def test_first_decision_waits_long_where_others_have_been_compared(own: Own) -> None:
    await own.told(None)
    own.check._first_s = own.clock.monotonic() - 14
    waiting = asyncio.ensure_future(own.check.first())
    await own.told(30_000)
    await waiting
    assert own.check.fault is not None


async def test_first_decision_waits_long_where_enough_others_beat_though_none_has_been_compared(own: Own) -> None:
    for process in ("a", "b"):
        await own.world.etcd.put(own.world.keys.beat(process), b"{}")
    waiting = asyncio.ensure_future(own.check.first())
    await wait_until(lambda: own.check.awaited is not None, description="it waits")
    own.clock.advance(14_000)
    assert not waiting.done()
    await own.told(30_000)
    await waiting
    assert own.check.fault is not None


@pytest.mark.parametrize(("others", "is_patient"), [(("a",), True), (("a", "b"), False)])
async def test_first_decision_waits_for_nobody_where_one_other_beats_and_that_of_a_manager_neither(
    world: World, others: tuple[str, ...], is_patient: bool
) -> None:
    own = checked(world, FakeClock(), is_patient=is_patient)
    for process in others:
        await world.etcd.put(world.keys.beat(process), b"{}")
    async with asyncio.timeout(60):
        await own.check.first()
    assert own.check.awaited is None


async def test_it_says_until_when_the_first_decision_waits(own: Own, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert own.check.awaited is None
    await own.told(None)
    until = from_ms(own.clock.wall_ms() + 15_000)
    waiting = asyncio.ensure_future(own.check.first())
    await wait_until(lambda: own.check.awaited is not None, description="the first decision to wait")
    said = f"decides nothing before its clock has been compared with the others', or it is {until:%H:%M:%S} UTC"
    assert own.check.awaited == said
    own.clock.advance(6_000)
    assert own.check.awaited == said
    await own.told(0)
    await waiting
    assert own.check.awaited is None
    assert [getattr(one, "for_s", None) for one in caplog.records if getattr(one, "action", "") == "clock.awaited"] == [
        15
    ]


async def test_who_is_not_compared_with_anybody_waits_for_nothing(own: Own) -> None:
    await say_clocks(own.world.etcd, own.world.keys, count=1)
    await own.check.first()
    assert own.check.awaited is None
    own.jump(30_000)
    assert own.check.fault is None


async def test_jump_while_it_was_frozen_is_borne_until_it_has_looked(own: Own) -> None:
    await own.told(0)
    own.clock.advance(60_000)
    own.jump(30_000)
    assert own.check.fault is not None
    assert await own.told(None) is not None


async def test_jump_while_etcd_is_asked_does_not_pass_for_a_clock_found_right(own: Own, world: World) -> None:
    await own.told(0)

    class Jumping:
        async def get(self, key: str) -> KeyValue | None:
            own.clock.set_wall(own.clock.wall_ms() + 30_000)
            return await world.etcd.get(key)

    own.check._client = cast(EtcdClient, Jumping())
    await own.check.look()
    assert own.check.fault is not None


LEAP_MS = 3 * 3_600_000


@pytest.mark.parametrize("others", [True, False])
async def test_clock_that_leapt_ahead_is_not_trusted_for_two_minutes(own: Own, *, others: bool) -> None:
    """Nobody has measured it before, nor does now, and the kernel does not call it synchronised."""
    await (own.told(None) if others else own.alone())
    own.jump(LEAP_MS)
    assert "its clock jumped 10,800.0 s ahead" in (own.check.fault or "")
    assert await own.for_seconds(110, alone=not others) is not None
    own.jump(1_000)
    from_ms = own.clock.wall_ms()
    assert await own.for_seconds(110, alone=not others) is not None, "nor where it was set a little since"
    assert await own.for_seconds(20, alone=not others) is None
    assert own.check.held is not None
    assert own.check.held.from_ms == from_ms


@pytest.mark.parametrize("by_ms", [LEAP_MS, 61_000])
@pytest.mark.parametrize("why", ["synchronised", "compared", "set back", "synchronised before"])
async def test_clock_that_leapt_is_trusted_once_somebody_vouches_for_it(own: Own, why: str, by_ms: int) -> None:
    await own.alone()
    own.clock.synchronised = why == "synchronised before"
    own.jump(by_ms)
    assert (own.check.fault is None) == (why == "synchronised before")
    match why:
        case "synchronised":
            assert await own.alone() is not None
            own.clock.synchronised = True
            await own.alone()
        case "compared":
            await own.told(0)
        case "set back":
            own.jump(-by_ms)
            assert own.check.held is None
        case _:
            pass
    assert own.check.fault is None


@pytest.mark.parametrize("by_ms", [60_000, -LEAP_MS])
async def test_what_is_no_leap_of_a_clock_that_nobody_compares_is_trusted_at_once(own: Own, by_ms: int) -> None:
    await own.alone()
    own.jump(by_ms)
    assert await own.alone() is None
