"""Runs that leave a process which waits in the kernel, where no signal reaches it."""

from __future__ import annotations

from typing import Any

from common.clock import SystemClock
from common.protocol.keys import RunId
from tests.support.dead_mount import DeadMount
from tests.support.waiting import wait_until
from tests.support.working import World


def leaves(mount: DeadMount, then: str) -> str:
    """A command with a child that waits in the kernel."""
    return f"cat {mount.directory}/file & while [ ! -e {mount.directory.parent}/go ]; do sleep 0.02; done; {then}"


async def left(world: World, mount: DeadMount, then: str = "exit 3", **fields: Any) -> RunId:
    """A run that has ended, and is recorded, but for a process in the kernel."""
    job = await world.save(command=leaves(mount, then), killGraceSeconds=0.1, **fields)
    run_id = await world.ask(job, SystemClock().wall_ms())
    await wait_until(lambda: mount.taken >= 1, description="its child waits in the kernel")
    (mount.directory.parent / "go").touch()
    await world.record(run_id)
    return run_id
