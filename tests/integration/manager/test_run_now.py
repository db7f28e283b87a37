"""Asking for a run: one request for each dedupe key and window, whoever asks how often, and whatever gets lost."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import quote

import pytest

from common.etcd import EtcdClient
from common.instants import iso
from common.jobs.reader import parse_job
from common.protocol.dedupe import Remembered, digest_of
from common.protocol.keys import RunId, encode_mark
from common.protocol.member import Beat, Member
from common.protocol.request import Origin, Request, scope_of
from common.protocol.run import EntryState, Trigger
from common.protocol.saved_job import SavedJob
from common.protocol.txn import Put, Txn
from manager.api.run_now import MAX_BYTES
from tests.support.clearing import delete_prefix
from tests.support.joining import put_worker
from tests.support.managing import Managed, Place, ShiftedClock, managing, problem_of
from tests.support.open_runs import claim, now_ms
from tests.support.proxy import Mode, Proxy
from tests.support.waiting import wait_until

RUN = "/api/v1/jobs/j/run"
HOUR_MS = 3_600_000


async def save(manager: Managed, name: str = "j", **fields: Any) -> None:
    """As a manager of any version puts it: what this test is about is not how a job is saved."""
    spec = parse_job({"name": name, "command": "echo", "cronExpr": "@yearly", **fields})
    await manager.etcd.put(manager.keys.job(name), SavedJob(spec=spec, anchor_ms=now_ms()).to_json())
    await manager.etcd.put(manager.keys.mark(name), encode_mark(now_ms()))


async def requests(manager: Managed) -> list[Request]:
    found = []
    async for page in manager.etcd.read_prefix(manager.keys.requests):
        found += [Request.from_json(kv.value, run_id=manager.keys.run_of(kv.key)) for kv in page.kvs]
    return found


async def ask(manager: Managed, status: int = 202, path: str = RUN, *, key: str | None = None, **body: Any) -> Any:
    headers = {"Idempotency-Key": key} if key else {}
    response = await manager.http.post(path, json=body, headers=headers)
    assert response.status == status, await response.text()
    return await response.json()


def path_of(run: str, tail: str = "") -> str:
    return f"/api/v1/runs/{quote(run, safe='')}{tail}"


async def test_a_run_is_accepted_with_its_id_and_can_be_read_at_once(manager: Managed) -> None:
    await save(manager)
    before_ms = now_ms()
    wish = {"args": ["a b", ""], "env": {"LEVEL": "debug"}, "reason": "month end"}
    response = await manager.http.post(RUN, json=wish)
    accepted = await response.json()
    assert response.status == 202
    run = accepted["runId"]
    assert response.headers["Location"] == "/api/v1/runs/" + run.replace("#", "%23")
    assert accepted == {
        "runId": run, "deduplicated": False, "jobName": "j", "state": "created",
        "planTime": accepted["createTime"], "createTime": accepted["createTime"],
    }  # fmt: skip
    [request] = await requests(manager)
    job = await manager.etcd.get(manager.keys.job("j"))
    assert job is not None
    assert request == Request(
        run_id=RunId.parse(run), origin=Origin.RUN_NOW, job_create_revision=job.create_revision,
        plan_ms=accepted["planTime"], dispatch_ms=accepted["planTime"], not_before_ms=accepted["planTime"],
        create_ms=accepted["createTime"], trigger=Trigger.API, by="api 127.0.0.1", note="month end",
        args=("a b", ""), env={"LEVEL": "debug"},
        scope=scope_of(parse_job({"name": "j", "command": "echo", "cronExpr": "@yearly"})),
    )  # fmt: skip
    assert before_ms <= accepted["createTime"] <= now_ms()
    seen = await manager.etcd.get(manager.keys.seen_prefix + "requests")
    assert seen is not None
    assert seen.mod_revision == (await manager.etcd.get(manager.keys.request(request.run_id))).mod_revision  # type: ignore[union-attr]
    shown = await manager.get(response.headers["Location"])
    assert (shown["state"], shown["waitsFor"]) == ("created", "a worker: no worker is live")
    assert (shown["createTime"], shown["trigger"], shown["args"]) == (accepted["createTime"], "api", ["a b", ""])
    [waiting] = (await manager.get("/api/v1/runs", job="j"))["waiting"]
    assert waiting["id"] == run
    assert "waiting" not in await manager.get("/api/v1/runs")


async def test_as_much_as_may_be_given_to_a_run_fits_into_a_body_however_it_is_spelled(manager: Managed) -> None:
    await save(manager)
    args = ["\u00e9" * (MAX_BYTES // 2)]
    body = json.dumps({"args": args})
    assert len(body) > 65_536
    answer = await manager.http.post(RUN, data=body, headers={"Content-Type": "application/json"})
    assert answer.status == 202, await answer.text()
    [request] = await requests(manager)
    assert request.args == tuple(args)
    problem = await problem_of(
        await manager.http.post(RUN, json={"args": ["x" * (MAX_BYTES // 2), "y" * MAX_BYTES]}), 400
    )
    assert problem["errors"][0]["field"] == "args"


async def test_ids_sort_as_they_were_asked_for(manager: Managed) -> None:
    await save(manager)
    runs = []
    for _ in range(5):
        runs.append((await ask(manager))["runId"])
        last_ms = now_ms()
        await wait_until(lambda last_ms=last_ms: now_ms() > last_ms, description="a millisecond is over")  # type: ignore[misc]
    assert runs == sorted(set(runs))


@pytest.mark.parametrize(
    "headers", [{"Set-Cookie": "__Host-etcron=forged; Path=/; Secure"}, {"Location": "https://evil.example/"}]
)
async def test_attack_an_answer_that_a_worker_has_forged_sets_no_cookie_and_leads_nowhere(
    manager: Managed, headers: dict[str, str]
) -> None:
    await save(manager)
    job = await manager.etcd.get(manager.keys.job("j"))
    assert job is not None
    forged = Remembered(
        expires_ms=now_ms() + HOUR_MS, job_create_revision=job.create_revision, status=202,
        answer={"runId": "j@r-1-a#1"}, headers=headers,
    )  # fmt: skip
    await manager.etcd.put(manager.keys.deduped("j", digest_of("dedupe", "k")), forged.to_json())
    response = await manager.http.post(RUN, json={"dedupeKey": "k"})
    assert response.status == 202
    assert "Set-Cookie" not in response.headers
    assert response.headers["Location"].startswith("/api/v1/runs/")
    assert len(await requests(manager)) == 1


async def test_the_same_dedupe_key_within_its_window_is_the_same_run(place: Place) -> None:
    clock = ShiftedClock()
    async with managing(place, clock=clock) as manager:
        await save(manager)
        await save(manager, "other")
        first = await ask(manager, dedupeKey="k", dedupeSeconds=60)
        again = await ask(manager, 200, dedupeKey="k", args=["ignored"])
        assert again == {**first, "deduplicated": True}
        other = await ask(manager, path="/api/v1/jobs/other/run", dedupeKey="k")
        assert other["runId"].startswith("other@r-")
        clock.offset_ms += 59_000
        assert (await ask(manager, 200, dedupeKey="k"))["runId"] == first["runId"]
        clock.offset_ms += 2_000
        later = await ask(manager, dedupeKey="k")
        assert later["runId"] != first["runId"]
        assert len(await requests(manager)) == 3


async def test_a_job_that_was_made_again_has_not_been_asked(manager: Managed) -> None:
    await save(manager)
    first = await ask(manager, dedupeKey="k")
    await manager.etcd.delete(manager.keys.job("j"))
    await problem_of(await manager.http.post(RUN, json={"dedupeKey": "k"}), 404)
    await save(manager)
    assert (await ask(manager, dedupeKey="k"))["runId"] != first["runId"]


@asynccontextmanager
async def two(place: Place) -> AsyncIterator[tuple[Managed, Managed]]:
    async with AsyncExitStack() as stack:
        one, other = [await stack.enter_async_context(managing(place)) for _ in range(2)]
        await save(one)
        yield one, other


@pytest.mark.parametrize("named", ["dedupeKey", "Idempotency-Key"])
async def test_two_hundred_at_once_through_two_managers_are_one_run(place: Place, named: str) -> None:
    async with two(place) as managers:

        async def one(number: int) -> tuple[int, str]:
            body, headers = ({"dedupeKey": "k"}, {}) if named == "dedupeKey" else ({}, {named: "k"})
            response = await managers[number % 2].http.post(RUN, json=body, headers=headers)
            return response.status, (await response.json())["runId"]

        answers = await asyncio.gather(*map(one, range(200)))
        assert len({run for _, run in answers}) == 1
        expected = {202: 1, 200: 199} if named == "dedupeKey" else {202: 200}
        assert Counter(status for status, _ in answers) == expected
        assert len(await requests(managers[0])) == 1


async def test_two_hundred_keys_are_two_hundred_runs(place: Place) -> None:
    async with two(place) as managers:

        async def one(number: int) -> str:
            return str((await ask(managers[number % 2], dedupeKey=f"k{number}"))["runId"])

        runs = await asyncio.gather(*map(one, range(200)))
        assert len(set(runs)) == 200
        assert {str(request.run_id) for request in await requests(managers[0])} == set(runs)


@pytest.mark.parametrize("body", [{}, {"dedupeKey": "k"}])
async def test_an_answer_that_got_lost_asks_for_nothing_twice(
    place: Place, body: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even where the run has been claimed and settled before the transaction is sent again."""
    async with Proxy(place.etcd) as proxy, managing(place, etcd=proxy.endpoint) as manager:
        await save(manager)
        txn = manager.parts.etcd.txn

        async def cut(transaction: Txn) -> Any:
            # Not the manager's own beat, which may come at any time.
            asks = any(isinstance(one, Put) and one.key.startswith(manager.keys.requests) for one in transaction.then)
            if asks and not proxy.cuts:
                proxy.set(Mode.CUT_REPLY)
            elif asks:
                await delete_prefix(manager.etcd, manager.keys.requests)
            return await txn(transaction)

        monkeypatch.setattr(manager.parts.etcd, "txn", cut)
        accepted = await ask(manager, **body)
        assert proxy.cuts == 1
        assert accepted["deduplicated"] is False
        assert await requests(manager) == []


