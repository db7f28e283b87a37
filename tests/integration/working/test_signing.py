"""A worker runs what a manager has signed. Each attack is by one who may write anything to etcd, and has no key."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from cli.__main__ import main
from common.access.audit_chain import Note
from common.access.rights import Role
from common.clock import SystemClock
from common.jobs.reader import parse_job
from common.protocol import audit_notes
from common.protocol.access_keys import AccessKeys
from common.protocol.keys import RunId
from common.protocol.run import RunEntry
from common.protocol.saved_job import SavedJob
from common.protocol.signatures import SigningMode
from common.protocol.txn import Put, Txn
from manager.use_cases.run_now import granted
from tests.support.access import Accessing
from tests.support.managing import Managed
from tests.support.signing import Signing, asked_for, put_job, put_request
from tests.support.waiting import wait_until
from tests.support.working import NEVER, Place, Working, World

EACH_SECOND = "* * * * * * *"


@pytest.fixture
def signing(place: Place) -> Signing:
    return Signing.at(place)


@pytest.fixture
async def manager(signing: Signing) -> AsyncIterator[Managed]:
    async with signing.managing() as manager:
        yield manager


@pytest.fixture
async def worker(signing: Signing, manager: Managed) -> AsyncIterator[Working]:
    """One that requires signatures, and takes fires; a job of its manager's fires each second."""
    async with signing.working() as worker:
        await save(manager, "witness", command="true", cronExpr=EACH_SECOND)
        await worker.deciding()
        yield worker


async def save(manager: Managed, name: str, **fields: Any) -> None:
    await manager.call("PUT", f"/api/v1/jobs/{name}", {"cronExpr": NEVER, **fields})


async def ask(manager: Managed, name: str, **body: Any) -> RunId:
    answer = await manager.call("POST", f"/api/v1/jobs/{name}/run", body)
    return RunId.parse(answer["runId"])


async def value_of(world: World, name: str) -> bytes:
    kv = await world.etcd.get(world.keys.job(name))
    assert kv is not None
    return kv.value


async def is_set_aside(worker: Working, name: str) -> str:
    aside = worker.parts.catalog.set_aside
    await wait_until(lambda: name in aside, description=f"{name} is set aside")
    return aside[name]


async def witness_fires(worker: Working, world: World, times: int = 2) -> None:
    """What is due meanwhile runs: the worker has had its turns at everything else, too."""
    before = len(await world.records("witness"))

    async def fired() -> bool:
        return len(await world.records("witness")) >= before + times

    await wait_until(fired, description="the witness fires")
    assert not worker.task.done()


def touching(path: Path) -> str:
    return f"touch {path}"


# What is signed runs


