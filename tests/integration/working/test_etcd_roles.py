"""Managers and workers have a user each in etcd: a worker's is enough for all that it does, and for nothing else."""

from __future__ import annotations

import logging
import subprocess
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped,unused-ignore]
import grpc.aio  # type: ignore[import-untyped,unused-ignore]
import pytest
from aetcd import rpc

from common.clock import SystemClock
from common.errors import ConfigError, EtcdAccessError
from common.etcd import EtcdClient, EtcdUser, _rpc, check_access
from common.protocol.access_keys import AccessKeys
from common.protocol.compares import absent
from common.protocol.keys import RunId, Watched
from common.protocol.permissions import May, of_manager, of_worker
from common.protocol.txn import Delete, Get, Put, Txn
from common.runlog import RunLog
from tests.support import managing as of_managers
from tests.support.etcd_auth import PASSWORD, Admin
from tests.support.etcd_server import EtcdServer, usual_etcd
from tests.support.log_store import LogStore
from tests.support.managing import Managed, managing
from tests.support.waiting import wait_until
from tests.support.working import NEVER, Place, Working, World, working

EACH_SECOND = "* * * * * * *"
WORKER, MANAGER = (EtcdUser.with_password(name, PASSWORD) for name in ("worker", "manager"))


@dataclass(slots=True, kw_only=True)
class Divided:
    """A worker and a manager, each under its own user of etcd."""

    world: World
    worker: Working
    manager: Managed


@pytest.fixture
async def own_etcd(tmp_path: Path) -> AsyncIterator[EtcdServer]:
    """That asks for passwords."""
    async with EtcdServer(usual_etcd(), tmp_path / "etcd") as server:
        yield server


@pytest.fixture
async def place(own_etcd: EtcdServer, log_store: LogStore, tmp_path: Path) -> Place:
    place = Place.new(tmp_path, etcd=own_etcd.endpoint, log_store=log_store.uri)
    async with Admin(own_etcd.endpoint) as admin:
        await admin.enable_roles(manager=of_manager(place.prefix), worker=of_worker(place.prefix))
    return place


@pytest.fixture
async def world(place: Place) -> AsyncIterator[World]:
    async with (
        EtcdClient([place.etcd], user=MANAGER, clock=SystemClock()) as etcd,
        RunLog(place.log_store, database=place.database) as runlog,
    ):
        yield World(place=place, etcd=etcd, runlog=runlog)


@pytest.fixture
async def divided(place: Place, world: World, tmp_path: Path) -> AsyncIterator[Divided]:
    password = tmp_path / "password"
    password.write_text(PASSWORD)
    there = of_managers.Place(
        etcd=place.etcd, log_store=place.log_store, prefix=place.prefix, database=place.database
    )  # fmt: skip
    login: dict[str, Any] = {"etcdUser": "manager", "etcdPasswordFile": str(password)}
    async with (
        managing(there, user=MANAGER, loops=True, clock=SystemClock(), others=True, **login) as manager,
        working(place, user=WORKER) as worker,
    ):
        await worker.deciding()
        yield Divided(world=world, worker=worker, manager=manager)


async def test_an_etcd_that_holds_no_user_to_its_role_is_named(divided: Divided, place: Place) -> None:
    """A transaction in a transaction: before 3.4.42, 3.5.28 and 3.6.9 nobody looks what it touches."""
    evil = f"{AccessKeys(place.prefix).prefix}bindings/evil"
    messages = _rpc.messages
    async with grpc.aio.insecure_channel(place.etcd) as channel:
        login = messages.AuthenticateRequest(name="worker", password=PASSWORD)
        token = (await rpc.AuthStub(channel).Authenticate(login)).token
        inner = messages.TxnRequest(success=[{"request_put": {"key": evil.encode(), "value": b"admin"}}])
        outer = messages.TxnRequest(success=[{"request_txn": inner}])
        with suppress(grpc.aio.AioRpcError):
            await rpc.KVStub(channel).Txn(outer, metadata=(("token", token),))
    is_written = await divided.world.etcd.get(evil) is not None
    notes = (await divided.manager.get("/readyz"))["notes"]
    assert any("read and write every key (CVE-2026-33343)" in note for note in notes) == is_written


