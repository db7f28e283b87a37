"""The stores fail: a leader dies, answers to claims are lost, watches are cut under a compaction, the logs are away."""

from __future__ import annotations

import math
import re
import shutil
import signal
from pathlib import Path

import pytest

from tests.chaos.fleet import Member
from tests.chaos.history import wall_ms
from tests.chaos.view import Id
from tests.faults.fault_run import fault_run
from tests.support.proxy import Mode

pytestmark = pytest.mark.slow

_CLAIM_LEAD_MS = 200
_ROUNDS = 6
_MOST_ROUNDS = 40
"""On a busy machine a claim is late, and what is met is something else that is asked of etcd."""


async def test_the_leader_of_three_killed(tmp_path: Path) -> None:
    async with fault_run(tmp_path, etcd=3) as run:
        await run.save(
            run.job("skip", "1s", seconds=0.3), run.job("allow", "1s", overlap="allow"),
            run.job("lasting", "2s", seconds=4), run.job("chain", "1s", after=True),
        )  # fmt: skip
        lasting = await run.goes_on("lasting", run.fleet.workers[0])
        leader = await run.fleet.leader()
        assert leader is not None
        with run.noted("SIGKILL of the leader", leader.name):
            await leader.kill()
            await run.save(run.job("saved-meanwhile", "1s"))
            await run.starts(run.fleet.workers[0], 3)
            leader.launch()
        view = await run.judged()
        assert view.runs[Id.of(lasting)].status == "success", "an election ends no command"


async def test_the_answers_to_claims_are_lost_after_their_commit(tmp_path: Path) -> None:
    async with fault_run(tmp_path) as run:
        await run.save(
            run.job("skip", "1s", seconds=0.2), run.job("allow", "1s", overlap="allow"),
            run.job("queue", "1s", seconds=0.5, overlap="queue"),
        )  # fmt: skip
        victim = run.fleet.workers[0]
        await run.starts(victim, 1)
        with run.noted("answers to claims cut off", victim.name):
            rounds = 0
            while rounds < _MOST_ROUNDS and (rounds < _ROUNDS or not _doubts(victim)):
                rounds += 1
                await run.wait(_just_before_claims, "claims are about to be sent")
                for way in victim.etcd:
                    way.set(Mode.CUT_REPLY)
                await run.wait(lambda: not _just_before_claims(), "they have been sent")
        await run.judged()
        assert _doubts(victim), "a claim was met, and not only what else is asked of etcd"


async def test_compaction_while_a_watch_is_cut(tmp_path: Path) -> None:
    """With one worker: nobody else makes up for what it has not heard of."""
    async with fault_run(tmp_path, workers=1) as run:
        edited, deleted = run.job("edited", "1s"), run.job("deleted", "1s")
        await run.save(edited, deleted)
        [worker] = run.fleet.workers
        await run.starts(worker, 2)
        with run.noted("compaction while its watches are cut", worker.name):
            for way in worker.etcd:
                way.set(Mode.SWALLOW)
            edited["every"] = "2s"
            await run.save(edited, run.job("new", "1s"))
            await run.users.delete("deleted")
            await run.fleet.client.compact(await run.fleet.client.put("/elsewhere", b""))
            for way in worker.etcd:
                way.set(Mode.RESET)
                way.set(Mode.PASS)
        run.specs.remove(deleted)
        cut_ms = wall_ms()
        await run.wait(lambda: "new" in run.fleet.witness.jobs_since(cut_ms), "the new job fires")
        await run.judged()


async def test_the_log_store_away_while_a_worker_loses_its_disk(tmp_path: Path) -> None:
    """One worker comes back with its disk: its runs that ended are not run again. Another without: they are lost."""
    async with fault_run(tmp_path, workers=3) as run:
        await run.save(
            run.job("skip", "1s", onWorkerLost="rerun"), run.job("allow", "1s", overlap="allow", onWorkerLost="rerun")
        )
        other, restarted, diskless = run.fleet.workers
        recorded_from_ms: dict[str, int] = {}
        await run.leads(other)
        led_ms = wall_ms()  # the others were killed for that, and had their disks then
        for worker in (restarted, diskless):
            await run.starts(worker, 1)
        with run.noted("away", "log store"):
            await run.fleet.log_store.kill()
            for worker in (restarted, diskless):
                await run.starts(worker, 3)
                recorded_from_ms[worker.name] = wall_ms()  # of what starts later, the end may be in no spool
                await run.recorded(worker)
                await worker.end(signal.SIGKILL)
            shutil.rmtree(diskless.process.directory / "data")
            for worker in (restarted, diskless):
                await run.session_gone(worker)
                worker.revive()
            await run.starts(other, 3)
            await run.fleet.log_store.start()
        view = await run.judged()
        lost = [one for one, record in view.records() if record["status"] == "lost"]
        had_ended = [one.starts[0] for one in lost if one.ends]
        with_a_disk = [one for one in had_ended if one.worker != diskless.name and one.wall_ms > led_ms]
        assert [one for one in with_a_disk if one.wall_ms < recorded_from_ms.get(one.worker, math.inf)] == []
        assert lost, "a lost disk loses verdicts, and says so"


def _just_before_claims() -> bool:
    """Rank 0 claims what is due at the next whole second now."""
    return _CLAIM_LEAD_MS - 30 < 1000 - wall_ms() % 1000 < _CLAIM_LEAD_MS + 30


def _doubts(worker: Member) -> int:
    return len(re.findall("decisions are in doubt", worker.process.log))
