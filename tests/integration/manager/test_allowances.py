"""How much of etcd one job and one caller may fill; and that what changes nothing fills nothing."""

from __future__ import annotations

from typing import Any

import pytest

from common.instants import iso
from common.protocol.dedupe import ANYTHING, digest_of
from common.protocol.keys import RunId
from common.protocol.txn import Put, Txn
from manager.http import allowances
from tests.support.managing import Managed, Place, ShiftedClock, managing, problem_of
from tests.support.open_runs import now_ms

JOB = {"command": "echo", "cronExpr": "@yearly"}
RUN = "/api/v1/jobs/j/run"
HOUR_MS = 3_600_000


async def post(manager: Managed, path: str, body: object, *, key: str | None = None) -> Any:
    return await manager.http.post(path, json=body, headers={} if key is None else {"Idempotency-Key": key})


async def refused(response: Any, most: str) -> dict[str, Any]:
    problem = await problem_of(response, 429)
    assert problem["code"] == "too-many"
    assert f"at most {most}" in problem["detail"]
    assert int(response.headers["Retry-After"]) > 0
    return problem


async def put_all(manager: Managed, keys: list[str]) -> None:
    for start in range(0, len(keys), 100):
        await manager.etcd.txn(Txn((), [Put(key, b"{}") for key in keys[start : start + 100]]))


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/api/v1/jobs/check", JOB, 200),
        ("/api/v1/schedule/preview", {"every": "1h"}, 200),
        ("/api/v1/jobs/check", {"a": 1, "b": [1]}, 200),
        ("/api/v1/jobs/nobody/pause", {}, 404),
        ("/api/v1/jobs/nobody/run", {}, 404),
        ("/api/v1/jobs/bulk", {}, 400),
        ("/api/v1/workers/nobody/drain", {}, 404),
    ],
)
async def test_what_changes_nothing_is_not_remembered(manager: Managed, path: str, body: object, status: int) -> None:
    for number in range(3):
        assert (await post(manager, path, body, key=f"k{number}")).status == status
    assert [key for key in await manager.stored() if key.startswith(manager.keys.dedupe)] == []


async def test_a_job_has_a_bound_of_runs_that_wait(manager: Managed) -> None:
    await manager.call("PUT", "/api/v1/jobs/j", JOB)
    fires = [RunId("j", f"r-{number:013d}-00") for number in range(1000)]
    await put_all(manager, [manager.keys.request(run) for run in fires])
    await refused(await post(manager, RUN, {}), "1,000")
    await refused(await post(manager, RUN, {"at": iso(now_ms() + HOUR_MS)}), "1,000")
    await manager.etcd.delete(manager.keys.request(fires[0]))
    assert (await post(manager, RUN, {})).status == 202


async def test_a_job_has_a_bound_of_keys_that_are_remembered(manager: Managed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manager.http.allowances.MOST_REMEMBERED_OF_ALL", 500)
    await manager.call("PUT", "/api/v1/jobs/j", JOB)
    assert (await post(manager, RUN, {}, key="first")).status == 202
    await put_all(manager, [manager.keys.deduped("j", digest_of("dedupe", str(number))) for number in range(500)])
    await refused(await post(manager, RUN, {"dedupeKey": "new"}), "500")
    await refused(await post(manager, RUN, {}, key="new"), "500")
    again = await post(manager, RUN, {}, key="first")
    assert (again.status, again.headers["Idempotency-Replayed"]) == (202, "true"), "what is remembered is answered"


async def test_the_calls_of_no_job_have_a_bound(manager: Managed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manager.http.allowances.MOST_REMEMBERED_OF_ALL", 500)
    await manager.call("PUT", "/api/v1/jobs/j", JOB)
    await put_all(manager, [manager.keys.deduped(ANYTHING, digest_of("call", str(number))) for number in range(500)])
    await refused(await post(manager, "/api/v1/jobs/j/pause", {}, key="new"), "500")
    assert (await manager.get("/api/v1/jobs/j"))["state"] == "enabled"


async def test_a_caller_has_a_bound_of_runs_for_later_until_they_are_due(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manager.http.allowances.MOST_WAITING", 3)
    clock = ShiftedClock()
    async with managing(place, clock=clock) as manager:
        for name in "jklm":
            await manager.call("PUT", f"/api/v1/jobs/{name}", JOB)
        for name in "jkl":
            await manager.call("POST", f"/api/v1/jobs/{name}/run", {"at": iso(clock.wall_ms() + HOUR_MS)})
        response = await post(manager, "/api/v1/jobs/m/run", {"at": iso(clock.wall_ms() + HOUR_MS)})
        assert "127.0.0.1" in (await refused(response, "3"))["detail"]
        assert int(response.headers["Retry-After"]) in range(HOUR_MS // 1000 - 60, HOUR_MS // 1000 + 2)
        assert (await post(manager, "/api/v1/jobs/m/run", {})).status == 202, "at once it may"
        clock.offset_ms += HOUR_MS + 1000
        assert (await post(manager, "/api/v1/jobs/m/run", {"at": iso(clock.wall_ms() + HOUR_MS)})).status == 202


async def test_a_caller_has_a_bound_of_runs_of_one_job_for_later(
    manager: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that no caller alone has others wait for a run of it."""
    monkeypatch.setattr("manager.http.allowances.MOST_LATER", 2)
    for name in "jk":
        await manager.call("PUT", f"/api/v1/jobs/{name}", JOB)
    later = {"at": iso(now_ms() + HOUR_MS)}
    for _ in range(2):
        assert (await post(manager, RUN, later)).status == 202
    assert "of this job" in (await refused(await post(manager, RUN, later), "2"))["detail"]
    assert (await post(manager, RUN, {})).status == 202
    assert (await post(manager, "/api/v1/jobs/k/run", later)).status == 202


def test_no_caller_can_take_what_others_need() -> None:
    assert allowances.MOST_REMEMBERED * 10 <= allowances.MOST_REMEMBERED_OF_ALL
    assert allowances.MOST_LATER * 10 <= allowances.MOST_WAITING


async def test_a_caller_has_a_bound_of_keys_whatever_they_are_used_for(
    manager: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manager.http.allowances.MOST_REMEMBERED", 4)
    await manager.call("PUT", "/api/v1/jobs/j", JOB)
    for key in "abc":
        assert (await post(manager, "/api/v1/jobs/j/pause", {}, key=key)).status == 200
    assert (await post(manager, RUN, {"dedupeKey": "d"})).status == 202
    assert "127.0.0.1" in (await refused(await post(manager, RUN, {}, key="e"), "4"))["detail"]
    await refused(await post(manager, "/api/v1/jobs/j/resume", {}, key="e"), "4")
    assert (await post(manager, "/api/v1/jobs/j/pause", {}, key="a")).headers["Idempotency-Replayed"] == "true"
