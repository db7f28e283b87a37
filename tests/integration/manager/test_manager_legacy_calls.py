"""The six calls of the legacy API, as its clients send them, in the shapes that they know."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from common.etcd import EtcdClient
from common.protocol.keys import RunId
from common.protocol.member import Member
from common.protocol.run import RunRecord
from common.protocol.saved_job import SavedJob
from common.verdicts import Verdict
from tests.support.managing import Managed

JOB1 = '{"name":"job1","command":"echo hello","cronExpr":"*/5 * * * * * *"}'
DEFAULTS = {
    "name": "job1", "command": "echo hello", "cronExpr": "*/5 * * * * * *", "timezone": "UTC", "enabled": True,
    "overlap": "skip", "timeoutSeconds": 0, "killGraceSeconds": 5, "outputLimitBytes": 262144, "env": {},
    "secrets": {}, "secretFiles": {},
    "misfire": {"policy": "latest", "graceSeconds": 60, "windowSeconds": 3600, "limit": 10},
    "lostAfterSeconds": None, "labels": {},
    "every": None, "offset": None, "after": None, "at": None, "startAt": None, "endAt": None, "calendar": None,
    "jitterSeconds": 0, "onWorkerLost": "record", "workdir": None, "user": None, "shell": None, "workers": {},
    "broadcast": False, "slots": 1, "priority": 0,
    "retry": {"limit": 0, "delaySeconds": 10, "backoff": 2, "maxDelaySeconds": 3600, "jitter": 0, "onExitCodes": [],
              "otherWorker": False},
    "description": "", "links": [], "notify": [], "warnAfterSeconds": 0, "lateAfterSeconds": 0, "silentAfterSeconds": 0,
    "suspiciousBelowSeconds": 0,
}  # fmt: skip
HOUR_MS = 3_600_000


async def test_first_save_replaces_nothing(manager: Managed) -> None:
    answer = await manager.save(JOB1)
    assert answer["msg"] == "success"
    assert answer["data"] is None
    assert answer["warnings"] == []
    kv = await manager.etcd.get(manager.keys.job("job1"))
    assert kv is not None
    assert kv.mod_revision == answer["revision"]
    assert SavedJob.from_json(kv.value, name="job1").saved_by == "api 127.0.0.1"


async def test_second_save_answers_with_the_job_it_replaced(manager: Managed) -> None:
    await manager.save(JOB1)
    answer = await manager.save(JOB1.replace("hello", "bye"))
    assert answer["data"] == DEFAULTS


async def test_answer_is_spelled_like_the_parents(manager: Managed) -> None:
    response = await manager.http.post("/job/save", data={"job": JOB1})
    assert (await response.text()).startswith('{"errno":0,"msg":"success","data":null')
    assert response.content_type == "application/json"


async def test_list_shows_every_job_with_its_defaults_in_the_order_of_names(manager: Managed) -> None:
    await manager.save(JOB1.replace("job1", "job2"))
    await manager.save(JOB1)
    answer = await manager.get("/job/list")
    assert set(answer) == {"errno", "msg", "data"}
    assert answer["data"] == [DEFAULTS, {**DEFAULTS, "name": "job2"}]


async def test_empty_list_is_an_empty_array(manager: Managed) -> None:
    assert await manager.get("/job/list") == {"errno": 0, "msg": "success", "data": []}


async def test_job_from_the_list_can_be_saved_as_it_is(manager: Managed) -> None:
    await manager.save('{"name":"j","command":"é & + % \\" <b>","cronExpr":"@daily","labels":{"team":"x"}}')
    shown = (await manager.get("/job/list"))["data"][0]
    answer = await manager.save(json.dumps(shown | {"command": shown["command"] + "!"}))
    assert answer["data"] == shown


async def test_list_is_longer_than_a_page(manager: Managed) -> None:
    count = 700
    kv_of = manager.keys.job
    value = (await _saved_value(manager)).decode()
    for number in range(count):
        name = f"many-{number:04d}"
        await manager.etcd.put(kv_of(name), value.replace('"template"', f'"{name}"').encode())
    names = [job["name"] for job in (await manager.get("/job/list"))["data"]]
    assert names == [f"many-{number:04d}" for number in range(count)] + ["template"]


async def test_delete_answers_with_the_job_and_keeps_its_mark(manager: Managed) -> None:
    await manager.save(JOB1)
    mark = await manager.mark("job1")
    answer = await manager.post("/job/delete", name="job1")
    assert answer == {"errno": 0, "msg": "success", "data": DEFAULTS}
    assert (await manager.get("/job/list"))["data"] == []
    kept = await manager.mark("job1")
    assert kept is not None
    assert mark is not None
    assert kept >= mark


async def test_delete_of_no_job_says_so(manager: Managed) -> None:
    answer = await manager.post("/job/delete", name="nobody")
    assert answer == {"errno": 0, "msg": "success: there was no job nobody", "data": None}
    assert await manager.stored() == {}


async def test_kill_with_nothing_running_says_so(manager: Managed) -> None:
    answer = await manager.post("/job/kill", name="job1")
    assert answer == {"errno": 0, "msg": "success: no run of job1 was going", "data": None, "killed": []}


async def test_log_has_the_legacy_fields_newest_start_first(manager: Managed) -> None:
    await manager.write([_run("job1", HOUR_MS, output="old"), _run("job1", 2 * HOUR_MS, output="new"), _run("job2", 0)])
    answer = await manager.get("/job/log", name="job1", skip="0", limit="10")
    assert set(answer) == {"errno", "msg", "data"}
    assert [document["output"] for document in answer["data"]] == ["new", "old"]
    first = answer["data"][0]
    parents = {"jobName", "command", "err", "output", "planTime", "scheduleTime", "startTime", "endTime"}
    assert parents <= set(first)
    assert first["err"] == ""
    assert (first["jobName"], first["planTime"], first["startTime"]) == ("job1", 2 * HOUR_MS, 2 * HOUR_MS + 2)


async def test_log_skips_and_limits(manager: Managed) -> None:
    await manager.write([_run("job1", number * HOUR_MS) for number in range(1, 25)])
    assert len((await manager.get("/job/log", name="job1"))["data"]) == 20
    page = (await manager.get("/job/log", name="job1", skip="3", limit="2"))["data"]
    assert [document["planTime"] // HOUR_MS for document in page] == [21, 20]


@pytest.mark.parametrize(("limit", "count", "size"), [("1000", 64, 2**18), ("20", 16, 2**20)])
async def test_long_log_is_sent_as_it_is_read(manager: Managed, limit: str, count: int, size: int) -> None:
    """It is as long as its outputs are: neither the manager nor its event loop is to hold all of it."""
    runs = [
        _run("job1", number * HOUR_MS, output=f"{number} " + "x" * size, output_bytes=size + 2)
        for number in range(1, count + 1)
    ]
    for start in range(0, len(runs), 8):
        await manager.write(runs[start : start + 8])
    tracemalloc.start()
    try:
        response = await manager.http.get("/job/log", params={"name": "job1", "limit": limit})
        seen = b"".join([piece.replace(b"x", b"") async for piece in response.content.iter_any()])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    outputs = [document["output"] for document in json.loads(seen)["data"]]
    assert outputs == [f"{number} " for number in range(count, 0, -1)]
    assert peak < 12 * 2**20


async def test_log_has_no_fire_that_did_not_run(manager: Managed) -> None:
    skipped = RunRecord(run_id=RunId.planned("job1", 1), status=Verdict.SKIPPED, reason="overlap", plan_ms=1)
    await manager.write([skipped])
    assert (await manager.get("/job/log", name="job1"))["data"] == []
    assert [item["id"] for item in (await manager.get("/api/v1/runs", job="job1"))["items"]] == ["job1@1#1"]


async def test_log_of_an_unknown_job_is_empty(manager: Managed) -> None:
    assert (await manager.get("/job/log", name="nobody"))["data"] == []


async def test_log_lets_the_cache_buster_of_browsers_be(manager: Managed) -> None:
    assert (await manager.get("/job/log", name="nobody", _="1700000000000"))["data"] == []


async def test_workers_are_their_addresses(manager: Managed) -> None:
    await _join(manager, "w1", "10.0.0.1")
    await _join(manager, "w2", "10.0.0.2")
    assert await manager.get("/worker/list") == {"errno": 0, "msg": "success", "data": ["10.0.0.1", "10.0.0.2"]}


async def test_workers_of_one_machine_are_numbered(manager: Managed) -> None:
    for name in ("b", "a", "c"):
        await _join(manager, name, "10.0.0.1")
    assert (await manager.get("/worker/list"))["data"] == ["10.0.0.1#1", "10.0.0.1#2", "10.0.0.1#3"]


async def test_worker_whose_key_is_off_its_lease_is_not_healthy(manager: Managed) -> None:
    lease = await _join(manager, "w1", "10.0.0.1")
    key = manager.keys.worker("w1", f"{lease:x}")
    kv = await manager.etcd.get(key)
    assert kv is not None
    await manager.etcd.put(key, kv.value)
    await manager.etcd.put(manager.keys.workers + "garbage", b"{")
    assert (await manager.get("/worker/list"))["data"] == []
    states = {item.get("name"): item["state"] for item in (await manager.get("/api/v1/workers"))["items"]}
    assert states == {"w1": "detached", None: "broken"}


async def _saved_value(manager: Managed) -> bytes:
    await manager.save(JOB1.replace("job1", "template"))
    kv = await manager.etcd.get(manager.keys.job("template"))
    assert kv is not None
    return kv.value


def _run(job: str, plan_ms: int, **more: Any) -> RunRecord:
    return RunRecord(
        run_id=RunId.planned(job, plan_ms), status=Verdict.SUCCESS, command="echo", plan_ms=plan_ms,
        schedule_ms=plan_ms + 1, start_ms=plan_ms + 2, end_ms=plan_ms + 3, exit_code=0, worker="w1", **more,
    )  # fmt: skip


async def _join(manager: Managed, worker: str, address: str) -> int:
    etcd: EtcdClient = manager.etcd
    lease = await etcd.lease_grant(60)
    member = Member(worker=worker, session="", instance="i", host="h", address=address, slots=8)
    await etcd.put(manager.keys.worker(worker, f"{lease.id:x}"), member.to_json(), lease.id)
    return lease.id
