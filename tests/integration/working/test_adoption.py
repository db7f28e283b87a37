"""What a new session takes over, and what a restarted worker settles."""

from __future__ import annotations

import errno
import shutil
import signal
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from common.clock import SystemClock
from common.protocol.keys import RunId, Watched
from common.protocol.request import Origin, Request
from common.protocol.run import EntryState, RunRecord, final_entry
from common.protocol.txn import Put, Txn
from common.timings import STAMP_VALID_S
from common.verdicts import Verdict
from tests.support.cluster import Process
from tests.support.dead_mount import DeadMount
from tests.support.log_store import PYMONGO_DROPS_A_SOCKET, LogStore, to_disturb
from tests.support.proxy import Mode, Proxy
from tests.support.waiting import wait_until
from tests.support.working import Place, Working, World, working
from worker.record.spool import Spool, Spooled, SpoolError

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

LONG = "sleep 60"


async def started(
    worker: Working, world: World, command: str | list[str] = LONG, *, name: str = "job", **fields: Any
) -> RunId:
    """A run of a job that this worker has started."""
    job = await world.save(name, command, **fields)
    run_id = await world.ask(job, SystemClock().wall_ms(), name=name)
    await wait_until(lambda: run_id in worker.running(), description=f"{run_id} runs")
    return run_id


async def lose_session(worker: Working, world: World) -> None:
    """The lease is revoked from outside; there is a new session afterwards."""
    first = worker.session
    await world.etcd.lease_revoke(first.lease_id)
    await worker.deciding_after(first)


async def test_a_lost_session_ends_no_command(place: Place, world: World, tmp_path: Path) -> None:
    go = tmp_path / "go"
    async with working(place) as worker:
        await worker.deciding()
        run_id = await started(worker, world, f"until [ -e {go} ]; do sleep 0.02; done; echo done")
        await lose_session(worker, world)
        entry = await world.entry(run_id)
        assert entry is not None
        assert entry.session == worker.session.id
        assert worker.running() == [run_id]
        go.touch()
        assert (await world.record(run_id))["output"] == "done\n"
        await wait_until(lambda: not len(worker.parts.table), description="it is settled")
        assert len(await world.records()) == 1
        assert not await world.has(world.keys.lock("job"))


async def give_up(world: World, run_id: RunId) -> None:
    """As a steward does: the verdict in the run key, the lock free."""
    kv = await world.etcd.get(world.keys.run(run_id))
    assert kv is not None
    record = RunRecord(run_id=run_id, status=Verdict.LOST, reason="worker gone", err="lost: worker gone")
    await world.etcd.put(kv.key, final_entry(record, worker="w9").to_json())
    await world.etcd.delete(world.keys.lock(run_id.job))
    assert not (await world.runlog.write([record])).rejected


async def test_a_command_whose_lock_has_passed_on_is_ended_and_its_record_comes_late(
    place: Place, world: World
) -> None:
    async with working(place) as worker:
        await worker.deciding()
        run_id = await started(worker, world)
        await give_up(world, run_id)
        await lose_session(worker, world)
        await wait_until(lambda: worker.running() == [], description="it is ended")

        async def replaced() -> bool:
            return bool((await world.record(run_id))["status"] == "killed")

        await wait_until(replaced, description="its record replaces `lost`")
        record = await world.record(run_id)
        assert record["late"] is True
        assert "given up" in record["reason"]
        assert worker.parts.table.free_slots == 4


async def test_a_given_up_run_without_a_lock_goes_on_and_can_be_killed(place: Place, world: World) -> None:
    async with working(place) as worker:
        await worker.deciding()
        run_id = await started(worker, world, overlap="allow")
        await give_up(world, run_id)
        await lose_session(worker, world)
        assert worker.running() == [run_id]
        await world.kill(run_id)
        await wait_until(lambda: worker.running() == [], description="it is killed")


