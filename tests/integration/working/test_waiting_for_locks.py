"""Overlap `queue` and `replace` among real workers: never two at once, and a truthful end for each fire."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from common.clock import SystemClock
from common.protocol.keys import RunId
from tests.support.waiting import wait_until
from tests.support.working import Place, Working, World, working

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

EVERY_SECOND = "* * * * * * *"


@asynccontextmanager
async def several(place: Place, count: int = 3, **changes: Any) -> AsyncIterator[list[Working]]:
    async with AsyncExitStack() as stack:
        names = [f"w{number}" for number in range(1, count + 1)]
        workers = [await stack.enter_async_context(working(place, name, **changes)) for name in names]
        for worker in workers:
            await worker.deciding()
            members = worker.parts.members
            await wait_until(lambda members=members: len(members.accepting()) == count, description="all are ranked")  # type: ignore[misc]
        yield workers


async def paused(world: World, name: str = "job") -> list[dict[str, Any]]:
    """The job is gone; its records, once nothing of it is open."""
    mark = await world.etcd.get(world.keys.mark(name))
    await world.etcd.delete(world.keys.job(name))
    assert mark is not None

    async def over() -> bool:
        return not await world.entries() and not await world.has(world.keys.lock(name))

    await wait_until(over, description="nothing is open")
    return sorted(await world.records(name), key=lambda one: one["planTime"])


def fires(records: list[dict[str, Any]]) -> Counter[int]:
    counts = Counter[int]()
    for one in records:
        counts.update(range(one["planTime"], (one.get("rangeEndTime") or one["planTime"]) + 1, 1000))
    return counts


def evidence_of(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


async def test_queue_runs_back_to_back_and_keeps_one_waiting(
    place: Place, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.plan.lock_waits.LOOK_AT_LOCKS_S", 1000)
    evidence = tmp_path / "evidence"
    command = f"echo begin >> {evidence}; sleep 6.2; echo end >> {evidence}"
    await world.save(command=command, cron="*/3 * * * * * *", overlap="queue", misfire={"graceSeconds": 1})
    async with several(place):
        await wait_until(lambda: len(evidence_of(evidence)) >= 5, description="the third run")
        records = await paused(world)
    lines = evidence_of(evidence)
    assert lines == ["begin", "end"] * (len(lines) // 2), "never two at once"
    runs = sorted((one for one in records if one["status"] == "success"), key=lambda one: int(one["startTime"]))
    skipped = [one for one in records if one["status"] != "success"]
    taken_up = [later["planTime"] <= earlier["endTime"] for earlier, later in pairwise(runs)]
    assert any(taken_up), "who frees the lock tries at once: no later fire is needed for it"
    older = [later["planTime"] <= earlier["endTime"] - 3100 for earlier, later in pairwise(runs)]
    assert not any(older), "it is the newest fire that has waited"
    kept = ("skipped", "overlap: queue kept a newer fire")
    # Who decides on a busy machine may not have waited itself: it finds a fire that is late, and a lock that is free.
    found_late = {("missed", "late: a newer fire was due"), ("missed", "misfire: latest kept a newer fire")}
    why = {(one["status"], one["reason"]) for one in skipped}
    assert kept in why
    assert why <= {kept, *found_late}
    counts = [one["planTime"] for one in records]
    assert counts == list(range(min(counts), max(counts) + 1, 3000)), "each fire has its record, and one"


@pytest.mark.parametrize("stubborn", [False, True])
async def test_replace_ends_the_old_run_first(place: Place, world: World, tmp_path: Path, stubborn: bool) -> None:
    """A stubborn one ignores TERM, and its grace is longer than the period."""
    evidence = tmp_path / "evidence"
    trap = "trap '' TERM; " if stubborn else ""
    command = f"{trap}echo $ETCRON_PLAN_MS >> {evidence}; while :; do sleep 0.1; done"
    await world.save(
        command=command, cron=EVERY_SECOND, overlap="replace", killGraceSeconds=2.5 if stubborn else 5
    )  # fmt: skip
    async with several(place):
        await wait_until(lambda: len(evidence_of(evidence)) >= 4, description="four runs")
        mark = await world.etcd.get(world.keys.lock("job"))
        assert mark is not None
        await world.kill(RunId.parse(mark.value.decode()))
        records = await paused(world)
    runs = [one for one in records if one.get("startTime")]
    replaced = runs[:-1]
    assert {(one["status"], one["reason"], one["by"]) for one in replaced} == {("killed", "replaced", "schedule")}
    gaps = [later["startTime"] - earlier["endTime"] for earlier, later in pairwise(runs)]
    assert min(gaps) >= 0, "never both at once"
    taken_up = [later["planTime"] <= earlier["endTime"] for earlier, later in pairwise(runs)]
    assert any(taken_up), "who ends it tries at once: no later fire is needed for it"
    counts = fires(records)
    assert set(counts.values()) == {1}
    assert sorted(counts) == list(range(min(counts), max(counts) + 1, 1000)), "each fire has its record"
    since = [one for one in records if one["planTime"] > runs[0]["planTime"]]  # what was due before a worker is missed
    skipped = {(one["status"], one["reason"]) for one in since if not one.get("startTime")}
    assert skipped <= {("skipped", "overlap: replace kept a newer fire"), ("killed", "before start")}


@pytest.mark.parametrize("overlap", ["queue", "replace"])
async def test_run_of_a_dead_worker_is_lost_before_another_starts(place: Place, world: World, overlap: str) -> None:
    now_ms = SystemClock().wall_ms() // 1000 * 1000
    old = await world.open_run(now_ms - 5000, lost_after_ms=3000)
    await world.save(cron=EVERY_SECOND, overlap=overlap, mark_ms=now_ms - 5000, command="sleep 0.1")
    async with several(place, 2):
        lost = await world.record(world.keys.run_of(old.key))
        assert lost["status"] == "lost"

        async def ran() -> bool:
            return any(one["status"] == "success" for one in await world.records())

        await wait_until(ran, description="the newest has run")
        records = await paused(world)
    first = next(one for one in records if one["status"] == "success")
    assert first["startTime"] >= lost["endTime"]
    (superseded,) = [one for one in records if one.get("count")]
    assert superseded["reason"] == f"overlap: {overlap} kept a newer fire"
    assert superseded["rangeEndTime"] < first["planTime"]
    assert set(fires(records).values()) == {1}
