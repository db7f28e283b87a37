"""A worker or manager killed at each failpoint: nothing starts twice, nothing is lost in silence, all goes on."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.chaos.rules.leftovers import KILLED
from tests.chaos.view import Run, View
from tests.faults.fault_run import FaultRun, fault_run

pytestmark = pytest.mark.slow

_PLACES = (
    "before_claim", "after_claim", "before_spawn", "after_spawn", "before_record", "before_unlock", "after_unlock",
    "after_ack",
)  # fmt: skip
_RERUN = ("skip", "queue", "chain")
"""Which of them a kill meets is drawn."""
_EDITS = 40
"""Which manager takes an edit is drawn; one of so many meets the one that is armed."""


def jobs(run: FaultRun) -> Iterator[dict[str, object]]:
    """Short ones, so that each place is come to soon; of each kind that ends in a way of its own."""
    yield run.job("skip", "1s", seconds=0.2, onWorkerLost="rerun")
    yield run.job("allow", "1s", seconds=0.2, overlap="allow")
    yield run.job("queue", "2s", seconds=0.5, overlap="queue", onWorkerLost="rerun")
    yield run.job("flaky", "2s", fail_below=2, retry={"limit": 1, "delaySeconds": 0.2})
    yield run.job("chain", "1s", seconds=0.3, after=True, onWorkerLost="rerun")


async def test_worker_killed_at_each_place_of_a_fire(tmp_path: Path) -> None:
    environ_of = {"worker-1": {"ETCRON_FAILPOINT": f"{_PLACES[0]}:kill"}}
    # Lost only after long: so that it is the victim's own next start that settles what it has left.
    async with fault_run(tmp_path, environ_of=environ_of, lost_after_s=60) as run:
        await run.save(*jobs(run))
        victim = run.fleet.workers[0]
        for place, following in zip(_PLACES, (*_PLACES[1:], None), strict=True):
            await run.died(victim, place)
            await run.restart(victim, following and f"{following}:kill:2")
        view = await run.judged()
        _lost(view, "claimed, and not started", lambda one: not one.starts)
        _lost(view, "ended, and not recorded", lambda one: bool(one.ends))
        assert any(one.id.attempt > 1 and one.starts for one in view.runs.values() if one.id.job in _RERUN), "run again"


async def test_steward_and_manager_killed_before_they_say_what_they_have_done(tmp_path: Path) -> None:
    environ_of = {
        "worker-1": {"ETCRON_FAILPOINT": "steward_before_verdict:kill"},
        "manager-1": {"ETCRON_FAILPOINT": "after_commit:kill"},
    }
    # The one that is to be the steward keeps its session, however busy the machine is.
    async with fault_run(tmp_path, workers=3, managers=2, environ_of=environ_of, ttl_s=10, lost_after_s=16) as run:
        steward, victim, _ = run.fleet.workers
        await run.leads(steward)
        await run.save(*jobs(run), run.job("lasting", "1s", seconds=3, overlap="allow", onWorkerLost="rerun"))
        saver = run.fleet.managers[0]
        saver.is_held_down = True  # it may die at any time now
        for number in range(_EDITS):
            if saver.pid is None:
                break
            await run.save(run.job("edited", "1s", overlap="allow", priority=number))
            await run.starts(None, 1)
        await run.died(saver, "after_commit")
        await run.restart(saver)
        await run.goes_on("lasting", victim)
        with run.noted(KILLED, victim.name):
            await victim.end(signal.SIGKILL)
            await run.died(steward, "steward_before_verdict")
            await run.restart(steward)
            victim.revive()
        await run.judged()


def _lost(view: View, what: str, holds: Callable[[Run], bool]) -> None:
    """Some run of that kind is recorded as lost: the fault met what it was meant to meet."""
    found = [run for run, record in view.records() if record["status"] == "lost" and holds(run)]
    assert found, f"no run is lost that was {what}"
