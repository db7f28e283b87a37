"""A POST with an Idempotency-Key: once, and the first answer again; of whatever goes wrong, nothing is remembered."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from common.errors import EtcdInDoubtError
from common.protocol.dedupe import ANYTHING, Remembered
from common.protocol.keys import Keys
from tests.support.managing import Managed, Place, ShiftedClock, managing, problem_of
from tests.support.waiting import wait_until

JOB = {"command": "echo", "cronExpr": "@yearly"}
PAUSE = "/api/v1/jobs/j/pause"


async def post(manager: Managed, body: object, *, key: str = "k", path: str = PAUSE) -> Any:
    return await manager.http.post(path, json=body, headers={"Idempotency-Key": key})


async def remembered(manager: Managed) -> list[Remembered]:
    pages = manager.etcd.read_prefix(Keys(manager.keys.prefix).dedupe + ANYTHING)
    return [Remembered.from_json(kv.value) async for page in pages for kv in page.kvs]


async def test_the_same_call_again_does_nothing_and_gets_the_same_answer(manager: Managed) -> None:
    await manager.call("PUT", "/api/v1/jobs/j", JOB)
    first = await (await post(manager, {"reason": "a"})).json()
    await manager.call("POST", "/api/v1/jobs/j/resume", {})
    again = await post(manager, {"reason": "a"})
    assert (again.status, again.headers["Idempotency-Replayed"]) == (200, "true")
    assert again.content_type == "application/json"
    assert await again.json() == first
    assert (await manager.get("/api/v1/jobs/j"))["state"] == "enabled", "it was not paused a second time"


async def test_another_request_under_the_same_key_is_refused(manager: Managed) -> None:
    await manager.call("PUT", "/api/v1/jobs/j", JOB)
    await post(manager, {"reason": "a"})
    assert (await problem_of(await post(manager, {"reason": "b"}), 422))["code"] == "idempotency-key-reused"
    assert (await post(manager, {"reason": "b"}, key="other")).status == 200
    resumed = await post(manager, {}, path="/api/v1/jobs/j/resume")
    assert resumed.status == 200, "a key belongs to its call"


async def test_what_changes_nothing_is_carried_out_each_time(manager: Managed) -> None:
    spread, body = "/api/v1/forecast/spread", {"names": ["j"], "by": "minute"}
    for expr in ("0 2 * * *", "0 3 * * *"):
        await manager.call("PUT", "/api/v1/jobs/j", {**JOB, "cronExpr": expr})
        answer = await post(manager, body, path=spread)
        [shown] = (await answer.json())["items"]
        assert (answer.headers.get("Idempotency-Replayed"), shown["after"]["cronExpr"]) == (None, f"H{expr[1:]}")
    assert await remembered(manager) == []


async def test_many_at_once_are_carried_out_once(place: Place) -> None:
    async with managing(place) as one, managing(place) as other:
        await one.call("PUT", "/api/v1/jobs/j", JOB)

        async def ask(number: int) -> tuple[int, bool]:
            response = await post((one, other)[number % 2], {"reason": "a"})
            return response.status, "Idempotency-Replayed" in response.headers

        answers = Counter(await asyncio.gather(*map(ask, range(40))))
        assert answers[200, False] == 1
        assert {status for status, _ in answers} <= {200, 409}


async def test_while_the_first_goes_on_others_are_told_so(manager: Managed, monkeypatch: pytest.MonkeyPatch) -> None:
    await manager.call("PUT", "/api/v1/jobs/j", JOB)
    may_go_on, pause = asyncio.Event(), manager.parts.jobs.pause

    async def slow(*arguments: Any, **more: Any) -> Any:
        await may_go_on.wait()
        return await pause(*arguments, **more)

    monkeypatch.setattr(manager.parts.jobs, "pause", slow)
    first = asyncio.ensure_future(post(manager, {}))

    async def begun() -> bool:
        return bool(await remembered(manager))

    await wait_until(begun, description="the first has begun")
    assert (await problem_of(await post(manager, {}), 409))["code"] == "idempotency-in-progress"
    may_go_on.set()
    assert (await first).status == 200
    assert (await post(manager, {})).status == 200


async def test_call_that_may_have_been_done_is_not_carried_out_again(
    manager: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    await manager.call("PUT", "/api/v1/jobs/j", JOB)

    async def lost(*_: Any, **__: Any) -> Any:
        raise EtcdInDoubtError("etcd gave no answer (lost)")

    with monkeypatch.context() as patched:
        patched.setattr(manager.parts.jobs, "pause", lost)
        assert (await problem_of(await post(manager, {}), 503))["inDoubt"] is True
    assert (await problem_of(await post(manager, {}), 409))["code"] == "idempotency-in-progress"


async def test_who_was_given_up_for_dead_remembers_nothing(manager: Managed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call has been carried out by another manager meanwhile, under the same key."""
    await manager.call("PUT", "/api/v1/jobs/j", JOB)
    pause, there = manager.parts.jobs.pause, list[str]()

    async def slow(*arguments: Any, **more: Any) -> Any:
        async for page in manager.etcd.read_prefix(manager.keys.dedupe):
            there.extend(kv.key for kv in page.kvs)
        await manager.etcd.put(there[0], b"another's answer")
        return await pause(*arguments, **more)

    monkeypatch.setattr(manager.parts.jobs, "pause", slow)
    await post(manager, {})
    kv = await manager.etcd.get(there[0])
    assert kv is not None
    assert kv.value == b"another's answer"