async def test_a_worker_lives_its_whole_life_under_its_role(
    divided: Divided, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    world, manager, worker = divided.world, divided.manager, divided.worker
    caplog.set_level(logging.INFO)

    async def save(name: str, **fields: object) -> None:
        await manager.call("PUT", f"/api/v1/jobs/{name}", {"cronExpr": NEVER, "command": "true", **fields})

    async def has(job: str, status: str) -> None:
        async def found() -> bool:
            return any(one["status"] == status for one in await world.records(job))

        await wait_until(found, description=f"a record of {job}: {status}")

    await save("seconds", cronExpr=EACH_SECOND, jitterSeconds=1)
    await save("failing", cronExpr=EACH_SECOND, command="false", retry={"limit": 1, "delaySeconds": 0}, overlap="allow")
    await manager.call("PUT", "/api/v1/jobs/chain", {"after": "1s", "command": "true"})
    await save("each", cronExpr=EACH_SECOND, broadcast=True)
    await save("queued", cronExpr=EACH_SECOND, command="sleep 1.5", overlap="queue")
    await save("replaced", cronExpr=EACH_SECOND, command="sleep 300", overlap="replace", killGraceSeconds=1)
    await save("killed", command="sleep 300")
    for job in ("seconds", "chain", "each", "queued"):
        await has(job, "success")
    await has("failing", "failed")
    await has("replaced", "killed")
    answer = await manager.call("POST", "/api/v1/jobs/killed/run", {"args": ["x"], "env": {"A": "1"}})
    run = RunId.parse(answer["runId"])
    await wait_until(lambda: run in worker.running(), description="it runs")
    await manager.call("POST", f"/api/v1/runs/{str(run).replace('#', '%23')}/kill", {})
    assert (await world.record(run))["status"] == "killed"
    # What the steward does
    await save("lost")
    await world.open_run(name="lost", lost_after_ms=2000, locked=True)
    await has("lost", "lost")
    await manager.call("POST", "/api/v1/workers/w1/drain", {"reason": "a look"})
    await wait_until(lambda: not worker.parts.admission.takes_fires, description="it is drained")
    await manager.call("POST", "/api/v1/workers/w1/undrain", {})
    await worker.deciding()
    await manager.call("DELETE", "/api/v1/jobs/each")
    assert worker.parts.refusals.problem is None
    assert worker.parts.steward.not_permitted is None
    assert "permission" not in caplog.text


async def test_attack_a_workers_account_that_writes_jobs_versions_drains_or_rights(place: Place, world: World) -> None:
    keys, access = world.keys, AccessKeys(place.prefix)
    await world.etcd.put(access.user("alice"), b"{}")
    await world.save("job")
    async with EtcdClient([place.etcd], user=WORKER, clock=SystemClock()) as worker:
        assert await worker.get(keys.job("job")) is not None
        for key in (keys.job("job"), keys.version("job", 1), keys.drain("w1"), access.user("alice"), "/elsewhere"):
            for operation in (Put(key, b"{}"), Delete(key)):
                with pytest.raises(EtcdAccessError, match=r"permission|may not"):
                    await worker.txn(Txn([], [operation]))
                # Nor in a branch that does not run, beside what it may write.
                with pytest.raises(EtcdAccessError):
                    await worker.txn(Txn([absent(keys.mark("job"))], [Put(keys.seen(Watched.JOBS), b""), operation]))
        for key in (access.user("alice"), access.prefix, keys.version("job", 1)):
            with pytest.raises(EtcdAccessError):
                await worker.get(key)
            with pytest.raises(EtcdAccessError):
                await worker.txn(Txn([], [Get(key)]))
            with pytest.raises(EtcdAccessError):
                [page async for page in worker.read_prefix(key)]
        with pytest.raises(EtcdAccessError):
            [page async for page in worker.read_prefix(keys.prefix)]
        await worker.put(keys.seen(Watched.JOBS), b"")


async def test_each_is_told_at_its_start_which_permission_is_missing(own_etcd: EtcdServer) -> None:
    needed = of_worker("/etcron")
    lacking = [one for one in needed if not one.prefix.endswith(("/marks/", "/drains/"))]
    old = [one for one in of_manager("/etcron") if "-auth" not in one.prefix]
    async with Admin(own_etcd.endpoint) as admin:
        await admin.enable_roles(manager=old, worker=lacking)
    async with EtcdClient([own_etcd.endpoint], user=WORKER, clock=SystemClock()) as worker:
        with pytest.raises(ConfigError) as refused:
            await check_access(worker, needed)
        assert [problem.remedy for problem in refused.value.problems] == [
            "etcdctl role grant-permission ROLE read --prefix=true /etcron/drains/",
            "etcdctl role grant-permission ROLE readwrite --prefix=true /etcron/marks/",
        ]
    async with EtcdClient([own_etcd.endpoint], user=MANAGER, clock=SystemClock()) as manager:
        await check_access(manager, needed)  # a wider role is enough
        with pytest.raises(ConfigError, match="readwrite --prefix=true /etcron-auth/"):
            await check_access(manager, of_manager("/etcron"))


def test_the_script_for_operators_grants_what_is_needed_and_nothing_else() -> None:
    script = Path(__file__).parents[3] / "deploy" / "etcd-roles.sh"
    printed = subprocess.run(["/bin/sh", str(script), "/etcron/"], capture_output=True, text=True, check=True).stdout
    for role, needed in (("etcron-manager", of_manager("/etcron")), ("etcron-worker", of_worker("/etcron"))):
        granted = [line for line in printed.splitlines() if f"grant-permission {role} " in line]
        assert granted == [one.command.format(role=role) for one in needed]


def test_a_worker_writes_neither_jobs_nor_what_managers_alone_decide() -> None:
    writes = {one.prefix for one in of_worker("/etcron") if one.may is May.READ_AND_WRITE}
    for key in ("/etcron/jobs/j", "/etcron/versions/j/1", "/etcron/drains/w", "/etcron/rules/r", "/etcron/channels/c",
                "/etcron/silences/s", "/etcron/tails/w/j/1/1/m", "/etcron-auth/users/alice"):  # fmt: skip
        assert not any(key.startswith(prefix) for prefix in writes)


async def test_worker_whose_role_may_not_read_rules_goes_on_and_tells_problems(
    own_etcd: EtcdServer, log_store: LogStore, tmp_path: Path
) -> None:
    place = Place.new(tmp_path, etcd=own_etcd.endpoint, log_store=log_store.uri)
    of_an_older_version = [one for one in of_worker(place.prefix) if one.is_needed]
    async with Admin(own_etcd.endpoint) as admin:
        await admin.enable_roles(manager=of_manager(place.prefix), worker=of_an_older_version)
    async with (
        EtcdClient([place.etcd], user=MANAGER, clock=SystemClock()) as etcd,
        RunLog(place.log_store, database=place.database) as runlog,
        working(place, user=WORKER) as worker,
    ):
        world = World(place=place, etcd=etcd, runlog=runlog)
        await check_access(worker.client, of_worker(place.prefix))
        await worker.deciding()
        job = await world.save("job", "exit 3")
        run = await world.ask(job, SystemClock().wall_ms())

        async def told() -> bool:
            return [str(run)] == [one.run for document in await runlog.outbox.read(9) for one in document.events]

        await wait_until(told, description="the failure is told")
