"""The audit of a manager: what it has of each call, and that it holds up nobody and loses nothing that it can keep."""

from __future__ import annotations

import asyncio
import errno
import json
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common.access.rights import Role
from common.cursors import encode_cursor
from common.json_text import dumps
from common.protocol.access_keys import AccessKeys
from common.runlog import AuditFilter
from manager.access.audit import Audit
from tests.support.access import Accessing
from tests.support.disks import failing_disk, loop_disk, small_disk
from tests.support.log_store import PYMONGO_DROPS_A_SOCKET, LogStoreServer
from tests.support.managing import Managed, Place, managing, problem_of
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]
JOB = {"name": "backup", "command": "true", "cronExpr": "0 0 0 * * * *"}
API = "/api/v1/jobs/backup"


@pytest.fixture
async def guarded(place: Place) -> AsyncIterator[Managed]:
    """A manager with its loops that asks everybody who they are."""
    async with managing(place, loops=True, auth="required") as managed:
        yield managed


@pytest.fixture
async def admin(guarded: Managed) -> dict[str, str]:
    return await Accessing(guarded).user("alice", Role.ADMIN)


async def delivered(audit: Audit) -> None:
    await wait_until(lambda: audit.head.seq > 0 and audit.waiting == 0, description="the log store has the audit")


async def entries(manager: Managed, headers: dict[str, str], **query: str) -> list[dict[str, Any]]:
    """What the audit has once all is delivered, oldest first; not that the manager started, or that it was asked."""
    await delivered(manager.parts.audit)
    response = await manager.http.get("/api/v1/audit", params=query, headers=headers)
    assert response.status == 200, await response.text()
    items: list[dict[str, Any]] = (await response.json())["items"]
    return [one for one in reversed(items) if one["action"] not in ("manager.start", "audit.read")]


async def verified(manager: Managed, headers: dict[str, str]) -> dict[str, Any]:
    response = await manager.http.get("/api/v1/audit/verify", headers=headers)
    assert response.status == 200, await response.text()
    document: dict[str, Any] = await response.json()
    return document


async def save(manager: Managed, headers: dict[str, str], **fields: Any) -> None:
    response = await manager.http.put(API, json=JOB | fields, headers=headers)
    assert response.status in (200, 201), await response.text()


async def test_change_is_there_with_who_by_which_way_from_where_and_what_has_changed(
    guarded: Managed, admin: dict[str, str]
) -> None:
    await save(guarded, admin, env={"PGPASSWORD": "s3cret"})
    await save(guarded, admin, command="false", env={"PGPASSWORD": "0ther"})
    await guarded.http.post(f"{API}/pause", json={"reason": "the disk is replaced"}, headers=admin)
    await guarded.http.delete(API, headers=admin)
    found = await entries(guarded, admin)
    assert [(one["action"], one["object"], one["outcome"]) for one in found] == [
        ("job.save", "job backup", "done"), ("job.save", "job backup", "done"),
        ("job.pause", "job backup", "done"), ("job.delete", "job backup", "done"),
    ]  # fmt: skip
    assert {(one["via"], one["address"]) for one in found} == {("token", "127.0.0.1")}
    assert all("alice" in one["who"] for one in found)
    assert found[1]["details"]["changes"] == {
        "command": {"from": "true", "to": "false"}, "env": {"changed": ["PGPASSWORD"]},
    }  # fmt: skip
    assert found[2]["details"]["reason"] == "the disk is replaced"
    assert "s3cret" not in dumps(found)
    assert "0ther" not in dumps(found)


async def test_run_has_its_arguments_and_the_names_of_its_environment(guarded: Managed, admin: dict[str, str]) -> None:
    await save(guarded, admin)
    body = {"args": ["--full"], "env": {"TOKEN": "s3cret"}, "reason": "why not"}
    response = await guarded.http.post(f"{API}/run", json=body, headers=admin)
    run = (await response.json())["runId"]
    [entry] = await entries(guarded, admin, action="job.run")
    assert entry["details"] == {"args": ["--full"], "env": ["TOKEN"], "reason": "why not", "runId": run}


async def test_each_job_of_a_call_on_many_has_its_entry(guarded: Managed, admin: dict[str, str]) -> None:
    await save(guarded, admin)
    body = {"action": "pause", "names": ["backup", "gone"], "reason": "repairs"}
    await guarded.http.post("/api/v1/jobs/bulk", json=body, headers=admin)
    found = await entries(guarded, admin, action="job.pause")
    assert sorted((one["object"], one["outcome"]) for one in found) == [("job backup", "done"), ("job gone", "failed")]


