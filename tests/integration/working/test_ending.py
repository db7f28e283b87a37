"""A run of which something lives that cannot be ended: its record is there, and its lock waits."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from common.clock import SystemClock
from common.protocol.give_up import GiveUp
from common.protocol.keys import RunId
from common.protocol.member import Beat
from common.protocol.run import EntryState
from common.protocol.txn import Delete, KeyValue, Txn, TxnResult
from tests.support.cluster import Process
from tests.support.dead_mount import DeadMount
from tests.support.unendable import leaves, left
from tests.support.waiting import wait_until
from tests.support.working import Place, Working, World, working

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]


RETRIED: dict[str, Any] = {"retry": {"limit": 2, "delaySeconds": 600}}


def process_of(place: Place) -> Process:
    """A worker that can be killed."""
    flags = (
        f"--etcd-endpoints={place.etcd}", f"--mongodb-uri={place.log_store}", f"--mongodb-database={place.database}",
        f"--key-prefix={place.prefix}", f"--data-dir={place.directory / 'w1'}", "--worker-name=w1",
    )  # fmt: skip
    return Process("worker", "w1", place.directory / "process", flags)


def has_its_process(place: Place) -> bool:
    """Whether the guardian has taken in the only run's process, which may be gone soon."""
    guardian = (place.directory / "w1" / "guardian.lock").read_text().strip()
    return any("pidfd" in os.path.realpath(one) for one in Path(f"/proc/{guardian}/fd").iterdir())


async def is_locked(world: World) -> bool:
    return await world.has(world.keys.lock("job"))


async def is_settled(world: World, run_id: RunId) -> bool:
    return not await world.has(world.keys.run(run_id)) and not await is_locked(world)


async def beat(world: World) -> Beat:
    kv = await world.etcd.get(world.keys.beat("w1"))
    assert kv is not None
    return Beat.from_json(kv.value)


async def settled(world: World, run_id: RunId) -> None:
    await wait_until(lambda: is_settled(world, run_id), description="its lock is free, and its key is gone")


async def test_record_comes_at_once_and_lock_and_retry_wait_for_what_cannot_be_ended(
    place: Place, world: World, mount: DeadMount
) -> None:
    async with working(place) as worker:
        await worker.deciding()
        run_id = await left(world, mount, **RETRIED)
        assert (await world.record(run_id))["err"].startswith("exit status 3; could not be ended: processes ")
        assert await is_locked(world)
        assert await world.requests() == []
        assert worker.parts.table.running == 0, "it takes no slot"

        async def is_shown() -> bool:
            shown = await beat(world)
            names = [one.run for one in shown.ending if one.processes]  # which they are is looked up later
            return shown.ending_count == 1 and names == [str(run_id)]

        await wait_until(is_shown, description="the beat shows it and its process")
        [shown] = (await beat(world)).ending
        [process] = shown.processes
        assert "cat" in Path(f"/proc/{process}/stat").read_text()
        mount.come_back()
        await settled(world, run_id)
        [retry] = await world.requests()
        assert retry.run_id.attempt == 2
        assert len(worker.parts.ending) == 0
        assert not (place.directory / "w1" / "ending.json").exists()


async def test_killed_run_names_what_is_left_of_it(place: Place, world: World, mount: DeadMount) -> None:
    async with working(place) as worker:
        await worker.deciding()
        job = await world.save(command=f"cat {mount.directory}/file & sleep 300", killGraceSeconds=0.1)
        run_id = await world.ask(job, SystemClock().wall_ms())
        await wait_until(lambda: mount.taken >= 1, description="its child waits in the kernel")
        await world.kill(run_id)
        assert "could not be ended: processes " in (await world.record(run_id))["err"]
        assert await is_locked(world)
        mount.come_back()
        await settled(world, run_id)


async def test_daemon_in_a_session_of_its_own_holds_nothing(place: Place, world: World, mount: DeadMount) -> None:
    async with working(place) as worker:
        await worker.deciding()
        begins = f"setsid sh -c 'rm $0; exec cat {mount.directory}/file' $f & while [ -e $f ]; do sleep 0.01; done"
        job = await world.save(command=f"f=$(mktemp); {begins}; exit 0")
        run_id = await world.ask(job, SystemClock().wall_ms())
        await wait_until(lambda: mount.taken >= 1, description="the daemon waits in the kernel")
        await settled(world, run_id)


