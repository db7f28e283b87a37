"""What a killed worker and its guardian left running is found again by its marks (``marked``), and ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager
from functools import partial

from common.clock import Clock
from worker.machine.left_groups import LeftGroup
from worker.machine.looks import Looks
from worker.machine.marked import Leftover, find_leftovers
from worker.machine.tree import Tree
from worker.run.shortage import is_short, once_possible

_log = logging.getLogger(__name__)

_FIRST_LOOK_AFTER_S = 0.005
_LOOK_EVERY_S = 0.2


async def look_for_leftovers(instance: str) -> list[Leftover]:
    """The living processes that runs of this instance started."""
    async with _looking() as looks:
        return await looks.look_beside(partial(find_leftovers, instance))


@asynccontextmanager
async def _looking() -> AsyncIterator[Looks]:
    """Once there is a thread for it, which is kept: while there is something to end, the machine may have no other."""

    async def begin() -> Looks:
        return Looks()

    looks = await once_possible(begin, what="what is left running")
    try:
        yield looks
    finally:
        looks.close()


async def end_leftovers(
    instance: str, kill_grace_s: float, clock: Clock, *, spared: Collection[str] = ()
) -> list[Leftover]:
    """End what runs of this instance left running: TERM, after the grace KILL; returns when all of it is gone.

    ``spared``: runs that had ended by themselves; what they have left in the background on purpose goes on.

    Gives up ten seconds after the KILL and returns what is still there: stuck in the kernel, or another user's.
    """
    async with _looking() as looks:
        left = await _end_all(looks, instance, kill_grace_s, clock, spared)
    if left:
        pids = [leftover.pid for leftover in left]
        _log.error("left running by an earlier worker, and not to be ended: %s", pids,
                   extra={"action": "leftovers_survived", "pids": pids})  # fmt: skip
    return left


async def _end_all(
    looks: Looks, instance: str, kill_grace_s: float, clock: Clock, spared: Collection[str]
) -> list[Leftover]:
    """What is still there in the end."""
    tree = Tree(group=None, kill_at=clock.monotonic() + kill_grace_s)
    delay = _FIRST_LOOK_AFTER_S
    while True:
        try:
            found = await looks.look_beside(partial(find_leftovers, instance))
            left = [one for one in found if one.run_id not in spared]
            now = clock.monotonic()
            if not left or tree.is_overdue(now):
                return left
            tree.kill_if_due(now)
            await looks.look_beside(partial(_end, tree, left))
        except OSError as error:
            if not is_short(error):
                raise
            # What was not seen may be there: until it can be looked for, the old runs are not settled.
            _log.warning("cannot look for what is left running: %s", error, extra={"action": "leftovers.unseen"})
            delay = _LOOK_EVERY_S
        await asyncio.sleep(delay)
        delay = min(delay * 2, _LOOK_EVERY_S)


def groups_of(left: Iterable[Leftover], now_ms: int) -> list[LeftGroup]:
    """The process groups that they are in. Which of them is the run's own is not known any more: each may be."""
    left = list(left)
    leaders = {one.pid: one.process.started for one in left}
    groups = dict.fromkeys((one.run_id, one.pgid) for one in left)
    return [LeftGroup(run=run, leader=pgid, since_ms=now_ms, leader_started=leaders.get(pgid)) for run, pgid in groups]


def _end(tree: Tree[None], left: Iterable[Leftover]) -> None:
    for leftover in left:
        if tree.end(leftover.process):
            extra = {"action": "leftover_ended", "run_id": leftover.run_id, "pid": leftover.pid}
            _log.warning("process %d of %s was left running: ended", leftover.pid, leftover.run_id, extra=extra)
