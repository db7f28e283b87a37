"""The disk of the spool is full: verdicts go into run keys, locks are freed, nothing is claimed; it ends by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.clock import SystemClock
from common.protocol.keys import RunId
from common.protocol.run import EntryState, RunRecord, final_entry
from common.protocol.txn import Delete, Txn
from common.verdicts import Verdict
from tests.support.dead_mount import DeadMount
from tests.support.disks import full_disk
from tests.support.proxy import Mode, Proxy
from tests.support.records import record
from tests.support.unendable import leaves
from tests.support.waiting import wait_until
from tests.support.working import Place, World, working

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]


@pytest.mark.parametrize("overlap", ["skip", "allow"])
async def test_verdict_of_a_run_goes_into_its_key_and_is_delivered_once_there_is_room(
    place: Place, world: World, overlap: str
) -> None:
    async with working(place) as worker:
        await worker.deciding()
        worker.parts.spool_watch._every_s = 0.1
        job = await world.save("job", "echo out; exit 3", overlap=overlap)
        other = await world.save("other")
        late = record(7, job="late", status=Verdict.KILLED, late=True)
        await world.runlog.write([RunRecord(run_id=late.run_id, status=Verdict.LOST)])
        with full_disk(worker.agent._spool.size_bytes + 50):
            run_id = await world.ask(job, SystemClock().wall_ms())

            async def is_final() -> bool:
                entry = await world.entry(run_id)
                return entry is not None and entry.state is EntryState.FINAL

            await wait_until(is_final, description="the verdict is in the key")
            entry = await world.entry(run_id)
            assert entry is not None
            assert entry.record is not None
            kept = entry.record
            assert (kept.status, kept.exit_code, kept.output, kept.output_bytes) == (Verdict.FAILED, 3, "", 4)
            assert kept.output_truncated
            assert "the spool refused its output: the spool's disk is full" in kept.err
            assert not await world.has(world.keys.lock("job"))
            await wait_until(lambda: not worker.is_deciding(), description="it takes nothing")
            [session] = await world.sessions()
            await wait_until(lambda: told(world), description="its key says so")
            assert session.lease
            assert "make room where" in (worker.agent.describe().problem or "")
            worker.parts.settlement.deliver_late(late)
            waiting = await world.ask(other, SystemClock().wall_ms(), name="other")
            assert await world.runlog.run(str(run_id)) is None
        await worker.deciding()
        assert (await world.record(run_id))["status"] == "failed"
        assert (await world.record(waiting))["status"] == "success"

        async def came_late() -> bool:
            return bool((await world.record(late.run_id))["status"] == "killed")

        await wait_until(came_late, description="the late record has come, too")
        await wait_until(lambda: not worker.parts.settlement.unsettled, description="all is settled")
        assert await world.entries() == {}
        assert not await told(world)


async def test_record_of_a_run_that_was_given_up_meanwhile_comes_late_once_there_is_room(
    place: Place, world: World, tmp_path: Path
) -> None:
    async with working(place) as worker:
        await worker.deciding()
        worker.parts.spool_watch._every_s = 0.1
        gate = tmp_path / "gate"
        job = await world.save("job", f"while [ ! -e {gate} ]; do sleep 0.02; done; exit 3")
        run_id = await world.ask(job, SystemClock().wall_ms())
        await wait_until(lambda: run_id in worker.running(), description="it runs")
        with full_disk(worker.agent._spool.size_bytes + 50):
            await world.runlog.write([RunRecord(run_id=run_id, status=Verdict.LOST)])
            await world.etcd.txn(Txn([], [Delete(world.keys.run(run_id)), Delete(world.keys.lock("job"))]))
            gate.touch()
            await wait_until(lambda: len(worker.parts.table) == 0, description="it is not this worker's any more")

        async def came_late() -> bool:
            return bool((await world.record(run_id))["status"] == "failed")

        await wait_until(came_late, description="its record has replaced the verdict")


@pytest.mark.parametrize("is_given_up", [True, False])
async def test_record_comes_where_its_disk_has_room_again_before_etcd_is_back(
    place: Place, world: World, tmp_path: Path, is_given_up: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.lead.lost_runs.FINAL_PATIENCE_S", 3600)  # it is its own worker that delivers it
    async with Proxy(place.etcd) as proxy, working(place, etcd=proxy.endpoint) as worker:
        await worker.deciding()
        worker.parts.spool_watch._every_s = 0.1
        gate = tmp_path / "gate"
        job = await world.save("job", f"while [ ! -e {gate} ]; do sleep 0.02; done; exit 3")
        run_id = await world.ask(job, SystemClock().wall_ms())
        await wait_until(lambda: run_id in worker.running(), description="it runs")

        def is_full() -> bool:
            return "disk is full" in (worker.agent.describe().problem or "")

        with full_disk(worker.agent._spool.size_bytes + 50):
            proxy.set(Mode.RESET)
            if is_given_up:
                await world.runlog.write([RunRecord(run_id=run_id, status=Verdict.LOST)])
                await world.etcd.txn(Txn([], [Delete(world.keys.run(run_id)), Delete(world.keys.lock("job"))]))
            gate.touch()
            await wait_until(is_full, description="its record is refused")
        await wait_until(lambda: not is_full(), description="there is room again")
        proxy.set(Mode.PASS)

        async def came() -> bool:
            return bool((await world.record(run_id))["status"] == "failed")

        await wait_until(came, description="its record is there")
        await wait_until(lambda: not worker.parts.settlement.unsettled, description="all is settled")
        assert await world.entries() == {}


async def test_record_of_a_run_that_was_ending_when_it_was_given_up_comes_late_once_there_is_room(
    place: Place, world: World, mount: DeadMount
) -> None:
    async with working(place) as worker:
        await worker.deciding()
        worker.parts.spool_watch._every_s = 0.1
        job = await world.save(command=leaves(mount, "exit 3"), killGraceSeconds=0.1)
        run_id = await world.ask(job, SystemClock().wall_ms())
        await wait_until(lambda: mount.taken >= 1, description="its child waits in the kernel")
        with full_disk(worker.agent._spool.size_bytes + 50):
            (mount.directory.parent / "go").touch()
            await wait_until(lambda: not worker.is_deciding(), description="its record is refused")
            await world.runlog.write([RunRecord(run_id=run_id, status=Verdict.LOST)])
            await world.etcd.txn(Txn([], [Delete(world.keys.run(run_id)), Delete(world.keys.lock("job"))]))
            await world.etcd.lease_revoke(worker.session.lease_id)
            await wait_until(lambda: len(worker.parts.table) == 0, description="it is not this worker's any more")

        async def came_late() -> bool:
            return bool((await world.record(run_id))["status"] == "failed")

        await wait_until(came_late, description="its record has replaced the verdict")


async def test_steward_whose_disk_is_full_leaves_the_office_to_a_worker_that_delivers(
    place: Place, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.lead.lost_runs.FINAL_PATIENCE_S", 0)
    monkeypatch.setattr("worker.lead.lost_runs.SCAN_S", 0.1)
    run_id = RunId.planned("job", 1_790_000_000_000)
    verdict = RunRecord(run_id=run_id, status=Verdict.MISSED, reason="no worker")
    async with working(place) as worker:
        await worker.deciding()
        await wait_until(lambda: worker.parts.steward.leading, description="it is the steward")
        # Its file is longer than the other one's will be, so that the limit is reached by it alone.
        job = await world.save("long", "head -c 20000 /dev/zero | tr '\\0' x")
        await world.record(await world.ask(job, SystemClock().wall_ms(), name="long"))
        async with working(place, "w2") as other:
            await other.deciding()
            with full_disk(worker.agent._spool.size_bytes + 50):
                await world.etcd.put(world.keys.run(run_id), final_entry(verdict, worker="w9").to_json())
                assert (await world.record(run_id))["status"] == "missed"
                await wait_until(lambda: not worker.parts.steward.leading, description="it is the steward no more")
                assert other.parts.steward.leading
                assert worker.parts.admission.is_spool_refusing


async def told(world: World) -> bool:
    """Whether the worker's key says that its disk is full."""
    [session] = await world.sessions()
    return b"disk is full" in session.value