async def test_next_start_of_its_worker_keeps_the_lock_and_frees_it_in_the_end(
    place: Place, world: World, mount: DeadMount
) -> None:
    async with working(place) as worker:
        await worker.deciding()
        run_id = await left(world, mount, **RETRIED)
    async with working(place) as worker:
        await worker.deciding()
        entry = await world.entry(run_id)
        assert entry is not None
        assert entry.session == worker.session.id, "its worker lives, so nobody takes it for lost"
        assert await is_locked(world)
        assert [one.run for one in worker.parts.ending.listed] == [str(run_id)]
        await lose_session(worker, world)
        mount.come_back()
        await settled(world, run_id)
        [retry] = await world.requests()
        assert retry.run_id.attempt == 2
        assert (await world.record(run_id))["status"] == "failed"


async def test_record_is_asked_for_until_the_log_store_answers_though_its_processes_went_with_the_machine(
    place: Place, world: World, mount: DeadMount
) -> None:
    """A boot ends what no signal does. It had succeeded, so it is not run again."""
    file = place.directory / "w1" / "ending.json"
    async with working(place) as worker:
        await worker.deciding()
        run_id = await left(world, mount, "exit 0", onWorkerLost="rerun")
        await wait_until(lambda: worker.parts.spool.pending == 0, description="the spool has let its record go")
        await wait_until(file.exists, description="it is written down")
        [shown] = worker.parts.ending.listed
    file.write_text(json.dumps({**json.loads(file.read_text()), "machine": "of another boot"}))
    mount.come_back()
    await wait_until(lambda: not os.path.exists(f"/proc/{shown.processes[0]}"), description="it is gone")
    for _ in range(2):
        async with working(place, mongodb_uri="mongodb://127.0.0.1:1/") as worker:
            await worker.deciding()
            await lose_session(worker, world)
            entry = await world.entry(run_id)
            assert entry is not None
            assert (entry.state, entry.session) == (EntryState.OPEN, worker.session.id)
            assert len(worker.parts.ending) == 0
    async with working(place) as worker:
        await worker.deciding()
        await settled(world, run_id)
        assert (await world.record(run_id))["status"] == "success"
        assert await world.requests() == []
        await wait_until(lambda: not file.exists(), description="nothing is left to be written down")