async def test_each_job_of_a_call_on_many_says_what_has_changed_and_which_run_was_asked_for(
    guarded: Managed, admin: dict[str, str]
) -> None:
    await save(guarded, admin)

    async def details(**body: Any) -> dict[str, Any]:
        await guarded.http.post("/api/v1/jobs/bulk", json=body | {"names": ["backup"]}, headers=admin)
        [entry] = await entries(guarded, admin, action=f"job.{body['action']}")
        found: dict[str, Any] = entry["details"]
        return found

    labelled = await details(action="label", labels={"team": "payroll"})
    assert labelled["changes"]["labels"]["to"] == {"team": "payroll"}
    assert (await details(action="run", reason="why not"))["runId"].startswith("backup@")
    deleted = await details(action="delete")
    assert deleted["changes"]["command"] == {"from": JOB["command"]}
    assert "s3cret" not in dumps(deleted)


async def test_legacy_calls_say_which_job(guarded: Managed, admin: dict[str, str]) -> None:
    await guarded.http.post("/job/save", data={"job": json.dumps(JOB)}, headers=admin)
    await guarded.http.post("/job/kill", data={"name": "backup"}, headers=admin)
    await guarded.http.post("/job/delete", data={"name": "backup"}, headers=admin)
    found = await entries(guarded, admin, object="job backup")
    assert [one["action"] for one in found] == ["job.save", "job.kill", "job.delete"]


async def test_users_and_bindings_have_what_they_were_made_with_but_no_password(
    guarded: Managed, admin: dict[str, str]
) -> None:
    body = {"name": "bob", "password": "a passphrase of s3cret words", "groups": ["dba"]}
    response = await guarded.http.post("/api/v1/users", json=body, headers=admin)
    assert response.status == 201, await response.text()
    binding = {"subject": "group:dba", "role": "viewer", "labels": {"team": ["a"]}}
    response = await guarded.http.post("/api/v1/bindings", json=binding, headers=admin)
    assert response.status == 201, await response.text()
    found = await entries(guarded, admin)
    user, bound = found
    assert (user["action"], user["object"], user["details"]["groups"]) == ("user.create", "user bob", ["dba"])
    assert bound["action"] == "binding.create"
    assert bound["details"] | binding == bound["details"]
    assert "s3cret" not in dumps(found)


async def test_flood_of_refusals_is_two_entries(guarded: Managed, admin: dict[str, str]) -> None:
    wrong = {"Authorization": "Bearer etcron_000000000000_" + "0" * 64}
    for _ in range(30):
        assert (await guarded.http.get("/api/v1/jobs", headers=wrong)).status == 401
        assert (await guarded.http.delete(API, headers=wrong)).status == 401
    first = await entries(guarded, admin, outcome="refused")
    assert [(one["action"], one["object"]) for one in first] == [
        ("read", "GET /api/v1/jobs"), ("job.delete", "job backup"),
    ]  # fmt: skip
    guarded.parts.audit._count_over(early=True)
    later = await entries(guarded, admin, outcome="refused")
    assert [one["details"].get("more") for one in later] == [None, None, 29, 29]


async def test_attack_calls_on_many_that_come_to_nothing_leave_no_room_for_what_is_done(
    guarded: Managed, admin: dict[str, str]
) -> None:
    await save(guarded, admin)
    names = [*(f"no name {number}" for number in range(200)), *(f"absent-{number}" for number in range(200)), "backup"]
    for action in ("pause", "pause", "delete"):
        await guarded.http.post("/api/v1/jobs/bulk", json={"action": action, "names": names}, headers=admin)
    guarded.parts.audit._count_over(early=True)
    found = await entries(guarded, admin, action="job.pause")
    assert sorted((one["outcome"], one["details"].get("more", 0)) for one in found) == [
        ("done", 0), ("done", 0), ("failed", 0), ("failed", 799),
    ]  # fmt: skip
    found = await entries(guarded, admin, action="job.delete")
    assert sorted((one["outcome"], one["details"].get("more", 0)) for one in found) == [
        ("done", 0), ("done", 0), ("done", 199), ("failed", 0), ("failed", 199),
    ]  # fmt: skip


async def test_what_fails_is_there_with_why_and_without_what_was_sent(guarded: Managed, admin: dict[str, str]) -> None:
    response = await guarded.http.put(API, json=JOB | {"cronExpr": "s3cret"}, headers=admin)
    assert response.status == 400
    await save(guarded, admin)
    await guarded.http.put(API, json=JOB, headers={**admin, "If-Match": '"1"'})
    found = await entries(guarded, admin, outcome="failed")
    assert [one["details"] for one in found] == [{"fields": ["cronExpr"]}]
    assert "s3cret" not in dumps(found)


