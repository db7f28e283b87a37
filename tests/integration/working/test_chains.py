"""The steward's care for chains: what is broken goes on, what is not stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from common.clock import SystemClock
from common.etcd import Change
from common.protocol.keys import Keys, RunId
from common.protocol.request import Origin, Request
from common.protocol.txn import KeyRevisions, Put, Txn
from tests.support.meeting import Meeting
from tests.support.working import World
from worker.catalog import Catalog
from worker.lead.chains import Chains
from worker.lead.leader import Term
from worker.plan.request_queue import RequestQueue

pytestmark = [pytest.mark.etcd]


@dataclass
class Seen:
    """The requests that the steward knows of."""

    by_job: dict[str, object] = field(default_factory=dict)


class Office:
    """The duty, and what it looks at."""

    def __init__(self, world: World, term: Term) -> None:
        self.world, self.term = world, term
        self.catalog = Catalog(world.keys, on_changed=lambda name: self.duty.job_changed(name))
        self.seen = Seen()
        self.duty = self.another()

    def another(self) -> Chains:
        duty = Chains(
            client=self.world.etcd, keys=self.world.keys, catalog=self.catalog, queue=cast(RequestQueue, self.seen),
            clock=SystemClock(),
        )  # fmt: skip
        duty.begin()
        return duty

    async def save(self, **fields: Any) -> None:
        kv = await self.world.save(**(fields if "cronExpr" in fields else {"after": "10s"} | fields))
        self.catalog.on_changes([Change(key=kv.key, old_mod=None, new=kv)])

    async def look(self) -> None:
        await self.duty.perform(self.term)


@pytest.fixture
def office(world: World, term: Term) -> Office:
    return Office(world, term)


async def test_chain_without_a_link_goes_on_after_its_delay_and_once(office: Office, world: World) -> None:
    await office.save()
    now_ms = SystemClock().wall_ms()
    other = office.another()
    await office.look()
    first = await world.link()
    assert first is not None
    assert first.origin is Origin.CHAIN
    assert now_ms + 10_000 <= first.plan_ms < now_ms + 15_000
    await office.look()
    await other.perform(office.term)
    assert await world.link() == first


def lock_of(keys: Keys) -> Put:
    return Put(keys.lock("job"), b"job@5#1")


def retry_of(keys: Keys) -> Put:
    return Put(f"{keys.requests_of('job')}0000000000000005/2", b"a retry that the steward has not seen yet")


@pytest.mark.parametrize("there", [lock_of, retry_of])
async def test_chain_with_a_run_or_a_request_is_not_broken(office: Office, world: World, there: Any) -> None:
    await office.save()
    await world.etcd.txn(Txn([], [there(world.keys)]))
    await office.look()
    assert await world.link() is None


async def test_link_that_comes_while_locks_are_read_stays(
    office: Office, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a run of the job was going when the steward looked, and has ended since."""
    await office.save()
    at_ms = SystemClock().wall_ms() + 3_600_000
    link = Request(
        run_id=RunId.planned("job", at_ms), origin=Origin.CHAIN, job_create_revision=1, plan_ms=at_ms,
        dispatch_ms=at_ms, not_before_ms=at_ms,
    )  # fmt: skip
    read = world.etcd.get_keys

    async def get_keys(keys: Sequence[str]) -> dict[str, KeyRevisions]:
        found = await read(keys)
        revision = await world.etcd.put(world.keys.chain("job"), link.to_json())
        office.seen.by_job["job"] = {"its key": replace(link, revision=revision)}
        return found

    monkeypatch.setattr(world.etcd, "get_keys", get_keys)
    await office.look()
    there = await world.link()
    assert there is not None
    assert there.plan_ms == at_ms


@pytest.mark.parametrize("ahead_s", [3600, -1])
async def test_chain_does_not_wait_for_a_run_that_is_asked_for_at_a_later_time(
    office: Office, world: World, ahead_s: int
) -> None:
    await office.save()
    at_ms = SystemClock().wall_ms() + ahead_s * 1000
    asked = Request(
        run_id=RunId("job", "r-1"), origin=Origin.RUN_NOW, job_create_revision=1, plan_ms=at_ms, dispatch_ms=at_ms,
        not_before_ms=at_ms,
    )  # fmt: skip
    revision = await world.etcd.put(world.keys.request(asked.run_id), asked.to_json())
    office.seen.by_job["job"] = {"its key": replace(asked, revision=revision - 1)}
    await office.look()
    assert await world.link() is None, "there is something that the steward has not seen"
    office.seen.by_job["job"] = {"its key": replace(asked, revision=revision)}
    await office.look()
    assert (await world.link() is not None) == (ahead_s > 0)


@pytest.mark.parametrize("fields", [
    {"enabled": False}, {"after": None, "cronExpr": "* * * * * * *"}, {"endAt": "2020-01-01T00:00:00Z"},
])  # fmt: skip
async def test_only_enabled_after_jobs_within_their_window_are_looked_after(
    office: Office, world: World, fields: dict[str, Any]
) -> None:
    await office.save()  # known as an `after` job, and then as something else
    wanted = {"after": "10s"} | fields
    await office.save(**{name: value for name, value in wanted.items() if value is not None})
    await office.look()
    assert await world.link() is None


async def test_edit_that_the_steward_has_not_seen_stands(office: Office, world: World) -> None:
    await office.save()
    await world.save(after="10s", enabled=False)
    await office.look()
    assert await world.link() is None


@pytest.mark.parametrize("what", ["a run", "a request"])
async def test_a_chain_that_goes_on_meanwhile_stays_as_it_is(
    world: World, term: Term, meeting: Meeting, what: str
) -> None:
    office = Office(replace(world, etcd=meeting), term)
    await office.save()
    key = world.keys.lock("job") if what == "a run" else world.keys.request(RunId.planned("job", 5))
    await meeting.writes_nothing(world.place.prefix, office.look, after=[[Put(key, what.encode())]])


async def test_who_leads_no_more_mends_nothing(office: Office, world: World) -> None:
    await office.save()
    await world.etcd.delete(world.keys.steward)
    await office.look()
    assert await world.link() is None
    office.duty.end()
    office.duty.job_changed("job")
    assert not office.duty._chained
