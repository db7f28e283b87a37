"""Wrong clocks: what each process may decide is left to the comparison of clocks; here nothing may happen twice."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.chaos.view import NEVER_RAN, Violation
from tests.faults.fault_run import fault_run
from tests.support.skewed_clock import skewed_by

pytestmark = pytest.mark.slow


def _whatever_the_clock(one: Violation) -> bool:
    """Times by a wrong clock are wrong; starts, overlaps and missing records are not a matter of clocks."""
    return one.promise in ("G1", "G5", "G9", "G12") or "no record covers it" in one.text


@pytest.mark.parametrize("seconds", [30, -30])
async def test_one_worker_of_three_ahead_or_behind(tmp_path: Path, seconds: int) -> None:
    async with fault_run(tmp_path, workers=3, environ_of={"worker-1": skewed_by(seconds)}) as run:
        await run.save(run.job("skip", "1s", seconds=0.3), run.job("allow", "1s", overlap="allow"))
        await run.starts(None, 12)
        view = await run.judged(keep=_whatever_the_clock)
        reasons = {record.get("reason") for _, record in view.records() if record["status"] in NEVER_RAN}
        assert None not in reasons


async def test_a_manager_behind(tmp_path: Path) -> None:
    """Its edit sets no mark back: what has been decided is not decided again."""
    skewed = skewed_by(-30)
    async with fault_run(tmp_path, workers=1) as run:
        jobs = [run.job("skip", "1s"), run.job("allow", "1s", overlap="allow")]
        await run.save(*jobs)
        [manager], [worker] = run.fleet.managers, run.fleet.workers
        await run.starts(worker, 5)
        with run.noted("30 s behind", manager.name):
            await manager.end(signal.SIGTERM)
            manager.process.environ.update(skewed)
            manager.revive()
            for job in jobs:
                job["priority"] = 1
            await run.save(*jobs)
            await run.starts(worker, 3)
            await manager.end(signal.SIGTERM)
            manager.process.environ.clear()
            manager.revive()
        await run.judged()
