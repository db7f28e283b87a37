"""What a worker's records tell comes to the outbox, and only what is a problem by now."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from common.access.selectors import Selector
from common.clock import SystemClock
from common.errors import ForbiddenError
from common.notices.events import Event
from common.notices.forms import Stored
from common.notices.rules import RULE, Rule
from common.protocol.keys import RunId
from common.runlog.outbox import Outbox
from common.verdicts import EventKind
from tests.support.waiting import wait_until
from tests.support.working import Place, World, working

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]


async def told(world: World) -> list[Event]:
    return [event for document in await world.runlog.outbox.read(100) for event in document.events]


async def all_told(world: World, count: int) -> list[Event]:
    async def enough() -> bool:
        return len(await told(world)) >= count

    await wait_until(enough, description=f"{count} events are told")
    return await told(world)


async def run(world: World, name: str, command: str, attempts: int = 1, **fields: Any) -> RunId:
    """One run of such a job, until its records are there."""
    job = await world.save(name, command, **fields)
    run_id = await world.ask(job, SystemClock().wall_ms(), name=name)
    for attempt in range(1, attempts + 1):
        await world.record(RunId(run_id.job, run_id.fire, attempt))
    return run_id


async def test_failure_is_told_and_a_success_is_not(place: Place, world: World) -> None:
    async with working(place) as worker:
        await worker.deciding()
        await run(world, "good", "echo fine")
        run_id = await run(world, "bad", "exit 3", labels={"team": "billing"}, timezone="Asia/Tokyo")
        [event] = await all_told(world, 1)
    assert (event.kind, event.run, event.exit_code, event.worker) == ("failed", str(run_id), 3, "w1")
    assert (event.labels, event.zone, event.err) == ({"team": "billing"}, "Asia/Tokyo", "exit status 3")


async def test_retry_that_succeeds_is_no_failure_and_the_last_attempt_is_one(place: Place, world: World) -> None:
    async with working(place) as worker:
        await worker.deciding()
        retry = {"limit": 2, "delaySeconds": 0}
        await run(world, "flaky", "test $ETCRON_ATTEMPT = 3", 3, retry=retry)
        run_id = await run(world, "broken", "false", 3, retry=retry)
        await run(world, "beside", "exit 9", overlap="allow")
        events = await all_told(world, 2)
    assert {(one.job, one.attempt) for one in events} == {("broken", 3), ("beside", 1)}
    assert [one.run for one in events if one.job == "broken"] == [str(RunId(run_id.job, run_id.fire, 3))]


async def test_retry_that_never_runs_tells_of_the_attempt_before(place: Place, world: World) -> None:
    async with working(place) as worker:
        await worker.deciding()
        run_id = await run(world, "job", "exit 4", retry={"limit": 1, "delaySeconds": 3600})
        second = run_id.next_attempt
        await wait_until(lambda: world.has(world.keys.request(second)), description="another attempt is asked for")
        await wait_until(lambda: worker.parts.spool.pending == 0, description="the first is let go of")
        assert await told(world) == []
        await world.kill(second)
        await world.record(second)
        [event] = await all_told(world, 1)
    assert (event.kind, event.run, event.exit_code) == ("failed", str(run_id), 4)
    assert event.reason == "the next attempt did not run: before start"


async def test_record_of_a_former_life_is_told_by_what_etcd_and_the_log_store_have(place: Place, world: World) -> None:
    """All three fail and are tried again, or not, before their worker has told it; the next life knows nothing else."""
    retry = {"limit": 1, "delaySeconds": 0}
    async with working(place) as worker:
        worker.parts.outbox_writer.add = lambda records, up_to: None  # type: ignore[method-assign]
        await worker.deciding()
        waiting = await run(world, "waiting", "false", retry={"limit": 1, "delaySeconds": 3600})
        await wait_until(lambda: world.has(world.keys.request(waiting.next_attempt)), description="it is asked for")
        over = await run(world, "over", "test $ETCRON_ATTEMPT = 2", 2, retry=retry)
        failed = await run(world, "failed", "false", 2, retry=retry)
        await wait_until(lambda: worker.parts.delivery.written == 5, description="all is written")

        async def is_clean() -> bool:
            return [one.job for one in await world.entries()] == []

        await wait_until(is_clean, description="no run key is left")
        assert worker.parts.spool.cursor == 0
    async with working(place) as worker:
        await wait_until(lambda: worker.parts.spool.cursor == 5, description="all is told")
    assert [(one.job, one.run) for one in await told(world)] == [("failed", str(failed.next_attempt))], over


async def test_what_rules_and_the_job_ask_for_is_told(place: Place, world: World) -> None:
    rule = Rule(labels=Selector.of({"team": ["billing"]}), on=(EventKind.SUCCEEDED,), to=("ops",))
    await world.etcd.put(f"{world.keys.rules}odd", b"none of ours")
    async with working(place) as worker:
        await worker.deciding()
        await world.etcd.put(f"{world.keys.rules}billing", RULE.to_json(Stored(record=rule)))
        await wait_until(lambda: bool(worker.parts.rules.wanted), description="the rule is known")
        await run(world, "books", "true", labels={"team": "billing"})
        await run(world, "others", "true", labels={"team": "sales"})
        await run(world, "mailed", "echo hello", notify=[{"to": "ops", "on": ["output", "failed"]}])
        await run(world, "quiet", "true", notify=[{"to": "ops", "on": ["output", "failed"]}])
        await run(world, "quick", "true", suspiciousBelowSeconds=60)
        await all_told(world, 3)
        await world.etcd.delete(f"{world.keys.rules}billing")
        await wait_until(lambda: not worker.parts.rules.wanted, description="the rule is gone")
        await run(world, "books", "true", labels={"team": "billing"})
        await run(world, "bad", "false")
        events = await all_told(world, 4)
    assert [(one.job, str(one.kind)) for one in events] == [
        ("books", "succeeded"), ("mailed", "output"), ("quick", "fast"), ("bad", "failed"),
    ]  # fmt: skip


async def test_fires_that_nobody_could_start_are_told_with_their_reason_and_number(place: Place, world: World) -> None:
    now_ms = SystemClock().wall_ms()
    await world.save("job", "true", "0 * * * * * *", mark_ms=now_ms - 600_000, misfire={"policy": "skip"})
    async with working(place) as worker:
        await worker.deciding()
        [event] = [one for one in await all_told(world, 1) if one.kind == EventKind.MISSED]
    assert (event.reason or "").startswith("late: no worker took it")
    assert event.count >= 8


async def test_user_of_the_log_store_without_the_right_is_said_and_holds_up_nothing(
    place: Place, world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(self: Outbox, documents: object) -> None:
        raise ForbiddenError("not this one")

    async with working(place) as worker:
        await worker.deciding()
        monkeypatch.setattr(Outbox, "put", refuse)
        with caplog.at_level(logging.ERROR):
            for number in range(2):
                await run(world, f"bad-{number}", "false")
            await wait_until(lambda: worker.parts.spool.pending == 0, description="the spool lets go of both")
        assert caplog.text.count("nothing is told of this worker's runs: not this one") == 1
        assert "not this one" in (worker.agent.describe().problem or "")