async def test_a_given_up_run_that_hung_before_its_command_was_executed_gives_its_slot_back(
    place: Place, world: World, mount: DeadMount
) -> None:
    async with working(place) as worker:
        await worker.deciding()
        env = {"PATH": f"{mount.directory}:/usr/bin"}
        run_id = await started(worker, world, ["echo"], overlap="allow", env=env)
        run = worker.parts.table.get(run_id)
        assert run is not None
        await give_up(world, run_id)
        await lose_session(worker, world)
        assert worker.running() == [run_id]
        limit = run.sent + STAMP_VALID_S
        await wait_until(lambda: SystemClock().boottime() > limit, description="the limit of its start is over")
        mount.come_back()

        async def replaced() -> bool:
            return bool((await world.record(run_id))["status"] == "missed")

        await wait_until(replaced, description="its record replaces `lost`")
        assert (await world.record(run_id))["reason"] == "claimed, not started"
        assert (worker.parts.table.running, worker.parts.table.free_slots) == (0, 4)


async def test_a_kill_that_came_between_two_sessions_counts(place: Place, world: World) -> None:
    async with working(place) as worker:
        await worker.deciding()
        run_id = await started(worker, world)
        worker.parts.mirrors[Watched.KILLS]._on_changes = lambda _changes: None  # its watch is slow
        await world.kill(run_id, by="operator")
        await lose_session(worker, world)
        record = await world.record(run_id)
        assert (record["status"], record["by"], record["reason"]) == ("killed", "operator", "enough")


async def test_a_run_that_was_won_by_an_ended_session_is_taken_over_later(place: Place, world: World) -> None:
    async with working(place) as worker:
        await worker.deciding()
        run_id = await started(worker, world)
        run = worker.parts.table.get(run_id)
        assert run is not None
        old = worker.session
        worker.parts.table.forget(run)  # its claim has not been answered yet
        await lose_session(worker, world)
        assert run.session is old
        worker.parts.table.add(run)
        await wait_until(lambda: run.session is worker.session, description="it is under the new session")
        entry = await world.entry(run_id)
        assert entry is not None
        assert entry.session == worker.session.id


# A former life


async def test_a_killed_worker_that_starts_again_settles_what_was_its_own(
    place: Place, world: World, tmp_path: Path
) -> None:
    job = await world.save(command=f"echo $$ >> {tmp_path}/pids; sleep 60")
    foreign = await world.open_run(name="other")
    flags = ("--etcd-endpoints", place.etcd, "--key-prefix", place.prefix, "--worker-name", "w1",
             "--mongodb-uri", place.log_store, "--mongodb-database", place.database,
             "--data-dir", str(tmp_path / "data"), "--lease-ttl-seconds", "200")  # fmt: skip
    process = Process("worker", "w1", tmp_path / "w1", flags)
    process.start()
    try:
        run_id = await world.ask(job, SystemClock().wall_ms())
        pids = tmp_path / "pids"
        await wait_until(lambda: pids.exists() and pids.read_text().endswith("\n"), description="the command runs")
        pid = int(pids.read_text())
        assert Path(f"/proc/{pid}").exists()
        await process.end(signal.SIGKILL)  # its guardian ends the command now, or its next start does
        process.start()
        record = await world.record(run_id)
        assert (record["status"], record["reason"]) == ("lost", "worker restarted")
        assert record["command"].startswith("echo $$")
        assert not await world.has(world.keys.lock("job"))
        assert not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_bytes()
        assert await world.has(foreign.key)
        assert await world.has(world.keys.lock("other"))
    finally:
        process.destroy()


async def of_a_former_life(place: Place, world: World, plan_ms: int = 1_790_000_000_000, **changes: Any) -> RunId:
    """An open run of the worker that is about to start."""
    (place.directory / "w1").mkdir(exist_ok=True)
    (place.directory / "w1" / "instance").write_text("inst")
    await world.open_run(plan_ms, worker="w1", instance="inst", lost_after_ms=300_000, **changes)
    return RunId.planned("job", plan_ms)


async def test_runs_of_another_instance_of_the_same_name_are_left_to_the_steward(place: Place, world: World) -> None:
    other = await world.open_run(worker="w1", instance="of-another-directory", lost_after_ms=300_000)
    async with working(place) as worker:
        await worker.deciding()
        left = await world.etcd.get(other.key)
        assert left is not None
        assert left.mod_revision == other.mod_revision
        assert await world.has(world.keys.lock("job"))