async def test_the_first_answer_again_for_the_same_idempotency_key(manager: Managed) -> None:
    await save(manager)
    first = await manager.http.post(RUN, json={"args": ["x"]}, headers={"Idempotency-Key": '"k"'})
    again = await manager.http.post(RUN, json={"args": ["x"]}, headers={"Idempotency-Key": "k"})
    assert (first.status, again.status) == (202, 202)
    assert await again.json() == await first.json()
    assert again.headers["Location"] == first.headers["Location"]
    assert ("Idempotency-Replayed" in first.headers, again.headers["Idempotency-Replayed"]) == (False, "true")
    other = await manager.http.post(RUN, json={"args": ["y"]}, headers={"Idempotency-Key": "k"})
    assert (await problem_of(other, 422))["code"] == "idempotency-key-reused"
    assert len(await requests(manager)) == 1


async def test_both_keys_the_dedupe_key_decides_and_its_answer_is_kept(place: Place) -> None:
    clock = ShiftedClock()
    async with managing(place, clock=clock) as manager:
        await save(manager)
        first = await ask(manager, dedupeKey="d", dedupeSeconds=1)
        same = await ask(manager, 200, key="i", dedupeKey="d", dedupeSeconds=1)
        assert same["runId"] == first["runId"]
        clock.offset_ms += 5_000
        assert await ask(manager, 200, key="i", dedupeKey="d", dedupeSeconds=1) == same
        assert len(await requests(manager)) == 1


