"""Workers stopped with SIGSTOP at the worst moment, and continued: nothing starts twice, nothing after its verdict."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.chaos.view import Id, Run
from tests.faults.fault_run import fault_run, process_tree, send_all

pytestmark = pytest.mark.slow

_LATE_MS = 2000


async def test_stopped_before_a_claim_for_less_than_its_session(tmp_path: Path) -> None:
    """Its claim is sent when another has claimed the fire, run it, and forgotten it: only the mark still tells."""
    environ_of = {"worker-1": {"ETCRON_FAILPOINT": "before_claim:stop:3"}}
    async with fault_run(tmp_path, environ_of=environ_of, ttl_s=10, lost_after_s=16) as run:
        await run.save(run.job("skip", "1s", graceSeconds=30), run.job("allow", "1s", overlap="allow", graceSeconds=30))
        victim, other = run.fleet.workers
        await run.stopped(victim)
        with run.noted("stopped before a claim", victim.name):
            await run.starts(other, 6)
            victim.send(signal.SIGCONT)
        await run.judged()


async def test_stopped_after_a_claim_for_longer_than_its_session(tmp_path: Path) -> None:
    """The claim still stands, so each fire starts late within its grace, or is recorded as not started."""
    environ_of = {"worker-1": {"ETCRON_FAILPOINT": "after_claim:stop:3"}}
    async with fault_run(tmp_path, environ_of=environ_of) as run:
        await run.save(run.job("strict", "1s", graceSeconds=1), run.job("patient", "1s", graceSeconds=30))
        await run.save(run.job("strict-allow", "1s", graceSeconds=1, overlap="allow"))
        victim = run.fleet.workers[0]
        await run.stopped(victim)
        with run.noted("stopped after a claim", victim.name):
            await run.session_gone(victim)
            victim.send(signal.SIGCONT)
        view = await run.judged()
        unstarted = [one for one, record in view.records() if record.get("reason") == "claimed, not started"]
        assert all(one.id.job.startswith("strict") for one in unstarted)
        late = [one for one in view.runs.values() if _late_ms(one) > _LATE_MS]
        assert unstarted or late, "the stop met no claim"


async def test_stopped_until_its_runs_were_given_up(tmp_path: Path) -> None:
    """One right after a claim, another while its command runs: both wake up to find their runs given up."""
    environ_of = {"worker-1": {"ETCRON_FAILPOINT": "after_claim:stop:3"}}
    async with fault_run(tmp_path, workers=3, environ_of=environ_of) as run:
        claimer, runner, other = run.fleet.workers
        await run.leads(other)
        await run.save(
            run.job("claimed", "1s", seconds=0.8, graceSeconds=60, onWorkerLost="rerun"),
            run.job("claimed-allow", "1s", graceSeconds=60, overlap="allow", onWorkerLost="rerun"),
            *(run.job(f"locked-{number}", "2s", seconds=5, graceSeconds=60) for number in range(3)),
        )
        await run.stopped(claimer)
        locked = await run.goes_on("locked", runner)
        job = Id.of(locked).job
        with run.noted("SIGSTOP until its runs were given up", f"{claimer.name}, {runner.name}"):
            runner.send(signal.SIGSTOP)
            await run.goes_on(job, other)
            # From now on for five seconds there is a run whose lock is not the runner's any more.
            runner.send(signal.SIGCONT)
            claimer.send(signal.SIGCONT)
        view = await run.judged()
        assert view.runs[Id.of(locked)].status in ("lost", "success", "killed")
        lost = [one for one, record in view.records() if record["status"] == "lost" and not one.starts]
        assert lost, "a run that was claimed and not started is given up"


async def test_stopped_before_it_frees_a_lock_until_its_run_was_given_up(tmp_path: Path) -> None:
    """Its run is over and recorded; the lock that it is about to free is another's by then."""
    environ_of = {"worker-1": {"ETCRON_FAILPOINT": "before_unlock:stop:2"}}
    async with fault_run(tmp_path, environ_of=environ_of) as run:
        await run.save(*(run.job(f"locked-{number}", "2s", seconds=4, graceSeconds=60) for number in range(3)))
        victim, other = run.fleet.workers
        await run.stopped(victim)
        with run.noted("stopped before it frees a lock", victim.name):
            await run.session_gone(victim)
            for number in range(3):  # one of them was the victim's
                await run.goes_on(f"locked-{number}", other)
            victim.send(signal.SIGCONT)
        await run.judged()


async def test_all_of_a_worker_stopped_for_longer_than_its_session(tmp_path: Path) -> None:
    """The worker and its commands, as when its machine is frozen."""
    async with fault_run(tmp_path, workers=2) as run:
        await run.save(
            run.job("short", "1s", graceSeconds=2), run.job("short-allow", "1s", overlap="allow", graceSeconds=2),
            run.job("lasting", "2s", seconds=3), run.job("lasting-allow", "1s", seconds=3, overlap="allow"),
            run.job("chain", "1s", seconds=0.3, after=True),
        )  # fmt: skip
        victim = run.fleet.workers[0]
        thawed = await run.goes_on("lasting-allow", victim)
        with run.noted("SIGSTOP of the worker and all its commands", victim.name):
            tree = process_tree(victim)
            send_all(tree, signal.SIGSTOP)
            await run.session_gone(victim)
            send_all(tree, signal.SIGCONT)
        view = await run.judged()
        assert view.runs[Id.of(thawed)].status == "success", "an expired session ends no command"


def _late_ms(run: Run) -> int:
    return run.starts[0].wall_ms - run.id.plan_ms if run.starts and run.id.plan_ms is not None else 0