async def test_what_only_reads_is_not_there_but_a_download_is(guarded: Managed, admin: dict[str, str]) -> None:
    for path in ("/api/v1/jobs", "/metrics", "/job/list", "/api/v1/runs/j%401%231/output"):
        await guarded.http.get(path, headers=admin)
    for number in ("1", "01"):
        await guarded.http.get(f"/api/v1/runs/{number}/output?download={number}", headers=admin)
    assert [one["action"] for one in await entries(guarded, admin)] == ["run.download"]
    guarded.parts.audit._count_over(early=True)
    [first, others] = await entries(guarded, admin)
    assert (first["object"], others["object"], others["details"]["more"]) == ("run 1", "run 01", 1)


async def test_who_reads_the_audit_is_there_and_for_further_pages_once_a_minute(
    guarded: Managed, admin: dict[str, str]
) -> None:
    await save(guarded, admin)
    made_up = encode_cursor("audit/9999999999999999/")
    for cursor in ("", made_up, made_up, made_up):
        response = await guarded.http.get("/api/v1/audit", params={"cursor": cursor}, headers=admin)
        assert response.status == 200, await response.text()
    guarded.parts.audit._count_over(early=True)
    await delivered(guarded.parts.audit)
    reads = await guarded.runlog.audit(AuditFilter(action="audit.read"), cursor=None, limit=10)
    assert [entry.note.details.get("more", 0) for entry, _ in reads.items] == [2, 0, 0]


async def test_only_an_administrator_of_everything_reads_it_also_where_no_login_is_asked_for(place: Place) -> None:
    async with managing(place, auth="off") as manager:
        access = Accessing(manager)
        someone = await access.user("bob", Role.ADMIN, labels={"team": ["a"]})
        for path in ("/api/v1/audit", "/api/v1/audit/verify"):
            await problem_of(await manager.http.get(path), 401)
            await problem_of(await manager.http.get(path, headers=someone), 403)


async def test_chain_goes_on_after_a_restart_and_is_whole(place: Place, tmp_path: Path) -> None:
    for _ in range(3):
        async with managing(place, loops=True, auth="required", auditDir=str(tmp_path)) as manager:
            headers = await Accessing(manager).user("alice", Role.ADMIN)
            await save(manager, headers)
            await entries(manager, headers)
    async with managing(place, loops=True, auth="required", auditDir=str(tmp_path)) as manager:
        headers = await Accessing(manager).user("alice", Role.ADMIN)
        starts = await manager.runlog.audit(AuditFilter(action="manager.start"), cursor=None, limit=10)
        assert len({entry.chain for entry, _ in starts.items}) == 1
        assert [chain["problem"] for chain in (await verified(manager, headers))["items"]] == [None]


async def test_managers_that_share_a_directory_have_a_chain_each(place: Place, tmp_path: Path) -> None:
    async with (
        managing(place, loops=True, auditDir=str(tmp_path)) as one,
        managing(place, loops=True, auditDir=str(tmp_path)) as other,
    ):
        for manager in (one, other):
            await delivered(manager.parts.audit)
        assert one.parts.audit.head.chain != other.parts.audit.head.chain
        assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]


async def head_in_etcd(manager: Managed) -> None:
    """etcd has the newest head. The manager's own loop may put one at the same moment."""
    audit = manager.parts.audit
    await delivered(audit)

    async def has_put() -> bool:
        return await audit._put_head(audit.head) is not None

    await wait_until(has_put, description="etcd has the newest head")


async def test_verifying_names_what_somebody_has_changed_in_the_log_store(
    guarded: Managed, admin: dict[str, str]
) -> None:
    for number in range(4):
        await save(guarded, admin, command=f"echo {number}")
    await head_in_etcd(guarded)
    [*_, last] = await guarded.runlog.audit_behind("", limit=100)  # before another is there, of this being verified
    assert (await verified(guarded, admin))["whole"]
    kept = guarded.runlog._audit._collection
    await kept.delete_one({"_id": last.id})
    after = await verified(guarded, admin)
    assert after["whole"] is False
    assert "missing" in after["items"][0]["problem"]
    await kept.update_one({"_id": f"{last.id[:-1]}2"}, {"$set": {"text": "{}"}})
    assert "entry 2 was changed" in (await verified(guarded, admin))["items"][0]["problem"]


