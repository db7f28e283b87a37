"""Workers that were here are remembered: when they were seen last, and how they left."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from common.clock import SystemClock
from common.etcd import Mirror
from common.protocol.member import Member
from common.protocol.roster import KEPT_MS, MOST_KEPT, Left, RosterEntry
from common.protocol.txn import Put, Txn
from tests.support.background import running
from tests.support.clearing import delete_prefix
from tests.support.waiting import wait_until
from tests.support.working import SteppingClock, World
from worker.lead.leader import Term
from worker.lead.roster import SEEN_EVERY_MS, Roster, RosterKeeping
from worker.members import Members

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]


class Office:
    """The duty, with mirrors that run; several may look after the same etcd."""

    def __init__(self, world: World, term: Term) -> None:
        self.world, self.term, self.keys, self.clock = world, term, world.keys, SteppingClock()
        self.roster = Roster(self.keys, self.clock)
        self.members = Members(self.keys, "w1", on_changed=lambda: None, on_seen=self.roster.saw)
        self.mirrors = [
            Mirror(world.etcd, self.keys.workers, self.members.on_changes, clock=SystemClock()),
            Mirror(world.etcd, self.keys.roster, self.roster.on_changes, clock=SystemClock()),
        ]
        self.duty = RosterKeeping(
            client=world.etcd, keys=self.keys, members=self.members, roster=self.roster, clock=self.clock
        )

    async def come(self, name: str, **changes: object) -> None:
        lease = await self.world.etcd.lease_grant(60)
        fields = {
            "instance": "i",
            "host": f"host-{name}",
            "address": "a",
            "slots": 2,
            "labels": {"host": name},
        } | changes
        member = Member(worker=name, session=f"{lease.id:x}", **fields)  # type: ignore[arg-type]
        await self.world.etcd.put(self.keys.worker(name, member.session), member.to_json(), lease.id)
        await wait_until(lambda: name in self.roster.live, description=f"{name} is seen")

    async def go(self, name: str) -> None:
        await delete_prefix(self.world.etcd, self.keys.worker_sessions(name))
        await wait_until(lambda: name not in self.roster.live, description=f"{name} has gone")

    async def perform(self, after_s: float = 0) -> dict[str, RosterEntry]:
        self.clock.advance(after_s)
        await self.duty.perform(self.term)
        return await self.remembered()

    async def remembered(self) -> dict[str, RosterEntry]:
        """As etcd has it, once the duty knows it as well."""
        pages = self.world.etcd.read_prefix(self.keys.roster)
        there = {kv.key.removeprefix(self.keys.roster): kv async for page in pages for kv in page.kvs}
        revisions = {name: kv.mod_revision for name, kv in there.items()}
        await wait_until(lambda: self.revisions() == revisions, description="the roster is known")
        return {name: RosterEntry.from_json(kv.value, worker=name) for name, kv in there.items()}

    def revisions(self) -> dict[str, int]:
        return {name: known.revision for name, known in self.roster.by_name.items()}


@pytest.fixture
async def office(world: World, term: Term) -> AsyncIterator[Office]:
    office = Office(world, term)
    async with running(*(mirror.run() for mirror in office.mirrors)):
        for mirror in office.mirrors:
            await mirror.synced.wait()
        yield office


async def test_one_that_ends_without_a_word_is_gone_since_it_was_seen_to(office: Office) -> None:
    await office.come("w1")
    entry = (await office.perform())["w1"]
    assert (entry.host, entry.slots, entry.labels, entry.left) == ("host-w1", 2, {"host": "w1"}, None)
    office.clock.advance(100)
    await office.go("w1")
    gone_ms = office.clock.wall_ms()
    entry = (await office.perform(after_s=200))["w1"]
    assert entry.left is Left.GONE
    assert abs(entry.seen_ms - gone_ms) < 100_000
    await office.come("w1", slots=3)
    entry = (await office.perform())["w1"]
    assert (entry.left, entry.slots) == (None, 3)


async def test_a_worker_that_stays_is_written_once_an_hour(office: Office) -> None:
    await office.come("w1")
    await office.perform()
    before = office.revisions()
    await office.perform(after_s=SEEN_EVERY_MS / 1000 - 60)
    assert office.revisions() == before
    await office.perform(after_s=61)
    assert office.revisions()["w1"] > before["w1"]


async def test_who_comes_back_or_says_good_bye_meanwhile_is_not_gone(office: Office) -> None:
    await office.come("w1")
    await office.perform()
    await office.go("w1")
    entry = RosterEntry(worker="w1", host="h", seen_ms=office.clock.wall_ms(), left=Left.STOPPED)
    await office.world.etcd.put(office.keys.roster_entry("w1"), entry.to_json())
    await wait_until(lambda: office.roster.by_name["w1"].entry == entry, description="it is known")
    assert (await office.perform())["w1"] == entry


async def test_they_are_forgotten_after_30_days_and_beyond_1000_the_first_to_leave(office: Office) -> None:
    now_ms = office.clock.wall_ms()
    await office.come("here")
    puts = [
        Put(office.keys.roster_entry(f"w{number:04}"), _gone(f"w{number:04}", now_ms - number).to_json())
        for number in range(MOST_KEPT + 10)
    ]
    for start in range(0, len(puts), 100):
        await office.world.etcd.txn(Txn([], puts[start : start + 100]))
    await office.remembered()
    await office.perform()
    there = await office.perform()
    assert len(there) <= MOST_KEPT
    assert "here" in there
    assert "w0000" in there
    assert f"w{MOST_KEPT + 9:04}" not in there
    office.clock.advance(KEPT_MS / 1000)
    for _ in range(11):
        there = await office.perform()
    assert list(there) == ["here"]


async def test_a_key_that_nobody_can_read_goes(office: Office) -> None:
    await office.world.etcd.put(office.keys.roster_entry("w9"), b"nonsense")
    await wait_until(lambda: "w9" in office.roster.by_name, description="it is seen")
    assert await office.perform() == {}


def _gone(name: str, seen_ms: int) -> RosterEntry:
    return RosterEntry(worker=name, host="h", seen_ms=seen_ms, left=Left.GONE)