async def test_a_signed_job_fires_and_its_runs_are_asked_for_killed_and_tried_again(
    manager: Managed, worker: Working, world: World, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    command = f'echo "$1 $WHO" >> {out}; test "$(wc -l < {out})" -ge 2'
    await save(manager, "job", command=command, retry={"limit": 2, "delaySeconds": 0})
    first = await ask(manager, "job", args=["hello"], env={"WHO": "me"})
    again = RunId(first.job, first.fire, 2)
    assert (await world.record(again))["status"] == "success"
    assert out.read_text() == "hello me\nhello me\n"
    await save(manager, "long", command="sleep 300")
    run = await ask(manager, "long")
    await wait_until(lambda: run in worker.running(), description="it runs")
    await manager.call("POST", f"/api/v1/runs/{str(run).replace('#', '%23')}/kill", {})
    assert (await world.record(run))["status"] == "killed"
    assert worker.parts.verifier.problem is None


async def test_a_pause_and_what_follows_it_stay_signed(manager: Managed, worker: Working, world: World) -> None:
    await save(manager, "job", command="true")
    for step in ("pause", "resume"):
        await manager.call("POST", f"/api/v1/jobs/job/{step}", {})
    run = await ask(manager, "job")
    assert (await world.record(run))["status"] == "success"
    await manager.call("DELETE", "/api/v1/jobs/job")
    await save(manager, "job", command="echo again")
    assert (await world.record(await ask(manager, "job")))["output"] == "again\n"


async def test_a_newer_fire_replaces_a_run_although_workers_sign_nothing(
    manager: Managed, worker: Working, world: World
) -> None:
    await save(manager, "job", command="sleep 300", cronExpr=EACH_SECOND, overlap="replace", killGraceSeconds=1)

    async def replaced() -> bool:
        return any(one["status"] == "killed" for one in await world.records())

    await wait_until(replaced, description="a run is replaced")


async def test_with_warn_what_is_not_signed_runs_and_is_told_of(
    signing: Signing, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async with signing.working(mode=SigningMode.WARN) as worker:
        await worker.deciding()
        await world.save(command="echo hello")
        request = await asked_for(world, "job", "r-1-a", args=("x",))
        await wait_until(lambda: "job" in worker.parts.catalog.jobs, description="it is known")
        await put_request(world, request)
        assert (await world.record(request.run_id))["status"] == "success"
        assert "run all the same" in (worker.parts.verifier.problem or "")
    assert "is not signed" in caplog.text


async def test_while_keys_are_exchanged_both_are_believed(
    signing: Signing, manager: Managed, world: World, place: Place
) -> None:
    new = Signing.at(place, "new.key")
    async with new.managing() as other, signing.working(keys=(place.directory,)) as worker:
        await worker.deciding()
        await save(manager, "old", command="true")
        await save(other, "new", command="true")
        for one, name in ((manager, "old"), (other, "new")):
            assert (await world.record(await ask(one, name)))["status"] == "success"


async def test_a_worker_that_starts_anew_still_knows_the_highest_generation(
    signing: Signing, manager: Managed, world: World
) -> None:
    await save(manager, "job", command="echo old")
    old = await value_of(world, "job")
    await save(manager, "job", command="echo new")
    async with signing.working() as worker:
        await worker.deciding()
        assert (await world.record(await ask(manager, "job")))["output"] == "new\n"
        path = world.place.directory / "w1" / "generations"
        await wait_until(lambda: path.exists() and "job" in path.read_text(), description="it is written down")
    await put_job(world, "job", old)
    async with signing.working() as worker:
        assert "older" in await is_set_aside(worker, "job")


async def test_jobs_that_are_not_signed_are_shown_and_then_exactly_these_are_signed(
    signing: Signing, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    await world.save("first", "echo 1")
    await world.save("second", "echo 2")
    marks = [await world.etcd.get(world.keys.mark(name)) for name in ("first", "second")]
    fingerprint = (await sign_all(signing, capsys)).rpartition(" ")[2]
    await world.save("second", "echo forged meanwhile")
    with pytest.raises(SystemExit):
        await sign_all(signing, capsys, "--yes", fingerprint)
    shown = await sign_all(signing, capsys)
    assert "echo forged meanwhile" in shown
    await sign_all(signing, capsys, "--yes", shown.rpartition(" ")[2])
    assert "every job is signed" in await sign_all(signing, capsys)
    assert (await world.etcd.get(world.keys.mark("first"))) == marks[0]
    async with signing.managing() as manager, signing.working() as worker:
        await worker.deciding()
        assert (await world.record(await ask(manager, "first")))["output"] == "1\n"


async def test_after_a_backup_was_restored_all_jobs_are_signed_anew(
    signing: Signing, manager: Managed, worker: Working, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    await save(manager, "job", command="echo old")
    backup = await value_of(world, "job")
    await save(manager, "job", command="echo new")
    await world.record(await ask(manager, "job"))
    await put_job(world, "job", backup)
    assert "older" in await is_set_aside(worker, "job")
    shown = await sign_all(signing, capsys, "--again")
    fingerprint = shown.rpartition(" ")[2]
    assert await noted(world) == []
    await sign_all(signing, capsys, "--again", "--yes", fingerprint)
    (note,) = await noted(world)
    assert (note.action, note.who) == ("signing.sign-all", f"etcron signing, uid {os.getuid()}")
    of_all = {"fingerprint": fingerprint, "jobs": 2, "names": ["job", "witness"], "again": True}
    assert note.details == {"host": socket.gethostname(), **of_all}
    assert (await world.record(await ask(manager, "job")))["output"] == "old\n"


async def noted(world: World) -> list[Note]:
    """What is left for the audit of the next manager."""
    (notes,) = await world.etcd.read_prefixes(AccessKeys(world.keys.prefix).notes)
    return [audit_notes.read(kv) for kv in notes]


async def sign_all(signing: Signing, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """What it prints; SystemExit where its status is not 0."""
    place = signing.place
    flags = ("--etcd-endpoints", place.etcd, "--key-prefix", place.prefix, "--signing-key-file", str(signing.private))
    capsys.readouterr()
    status = await asyncio.to_thread(main, ["signing", "sign-all", *flags, *options])
    printed = capsys.readouterr()
    if status:
        raise SystemExit(status)
    return (printed.out + printed.err).strip()


# Attacks


async def test_attack_a_spec_that_is_forged_in_etcd_is_set_aside(
    manager: Managed, worker: Working, world: World, tmp_path: Path
) -> None:
    await save(manager, "job", command="true", cronExpr=EACH_SECOND)
    spec = parse_job({"name": "job", "command": touching(tmp_path / "forged"), "cronExpr": EACH_SECOND})
    await put_job(world, "job", SavedJob(spec=spec, anchor_ms=SystemClock().wall_ms()).to_json())
    assert "is not signed" in await is_set_aside(worker, "job")
    await witness_fires(worker, world)
    assert not (tmp_path / "forged").exists()
    assert "job" in (worker.agent.describe().problem or "")


async def test_attack_a_signature_that_is_kept_on_another_command_is_found_before_the_first_claim(
    manager: Managed, worker: Working, world: World, tmp_path: Path
) -> None:
    await save(manager, "job", command="true", cronExpr=EACH_SECOND)
    command = touching(tmp_path / "forged").encode()
    await put_job(world, "job", (await value_of(world, "job")).replace(b'"true"', b'"' + command + b'"'))
    assert "is not what was signed" in await is_set_aside(worker, "job")
    await witness_fires(worker, world)
    assert not (tmp_path / "forged").exists()


async def test_attack_a_signature_is_of_no_use_for_another_job(
    manager: Managed, worker: Working, world: World, tmp_path: Path
) -> None:
    await save(manager, "job", command="true", cronExpr=EACH_SECOND)
    await save(manager, "other", command=touching(tmp_path / "moved"))
    value = (await value_of(world, "other")).replace(b'"other"', b'"job"').replace(NEVER.encode(), EACH_SECOND.encode())
    await put_job(world, "job", value)
    await put_job(world, "third", (await value_of(world, "witness")).replace(b'"witness"', b'"third"'))
    for name in ("job", "third"):
        assert "is not what was signed" in await is_set_aside(worker, name)
    await witness_fires(worker, world)
    assert not (tmp_path / "moved").exists()


async def test_attack_a_signature_is_of_no_use_in_another_cluster(
    signing: Signing, worker: Working, world: World, tmp_path: Path
) -> None:
    spec = parse_job({"name": "job", "command": touching(tmp_path / "moved"), "cronExpr": EACH_SECOND})
    now_ms = SystemClock().wall_ms()
    saved = SavedJob(spec=spec, anchor_ms=now_ms).sealed(signing.seal_for("/another"), now_ms)
    await world.save("job", "true", EACH_SECOND)  # its mark
    await put_job(world, "job", saved.to_json())
    await wait_until(
        lambda: "another cluster" in worker.parts.catalog.set_aside.get("job", ""), description="it is set aside"
    )
    await witness_fires(worker, world)
    assert not (tmp_path / "moved").exists()


async def test_attack_an_old_spec_that_is_put_back_is_older_than_what_was_seen(
    manager: Managed, worker: Working, world: World, tmp_path: Path
) -> None:
    await save(manager, "job", command=touching(tmp_path / "old"))
    old = await value_of(world, "job")
    await save(manager, "job", command="true")
    await world.record(await ask(manager, "job"))
    await put_job(world, "job", old)
    assert "is older than one that was seen here" in await is_set_aside(worker, "job")
    await put_request(world, await asked_for(world, "job", "r-1-a"))
    await witness_fires(worker, world)
    assert not (tmp_path / "old").exists()


async def test_attack_a_command_or_a_pause_that_no_worker_has_run_is_undone_by_the_old_spec(
    manager: Managed, worker: Working, world: World, tmp_path: Path
) -> None:
    """The job fires rarely: nobody claims what is saved now before its old self is put back."""
    generations = world.place.directory / "w1" / "generations"

    async def put_back(name: str, *, after: dict[str, Any] | None) -> None:
        await save(manager, name, command=touching(tmp_path / name))
        await wait_until(lambda: name in worker.parts.catalog.jobs, description="it is known")
        old = await value_of(world, name)
        if after is None:
            await manager.call("POST", f"/api/v1/jobs/{name}/pause", {})
        else:
            await save(manager, name, **after)
        await wait_until(
            lambda: generations.exists() and name in generations.read_text(), description="the newer one is judged"
        )
        await put_job(world, name, old)
        assert "is older than one that was seen here" in await is_set_aside(worker, name)
        await put_request(world, await asked_for(world, name, "r-1-a"))

    await put_back("mended", after={"command": "true"})
    await put_back("paused", after=None)
    await witness_fires(worker, world)
    assert not (tmp_path / "mended").exists()
    assert not (tmp_path / "paused").exists()


async def test_attack_nothing_in_etcd_takes_the_requirement_back(worker: Working, world: World, tmp_path: Path) -> None:
    for key in ("signing", "signing/mode", "signing/workers/w1"):
        await world.etcd.put(world.keys.prefix + key, b'"off"')
    spec = parse_job({"name": "job", "command": touching(tmp_path / "forged"), "cronExpr": EACH_SECOND})
    value = SavedJob(spec=spec, anchor_ms=0).to_json()
    await put_job(world, "job", value.replace(b"}", b',"signing":"off","mustKnow":[],"savedVersion":"9"}'))
    assert "is not signed" in await is_set_aside(worker, "job")
    await witness_fires(worker, world)
    assert not (tmp_path / "forged").exists()


async def test_attack_a_forged_request_is_not_run(
    manager: Managed, worker: Working, world: World, tmp_path: Path
) -> None:
    await save(manager, "job", command=touching(tmp_path / "ran"))
    await put_request(world, await asked_for(world, "job", "r-1-a"))
    await put_request(world, await asked_for(world, "witness", "1790000000000", env={"LD_PRELOAD": "/tmp/x.so"}))
    await witness_fires(worker, world)
    assert not (tmp_path / "ran").exists()
    run = await ask(manager, "job")  # the forged one does not stand in its way
    assert (await world.record(run))["status"] == "success"


async def test_attack_env_that_is_added_to_a_signed_request_is_not_run(
    signing: Signing, manager: Managed, worker: Working, world: World, tmp_path: Path
) -> None:
    await save(manager, "job", command=f'test -z "$LD_PRELOAD$1" || touch {tmp_path / "ran"}')
    signed = granted(await asked_for(world, "job", "r-1-a", env={"A": "1"}), signing.seal)
    await put_request(world, replace(signed, env={"A": "1", "LD_PRELOAD": "libc.so.6"}))
    others: dict[str, dict[str, Any]] = {
        "r-2-b": {"args": ("x",)},
        "r-3-c": {"run_id": RunId("job", "r-4-d")},
        "r-5-e": {"run_id": RunId("witness", "r-5-e")},
    }
    for fire, changes in others.items():
        await put_request(world, replace(granted(await asked_for(world, "job", fire), signing.seal), **changes))
    await witness_fires(worker, world)
    assert not (tmp_path / "ran").exists()
    assert await world.records() == []
    await put_request(world, signed)
    assert (await world.record(signed.run_id))["status"] == "success"


async def test_attack_a_request_past_its_expiry_is_not_run_however_often_it_is_put_back(
    signing: Signing, manager: Managed, worker: Working, world: World, tmp_path: Path
) -> None:
    await save(manager, "job", command=touching(tmp_path / "ran"))
    days_ago_ms = SystemClock().wall_ms() - 3 * 86_400_000
    times = {"plan_ms": days_ago_ms, "dispatch_ms": days_ago_ms, "not_before_ms": days_ago_ms}
    old = granted(await asked_for(world, "job", "r-1-a", **times), signing.seal)
    await put_request(world, replace(old, expires_ms=None))
    expires_ms = SystemClock().wall_ms() + 86_400_000
    assert old.grant is not None
    lifted = replace(
        old,
        run_id=RunId("job", "r-1-a", 2),
        grant=structs.replace(old.grant, expires_ms=expires_ms),
        expires_ms=expires_ms,
    )
    await put_request(world, lifted)
    for run_id, why in ((old.run_id, "has expired"), (lifted.run_id, "not what was signed")):
        record = await world.record(run_id)  # it does not lie there for ever
        assert (record["status"], "not believed" in record["reason"]) == ("missed", True), record
        assert why in record["reason"]
    assert not (tmp_path / "ran").exists()


async def test_attack_a_worker_that_is_given_other_labels_in_etcd_runs_nothing_for_them(
    signing: Signing, manager: Managed, world: World, tmp_path: Path
) -> None:
    """Else who may save jobs for test machines, and has one worker's account, runs them on any machine."""
    await save(manager, "job", command=touching(tmp_path / "ran"), workers={"zone": ["test"]})
    async with signing.working(labels={"zone": "prod"}) as worker:
        await worker.deciding()
        session = worker.parts.registry.session
        assert session is not None
        kv = await world.etcd.get(session.key)
        assert kv is not None
        forged = kv.value.replace(b'"prod"', b'"test"')
        assert forged != kv.value
        await world.etcd.txn(Txn([], [Put(session.key, forged, lease=kv.lease)]))
        record = await world.record(await ask(manager, "job"))
    assert (record["status"], record["reason"]) == (
        "skipped", "not believed: it asks for workers with other labels than this one has"
    )  # fmt: skip
    assert not (tmp_path / "ran").exists()


async def test_attack_a_forged_kill_ends_nothing(manager: Managed, worker: Working, world: World) -> None:
    await save(manager, "job", command="sleep 300")
    run = await ask(manager, "job")
    await wait_until(lambda: run in worker.running(), description="it runs")
    await world.kill(run)
    await wait_until(lambda: run in worker.parts.kills.by_run, description="the kill is known")
    await witness_fires(worker, world)
    assert run in worker.running()
    await manager.call("POST", f"/api/v1/runs/{str(run).replace('#', '%23')}/kill", {})
    assert (await world.record(run))["status"] == "killed"


async def test_attack_a_manager_signs_no_kill_of_a_run_that_a_worker_has_given_the_labels_of_others(
    signing: Signing, worker: Working, world: World
) -> None:
    """An operator of one team, who has a worker's account too, writes their own labels into another team's run."""
    async with signing.managing(auth="required") as manager:
        access = Accessing(manager)
        owner = await access.user("owner", Role.EDITOR, labels={"team": ["theirs"]})
        mallory = await access.user("mallory", Role.OPERATOR, labels={"team": ["ours"]})
        body = {"command": "sleep 300", "cronExpr": NEVER, "labels": {"team": "theirs"}}
        await manager.call("PUT", "/api/v1/jobs/job", body, **owner)
        run = RunId.parse((await manager.call("POST", "/api/v1/jobs/job/run", {}, **owner))["runId"])
        await wait_until(lambda: run in worker.running(), description="it runs")
        key = world.keys.run(run)
        there = await world.etcd.get(key)
        assert there is not None
        claimed = RunEntry.from_json(there.value)
        for revision in (claimed.revision, 1):
            forged = structs.replace(claimed, labels={"team": "ours"}, revision=revision)
            await world.etcd.put(key, forged.to_json())
            response = await manager.http.post(
                f"/api/v1/runs/{str(run).replace('#', '%23')}/kill", json={}, headers=mallory
            )
            assert response.status == 404
            assert (await manager.call("POST", "/api/v1/jobs/job/kill", {}, **mallory))["killed"] == []
        assert await world.etcd.count(world.keys.kills) == 0
        await world.etcd.put(key, there.value)
        await manager.call("POST", "/api/v1/jobs/job/kill", {}, **owner)
        assert (await world.record(run))["status"] == "killed"


async def test_attack_a_version_that_is_forged_in_the_log_store_is_not_restored(
    manager: Managed, worker: Working, world: World
) -> None:
    await save(manager, "job", command="true")
    await save(manager, "job", command="false")
    (version,) = [kv async for page in world.etcd.read_prefix(world.keys.versions) for kv in page.kvs]
    key, old = version.key, version.value
    path = f"/api/v1/jobs/job/versions/{key.rpartition('/')[2]}/restore"
    await world.etcd.put(key, old.replace(b'"true"', b'"touch /tmp/forged"'))
    response = await manager.http.post(path, json={})
    assert response.status == 409
    assert "is not what was signed" in await response.text()
    await world.etcd.put(key, old)
    await manager.call("POST", path, {})
    assert (await world.record(await ask(manager, "job")))["status"] == "success"


async def test_attack_a_manager_does_not_sign_what_somebody_put_into_etcd(
    manager: Managed, worker: Working, world: World
) -> None:
    """A pause, or a change of one field, keeps the most of what is there."""
    spec = parse_job({"name": "job", "command": "echo forged", "cronExpr": NEVER})
    await world.save("job")
    await put_job(world, "job", SavedJob(spec=spec, anchor_ms=SystemClock().wall_ms()).to_json())
    for step in ("pause", "resume"):
        await manager.call("POST", f"/api/v1/jobs/job/{step}", {})
    health = await manager.get("/readyz", verbose="")
    assert health["checks"]["jobs"]["unsigned"]["count"] == 1
    assert any("job is not signed" in problem for problem in health["problems"])
    metrics = await manager.http.get("/metrics")
    assert "etcron_jobs_unsigned 1.0" in await metrics.text()
    changed = await manager.call("PATCH", "/api/v1/jobs/job", {"timeoutSeconds": 5})
    assert "is not signed" in " ".join(changed["warnings"])
    assert SavedJob.from_json(await value_of(world, "job"), name="job").signature is None
    assert "is not signed" in await is_set_aside(worker, "job")
