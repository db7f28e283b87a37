"""A worker's presence in etcd, and its end."""

from __future__ import annotations

import json
import logging
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from common.process.runtime import machine_load
from common.protocol.member import Beat
from common.protocol.txn import Put, Txn
from tests.support.cluster import Process
from tests.support.etcd_server import EtcdServer, usual_etcd
from tests.support.waiting import wait_until
from tests.support.working import SHORT_TTL_S, Place, World, working
from worker.identity import CopiedDirectoryError
from worker.registry import NameTakenError

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]


async def not_accepting(world: World) -> str | None:
    (kv,) = await world.sessions()
    fault: str | None = json.loads(kv.value).get("notAccepting")
    return fault


async def test_a_worker_says_who_it_is_and_beats(place: Place, world: World) -> None:
    async with working(place, labels={"zone": "eu"}) as worker:
        await worker.deciding()
        (kv,) = await world.sessions()
        assert kv.key == world.keys.worker("w1", worker.session.id)
        document = json.loads(kv.value)
        assert document["instance"] == worker.identity.instance
        assert document["labels"] == {"zone": "eu"}
        beat_key = world.keys.beat("w1")
        await wait_until(lambda: world.has(beat_key), description="it beats")
        beat = await world.etcd.get(beat_key)
        assert beat is not None
        assert Beat.from_json(beat.value).free_slots == 4
        assert beat.lease == worker.session.lease_id


async def test_the_session_is_gone_when_a_worker_has_stopped(place: Place, world: World) -> None:
    async with working(place) as worker:
        await worker.deciding()
    assert await world.sessions() == []
    assert not await world.has(world.keys.beat("w1"))
    assert not await world.has(world.keys.steward)


async def test_one_that_takes_no_fires_says_so_and_is_not_ranked(place: Place, world: World) -> None:
    async with working(place, "w1") as one, working(place, "w2") as other:
        await one.deciding()
        await other.deciding()
        await wait_until(lambda: len(other.parts.members.accepting()) == 2, description="both are ranked")
        await one.agent.spool_refuses("the disk is full")
        assert await not_accepting(world) == "the disk is full"
        await wait_until(lambda: list(other.parts.members.accepting()) == ["w2"], description="one is not ranked")
        await one.agent.spool_refuses(None)
        await wait_until(lambda: len(other.parts.members.accepting()) == 2, description="both are ranked again")


async def test_one_reason_of_two_that_goes_lets_no_fires_in(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "worker.registry")
    async with working(place) as worker:
        await worker.deciding()
        spool, clock = worker.agent.spool_refuses, worker.agent.clock_judged
        for say, fault in ((spool, "full"), (clock, "off"), (spool, None), (clock, None)):
            await say(fault)
    told = [one.getMessage() for one in caplog.records if getattr(one, "action", "") == "worker.accepting"]
    assert told[:4] == [
        "takes no new fires: full", "takes no new fires: full; off", "takes no new fires: off", "takes new fires",
    ]  # fmt: skip


async def test_what_changed_while_etcd_was_away_is_published_later(place: Place, world: World) -> None:
    async with working(place) as worker:
        await worker.deciding()
        registry = worker.parts.registry
        session, registry.session = registry.session, None
        await worker.agent.spool_refuses("full")
        assert await not_accepting(world) is None
        registry.session = session

        async def published() -> bool:
            return await not_accepting(world) == "full"

        await wait_until(published, description="it is published with the next beat")


async def test_a_name_that_another_instance_has_is_refused(place: Place, world: World, tmp_path: Path) -> None:
    async with working(place) as worker:
        await worker.deciding()
        with pytest.raises(ExceptionGroup) as raised:
            async with working(place, "w1", data_dir=tmp_path / "another") as second:
                await wait_until(second.task.done, description="it gives up")
        error = raised.value
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        assert isinstance(error, NameTakenError)
        assert "'w1'" in str(error)
        assert len(await world.sessions()) == 1


async def test_a_copy_of_its_data_directory_under_another_name_is_refused(place: Place, world: World) -> None:
    async with working(place) as worker:
        await worker.deciding()
        copied = place.directory / "copied"
        copied.mkdir()
        (copied / "instance").write_text(worker.identity.instance)
        await world.open_run(worker="w1", session=worker.session.id, instance=worker.identity.instance)
        with pytest.raises(ExceptionGroup) as raised:
            async with working(place, "w2", data_dir=copied, lease_ttl_s=SHORT_TTL_S) as second:
                await wait_until(second.task.done, description="it gives up")
        error = raised.value
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        assert isinstance(error, CopiedDirectoryError)
        assert f"another live worker (w1 on {worker.identity.host})" in str(error)
        assert await world.sessions("w2") == []
        assert len(await world.entries()) == 1, "it has settled nothing"


