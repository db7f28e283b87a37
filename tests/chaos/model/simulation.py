"""One seed: a world with its workers, managers, jobs and faults, from the start to a quiet end."""

from __future__ import annotations

from dataclasses import replace

from common.jobs.job import JobSpec, MisfirePolicy, OnWorkerLost, Overlap
from common.jobs.retry import Retry
from tests.chaos.model.faults import Faults
from tests.chaos.model.manager import Manager, seconds
from tests.chaos.model.settings import FAULTS_FOR, KEYS, MISFIRE, QUIET, RETRY_AFTER_S, START, TTL
from tests.chaos.model.worker import Worker
from tests.chaos.model.world import World


def simulate(seed: int, *, busy: bool = False) -> World:
    """The world as it is when all is over; its history is what the checker reads."""
    world = World(seed, busy=busy)
    rng = world.rng
    most = 1 if busy else 4
    workers = [Worker(world, f"w{number}", slots=rng.randint(1, most)) for number in range(rng.choice((3, 3, 4)))]
    managers = [Manager(world, f"m{number}") for number in range(2)]
    for actor in (*(w.actor for w in workers), *(manager.actor for manager in managers)):
        if rng.random() < 0.4:
            actor.skew = rng.randint(-3_000, 3_000)
    for number, w in enumerate(workers if busy else ()):
        w.actor.skew = rng.randint(1_000, 3_000) * (1 if number % 2 else -1)
    overlaps = [Overlap.ALLOW] * 5 if busy else [*Overlap, rng.choice(list(Overlap))]
    drawn = [_spec(world, f"{overlap}{number}", overlap) for number, overlap in enumerate(overlaps)]
    specs = {spec.name: spec for spec in drawn}
    for w in workers:
        world.later(rng.randint(0, 500), world.nature, w.start)
    for number, (name, spec) in enumerate(specs.items()):
        world.spawn(managers[number % 2].actor, managers[number % 2].edit(name, spec))
    world.later(500, world.nature, _expire, world)
    Faults(world, workers, managers, specs).plan()
    world.run(START + FAULTS_FOR + QUIET)
    _close(world, workers)
    return world


def _spec(world: World, name: str, overlap: Overlap) -> JobSpec:
    rng = world.rng
    return JobSpec(
        name=name, command="true", every=seconds(3 if world.busy else rng.choice((2, 3, 4))), overlap=overlap,
        misfire=replace(MISFIRE, policy=rng.choice(list(MisfirePolicy))),
        retry=Retry(limit=rng.choice((0, 0, 1, 2)), delay_s=RETRY_AFTER_S, backoff=1),
        on_worker_lost=OnWorkerLost.RERUN if rng.random() < 0.4 else OnWorkerLost.RECORD,
    )  # fmt: skip


def _expire(world: World) -> None:
    if world.etcd.up:
        world.etcd.expire()
    world.later(TTL // 8, world.nature, _expire, world)


def _close(world: World, workers: list[Worker]) -> None:
    """What should have been settled by now: claims of long ago, and records that nobody has delivered."""
    history, old = world.history, world.now - QUIET // 2
    history.end = world.now
    born = {put.key: commit.time for commit in history.commits for put in commit.puts}
    going = {KEYS.run(process.run.run_id) for w in workers for process in w.machine.processes}
    history.open = [
        f"{kv.key}: {kv.value.decode()}"
        for kv in world.etcd.under(KEYS.runs)
        if born.get(kv.key, 0) < old and kv.key not in going
    ]
    history.open += [
        f"spool of {w.name}: {len(w.machine.spool)}" for w in workers if not w.gone and w.machine.spool[9:]
    ]