async def test_run_that_changes_while_it_is_settled_is_settled_all_the_same(
    place: Place, world: World, mount: DeadMount, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with working(place) as worker:
        await worker.deciding()
        run_id = await left(world, mount)
    async with working(place) as worker:
        await worker.deciding()
        send, lock, key, met = worker.client.txn, world.keys.lock("job"), world.keys.run(run_id), list[str]()

        async def after_another_write(transaction: Txn) -> TxnResult:
            if Delete(lock) in transaction.then and not met:
                met.append(lock)
                entry = await world.entry(run_id)
                assert entry is not None
                await world.etcd.put(key, entry.to_json())
            return await send(transaction)

        monkeypatch.setattr(worker.client, "txn", after_another_write)
        mount.come_back()
        await settled(world, run_id)
        assert met, "somebody came between"


async def lose_session(worker: Working, world: World) -> None:
    first = worker.session
    await world.etcd.lease_revoke(first.lease_id)
    await worker.deciding_after(first)


async def test_group_that_is_gone_by_the_next_start_holds_nothing(place: Place, world: World, mount: DeadMount) -> None:
    async with working(place) as worker:
        await worker.deciding()
        run_id = await left(world, mount)
        await wait_until(
            lambda: bool(worker.parts.ending.listed[0].processes), description="what is left of it is seen"
        )
        [process] = worker.parts.ending.listed[0].processes
    mount.come_back()
    await wait_until(lambda: not os.path.exists(f"/proc/{process}"), description="it is gone")
    async with working(place) as worker:
        await worker.deciding()
        await settled(world, run_id)
        assert len(worker.parts.ending) == 0


async def wish(world: World, run_id: RunId) -> KeyValue:
    key = world.keys.give_up(run_id)
    give_up = GiveUp(run_id=run_id, by="ann", at_ms=SystemClock().wall_ms(), reason="it burned", is_of_ending=True)
    await world.etcd.put(key, give_up.to_json())
    kv = await world.etcd.get(key)
    assert kv is not None
    return kv


async def given_up(worker: Working, world: World, run_id: RunId) -> None:
    """By a user: its lock is freed, whatever lives."""
    await wait_until(lambda: all(one.processes for one in worker.parts.ending.listed), description="they are counted")
    [shown] = worker.parts.ending.listed
    wanted = await wish(world, run_id)
    await settled(world, run_id)
    assert os.path.exists(f"/proc/{shown.processes[0]}"), "it goes on"
    assert (await world.record(run_id))["status"] == "failed", "its record stays"
    await wait_until(lambda: is_swept(world, wanted), description="the wish is swept")


async def test_its_worker_frees_the_lock_of_one_that_is_given_up(
    place: Place, world: World, mount: DeadMount, caplog: pytest.LogCaptureFixture
) -> None:
    async with working(place) as worker:
        await worker.deciding()
        await given_up(worker, world, await left(world, mount))
    assert "is live again" not in caplog.text


async def test_its_worker_does_so_after_a_restart_too(place: Place, world: World, mount: DeadMount) -> None:
    async with working(place) as worker:
        await worker.deciding()
        run_id = await left(world, mount)
    async with working(place) as worker:
        await worker.deciding()
        await given_up(worker, world, run_id)


async def is_swept(world: World, kv: KeyValue) -> bool:
    return not await world.has(kv.key)


async def test_older_wish_is_not_of_this_run(place: Place, world: World, mount: DeadMount) -> None:
    async with working(place) as worker:
        await worker.deciding()
        job = await world.save(command=leaves(mount, "exit 3"), killGraceSeconds=0.1)
        plan_ms = SystemClock().wall_ms()
        await wish(world, RunId.planned("job", plan_ms))
        run_id = await world.ask(job, plan_ms)
        await wait_until(lambda: mount.taken >= 1, description="its child waits in the kernel")
        (mount.directory.parent / "go").touch()
        await world.record(run_id)
        await wait_until(lambda: len(worker.parts.ending) == 1, description="it is ending")
        looked = itertools.count()
        await wait_until(lambda: next(looked) > 30, description="it has looked for wishes")
        assert await is_locked(world)


async def test_lock_is_freed_though_a_name_service_hangs(place: Place, world: World, mount: DeadMount) -> None:
    """Names are looked up in the loop's pool of threads."""
    answers = threading.Event()
    async with working(place) as worker:
        await worker.deciding()
        run_id = await left(world, mount)
    async with working(place) as worker:
        await worker.deciding()
        hung = [asyncio.get_running_loop().run_in_executor(None, answers.wait) for _ in range(64)]
        try:
            mount.come_back()
            await settled(world, run_id)
        finally:
            answers.set()
            await asyncio.gather(*hung)


async def test_runs_of_a_former_life_count_among_those_that_a_job_may_have(
    place: Place, world: World, mount: DeadMount, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.dispatcher.MOST_STUCK_RUNS", 1)
    async with working(place) as worker:
        await worker.deciding()
        await left(world, mount, overlap="allow")
    async with working(place) as worker:
        await worker.deciding()
        job = await world.etcd.get(world.keys.job("job"))
        assert job is not None
        record = await world.record(await world.ask(job, SystemClock().wall_ms()))
        assert (record["status"], record["reason"]) == ("skipped", "1 runs of it on worker w1 cannot be ended")


async def test_lock_passes_on_where_the_worker_is_gone_for_too_long(
    place: Place, world: World, mount: DeadMount
) -> None:
    async with working(place) as worker:
        await worker.deciding()
        run_id = await left(world, mount)
    entry = await world.entry(run_id)
    assert entry is not None
    await world.etcd.put(world.keys.run(run_id), replace(entry, lost_after_ms=1000).to_json())
    async with working(place, "w2") as worker:
        await worker.deciding()
        await settled(world, run_id)
        assert (await world.record(run_id))["status"] == "failed", "by its record, not as lost"


async def test_guardian_knows_of_it_until_it_is_written_down(place: Place, world: World, mount: DeadMount) -> None:
    """The disk refuses it, and the worker is killed."""
    in_the_way = place.directory / "w1" / "ending.new"
    process = process_of(place)
    process.start()
    try:
        gate = place.directory / "gate"
        command = f"trap '' TERM; env -i cat {mount.directory}/file & until [ -e {gate} ]; do sleep 0.05; done; exit 3"
        job = await world.save(command=command, killGraceSeconds=1)
        run_id = await world.ask(job, SystemClock().wall_ms())
        await wait_until(lambda: mount.taken >= 1, description="its child waits in the kernel")
        await wait_until(lambda: has_its_process(place), description="the guardian knows its process")
        in_the_way.mkdir()
        gate.touch()
        await world.record(run_id)
        assert process.popen is not None
        process.popen.send_signal(signal.SIGSTOP)  # once the disk takes it again it writes nothing: its guardian does
        in_the_way.rmdir()
        await process.end(signal.SIGKILL)
        async with working(place) as worker:
            await worker.deciding()
            assert run_id in worker.parts.ending
            assert await is_locked(world)
            mount.come_back()
            await settled(world, run_id)
            assert (await world.record(run_id))["status"] == "failed"
    finally:
        process.destroy()


async def test_run_that_was_settled_while_its_worker_was_away_is_ending_no_more(
    place: Place, world: World, mount: DeadMount
) -> None:
    async with working(place) as worker:
        await worker.deciding()
        run_id = await left(world, mount)
    await world.etcd.delete(world.keys.run(run_id))
    await world.etcd.delete(world.keys.lock("job"))
    async with working(place) as worker:
        await worker.deciding()
        assert worker.parts.ending.listed == ()


async def test_what_the_disk_refuses_to_take_is_written_down_later(
    place: Place, world: World, mount: DeadMount
) -> None:
    in_the_way = place.directory / "w1" / "ending.new"
    async with working(place) as worker:
        await worker.deciding()
        in_the_way.mkdir()
        run_id = await left(world, mount)
        in_the_way.rmdir()
        await wait_until((place.directory / "w1" / "ending.json").exists, description="it is written down")
    async with working(place) as worker:
        await worker.deciding()
        assert run_id in worker.parts.ending


@pytest.mark.parametrize(("then", "is_given_up"), [("sleep 300", True), ("exit 3", False)])
async def test_what_the_guardian_could_not_end_keeps_its_lock(
    place: Place, world: World, mount: DeadMount, then: str, is_given_up: bool
) -> None:
    """The worker is killed while the run goes on, or is ended; the guardian gives up after ten seconds."""
    process = process_of(place)
    process.start()
    try:
        # A cleared environment: nothing but the guardian's word tells whose it is.
        gate, leader = place.directory / "gate", place.directory / "leader"
        begins = f"trap '' TERM; echo $$ > {leader}; env -i cat {mount.directory}/file"
        command = f"{begins} & until [ -e {gate} ]; do sleep 0.05; done; {then}"
        job = await world.save(command=command, killGraceSeconds=1)
        run_id = await world.ask(job, SystemClock().wall_ms())
        await wait_until(lambda: mount.taken >= 1, description="its child waits in the kernel")
        await wait_until(lambda: has_its_process(place), description="the guardian knows its process")
        gate.touch()
        if not is_given_up:
            gone = Path(f"/proc/{leader.read_text().strip()}")
            await wait_until(lambda: not gone.exists(), description="its first process has ended")
        await process.end(signal.SIGKILL)
        file = place.directory / "w1" / "ending.json"
        await wait_until(file.exists, description="the guardian has given up")
        async with working(place) as worker:
            await worker.deciding()
            assert await is_locked(world)
            if is_given_up:
                await wish(world, run_id)
            else:
                mount.come_back()
            await settled(world, run_id)
            why = "given up by ann: it burned" if is_given_up else "worker restarted"
            assert (await world.record(run_id))["reason"] == why
    finally:
        process.destroy()
