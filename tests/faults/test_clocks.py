"""Wrong clocks: who does not know the time decides nothing, and what has been decided is not decided again."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.chaos.fleet import Member
from tests.chaos.history import wall_ms
from tests.chaos.member import faketime
from tests.chaos.view import CLOCK
from tests.faults.fault_run import fault_run

pytestmark = pytest.mark.slow

_OFF_S = 30


@pytest.mark.parametrize("seconds", [_OFF_S, -_OFF_S])
async def test_one_worker_of_three_ahead_or_behind(tmp_path: Path, seconds: int) -> None:
    async with fault_run(tmp_path, workers=3, environ_of={"worker-1": _skewed_by(seconds)}) as run:
        skewed, *others = run.fleet.workers
        with run.noted(f"{CLOCK} off by {seconds:+d} s", skewed.name):
            # Before three clocks are known, in a cluster's first moments, nobody can tell whose is wrong.
            await run.wait(lambda: "action=clock.off" in skewed.process.log, "it knows that its clock is off")
            await run.save(run.job("skip", "1s", seconds=0.3), run.job("allow", "1s", overlap="allow"))
            await run.starts(None, 10)
            righted_ms = wall_ms()
            await _righted(skewed)
        view = await run.judged()
        early = [one for one in view.runs.values() if one.starts and one.starts[0].wall_ms < righted_ms]
        assert {one.starts[0].worker for one in early} <= {one.name for one in others}


async def test_a_manager_behind(tmp_path: Path) -> None:
    """Its edit sets no mark back. With two clocks nobody can tell whose is wrong, so it may save."""
    skewed = _skewed_by(-_OFF_S)
    async with fault_run(tmp_path, workers=1) as run:
        jobs = [run.job("skip", "1s"), run.job("allow", "1s", overlap="allow")]
        await run.save(*jobs)
        [manager], [worker] = run.fleet.managers, run.fleet.workers
        await run.starts(worker, 5)
        with run.noted(f"{CLOCK} off by {-_OFF_S} s", manager.name):
            await manager.end(signal.SIGTERM)
            manager.process.environ.update(skewed)
            manager.revive()
            for job in jobs:
                job["timezone"] = "Europe/Berlin"  # one that leaves its fires alone would leave the mark alone, too
            await run.save(*jobs)
            await run.starts(worker, 3)
            await _righted(manager)
        await run.judged()


def _skewed_by(seconds: int) -> dict[str, str]:
    """Variables with which a process sees the wall clock so far ahead, and CLOCK_BOOTTIME as it is."""
    library = faketime()
    if library is None:
        pytest.skip("no libfaketime: make faketime")
    return {"LD_PRELOAD": str(library), "FAKETIME": f"{seconds:+d}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


async def _righted(member: Member) -> None:
    await member.end(signal.SIGTERM)
    member.process.environ.clear()
    member.revive()
