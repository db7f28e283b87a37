"""A worker and its guardian: what is late is ended in words, and nothing starts without a guardian."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from common.clock import SystemClock
from common.protocol.keys import RunId
from common.protocol.run import OUT_OF_TOUCH
from tests.support.waiting import wait_until
from tests.support.working import Place, Working, World, working
from worker.guardian import child, link
from worker.guardian.child import Child
from worker.guardian.link import GuardianLink
from worker.guardian.messages import Leapt, Message

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

LOST_AFTER_S = 700


async def asked(world: World, name: str, command: str = "sleep 60", **fields: Any) -> RunId:
    job = await world.save(name, command, killGraceSeconds=1, **fields)
    return await world.ask(job, SystemClock().wall_ms(), name=name)


async def run_of(worker: Working, world: World, name: str, command: str = "sleep 60", **fields: Any) -> RunId:
    run_id = await asked(world, name, command, **fields)
    await wait_until(lambda: run_id in worker.running(), description=f"{name} runs")
    return run_id


async def other_than(worker: Working, pid: int | None) -> None:
    """Another guardian guards."""
    guardian = worker.parts.guardian
    await wait_until(lambda: guardian.guarding and guardian.pid != pid, description="another guardian")


async def test_only_what_holds_a_lock_is_ended_in_words_when_etcd_has_not_answered_for_too_long(
    place: Place, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The next keep-alive is minutes away; it is as if the last one had been long ago, for a guardian that is new."""
    async with working(place, lease_ttl_s=600, slots=8) as worker:
        await worker.deciding()
        late = await run_of(worker, world, "late", lostAfterSeconds=LOST_AFTER_S)
        again = await run_of(worker, world, "again", lostAfterSeconds=LOST_AFTER_S, onWorkerLost="rerun")
        killed = await run_of(worker, world, "killed", "trap '' TERM; sleep 60", lostAfterSeconds=LOST_AFTER_S)
        others = [
            await run_of(worker, world, "usual", lostAfterSeconds=2 * LOST_AFTER_S),
            await run_of(worker, world, "never", lostAfterSeconds="never"),
            await run_of(worker, world, "allow", lostAfterSeconds=LOST_AFTER_S, overlap="allow"),
        ]
        await world.kill(killed)
        await wait_until(
            lambda: worker.parts.executor.running[killed].stop_order is not None, description="being killed"
        )
        worker.session.confirmed_boottime -= LOST_AFTER_S
        pid = worker.parts.guardian.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        record = await world.record(late)
        assert (record["status"], record["reason"]) == ("killed", OUT_OF_TOUCH)
        assert (await world.record(killed))["reason"] == "enough"
        repeated = await world.record(RunId(again.job, again.fire, 2))  # here, where it is past its deadline as well
        assert (repeated["trigger"], repeated["reason"]) == ("rerun", OUT_OF_TOUCH)
        assert caplog.text.count(f"is ended: {OUT_OF_TOUCH}") == 3
        assert set(worker.running()) == set(others)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_guardian_that_ends_or_falls_silent_is_replaced_and_told_of_all_that_runs(
    place: Place, world: World, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setattr(link, "_TICK_S", 0.1)
    async with working(place) as worker:
        await worker.deciding()
        run_id = await run_of(worker, world, "job")
        process = worker.parts.executor.running[run_id].pid
        first = worker.parts.guardian.pid
        assert first is not None
        os.kill(first, number)
        await other_than(worker, first)
        assert run_id in worker.running(), "its end costs no command"
        guardian = worker.parts.guardian
        guardian.tick()
        # A third one takes over at once, and the second ends what it was told: the first is not asked any more.
        second, guardian._child = guardian._child, None
        assert second is not None
        second.leave()
        await wait_until(lambda: not os.path.exists(f"/proc/{process}/exe"), description="it was told of the process")
        await wait_until(second.has_ended, description="the second one has ended")


async def test_a_silent_guardian_is_replaced_also_where_runs_end_all_the_time(
    place: Place, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each exit its words are asked for: that there are none is no sign of life."""
    monkeypatch.setattr(link, "_TICK_S", 3600.0)
    async with working(place) as worker:
        await worker.deciding()
        guardian = worker.parts.guardian
        first = guardian.pid
        assert first is not None
        os.kill(first, signal.SIGSTOP)
        for _ in range(11):
            guardian.tick()
            guardian.read_messages()
        assert guardian.pid != first
        guardian.tick()
        await other_than(worker, first)


async def test_more_runs_than_the_pipe_holds_are_told_to_a_new_guardian_as_it_listens(
    place: Place, world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(child, "_PIPE_CAPACITY", 4096)
    async with working(place) as worker:
        await worker.deciding()
        run_id = await run_of(worker, world, "job")
        guardian = worker.parts.guardian
        one = guardian._open[run_id]
        guardian._open |= {RunId.planned("job", plan_ms): one for plan_ms in range(1, 1000)}
        first = guardian.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await other_than(worker, first)
        assert caplog.text.count("is replaced") == 1
        guardian._open = {run_id: one}
        assert (await world.record(await asked(world, "next", "true")))["status"] == "success"
        assert run_id in worker.running()


async def test_nothing_starts_without_a_guardian_and_the_worker_says_so(
    place: Place, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "_TICK_S", 0.1)

    def unstartable(**_: object) -> Child:
        raise OSError("out of processes, say")

    async with working(place) as worker:
        await worker.deciding()
        pid = worker.parts.guardian.pid
        assert pid is not None
        monkeypatch.setattr(link, "Child", unstartable)
        os.kill(pid, signal.SIGKILL)
        await wait_until(lambda: not worker.parts.guardian.guarding, description="it is noticed")
        run_id = await asked(world, "waits", "true")
        registry = worker.parts.registry
        await wait_until(lambda: "no guardian" in (registry.not_accepting or ""), description="the worker says so")
        await wait_until(lambda: not worker.is_deciding(), description="it takes no fires")
        assert worker.parts.table.running == 0
        monkeypatch.setattr(link, "Child", Child)
        record = await world.record(run_id)
        assert record["status"] == "success"
        await wait_until(lambda: registry.not_accepting is None, description="it takes fires again")
        await worker.deciding()


async def test_a_start_that_finds_the_guardian_gone_is_tried_again(place: Place, world: World) -> None:
    async with working(place) as worker:
        await worker.deciding()
        guardian = worker.parts.guardian
        monkey, said = guardian.intents, list[RunId]()

        def intents(run_ids: Sequence[RunId]) -> bool:
            said.extend(run_ids)
            return len(said) > 1 and monkey(run_ids)

        guardian.intents = intents  # type: ignore[method-assign]
        run_id = await asked(world, "again", "true")
        assert (await world.record(run_id))["status"] == "success"
        assert said == [run_id, run_id]
        assert guardian._open == {}


async def test_what_ended_right_before_the_worker_is_not_ended_with_it(
    place: Place, world: World, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its end was to be told at the end of the loop's turn, and there is no such turn any more."""

    async def ignore(_: str | None) -> None:
        return

    async with working(place) as worker:
        await worker.deciding()
        run_id = await run_of(worker, world, "job")
        guardian = GuardianLink(
            directory=tmp_path, instance="another", table=worker.parts.table, margin_s=2, logs=("WARNING", "text"),
            on_past=lambda *_: False, on_ready=lambda: None, on_leapt=lambda: None, announce=ignore,
            clock=SystemClock(),
        )  # fmt: skip
        async with guardian:
            assert guardian.intents([run_id])
            guardian.over(run_id)
        assert "runs are ended" not in capfd.readouterr().err


async def test_a_leap_that_the_guardian_noticed_has_the_session_confirmed_though_nothing_runs(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next keep-alive is minutes away: what starts before it would be ended, though etcd answers."""
    hear = Child.receive

    def hear_of_a_leap(self: Child) -> list[Message] | None:
        heard = hear(self)
        return None if heard is None else [*heard, Leapt()]

    async with working(place, lease_ttl_s=600) as worker:
        await worker.deciding()
        leapt_at = SystemClock().boottime()
        monkeypatch.setattr(Child, "receive", hear_of_a_leap)
        await wait_until(lambda: worker.session.confirmed_boottime > leapt_at, description="it is confirmed anew")


async def test_a_new_session_is_told_of(place: Place, world: World) -> None:
    async with working(place) as worker:
        await worker.deciding()
        run_id = await run_of(worker, world, "job")
        session = worker.session
        await world.etcd.lease_revoke(session.lease_id)
        await worker.deciding_after(session)
        guardian = worker.parts.guardian
        await wait_until(
            lambda: guardian._open[run_id].session is worker.session, description="the guardian counts by the new one"
        )