async def test_a_failure_is_forgotten(manager: Managed) -> None:
    await problem_of(await post(manager, {}), 404)
    await problem_of(await post(manager, {"what": 1}), 400)
    assert await remembered(manager) == []
    await manager.call("PUT", "/api/v1/jobs/j", JOB)
    assert (await post(manager, {})).status == 200


async def test_what_failed_in_a_way_that_nobody_expected_may_have_been_done(
    manager: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    await manager.call("PUT", "/api/v1/jobs/j", JOB)
    pause = manager.parts.jobs.pause

    async def stumbling(*arguments: Any, **more: Any) -> None:
        await pause(*arguments, **more)
        raise ZeroDivisionError

    monkeypatch.setattr(manager.parts.jobs, "pause", stumbling)
    await problem_of(await post(manager, {}), 500)
    assert (await problem_of(await post(manager, {}), 409))["code"] == "idempotency-in-progress"


async def test_what_a_dead_manager_left_is_carried_out_once_nothing_can_go_on_any_more(place: Place) -> None:
    clock = ShiftedClock()
    async with managing(place, clock=clock) as manager:
        await manager.call("PUT", "/api/v1/jobs/j", JOB)
        await post(manager, {})
        async for page in manager.etcd.read_prefix(manager.keys.dedupe):
            for kv in page.kvs:
                known = Remembered.from_json(kv.value)
                left = Remembered(expires_ms=clock.wall_ms() + 5_000, fingerprint=known.fingerprint, token="dead")
                await manager.etcd.put(kv.key, left.to_json())
        await problem_of(await post(manager, {}), 409)
        clock.offset_ms += 6_000
        assert (await post(manager, {})).status == 200


async def test_after_a_day_the_key_is_a_new_one(place: Place) -> None:
    clock = ShiftedClock()
    async with managing(place, clock=clock) as manager:
        await manager.call("PUT", "/api/v1/jobs/j", JOB)
        await post(manager, {"reason": "a"})
        clock.offset_ms += 86_400_001
        assert (await post(manager, {"reason": "b"})).status == 200


@pytest.mark.parametrize("key", ["", '""', "a b", "x" * 256, "caf\u00e9"])
async def test_what_is_no_key_is_refused(manager: Managed, key: str) -> None:
    assert (await problem_of(await post(manager, {}, key=key), 400))["code"] == "bad-idempotency-key"


async def test_a_bad_body_is_refused_as_ever(manager: Managed) -> None:
    response = await manager.http.post(PAUSE, data=b"x", headers={"Idempotency-Key": "k"})
    await problem_of(response, 415)
    await problem_of(await post(manager, {}, path="/api/v1/nothing"), 404)
    await problem_of(await manager.http.post("/api/v1/jobs", json={}, headers={"Idempotency-Key": "k"}), 405)


async def test_an_answer_that_is_too_large_is_not_kept(manager: Managed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manager.http.idempotency.MAX_ANSWER_BYTES", 10)
    await manager.call("PUT", "/api/v1/jobs/j", JOB)
    await post(manager, {})
    again = await post(manager, {})
    assert again.status == 200
    assert "carried out before" in (await again.json())["message"]
