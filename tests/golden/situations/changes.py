"""What a user changes through a manager."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from tempfile import NamedTemporaryFile
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from cli.signing import sign
from common.access.rights import OWNER
from common.protocol.access_keys import AccessKeys
from common.protocol.drain import Drain
from common.protocol.keys import RunId, encode_mark, sequence_name
from common.protocol.request import Origin, Request
from common.protocol.roster import RosterEntry
from manager.access.recovery import leave_note
from manager.background.versions import KEPT
from manager.views.cursors import SealedCursors
from tests.golden.stage import NOON, Stage, situation, touching
from tests.support.background import running
from tests.support.joining import join
from tests.support.managing import Managed
from tests.support.open_runs import claim
from tests.support.waiting import wait_until

MINUTE = 60_000
FAR = 400 * 86_400_000
API = "/api/v1/jobs/j"
BEFORE = NOON - MINUTE


def job(**fields: Any) -> str:
    trigger = {} if "after" in fields else {"cronExpr": "0 * * * * * *"}
    return json.dumps({"name": "j", "command": "true"} | trigger | fields)


Change = Callable[[Managed], Awaitable[Any]]


def changes(
    name: str, change: Change, before: dict[str, Any] | None = None, prepare: Change | None = None, *,
    losing: int = 0, signs: bool = False,
) -> None:  # fmt: skip
    """A situation: a job (or none) was saved; five minutes later somebody makes this change. `signs`: its manager."""

    async def bring_about(stage: Stage) -> None:
        async with signing_flags(signs) as flags, stage.manager(**flags) as manager:
            if before is not None:
                await manager.save(job(**before))
                stage.passes(5 * MINUTE + 1)
            if prepare is not None:
                await prepare(manager)
            async with stage.recorded(losing=losing):
                await change(manager)

    bring_about.__name__ = name
    situation(bring_about)


@asynccontextmanager
async def signing_flags(signs: bool) -> AsyncIterator[dict[str, Any]]:
    """Of a manager that signs with a key that is always the same."""
    if not signs:
        yield {}
        return
    pem = Ed25519PrivateKey.from_private_bytes(bytes(range(32))).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    with NamedTemporaryFile() as file:  # which is its owner's alone
        file.write(pem)
        file.flush()
        yield {"signingKeyFile": file.name, "clusterName": "golden"}


def save(**fields: Any) -> Change:
    return lambda manager: manager.save(job(**fields))


def call(path: str, body: object = None, method: str = "POST", **headers: str) -> Change:
    return lambda manager: manager.call(method, path, body, **headers)


changes("new_job_is_saved", save(labels={"team": "a"}, env={"A": "b"}))
changes("job_is_saved_with_another_schedule", save(cronExpr="0 */2 * * * * *"), {})
changes("job_is_saved_with_the_same_schedule", save(command="false"), {})
changes("job_is_paused", call(f"{API}/pause", {"reason": "repairs"}), {})
changes("new_job_is_saved_and_signed", save(), signs=True)
changes("signed_job_is_saved_with_the_same_schedule", save(command="false"), {}, signs=True)
changes("job_is_resumed", call(f"{API}/resume", {}), {"enabled": False})
changes("job_is_deleted", call(API, method="DELETE"), {})
changes("new_job_in_doubt", save(), losing=1)
changes("pause_in_doubt", call(f"{API}/pause", {}), {}, losing=1)
changes("new_after_job_is_saved", save(after="1h"))
changes("after_job_is_saved_with_another_delay", save(after="2h"), {"after": "1h"})
changes("after_job_is_saved_with_the_same_delay", save(after="1h", command="false"), {"after": "1h"})
changes("after_job_is_paused", call(f"{API}/pause", {}), {"after": "1h"})
changes("after_job_is_deleted", call(API, method="DELETE"), {"after": "1h"})
changes("after_job_becomes_one_with_a_schedule", save(), {"after": "1h"})


async def lock(manager: Managed) -> None:
    await manager.etcd.put(manager.keys.lock("j"), b"j@5#1")


changes("after_job_that_runs_is_saved", save(after="2h"), {"after": "1h"}, lock)


async def sign_as_it_is(manager: Managed) -> None:
    parts = manager.parts
    there = await manager.etcd.get(parts.keys.job("j"))
    assert there is not None
    assert parts.jobs.seal is not None
    assert await sign(parts.etcd, parts.keys, parts.jobs.seal, "j", there)


changes("job_is_signed_anew", sign_as_it_is, {}, signs=True)
changes("run_is_asked_for_and_signed", call(f"{API}/run", {"args": ["a"], "env": {"A": "b"}}), {}, signs=True)


async def odd(manager: Managed) -> None:
    await manager.etcd.put(manager.keys.job("a b"), b"{}")


changes("key_that_is_no_job_is_deleted", call("/api/v1/jobs/a%20b", method="DELETE"), prepare=odd)


# Marks that lie ahead


async def far_ahead(manager: Managed) -> None:
    await manager.etcd.put(manager.keys.mark("j"), encode_mark(NOON + FAR))


async def far_ahead_at_a_worker(manager: Managed) -> None:
    await manager.etcd.put(manager.keys.mark(sequence_name("j", "w1")), encode_mark(NOON + FAR))


changes("job_is_unblocked", call(f"{API}/unblock", {"reason": "a clock"}), {}, far_ahead)
changes("unblocking_in_doubt", call(f"{API}/unblock", {}), {}, far_ahead, losing=1)
changes("after_job_is_unblocked", call(f"{API}/unblock", {}), {"after": "1h"}, far_ahead)
changes("own_mark_of_a_broadcast_job_is_unblocked", call(f"{API}/unblock", {}), {"broadcast": True},
        far_ahead_at_a_worker)  # fmt: skip


# Kills


async def a_run(manager: Managed) -> None:
    await claim(manager, "j", BEFORE)


async def a_request(manager: Managed) -> None:
    kv = await manager.etcd.get(manager.keys.job("j"))
    assert kv is not None
    request = Request(
        run_id=RunId.planned("j", BEFORE), origin=Origin.RETRY, job_create_revision=kv.create_revision, plan_ms=BEFORE,
        dispatch_ms=BEFORE, not_before_ms=BEFORE,
    )  # fmt: skip
    await manager.etcd.put(request.key(manager.keys), request.to_json())


async def kill_run(manager: Managed) -> None:
    await manager.parts.kills.of_run(RunId.planned("j", BEFORE), by="me", rights=OWNER, reason="enough")


KILL = call(f"{API}/kill", {"reason": "enough"})
changes("runs_of_a_job_are_killed", KILL, {}, a_run)
changes("kill_in_doubt", KILL, {}, a_run, losing=1)
changes("run_is_killed", kill_run, {}, a_run)
changes("run_that_waits_is_killed", kill_run, {}, a_request)
GIVE_UP = call(f"/api/v1/runs/j@{BEFORE}%231/give-up", {"reason": "it burned"})
changes("run_is_asked_to_be_given_up", GIVE_UP, {}, a_run)


# Runs at a user's wish


async def a_worker(manager: Managed) -> None:
    await join(manager, "w1")


async def after_call(manager: Managed) -> None:
    await call(f"{API}/run", {"dedupeKey": "k"})(manager)


FULL = {"args": ["a"], "env": {"A": "b"}, "reason": "because", "at": "2023-11-20T00:00:00Z"}
changes("run_is_asked_for", call(f"{API}/run", {}), {})
changes("run_is_asked_for_in_doubt", call(f"{API}/run", {}), {}, losing=1)
changes("run_is_asked_for_with_all_that_can_be_said", call(f"{API}/run", FULL), {})
changes("run_is_asked_for_with_a_dedupe_key", call(f"{API}/run", {"dedupeKey": "k", "dedupeSeconds": 60}), {})
changes("run_is_asked_for_again_with_a_dedupe_key", call(f"{API}/run", {"dedupeKey": "k"}), {}, after_call)
changes("run_is_asked_for_with_an_idempotency_key", call(f"{API}/run", {}, **{"Idempotency-Key": "k"}), {})
changes("run_is_asked_for_with_both_keys",
        call(f"{API}/run", {"dedupeKey": "k"}, **{"Idempotency-Key": "k"}), {}, after_call)  # fmt: skip
changes("run_of_a_broadcast_job_is_asked_for", call(f"{API}/run", {}), {"broadcast": True}, a_worker)


async def list_runs(manager: Managed) -> None:
    await manager.get("/api/v1/runs", job="j")


async def read_run(manager: Managed) -> None:
    await manager.get(f"/api/v1/runs/j%40{BEFORE}%231")


changes("runs_that_wait_are_listed", list_runs, {}, a_request)
changes("run_that_waits_is_read", read_run, {}, a_request)


# Calls that are remembered


async def refused(manager: Managed) -> None:
    response = await manager.http.post(f"{API}/pause", json={}, headers={"Idempotency-Key": "k"})
    assert response.status == 404


changes("call_with_an_idempotency_key_is_remembered",
        call(f"{API}/pause", {}, **{"Idempotency-Key": "k"}), {})  # fmt: skip
changes("call_with_an_idempotency_key_in_doubt",
        call(f"{API}/pause", {}, **{"Idempotency-Key": "k"}), {}, losing=1)  # fmt: skip
changes("call_with_an_idempotency_key_that_fails_is_forgotten", refused)


async def cursor_is_sealed(manager: Managed) -> None:
    await SealedCursors(manager.etcd, AccessKeys(manager.keys.prefix).cursors).sealed("j")


changes("secret_of_cursors_is_made", cursor_is_sealed)
changes("secret_of_cursors_is_there_already", cursor_is_sealed, None, cursor_is_sealed)


# Workers


async def drained(manager: Managed) -> None:
    await join(manager, "w1")
    await manager.etcd.put(manager.keys.drain("w1"), Drain(by="me", since_ms=1).to_json())


async def left(manager: Managed) -> None:
    entry = RosterEntry(worker="w1", host="h1", seen_ms=1)
    await manager.etcd.put(manager.keys.roster_entry("w1"), entry.to_json())


WORKER = "/api/v1/workers/w1"
changes("worker_is_drained", call(f"{WORKER}/drain", {"reason": "new kernel"}), prepare=a_worker)
changes("drain_in_doubt", call(f"{WORKER}/drain", {"reason": "new kernel"}), prepare=a_worker, losing=1)
changes("reason_of_a_drain_is_changed", call(f"{WORKER}/drain", {"reason": "new kernel"}), prepare=drained)
changes("undrain_in_doubt", call(f"{WORKER}/undrain", {}), prepare=drained, losing=1)
changes("worker_is_forgotten", call(WORKER, method="DELETE"), prepare=left)
changes("worker_is_undrained", call(f"{WORKER}/undrain", {}), prepare=drained)


# What a manager delivers


async def delivered(stage: Stage, prefix: str) -> None:
    """What an edit has left under this prefix is in the log store, and goes."""
    stage.passes(-5 * MINUTE - 1)
    async with stage.manager() as manager:
        await manager.save(job())
    stage.passes(5 * MINUTE + 1)
    async with stage.manager(again=True, loops=True) as manager:

        async def is_gone() -> bool:
            return await manager.etcd.count(f"{manager.keys.prefix}{prefix}") == 0

        async with stage.recorded(lambda told: str(told.get("then", [{}])[0].get("delete")).startswith(prefix)):
            await manager.save(job(cronExpr="0 */2 * * * * *"))
            await wait_until(is_gone, description="it is in the log store")


@situation
async def former_spec_of_a_job_is_delivered(stage: Stage) -> None:
    await delivered(stage, "versions/")


@situation
async def oldest_former_spec_is_forgotten_while_the_log_store_is_away(stage: Stage) -> None:
    stage.log_store = "mongodb://127.0.0.1:9/"
    async with stage.manager() as manager:
        for number in range(KEPT + 1):
            await manager.save(job(command=f"echo {number}"))
    async with stage.manager(again=True, loops=True) as manager:

        async def is_gone() -> bool:
            return await manager.etcd.count(manager.keys.versions) == KEPT

        async with stage.recorded(lambda told: str(told["then"][0].get("delete")).startswith("versions/")):
            await manager.save(job(command="echo last"))
            await wait_until(is_gone, description="the oldest is forgotten")


@situation
async def record_of_an_edit_is_delivered(stage: Stage) -> None:
    await delivered(stage, "runs/")


# The audit


@situation
async def note_for_the_audit_is_left_and_taken(stage: Stage) -> None:
    stage.patch.setattr(socket, "gethostname", lambda: "host")
    stage.patch.setattr(os, "getuid", lambda: 0)
    async with stage.manager() as manager:
        audit, keys = manager.parts.audit, AccessKeys(manager.keys.prefix)
        async with running(audit.write()):
            await wait_until(lambda: audit.head.seq == 1, description="an entry is on the disk")
            async with stage.recorded(touching("notes/")):
                await leave_note(manager.etcd, keys, "admin.create", "user alice")
                async with running(audit.publish_head()):
                    await wait_until(lambda: audit.head.seq == 2, description="it is on the disk")


@situation
async def head_of_the_audit_is_told(stage: Stage) -> None:
    stage.patch.setattr(socket, "gethostname", lambda: "host")
    async with stage.manager() as manager:
        audit = manager.parts.audit
        async with running(audit.write()):
            await wait_until(lambda: audit.head.seq == 1, description="an entry is on the disk")
            async with stage.recorded(), running(audit.publish_head()):
                recorder = stage.recorder
                await wait_until(lambda: recorder.told() != [] and recorder.is_answered, description="etcd was told")


# Looks at what runs print


@situation
async def run_is_looked_at_until_it_has_ended(stage: Stage) -> None:
    async with stage.manager(loops=True) as manager:
        run = await claim(manager, "j", BEFORE)
        await wait_until(lambda: manager.parts.watching.open_runs.has(run), description="the manager sees it")
        await wait_until(lambda: manager.parts.presence.is_shown, description="the manager is shown")
        async with stage.recorded(touching("tails/")):
            with manager.parts.tails.viewing(run, by="me") as tail:
                await wait_until(lambda: tail.asked is not None, description="the look is in etcd")
            await manager.etcd.delete(manager.keys.run(run))
            await wait_until(lambda: not len(manager.parts.tails), description="nobody looks any more")
