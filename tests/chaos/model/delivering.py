"""From the disk to the log store, which keeps the first record of a run, but for one that replaces ``lost``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from common.protocol.run import RunRecord
from common.verdicts import Verdict
from tests.chaos.model import settling
from tests.chaos.model.world import Flow, World

if TYPE_CHECKING:
    from tests.chaos.model.worker import Worker


def write(world: World, record: RunRecord) -> None:
    there = world.history.log.get(record.run_id)
    if there is None or there.status is Verdict.LOST:
        world.history.log[record.run_id] = record


def loop(w: Worker) -> Flow[None]:
    """The log store is not etcd: when it is away, only this waits."""
    world = w.world
    while True:
        yield 300
        batch = list(w.machine.spool)
        if not batch or not world.store_up:
            continue
        for record in batch:
            write(world, record)
        if not world.calm and world.rng.random() < 0.05:
            continue  # its answer was lost
        yield 10
        del w.machine.spool[: len(batch)]
        for record in batch:
            settling.delivered(w, record.run_id)