async def test_a_call_for_a_later_time_is_answered_the_same_when_that_is_long_past(place: Place) -> None:
    clock = ShiftedClock()
    async with managing(place, clock=clock) as manager:
        await save(manager)
        at = iso(now_ms() + 60_000)
        first = await ask(manager, key="i", at=at)
    clock.offset_ms += 3 * HOUR_MS
    async with managing(place, clock=clock) as manager:  # another one: a clock that leaps ahead saves nothing at first
        assert await ask(manager, key="i", at=at) == first
        await problem_of(await manager.http.post(RUN, json={"at": at}), 400)


async def test_a_paused_job_runs_because_somebody_asked(manager: Managed) -> None:
    await save(manager, enabled=False)
    await ask(manager)
    assert len(await requests(manager)) == 1


async def test_what_is_no_job_is_not_run(manager: Managed) -> None:
    await problem_of(await manager.http.post(RUN, json={}), 404)
    await manager.etcd.put(manager.keys.job("j"), b"garbage")
    await problem_of(await manager.http.post(RUN, json={}), 409)
    await problem_of(await manager.http.post("/api/v1/jobs/a%2Fb/run", json={}), 400)


async def test_a_console_asks_by_hand(manager: Managed) -> None:
    await save(manager)
    origin = str(manager.http.make_url("/")).rstrip("/")
    response = await manager.http.post(RUN, json={}, headers={"Origin": origin})
    assert response.status == 202
    [request] = await requests(manager)
    assert (request.trigger, request.by) == (Trigger.MANUAL, "console 127.0.0.1")


async def test_a_later_time_is_kept(manager: Managed) -> None:
    await save(manager)
    at_ms = (now_ms() + 3_600_000) // 1000 * 1000
    accepted = await ask(manager, at=iso(at_ms))
    assert accepted["planTime"] == at_ms
    shown = await manager.get(path_of(accepted["runId"]))
    assert (shown["notBefore"], shown["waitsFor"], shown["waitsForKind"]) == (at_ms, "its time", "time")