async def test_what_the_spool_knows_is_not_lost_even_where_it_was_delivered_first(place: Place, world: World) -> None:
    run_id = await of_a_former_life(place, world)
    record = RunRecord(run_id=run_id, status=Verdict.SUCCESS, output="fine\n")
    left = Spool.open(place.directory / "w1" / "spool")
    await left.append(record)
    await left.close()
    async with Proxy(place.etcd) as proxy:
        proxy.set(Mode.RESET)  # etcd is away for as long as delivery takes
        async with working(place, etcd=proxy.endpoint) as worker:
            await wait_until(lambda: worker.parts.delivery.written == 1, description="it is delivered")
            proxy.set(Mode.PASS)
            await worker.deciding()
            await wait_until(lambda: not_there(world, run_id), description="its key is deleted")
            assert not await world.has(world.keys.lock("job"))
    assert (await world.record(run_id))["status"] == "success"


async def test_a_spool_that_cannot_be_read_for_want_of_a_descriptor_is_read_again(
    place: Place, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await of_a_former_life(place, world)
    left = Spool.open(place.directory / "w1" / "spool")
    await left.append(RunRecord(run_id=run_id, status=Verdict.SUCCESS))
    await left.close()
    find_former, short = Spool.find_former, [errno.EMFILE] * 2

    async def find(self: Spool, wanted: Collection[str]) -> dict[str, Spooled]:
        if wanted and short:
            raise SpoolError("the spool's disk fails") from OSError(short.pop(), "too many open files")
        return await find_former(self, wanted)

    monkeypatch.setattr(Spool, "find_former", find)
    async with working(place) as worker:
        await worker.deciding()
    assert not short
    assert (await world.record(run_id))["status"] == "success"


async def test_the_spool_keeps_a_delivered_verdict_until_etcd_knows_of_it(place: Place, world: World) -> None:
    """The worker may die before it can say so; and the log store be away when it begins again."""
    async with Proxy(place.etcd) as proxy, working(place, etcd=proxy.endpoint) as worker:
        await worker.deciding()
        run_id = await started(worker, world, "until [ -e go ]; do sleep 0.02; done", workdir=str(place.directory))
        proxy.set(Mode.SWALLOW)
        (place.directory / "go").touch()
        await world.record(run_id)
        await wait_until(lambda: worker.agent._spool.pending == 0, description="it is delivered, and acknowledged")
        killed = place.directory / "killed"
        shutil.copytree(place.directory / "w1" / "spool", killed)
        later = Spool.open(killed)
        assert list(await later.find_former({str(run_id)})) == [str(run_id)]
        await later.close()
        proxy.set(Mode.PASS)
        await wait_until(lambda: not_there(world, run_id), description="its key is deleted")


async def not_there(world: World, run_id: RunId) -> bool:
    return not await world.has(world.keys.run(run_id))


async def test_what_the_log_store_knows_is_not_lost(
    place: Place, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = await of_a_former_life(place, world)
    await world.runlog.write([RunRecord(run_id=run_id, status=Verdict.SUCCESS)])
    async with working(place) as worker:
        await worker.deciding()
        await wait_until(lambda: not_there(world, run_id), description="its key is deleted")
        assert not await world.has(world.keys.lock("job"))
    assert "is lost" not in caplog.text


async def test_a_final_key_of_a_former_life_is_delivered(place: Place, world: World) -> None:
    run_id = await of_a_former_life(place, world, locked=False)
    record = RunRecord(run_id=run_id, status=Verdict.SKIPPED, reason="overlap")
    await world.etcd.txn(Txn([], [Put(world.keys.run(run_id), final_entry(record, instance="inst").to_json())]))
    async with working(place) as worker:
        await worker.deciding()
        assert (await world.record(run_id))["status"] == "skipped"
        await wait_until(lambda: not_there(world, run_id), description="its key is deleted")


# What follows the runs of a former life


async def followed(place: Place, world: World, run_id: RunId) -> list[Request]:
    """What is asked for, and not due yet, once the worker has settled its former life."""
    async with working(place) as worker:
        await worker.deciding()
        requests = await world.requests()
        await wait_until(lambda: not_there(world, run_id), description="its key is deleted")
        assert not await world.has(world.keys.lock("job"))
    return requests


@pytest.mark.parametrize("overlap", ["skip", "allow"])
@pytest.mark.parametrize("where", ["spool", "log store"])
async def test_failed_run_whose_worker_died_before_it_said_so_in_etcd_is_tried_again(
    place: Place, world: World, where: str, overlap: str
) -> None:
    job = await world.save(retry={"limit": 2, "delaySeconds": 600}, overlap=overlap)
    run_id = await of_a_former_life(place, world, revision=job.mod_revision, locked=overlap == "skip")
    end_ms = SystemClock().wall_ms()
    record = RunRecord(run_id=run_id, status=Verdict.FAILED, exit_code=1, end_ms=end_ms, output="out\n")
    if where == "spool":
        spool = Spool.open(place.directory / "w1" / "spool")
        await spool.append(record)
        await spool.close()
    else:
        await world.runlog.write([record])
    [request] = await followed(place, world, run_id)
    assert (request.run_id.attempt, request.origin, request.not_before_ms) == (2, Origin.RETRY, end_ms + 600_000)
    assert (await world.record(run_id))["status"] == "failed"


async def test_ended_run_of_a_former_life_has_had_what_follows(place: Place, world: World) -> None:
    job = await world.save(retry={"limit": 2, "delaySeconds": 600}, onWorkerLost="rerun", overlap="allow")
    run_id = await of_a_former_life(place, world, revision=job.mod_revision, locked=False, state=EntryState.ENDED)
    end_ms = SystemClock().wall_ms()
    await world.runlog.write([RunRecord(run_id=run_id, status=Verdict.FAILED, exit_code=1, end_ms=end_ms)])
    assert await followed(place, world, run_id) == []


@pytest.mark.filterwarnings(PYMONGO_DROPS_A_SOCKET)
@pytest.mark.parametrize("overlap", ["skip", "allow"])
async def test_ended_run_of_a_former_life_waits_for_a_log_store_that_does_not_answer(
    place: Place, world: World, log_store: LogStore, overlap: str
) -> None:
    """etcd knows of its end, and the spool has let go of its record: no alert says that it was lost."""
    job = await world.save(onWorkerLost="rerun", overlap=overlap)
    state = EntryState.OPEN if overlap == "skip" else EntryState.ENDED
    run_id = await of_a_former_life(place, world, revision=job.mod_revision, locked=overlap == "skip", state=state)
    await world.etcd.delete(world.keys.lock("job"))
    await world.runlog.write([RunRecord(run_id=run_id, status=Verdict.SUCCESS)])
    async with Proxy(f"127.0.0.1:{to_disturb(log_store).port}", http2=False) as proxy:
        proxy.set(Mode.RESET)
        async with working(place, mongodb_uri=f"mongodb://{proxy.endpoint}/") as worker:
            await worker.deciding()
            entry = await world.entry(run_id)
            assert entry is not None
            assert (entry.state, entry.session) == (state, worker.session.id)
            await world.etcd.put(world.keys.run(run_id), entry.to_json())  # a write in doubt would have done this
            await lose_session(worker, world)
            entry = await world.entry(run_id)
            assert entry is not None
            assert (entry.state, entry.session) == (state, worker.session.id)
            proxy.set(Mode.PASS)
            await wait_until(lambda: not_there(world, run_id), description="its key is deleted")
            await wait_until(lambda: worker.parts.spool.pending == 0, description="all is delivered")
    record = await world.record(run_id)
    assert (record["status"], record.get("late", False)) == ("success", False)
    assert await world.runlog.outbox.read(10) == []
    assert await world.requests() == []


async def test_lost_run_of_a_former_life_is_run_again_by_the_jobs_wish(place: Place, world: World) -> None:
    job = await world.save(onWorkerLost="rerun")
    run_id = await of_a_former_life(place, world, revision=job.mod_revision)
    async with working(place):
        again = await world.record(RunId(run_id.job, run_id.fire, 2))
        assert (again["status"], again["trigger"]) == ("success", "rerun")
        assert (await world.record(run_id))["reason"] == "worker restarted"


async def test_chain_of_a_former_life_goes_on(place: Place, world: World) -> None:
    job = await world.save(after="600s")
    run_id = await of_a_former_life(place, world, revision=job.mod_revision)
    [request] = await followed(place, world, run_id)
    assert request.origin is Origin.CHAIN
