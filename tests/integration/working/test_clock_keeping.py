"""The steward hears the beats of all processes and puts the offsets of their clocks into etcd."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from common.clock import SystemClock
from common.etcd import Change, Mirror
from common.protocol.clocks import Clocks
from common.protocol.member import Beat
from common.protocol.txn import Txn
from tests.support.background import running
from tests.support.fake_clock import FakeClock
from tests.support.waiting import wait_until
from tests.support.working import World
from worker.lead.clock_keeping import FEW_FOR_S, PUT_EVERY_S, ClockKeeping
from worker.lead.leader import Term
from worker.members import Beats

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

EVERYBODY = {"w1": 0, "w2": 40, "manager.h.1": -30_000}


@dataclass
class Steward:
    """The duty, its ear on a real etcd, under a clock that the test moves."""

    world: World
    clock: FakeClock
    beats: Beats
    keeping: ClockKeeping
    mirror: Mirror
    changes: int = 0

    async def beat(self, **offsets: int) -> None:
        """These processes beat, and are heard at once."""
        for process, offset_ms in offsets.items():
            wall_ms = self.clock.wall_ms() + offset_ms
            beat = Beat(kind="worker", wall_ms=wall_ms, clock="c.0", round_trip_ms=3)
            revision = await self.world.etcd.put(self.world.keys.beat(process), beat.to_json())
            await self.heard(revision)

    async def heard(self, revision: int) -> None:
        await wait_until(lambda: self.mirror.revision >= revision, description=f"revision {revision} is heard")

    async def told(self) -> Clocks | None:
        kv = await self.world.etcd.get(self.world.keys.clocks)
        return None if kv is None else Clocks.from_json(kv.value)

    async def offsets(self) -> dict[str, int]:
        told = await self.told()
        assert told is not None
        return {process: one.offset_ms for process, one in told.measured.items()}

    async def rounds(self, count: int = 2, **offsets: int) -> None:
        """They beat so often, 3 s apart, each just after the listener has looked how far etcd is."""
        for _ in range(count):
            self.clock.advance(3_000)
            await self.keeping.probe()
            await self.beat(**offsets)


@asynccontextmanager
async def listening(world: World, workers: int = 1) -> AsyncIterator[Steward]:
    clock, beats = FakeClock(), Beats(world.keys)
    keeping = ClockKeeping(
        client=world.etcd, keys=world.keys, beats=lambda: beats.by_process, max_skew_ms=250, clock=clock,
        workers=lambda: workers,
    )  # fmt: skip

    def take(changes: list[Change]) -> None:
        beats.on_changes(changes)
        keeping.on_changes(changes)

    mirror = Mirror(world.etcd, world.keys.beats, take, clock=SystemClock())
    keeping.begin()
    async with running(mirror.run()):
        await mirror.synced.wait()
        yield Steward(world, clock, beats, keeping, mirror)


async def test_offsets_from_the_median_are_put_under_the_stewards_session(world: World, term: Term) -> None:
    await world.etcd.put(world.keys.clocks, b"not what a former steward tells")
    async with listening(world) as steward:
        await steward.rounds(**EVERYBODY)
        await steward.keeping.perform(term)
        assert await steward.offsets() == {"w1": 0, "w2": 40, "manager.h.1": -30_000}
        kv = await world.etcd.get(world.keys.clocks)
        assert kv is not None
        assert kv.lease == term.session.lease_id


async def test_who_is_no_longer_steward_in_etcds_eyes_puts_nothing(world: World, term: Term) -> None:
    async with listening(world) as steward:
        await steward.rounds(**EVERYBODY)
        await world.etcd.delete(world.keys.steward)
        await steward.keeping.perform(term)
        assert await steward.told() is None


async def test_new_clock_is_told_at_once_and_else_every_ten_seconds(world: World, term: Term) -> None:
    async with listening(world) as steward:

        async def puts() -> int:
            await steward.keeping.perform(term)
            kv = await world.etcd.get(world.keys.clocks)
            return 0 if kv is None else kv.version

        await steward.rounds(1, **EVERYBODY)
        assert await puts() == 0  # what a former steward told holds until there is something to tell
        await steward.rounds(1, **EVERYBODY)
        assert [await puts(), await puts()] == [1, 1]
        await steward.rounds(2, w3=7)
        assert await puts() == 2
        assert "w3" in await steward.offsets()
        steward.clock.advance(int(PUT_EVERY_S * 1000) - 1)
        assert await puts() == 2
        steward.clock.advance(1)
        assert await puts() == 3


async def test_fewer_than_three_are_said_to_be_too_few(world: World, term: Term) -> None:
    async with listening(world) as steward:
        await steward.keeping.perform(term)
        assert await steward.told() is None
        await steward.rounds(w1=0, w2=30_000)
        await steward.keeping.perform(term)
        assert await steward.told() == Clocks(count=2)


async def test_where_more_workers_are_remembered_too_few_are_said_so_only_once_it_lasts(
    world: World, term: Term
) -> None:
    async with listening(world, workers=3) as steward:
        steward.keeping.begin()
        await steward.rounds(w1=0, w2=30_000)
        await steward.keeping.perform(term)
        assert await steward.told() is None
        steward.clock.advance(round(FEW_FOR_S * 1000))
        await steward.keeping.perform(term)
        assert await steward.told() == Clocks(count=2)


async def test_that_too_few_are_left_is_said_so_only_once_it_lasts_however_long_there_were_enough(
    world: World, term: Term
) -> None:
    async with listening(world, workers=3) as steward:
        await steward.rounds(round(FEW_FOR_S / 3) + 2, **dict.fromkeys(EVERYBODY, 0))
        await steward.keeping.perform(term)
        for process in ("w2", "manager.h.1"):
            await world.etcd.delete(world.keys.beat(process))
        await wait_until(lambda: steward.beats.by_process.keys() == {"w1"}, description="two are heard to be gone")
        for passed_s, count in ((PUT_EVERY_S, 3), (FEW_FOR_S - PUT_EVERY_S - 1, 3), (1, 1)):
            steward.clock.advance(round(passed_s * 1000))
            await steward.keeping.perform(term)
            told = await steward.told()
            assert told is not None
            assert told.count == count


async def test_beats_that_lay_there_already_were_not_heard(world: World, term: Term) -> None:
    wall_ms = FakeClock().wall_ms()
    for process in EVERYBODY:
        beat = Beat(kind="worker", wall_ms=wall_ms - 2_900, clock="c.0", round_trip_ms=1)
        await world.etcd.put(world.keys.beat(process), beat.to_json())
    async with listening(world) as steward:
        await steward.rounds(1, **dict.fromkeys(EVERYBODY, 0))
        steward.clock.advance(5_000)
        await steward.keeping.perform(term)
        assert await steward.told() is None, "what a former steward told holds"
        steward.clock.advance(int(PUT_EVERY_S * 1000))
        await steward.keeping.perform(term)
        assert await steward.told() == Clocks(count=3)


async def test_listener_that_was_held_up_finds_no_right_clock_wrong(world: World, term: Term) -> None:
    async with listening(world) as steward:
        await steward.rounds(**dict.fromkeys(EVERYBODY, 0))
        steward.clock.advance(3_000)
        await steward.keeping.probe()
        steward.clock.advance(900)
        await steward.beat(w1=-900)  # sent then, and heard so much later
        steward.clock.advance(2_100)
        await steward.keeping.probe()
        await steward.beat(**dict.fromkeys(EVERYBODY, 0))
        await steward.keeping.perform(term)
        told = await steward.told()
        assert told is not None
        assert set(told.measured) >= {"w1"}
        assert told.off(0) == {}


async def test_jump_of_the_stewards_own_wall_clock_moves_nobodys_offset(world: World, term: Term) -> None:
    async with listening(world) as steward:
        await steward.rounds(**EVERYBODY)
        true_ms = steward.clock.wall_ms()
        steward.clock.set_wall(true_ms + 3_600_000)
        await steward.rounds(2, **{name: offset - 3_600_000 for name, offset in EVERYBODY.items()})
        await steward.keeping.perform(term)
        assert await steward.offsets() == EVERYBODY


async def test_garbage_and_who_is_gone_are_left_out(world: World, term: Term) -> None:
    async with listening(world) as steward:
        await steward.rounds(**EVERYBODY, w4=5)
        odd = {"kind": "worker", "wallMs": 1, "clock": "c.0", "roundTripMs": 1}
        old = {"kind": "worker", "wallMs": 1}
        values = {"x" * 301: odd, "old": old, "far": {**odd, "wallMs": 10**18}, "long": {**odd, "clock": "c" * 301}}
        await world.etcd.put(world.keys.beat("bad"), b"\xff")
        for process, document in values.items():
            value = json.dumps(document).encode()
            await steward.heard(await world.etcd.put(world.keys.beat(process), value))
        await world.etcd.delete(world.keys.beat("w4"))
        await wait_until(lambda: "w4" not in steward.beats.by_process, description="w4 is gone")
        await steward.rounds(1, **EVERYBODY)
        await steward.keeping.perform(term)
        assert await steward.offsets() == EVERYBODY
        told = await steward.told()
        assert told is not None
        assert told.count == 3


async def test_it_looks_how_far_etcd_is_while_some_clock_was_not_heard_well(world: World) -> None:
    async with listening(world) as steward:
        probes = steward.keeping._probes
        await steward.beat(w1=0)
        async with running(steward.keeping.listen()):
            await wait_until(lambda: len(probes) > 0, description="it looks")
            revision = await world.etcd.put("elsewhere", b"")
            await wait_until(lambda: probes[-1][0] >= revision, description="it looks again")
            await steward.beat(w1=0)
            assert steward.keeping._book.rest_ms(steward.keeping._boot_ms()) > 0
            steward.clock.advance(251)
            await steward.beat(w2=0)
            revision = await world.etcd.put("elsewhere", b"")
            await wait_until(lambda: probes[-1][0] >= revision, description="there is another clock")


async def test_next_steward_goes_on_from_what_the_former_one_told(world: World, term: Term) -> None:
    async with listening(world) as steward:
        await steward.keeping.perform(term)  # its own former term: nobody had told anything
        async with listening(world) as former:
            await former.rounds(a=0, b=0, c=0, d=0)
            await former.keeping.perform(term)
        steward.keeping.end()
        steward.keeping.begin()
        await steward.rounds(a=0, b=0)
        await half_jump(steward, term)


async def test_what_was_told_last_counts_though_nothing_could_be_measured_since(world: World, term: Term) -> None:
    async with listening(world) as steward:
        await steward.rounds(a=0, b=0, c=0, d=0)
        await steward.keeping.perform(term)
        steward.clock.advance(60_000)
        await steward.keeping.perform(term)
        assert await steward.offsets() == {}
        await steward.rounds(a=0, b=0)
        await half_jump(steward, term)


async def half_jump(steward: Steward, term: Term) -> None:
    """Two of four clocks jump: these are wrong, by where the median was before."""
    for process in "cd":  # their clocks have other names
        wall_ms = steward.clock.wall_ms() + 30_000
        for at_ms in (-3_000, 0):
            beat = Beat(kind="worker", wall_ms=wall_ms + at_ms, clock="c.1", round_trip_ms=3)
            await steward.heard(await steward.world.etcd.put(steward.world.keys.beat(process), beat.to_json()))
    await steward.keeping.perform(term)
    offsets = await steward.offsets()
    assert [abs(offsets[process]) <= 250 for process in "abcd"] == [True, True, False, False]


async def test_beat_was_put_after_the_last_look_that_has_not_seen_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with listening(world) as steward:
        txn = world.etcd.txn

        async def slowly(transaction: Txn) -> Any:
            answer = await txn(transaction)
            steward.clock.advance(500)
            return answer

        monkeypatch.setattr(world.etcd, "txn", slowly)
        looks: list[tuple[int, int]] = []
        for _ in range(3):
            sent_ms = round(steward.clock.boottime() * 1000)
            looks.append((await world.etcd.put("elsewhere", b""), sent_ms))
            await steward.keeping.probe()
            steward.clock.advance(1_000)
        first, second, third = looks
        assert [steward.keeping._not_before_ms(revision) for revision, _ in looks] == [None, first[1], second[1]]
        assert steward.keeping._not_before_ms(third[0] + 1) == third[1]


async def test_new_steward_tells_nothing_while_only_some_are_measured(world: World, term: Term) -> None:
    """Those that have just jumped beat sooner than the others: they alone would be the median."""
    async with listening(world) as steward:
        steward.clock.advance(60_000)
        await steward.rounds(**EVERYBODY)
        steward.keeping.end()
        steward.keeping.begin()
        await steward.keeping.perform(term)
        assert await steward.told() is None, "what it has heard in a former term is forgotten"
        await steward.beat(a=0, b=0, c=30_000, d=30_000)
        await steward.rounds(2, b=0, c=30_000, d=30_000)
        await steward.keeping.perform(term)
        assert await steward.told() is None
        steward.clock.advance(4_000)
        await steward.keeping.perform(term)
        assert set(await steward.offsets()) == {"b", "c", "d"}