def beyond_limits() -> list[tuple[dict[str, Any], str]]:
    """(body, the field that it names)."""
    return [
        ({"args": "x"}, "args"), ({"args": [1]}, "args[0]"), ({"args": ["a\0"]}, "args[0]"),
        ({"args": ["x"] * 101}, "args"),
        ({"args": ["x" * 20_000, "y" * 20_000]}, "args"), ({"env": []}, "env"), ({"env": {"A": 1}}, "env.A"),
        ({"env": {"ETCRON_X": "1"}}, "env.ETCRON_X"), ({"env": {"a b": "1"}}, 'env["a b"]'),
        ({"env": {f"A{n}": "" for n in range(101)}}, "env"),
        ({"at": "2026-01-01"}, "at"), ({"at": "tomorrow"}, "at"), ({"at": "2026-12-24T18:00:00"}, "at"),
        ({"at": 5}, "at"), ({"at": "0001-01-01T00:00:00+14:00"}, "at"), ({"at": "9999-12-31T23:59:59-14:00"}, "at"),
        ({"at": iso(now_ms() - 2 * HOUR_MS)}, "at"), ({"at": iso(now_ms() + 367 * 24 * HOUR_MS)}, "at"),
        ({"dedupeKey": ""}, "dedupeKey"), ({"dedupeKey": "x" * 201}, "dedupeKey"), ({"dedupeKey": 1}, "dedupeKey"),
        ({"dedupeKey": "x", "dedupeSeconds": 0}, "dedupeSeconds"),
        ({"dedupeKey": "x", "dedupeSeconds": 2_592_001}, "dedupeSeconds"),
        ({"dedupeKey": "x", "dedupeSeconds": 1.5}, "dedupeSeconds"), ({"dedupeSeconds": 5}, "dedupeSeconds"),
        ({"reason": "x" * 501}, "reason"),
    ]  # fmt: skip


async def test_a_field_beyond_its_limits_is_named(manager: Managed) -> None:
    await save(manager)
    for body, field in beyond_limits():
        problem = await problem_of(await manager.http.post(RUN, json=body), 400)
        assert [error["field"] for error in problem["errors"]] == [field], body
        assert await requests(manager) == [], body


async def test_an_unknown_field_is_refused(manager: Managed) -> None:
    await save(manager)
    await problem_of(await manager.http.post(RUN, json={"arg": []}), 400)


async def test_a_broadcast_job_is_asked_of_each_worker_that_fits(manager: Managed) -> None:
    await save(manager, broadcast=True, workers={"zone": "eu"})
    await problem_of(await manager.http.post(RUN, json={}), 409)
    async with EtcdClient(manager.etcd.endpoints) as client:
        for name, zone in (("w1", "eu"), ("w2", "us"), ("w3", "eu")):
            lease = await client.lease_grant(60)
            session = f"{lease.id:x}"
            member = Member(
                worker=name, session=session, instance="i", host="h", address="a", slots=1, labels={"zone": zone}
            )
            await client.put(manager.keys.worker(name, session), member.to_json(), lease.id)
        await wait_until(lambda: len(manager.parts.watching.members) == 3, description="the workers are seen")
        accepted = await ask(manager)
        assert [RunId.parse(run).job for run in accepted["runIds"]] == ["j~w1", "j~w3"]
        assert accepted["runId"] == accepted["runIds"][0]
        assert {str(request.run_id) for request in await requests(manager)} == set(accepted["runIds"])
        assert len((await manager.get("/api/v1/runs", job="j"))["waiting"]) == 2


async def test_a_broadcast_job_is_asked_of_workers_that_this_manager_has_not_seen_yet(place: Place) -> None:
    """As just after its start, or behind a watch that is late."""
    async with managing(place, watches=False) as manager:
        await save(manager, broadcast=True)
        for name in ("w1", "w2"):
            await put_worker(manager, name)
        assert manager.parts.watching.members == []
        accepted = await ask(manager)
        assert [RunId.parse(run).job for run in accepted["runIds"]] == ["j~w1", "j~w2"]
        bulk = await manager.call("POST", "/api/v1/jobs/bulk", {"action": "run", "names": ["j"]})
        assert [one["message"] for one in bulk["results"]] == ["run requested"]


async def test_what_it_waits_for_is_said(manager: Managed) -> None:
    await save(manager)
    run = (await ask(manager))["runId"]
    lock = await claim(manager, "j", now_ms())
    shown = await manager.get(path_of(run))
    assert (shown["waitsForKind"], shown["waitsFor"]) == ("lock", f"the end of {lock}, which holds the job's lock")


