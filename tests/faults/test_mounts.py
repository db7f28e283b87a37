"""What runs leave waits for a mount that does not answer, and no signal ends it: their locks wait for it, too."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from common.protocol.member import Beat
from tests.chaos.faults.breaking import KEYS
from tests.chaos.fleet import Member
from tests.chaos.jobs import Spec, lingering_jobs
from tests.chaos.rules.leftovers import KILLED
from tests.faults.fault_run import FaultRun, fault_run
from tests.support.dead_mount import DeadMount
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

LOST_AFTER_S = 60.0
"""Longer than its worker is away."""


async def test_what_cannot_be_ended_keeps_its_lock_while_its_worker_is_killed(tmp_path: Path) -> None:
    place = tmp_path / "dead"
    place.mkdir()
    try:
        mount = DeadMount(place, is_unkillable=True)
    except OSError as error:
        pytest.skip(f"nothing can be mounted here: {error}")
    try:
        async with fault_run(tmp_path, lost_after_s=LOST_AFTER_S) as run:
            try:
                await run.save(run.job("beside", "1s"), *lingering(run, place))
                both = run.fleet.workers
                await wait_until(lambda: is_ending(run, *both), description="some run is ending")
                [victim] = [member for member in both if await is_ending(run, member)][:1]
                with run.noted(KILLED, victim.name):
                    await victim.end(signal.SIGKILL)
                await run.restart(victim)
                await wait_until(lambda: is_ending(run, victim), description="it still is")
                await run.starts(None, 4)
            finally:
                run.fleet.witness.note_those_that_linger()
                mount.come_back()
            await run.judged()
    finally:
        mount.come_back()


def lingering(run: FaultRun, place: Path) -> list[Spec]:
    timings = {"lostAfterSeconds": LOST_AFTER_S, "killGraceSeconds": 0.5}
    return [{**spec, **timings} for spec in lingering_jobs(place, run.evidence)]


async def is_ending(run: FaultRun, *members: Member) -> bool:
    """Whether one of them says that it has a run that is ending."""
    beats = await run.fleet.client.get_many([KEYS.beat(member.name) for member in members])
    return any(Beat.from_json(kv.value).ending_count for kv in beats.values())