async def test_its_own_session_of_another_name_is_waited_for(place: Place, world: World) -> None:
    async with working(place) as worker:
        await worker.deciding()
        value = (await world.sessions())[0].value
    lease = await world.etcd.lease_grant(SHORT_TTL_S)
    await world.etcd.put(world.keys.worker("before", f"{lease.id:x}"), value, lease=lease.id)
    async with working(place, lease_ttl_s=30) as worker:
        await worker.deciding()
        assert await world.sessions("before") == []


async def test_the_process_says_that_its_name_is_taken(place: Place, tmp_path: Path) -> None:
    async with working(place) as worker:
        await worker.deciding()
        flags = ("--etcd-endpoints", place.etcd, "--key-prefix", place.prefix, "--worker-name", "w1",
                 "--mongodb-uri", place.log_store, "--mongodb-database", place.database,
                 "--data-dir", str(tmp_path / "x"))  # fmt: skip
        second = Process("worker", "second", tmp_path / "second", flags)
        second.start()
        try:
            popen = second.popen
            assert popen is not None
            await wait_until(lambda: popen.poll() is not None, description="it has ended")
            assert popen.returncode == 4
            assert "another live worker is called 'w1'" in second.log
            assert "Traceback" not in second.log
        finally:
            second.destroy()


async def test_own_dead_sessions_are_replaced_at_once(place: Place, world: World) -> None:
    async with working(place) as worker:
        await worker.deciding()
        value = (await world.sessions())[0].value
    lease = await world.etcd.lease_grant(60)
    dead = [world.keys.worker("w1", f"{lease.id:x}"), world.keys.worker("w1", "77"), world.keys.worker("w1", "78")]
    await world.etcd.txn(Txn([], [Put(dead[0], value, lease.id), Put(dead[1], value), Put(dead[2], value)]))
    async with working(place) as worker:
        await worker.deciding()
        (kv,) = await world.sessions()
        assert kv.key not in dead


async def test_a_detached_key_of_nobody_does_not_bar_the_name_for_ever(place: Place, world: World) -> None:
    await world.etcd.put(world.keys.worker("w1", "77"), b"garbage")
    async with working(place, lease_ttl_s=SHORT_TTL_S) as worker:  # it is deleted after so long, twice
        await worker.deciding()
        (kv,) = await world.sessions()
        assert kv.lease == worker.session.lease_id


async def test_a_lost_session_is_followed_by_a_new_one(place: Place, world: World) -> None:
    async with working(place) as worker:
        await worker.deciding()
        first = worker.session
        await world.etcd.lease_revoke(first.lease_id)
        await worker.deciding_after(first)
        assert worker.session is not first


async def test_a_detached_key_is_not_ranked_and_is_put_again(place: Place, world: World) -> None:
    async with working(place, "w1") as one, working(place, "w2") as other:
        await one.deciding()
        await other.deciding()
        await wait_until(lambda: len(other.parts.members.accepting()) == 2, description="both are ranked")
        (kv,) = await world.sessions()
        await world.etcd.put(kv.key, kv.value)
        await wait_until(lambda: list(other.parts.members.accepting()) == ["w2"], description="it counts for nothing")
        assert one.session.id in other.parts.members.sessions
        await wait_until(lambda: len(other.parts.members.accepting()) == 2, description="it is attached again")
        (kv,) = await world.sessions()
        assert kv.lease == one.session.lease_id


async def test_waits_for_etcd_and_says_where_it_looked(
    place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = EtcdServer(usual_etcd(), tmp_path / "late")
    try:
        async with working(place, etcd=server.endpoint) as worker:
            await wait_until(lambda: "waits for etcd" in caplog.text, description="it says that it waits")
            assert server.endpoint in caplog.text
            server.launch()
            await worker.deciding()
    finally:
        server.destroy()


async def test_a_machine_out_of_descriptors_still_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("psutil.virtual_memory", refuse)
    assert machine_load() == (0.0, 0.0)


async def test_a_process_that_is_told_to_stop_while_etcd_is_away_ends_promptly(tmp_path: Path, place: Place) -> None:
    flags = (
        "--etcd-endpoints", "127.0.0.1:1", "--data-dir", str(tmp_path / "x"),
        "--mongodb-uri", place.log_store, "--mongodb-database", place.database,
    )  # fmt: skip
    process = Process("worker", "w", tmp_path / "w", flags)
    process.start()
    try:
        await wait_until(lambda: "waits for etcd" in process.log, description="it waits for etcd")
        assert "127.0.0.1:1" in process.log
        assert await process.end(signal.SIGTERM) == 0
    finally:
        process.destroy()


async def test_closing_opens_no_new_session(place: Place, world: World) -> None:
    async with working(place) as worker:
        await worker.deciding()
        registry, close = worker.parts.registry, worker.agent._spool.close

        async def take_a_while() -> None:
            with suppress(AssertionError):
                await wait_until(
                    lambda: registry.session is not None,
                    description="a new session",
                    timeout=1.5,  # a time, not a deadline: none is to come
                )
            await close()

        worker.agent._spool.close = take_a_while  # type: ignore[method-assign]
        worker.stop.request("enough")
        await wait_until(worker.task.done, description="it has stopped")
        assert await world.sessions() == []