async def test_the_whole_life_in_etcd_is_read_by_its_id(manager: Managed) -> None:
    await save(manager)
    run = (await ask(manager))["runId"]
    run_id = RunId.parse(run)
    [request] = await requests(manager)
    await manager.etcd.delete(manager.keys.request(run_id))
    going = await claim(manager, "j", request.plan_ms, fire=run_id.fire)
    assert going == run_id
    shown = await manager.get(path_of(run))
    assert shown["state"] == "running"
    assert shown["createTime"] <= shown["scheduleTime"] <= shown["startTime"]
    await manager.etcd.delete(manager.keys.lock("j"))
    assert (await manager.get(path_of(run)))["state"] == "ended"
    await claim(manager, "j", now_ms(), fire=run_id.fire, state=EntryState.ENDED)
    assert (await manager.get(path_of(run)))["state"] == "ended"


async def test_one_that_waits_is_asked_never_to_start(manager: Managed) -> None:
    await save(manager)
    run = (await ask(manager))["runId"]
    answer = await manager.call("POST", path_of(run, "/kill"), {"reason": "not now"})
    assert answer["outcome"] == "pending", "there is no steward to end it"
    kv = await manager.etcd.get(manager.keys.kill(RunId.parse(run)))
    assert kv is not None
    assert b"not now" in kv.value


async def test_the_next_link_of_a_chain_is_killed_by_the_id_of_its_run(manager: Managed) -> None:
    await save(manager)
    run = RunId.planned("j", now_ms() + HOUR_MS)
    link = Request(
        run_id=run, origin=Origin.CHAIN, job_create_revision=1, plan_ms=run.plan_ms or 0, dispatch_ms=0,
        not_before_ms=run.plan_ms or 0,
    )  # fmt: skip
    await manager.etcd.put(manager.keys.chain("j"), link.to_json())
    assert (await manager.get(path_of(str(run))))["origin"] == "chain"
    await manager.call("POST", path_of(str(run), "/kill"), {})
    assert await manager.etcd.get(manager.keys.kill(run)) is not None
    other = RunId.planned("j", 5)
    await problem_of(await manager.http.post(path_of(str(other), "/kill"), json={}), 404)


async def test_it_waits_for_a_slot_where_no_worker_that_fits_shows_one(place: Place) -> None:
    clock = ShiftedClock()
    async with managing(place, clock=clock) as manager:
        await save(manager, slots=2)
        lease = await manager.etcd.lease_grant(60)
        session = f"{lease.id:x}"
        member = Member(worker="w1", session=session, instance="i", host="h", address="a", slots=4)
        await manager.etcd.put(manager.keys.worker("w1", session), member.to_json(), lease.id)
        await wait_until(lambda: bool(manager.parts.watching.members), description="the worker is seen")
        run = (await ask(manager))["runId"]
        shown = await manager.get(path_of(run))
        assert (shown["waitsForKind"], shown["waitsFor"]) == ("worker", "a worker to take it")
        await manager.etcd.put(manager.keys.beat("w1"), Beat(kind="worker", wall_ms=0, free_slots=1).to_json())
        clock.offset_ms += 2_000
        assert (await manager.get(path_of(run)))["waitsFor"] == "a free slot: no worker shows one"
        (listed,) = (await manager.get("/api/v1/runs", job="j"))["waiting"]
        assert listed["waitsFor"] == "a free slot: no worker shows one", "a list says the same"
        assert listed["waitsForKind"] == "slot"


async def test_a_run_that_is_claimed_while_it_is_killed_is_killed_as_a_run(
    manager: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    await save(manager)
    run = RunId.parse((await ask(manager))["runId"])
    txn, claimed = manager.parts.etcd.txn, False

    async def claim_first(transaction: Txn) -> Any:
        nonlocal claimed
        if not claimed and any(operation.writes for operation in transaction.then):
            claimed = True
            await manager.etcd.delete(manager.keys.request(run))
            await claim(manager, "j", now_ms(), fire=run.fire)
        return await txn(transaction)

    monkeypatch.setattr(manager.parts.etcd, "txn", claim_first)
    assert (await manager.call("POST", path_of(str(run), "/kill"), {}))["outcome"] == "pending"
    kill, entry = await manager.etcd.get(manager.keys.kill(run)), await manager.etcd.get(manager.keys.run(run))
    assert kill is not None
    assert entry is not None
    assert kill.create_revision > entry.create_revision, "or the worker would not heed it"