async def test_verifying_goes_on_from_call_to_call_and_finds_a_break_in_any_of_them(
    guarded: Managed, admin: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manager.api.audit._A_PAGE", 2)
    monkeypatch.setattr("manager.api.audit._AT_ONCE", 2)
    for number in range(6):
        await save(guarded, admin, command=f"echo {number}")
    await head_in_etcd(guarded)

    async def problems() -> list[str | None]:
        told, calls = list[str | None](), 0
        cursor: str | None = None
        while True:
            query: dict[str, str] = {} if cursor is None else {"cursor": cursor}
            response = await guarded.http.get("/api/v1/audit/verify", params=query, headers=admin)
            page = await response.json()
            told += [chain["problem"] for chain in page["items"]]
            calls += 1
            if (cursor := page["nextCursor"]) is None:
                assert calls > 2
                return told

    assert await problems() == [None]
    kept = guarded.runlog._audit._collection
    [*_, last] = await guarded.runlog.audit_behind("", limit=4)
    await kept.delete_one({"_id": last.id})
    assert await problems() == ["entry 4 is missing"]


async def test_chain_that_is_gone_from_the_log_store_as_a_whole_is_missed(
    guarded: Managed, admin: dict[str, str]
) -> None:
    await save(guarded, admin)
    await head_in_etcd(guarded)
    seq = guarded.parts.audit.head.seq
    await guarded.runlog._audit._collection.delete_many({})
    [chain] = (await verified(guarded, admin))["items"]
    assert (chain["entries"], chain["problem"]) == (0, f"entries 1 to {seq} are missing at the end")


async def test_head_that_is_gone_from_etcd_is_told(guarded: Managed, admin: dict[str, str]) -> None:
    await save(guarded, admin)
    await head_in_etcd(guarded)
    head = guarded.parts.audit.head
    await guarded.etcd.delete(AccessKeys(guarded.keys.prefix).audit_head(head.chain))
    [chain] = (await verified(guarded, admin))["items"]
    assert "etcd has no head of it" in chain["problem"]


async def test_chain_whose_files_were_put_back_to_an_older_state_begins_anew_and_says_so(
    place: Place, tmp_path: Path
) -> None:
    async with managing(place, loops=True, auth="required", auditDir=str(tmp_path)) as manager:
        headers = await Accessing(manager).user("alice", Role.ADMIN)
        for number in range(3):
            await save(manager, headers, command=f"echo {number}")
        await head_in_etcd(manager)
        former = manager.parts.audit.head
    [file] = (tmp_path / "0").glob("*.entries")
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:2]))
    async with managing(place, loops=True, auth="required", auditDir=str(tmp_path)) as manager:
        headers = await Accessing(manager).user("alice", Role.ADMIN)
        await save(manager, headers, command="echo 9")
        await wait_until(lambda: manager.parts.audit.head.chain != former.chain, description="a new chain")
        [begun] = await entries(manager, headers, action="audit.begin")
        assert (begun["details"]["follows"], begun["seq"]) == (former.chain, 1)
        assert "etcd knows" in begun["details"]["why"]
        assert [one["details"]["changes"] for one in await entries(manager, headers, object="job backup")][-1] == {
            "command": {"from": "echo 2", "to": "echo 9"}
        }
        assert any("new chain" in problem for problem in manager.parts.audit.problems())
        assert (await verified(manager, headers))["whole"]


async def test_entry_whose_place_somebody_takes_in_the_log_store_is_kept_in_a_new_chain(
    guarded: Managed, admin: dict[str, str]
) -> None:
    await delivered(guarded.parts.audit)
    [entry] = (await guarded.runlog.audit(AuditFilter(action="manager.start"), cursor=None, limit=1)).items
    kept = guarded.runlog._audit._collection
    head = guarded.parts.audit.head
    await kept.insert_one({"_id": f"audit/{head.chain}/{head.seq + 1:012d}", "text": "forged", "key": "audit/0"})
    await save(guarded, admin)
    await wait_until(lambda: guarded.parts.audit.head.chain != entry[0].chain, description="a new chain")
    found = await entries(guarded, admin)
    assert {(one["action"], one["seq"], one["chain"] == entry[0].chain) for one in found} == {
        ("audit.begin", 1, False), ("job.save", 2, False),
    }  # fmt: skip


@pytest.mark.filterwarnings(PYMONGO_DROPS_A_SOCKET)
async def test_log_store_that_is_away_holds_up_neither_a_change_nor_a_kill(place: Place, tmp_path: Path) -> None:
    async with (
        LogStoreServer(tmp_path / "own") as own_store,
        managing(replace(place, log_store=own_store.uri), loops=True, auth="required") as manager,
    ):
        headers = await Accessing(manager).user("alice", Role.ADMIN)
        await save(manager, headers)
        await delivered(manager.parts.audit)
        await own_store.stop()
        await save(manager, headers, command="false")
        assert (await manager.http.post(f"{API}/kill", json={}, headers=headers)).status == 200
        assert manager.parts.audit.waiting >= 2
        await wait_until(lambda: manager.parts.audit.not_on_disk == 0, description="all is on the disk")
        await own_store.start()
        await wait_until(lambda: manager.parts.audit.waiting == 0, description="all is delivered")
        assert [one["action"] for one in await entries(manager, headers)] == ["job.save", "job.save", "job.kill"]


