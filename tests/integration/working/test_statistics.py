"""What workers run is counted, and the one that is steward sees to it that it can be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.clock import SystemClock
from common.verdicts import Verdict
from tests.support.waiting import wait_until
from tests.support.working import Place, World, working
from worker.lead import statistics

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

DAY_MS = 86_400_000


async def test_runs_of_two_workers_are_counted_also_those_of_one_that_comes_back(
    place: Place, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "COUNT_EVERY_S", 0.05)
    job = await world.save(command=f"test -e {tmp_path / 'good'}", overlap="allow")
    now_ms = SystemClock().wall_ms()
    days = sorted({now_ms // DAY_MS, (now_ms + 30) // DAY_MS})

    async def counts() -> dict[Verdict, int]:
        found = await world.runlog.statistics("job", days)
        return {status: sum(day.by_status[status] for day in found) for status in Verdict}

    async def asked(numbers: range, status: Verdict) -> None:
        for number in numbers:
            await world.ask(job, now_ms + number)

        async def counted() -> bool:
            return (await counts())[status] == len(numbers)

        await wait_until(counted, description=f"all {status} are counted")

    async with working(place, "w1"):
        await asked(range(10), Verdict.FAILED)
    (tmp_path / "good").touch()
    async with working(place, "w1"), working(place, "w2"):
        await asked(range(10, 30), Verdict.SUCCESS)
    assert {status: number for status, number in (await counts()).items() if number} == {
        Verdict.FAILED: 10, Verdict.SUCCESS: 20,
    }  # fmt: skip
