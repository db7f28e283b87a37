"""Saves of `after` and `at` jobs beside the runs that they meet: the link is there once the lock is free, and once."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from common.access.rights import OWNER
from common.clock import SystemClock
from common.instants import from_ms
from common.jobs.reader import parse_job
from common.protocol.request import Request
from common.protocol.txn import Delete, Put, Txn
from common.timings import Timings
from manager.use_cases.jobs import JobService
from tests.support.managing import Managed, Place, problem_of
from tests.support.meeting import Meeting
from tests.support.waiting import wait_until


def job(**fields: Any) -> str:
    return json.dumps({"name": "j", "command": "true"} | ({} if "at" in fields else {"after": "1h"}) | fields)


async def link(manager: Managed) -> Request | None:
    """The next link, as a worker reads it."""
    kv = await manager.etcd.get(manager.keys.chain("j"))
    run_id = manager.keys.run_of(manager.keys.chain("j"))
    return Request.from_json(kv.value, run_id=run_id, revision=kv.mod_revision) if kv else None


async def created(manager: Managed) -> int:
    kv = await manager.etcd.get(manager.keys.job("j"))
    assert kv is not None
    return kv.create_revision


async def hold(manager: Managed) -> None:
    """A run takes the link and the lock."""
    keys = manager.keys
    await manager.etcd.txn(Txn([], [Put(keys.lock("j"), b"j@5#1"), Delete(keys.chain("j"))]))


async def test_first_save_asks_for_the_first_run_at_once(manager: Managed) -> None:
    before_ms = SystemClock().wall_ms()
    await manager.save(job())
    first = await link(manager)
    assert first is not None
    assert before_ms <= first.plan_ms <= SystemClock().wall_ms()
    assert first.job_create_revision == await created(manager)


async def test_link_stays_while_only_the_command_changes_and_begins_anew_with_the_trigger(manager: Managed) -> None:
    await manager.save(job())
    first = await link(manager)
    await manager.save(job(command="other"))
    assert await link(manager) == first
    await manager.save(job(command="other", after="2h"))
    anew = await link(manager)
    assert anew is not None
    assert first is not None
    assert anew.plan_ms > first.plan_ms
    assert anew.job_create_revision == await created(manager)


async def test_pause_resume_and_delete_take_the_link_along(manager: Managed) -> None:
    await manager.save(job())
    await manager.call("POST", "/api/v1/jobs/j/pause", {"reason": "why"})
    assert await link(manager) is None
    await manager.call("POST", "/api/v1/jobs/j/resume", {})
    assert await link(manager) is not None
    await manager.post("/job/delete", name="j")
    assert await link(manager) is None
    assert not [key for key in await manager.stored() if key.startswith(manager.keys.requests)]


async def test_while_a_run_holds_the_lock_no_edit_puts_a_link(manager: Managed) -> None:
    await manager.save(job())
    await hold(manager)
    await manager.save(job(after="2h"))
    await manager.call("POST", "/api/v1/jobs/j/pause", {"reason": "why"})
    await manager.call("POST", "/api/v1/jobs/j/resume", {})
    assert await link(manager) is None
    await manager.post("/job/delete", name="j")
    await manager.save(job())
    assert await link(manager) is None, "the end of the run puts it, for the job as it is then"


async def save_meeting(place: Place, event: Callable[[], Awaitable[Any]], **fields: Any) -> None:
    """A save between whose read and write this happens."""
    async with Meeting(place.etcd, event) as etcd:
        service = JobService(
            etcd, place.keys, clock=SystemClock(), timings=Timings(), deliver=lambda _: None, patience_s=4
        )
        await service.save(parse_job(json.loads(job(**fields))), by="test", rights=OWNER)


async def test_run_that_begins_during_the_save_is_seen(manager: Managed, place: Place) -> None:
    await manager.save(job())
    await save_meeting(place, lambda: hold(manager), after="2h")
    assert await link(manager) is None


async def test_run_that_ends_during_the_save_is_seen(manager: Managed, place: Place) -> None:
    await manager.save(job())
    await hold(manager)
    await manager.call("POST", "/api/v1/jobs/j/pause", {"reason": "its end puts no link then"})
    await save_meeting(place, lambda: manager.etcd.delete(manager.keys.lock("j")), after="2h")
    assert await link(manager) is not None


async def test_link_that_comes_during_a_pause_goes_with_it(manager: Managed, place: Place) -> None:
    await manager.save(job())
    first = await link(manager)
    assert first is not None
    await hold(manager)

    async def run_ends() -> None:
        keys = manager.keys
        await manager.etcd.txn(Txn([], [Delete(keys.lock("j")), Put(keys.chain("j"), first.to_json())]))

    await save_meeting(place, run_ends, enabled=False)
    assert await link(manager) is None


# One-shot jobs


async def test_one_shot_within_its_grace_is_still_to_fire(manager: Managed) -> None:
    at_ms = SystemClock().wall_ms() - 20_000
    answer = await manager.call("PUT", "/api/v1/jobs/j", json.loads(job(at=from_ms(at_ms).isoformat())))
    assert await manager.mark("j") == at_ms - 1
    assert not any("nothing will fire" in one for one in answer["warnings"])


async def test_one_shot_that_was_decided_already_says_that_nothing_will_fire(manager: Managed) -> None:
    at_ms = SystemClock().wall_ms() - 20_000
    await manager.save(job())  # its mark is now: everything up to now is decided
    answer = await manager.call("PUT", "/api/v1/jobs/j", json.loads(job(at=from_ms(at_ms).isoformat())))
    assert any("nothing will fire" in one for one in answer["warnings"])
    assert await link(manager) is None


async def test_one_shot_that_is_resumed_within_its_grace_is_still_to_fire(manager: Managed) -> None:
    at_ms = SystemClock().wall_ms() + 1000
    await manager.save(job(at=from_ms(at_ms).isoformat(), enabled=False))
    await wait_until(lambda: SystemClock().wall_ms() > at_ms, description="it is past")
    answer = await manager.call("POST", "/api/v1/jobs/j/resume", {})
    assert await manager.mark("j") == at_ms - 1
    assert any("it fires at once" in one for one in answer["warnings"])


async def test_one_shot_that_is_resumed_past_its_grace_is_refused(manager: Managed) -> None:
    await manager.save(job(at=from_ms(SystemClock().wall_ms() - 61_000).isoformat(), enabled=False))
    problem = await problem_of(await manager.http.post("/api/v1/jobs/j/resume", json={}), 400)
    assert "past by more than its grace" in str(problem["errors"])
