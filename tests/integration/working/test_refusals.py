"""What etcd refuses for want of a permission holds up nothing else, is said, and goes on once it is granted again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from common.etcd import EtcdClient, EtcdUser
from common.runlog import RunLog
from tests.support.dead_mount import DeadMount
from tests.support.etcd_auth import PASSWORD, ROOT_PASSWORD, USER, Admin
from tests.support.etcd_server import EtcdServer, own_etcd
from tests.support.log_store import LogStore
from tests.support.unendable import left
from tests.support.waiting import wait_until
from tests.support.working import Place, World, working

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

WORKER = EtcdUser.with_password(USER, PASSWORD)


@pytest.fixture
def guarded_etcd(tmp_path: Path) -> Iterator[EtcdServer]:
    yield from own_etcd(tmp_path / "etcd")


@pytest.fixture
def place(guarded_etcd: EtcdServer, log_store: LogStore, tmp_path: Path) -> Place:
    return Place.new(tmp_path, etcd=guarded_etcd.endpoint, log_store=log_store.uri)


@pytest.fixture
async def admin(place: Place) -> AsyncIterator[Admin]:
    async with Admin(place.etcd) as admin:
        await admin.enable(place.prefix + "/")
        yield admin


@pytest.fixture
async def world(place: Place, admin: Admin) -> AsyncIterator[World]:
    """With the rights of root."""
    root = EtcdUser.with_password("root", ROOT_PASSWORD)
    async with EtcdClient([place.etcd], user=root) as etcd, RunLog(place.log_store, database=place.database) as runlog:
        yield World(place=place, etcd=etcd, runlog=runlog)


def refusals(caplog: pytest.LogCaptureFixture) -> int:
    return [getattr(one, "action", "") for one in caplog.records].count("etcd.refuses")


async def test_a_lock_that_may_not_be_freed_holds_up_no_other_run(
    place: Place, world: World, admin: Admin, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gate = tmp_path / "gate"
    command = f"until [ -e {gate} ]; do sleep 0.02; done"
    async with working(place, user=WORKER) as worker:
        await worker.deciding()
        runs = {}
        for number, name in enumerate(("bad", "good1", "good2")):
            runs[name] = await world.ask(await world.save(name, command), 1_790_000_000_000 + number, name=name)
        await wait_until(lambda: len(worker.running()) == 3, description="all of them run")
        await admin.forbid(place.prefix + "/", world.keys.lock("bad"))
        gate.touch()
        for name in ("good1", "good2"):
            await world.record(runs[name])
            await wait_until(lambda name=name: _gone(world, name, runs[name]), description=f"{name} is settled")  # type: ignore[misc]
        again = await world.ask(await world.save("good1", "true"), 1_790_000_001_000, name="good1")
        assert (await world.record(again))["status"] == "success"
        assert await world.has(world.keys.lock("bad"))
        assert "etcd refuses what is to be written of bad@" in str(worker.agent.describe().problem)
        assert refusals(caplog) == 1
        assert "grant-permission" in caplog.text
        await admin.grant(world.keys.lock("bad"), world.keys.lock("bad") + "\0")
        await wait_until(lambda: _gone(world, "bad", runs["bad"]), description="it goes on by itself")
        assert (await world.record(runs["bad"]))["status"] == "success"


async def _gone(world: World, name: str, run_id: object) -> bool:
    there = [kv.key async for page in world.etcd.read_prefix(world.keys.runs_of(name)) for kv in page.kvs]
    return not there and not await world.has(world.keys.lock(name))


async def test_fires_that_may_not_be_decided_hold_up_no_other_job(
    place: Place, world: World, admin: Admin, caplog: pytest.LogCaptureFixture
) -> None:
    async with working(place, user=WORKER) as worker:
        await worker.deciding()
        await admin.forbid(place.prefix + "/", world.keys.runs_of("bad"))
        for name in ("bad", "good1", "good2"):
            await world.save(name, "true", "* * * * * * *")

        async def the_others_fire() -> bool:
            return all([len(await world.records(name)) >= 3 for name in ("good1", "good2")])

        await wait_until(the_others_fire, description="the other jobs fire")
        assert {one["status"] for one in await world.records("good1")} == {"success"}
        assert not await world.records("bad")
        assert refusals(caplog) == 1
        assert "out of reach" not in caplog.text
        await admin.grant(world.keys.runs_of("bad"), world.keys.runs_of("bad")[:-1] + "0")

        async def it_fires() -> bool:
            return any(one["status"] == "success" for one in await world.records("bad"))

        await wait_until(it_fires, description="it fires, too, once it may")


async def test_runs_are_taken_over_though_one_of_them_may_not_be(
    place: Place, world: World, admin: Admin, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    command = f"until [ -e {gate} ]; do sleep 0.02; done"
    async with working(place, user=WORKER) as worker:
        await worker.deciding()
        runs = {}
        for number, name in enumerate(("bad", "good")):
            runs[name] = await world.ask(await world.save(name, command), 1_790_000_000_000 + number, name=name)
        await wait_until(lambda: len(worker.running()) == 2, description="both run")
        await admin.forbid(place.prefix + "/", world.keys.runs_of("bad"))
        before = worker.session
        await world.etcd.lease_revoke(before.lease_id)
        await worker.deciding_after(before)
        entry = await world.entry(runs["good"])
        assert entry is not None
        assert entry.session == worker.session.id
        await admin.grant(world.keys.runs_of("bad"), world.keys.runs_of("bad")[:-1] + "0")

        async def is_taken_over() -> bool:
            entry = await world.entry(runs["bad"])
            return entry is not None and entry.session == worker.session.id

        await wait_until(is_taken_over, description="the other one is, once it may be")
        gate.touch()
        for run_id in runs.values():
            assert (await world.record(run_id))["status"] == "success"


async def test_runs_that_are_ending_are_taken_over_though_one_of_them_may_not_be(
    place: Place, world: World, admin: Admin, mount: DeadMount
) -> None:
    async with working(place, user=WORKER) as worker:
        await worker.deciding()
        run_id = await left(world, mount)
    async with working(place, user=WORKER) as worker:
        await worker.deciding()
        assert run_id in worker.parts.ending
        before = worker.session
        await admin.forbid(place.prefix + "/", world.keys.runs_of("job"))
        await world.etcd.lease_revoke(before.lease_id)
        await worker.deciding_after(before)
        await admin.grant(world.keys.runs_of("job"), world.keys.runs_of("job")[:-1] + "0")

        async def is_taken_over() -> bool:
            entry = await world.entry(run_id)
            return entry is not None and entry.session == worker.session.id

        await wait_until(is_taken_over, description="it is, once it may be")
        mount.come_back()
        await wait_until(lambda: _gone(world, "job", run_id), description="it is settled")