async def test_full_disk_holds_up_nothing_is_told_and_nothing_is_lost(place: Place, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        if disk is None:
            pytest.skip("mounting is not allowed")
        async with managing(place, loops=True, auth="required", auditDir=str(disk.directory)) as manager:
            audit = manager.parts.audit
            headers = await Accessing(manager).user("alice", Role.ADMIN)
            await delivered(audit)
            disk.fill()
            for number in range(40):  # what is left of a block is used up first
                await save(manager, headers, command=f"echo {number} {'x' * 900}")
            assert (await manager.http.post(f"{API}/kill", json={}, headers=headers)).status == 200
            await wait_until(lambda: any("No space" in one for one in audit.problems()), description="it is told")
            ready = await (await manager.http.get("/readyz?verbose", headers=headers)).json()
            assert any("the audit is not on this manager's disk" in one for one in ready["problems"])
            disk.free()
            await wait_until(lambda: audit.not_on_disk == 0, description="it is on the disk")
            found = await entries(manager, headers, object="job backup")
            assert [one["action"] for one in found] == ["job.save"] * 40 + ["job.kill"]
            assert audit.problems() == []


async def test_disk_that_hangs_holds_up_nothing_and_is_told(place: Place, tmp_path: Path) -> None:
    with loop_disk(tmp_path / "disk") as disk:
        if disk is None:
            pytest.skip("mounting, or freezing, is not allowed")
        async with managing(place, loops=True, auth="required", auditDir=str(disk.directory)) as manager:
            audit = manager.parts.audit
            headers = await Accessing(manager).user("alice", Role.ADMIN)
            await delivered(audit)
            with disk.hanging():
                for number in range(5):
                    await save(manager, headers, command=f"echo {number}")
                assert (await manager.http.post(f"{API}/kill", json={}, headers=headers)).status == 200
                await wait_until(lambda: "does not answer" in " ".join(audit.problems()), description="it is told")
                assert audit.not_on_disk == 6
            found = await entries(manager, headers, object="job backup")
            assert [one["action"] for one in found] == ["job.save"] * 5 + ["job.kill"]
            assert audit.problems() == []


async def test_disk_that_hangs_is_told_though_an_earlier_call_is_answered(
    manager: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manager.access.audit._HANGS_AFTER_S", 0)
    audit, thaw = manager.parts.audit, threading.Event()
    answered, hanging = (asyncio.ensure_future(audit._asking(work)) for work in (lambda: True, thaw.wait))
    await answered
    assert "does not answer" in " ".join(audit.problems())
    thaw.set()
    await hanging
    assert audit.problems() == []


async def test_what_finds_no_room_is_counted_and_the_audit_says_so(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manager.access.audit.MOST_IN_MEMORY", 3)
    async with managing(place, loops=True, auth="required") as manager:
        audit = manager.parts.audit
        headers = await Accessing(manager).user("alice", Role.ADMIN)
        await delivered(audit)
        with failing_disk("fdatasync"):
            for number in range(5):
                await save(manager, headers, command=f"echo {number}")
            assert (audit.not_on_disk, audit.lost) == (3, 2)
            assert "in time: 2" in " ".join(audit.problems())
        await wait_until(lambda: audit.not_on_disk == 0, description="it is on the disk")
        found = await entries(manager, headers)
        assert [one["action"] for one in found] == ["job.save"] * 3 + ["audit.lost"]
        assert found[-1]["details"] == {"entries": 2}


async def test_disk_that_failed_while_heads_were_compared_is_no_problem_once_it_answers(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manager.access.audit.HEAD_EVERY_S", 0.05)
    monkeypatch.setattr("manager.access.audit._AGAIN_S", 0.05)

    def fails(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    async with managing(place, loops=True) as manager:
        audit = manager.parts.audit
        await head_in_etcd(manager)
        with monkeypatch.context() as broken:
            broken.setattr("manager.access.audit_files.ChainFiles.contradiction", fails)
            audit._compared.clear()
            await wait_until(lambda: "Input/output" in " ".join(audit.problems()), description="the fault is told")
            assert audit.not_on_disk == 0
        await wait_until(lambda: not audit.problems(), description="the fault is taken back")
