"""One seed: a world with its workers, managers, jobs and faults, from the start to a quiet end."""

from __future__ import annotations

from typing import Final

from tests.chaos.model.faults import Faults
from tests.chaos.model.manager import Manager
from tests.chaos.model.rules import Rules
from tests.chaos.model.settings import FAULTS_FOR, QUIET, START, TTL
from tests.chaos.model.values import Spec
from tests.chaos.model.worker import Worker
from tests.chaos.model.world import World

_OVERLAPS: Final = ("skip", "queue", "replace", "allow")


def simulate(seed: int, rules: Rules) -> World:
    """The world as it is when all is over; its history is what the checker reads."""
    world = World(seed, rules)
    rng = world.rng
    workers = [Worker(world, f"w{number}", slots=rng.randint(1, 4)) for number in range(rng.choice((3, 3, 4)))]
    managers = [Manager(world, f"m{number}") for number in range(2)]
    for actor in (*(w.actor for w in workers), *(manager.actor for manager in managers)):
        if rng.random() < 0.4:
            actor.skew = rng.randint(-3_000, 3_000)
    overlaps = [*_OVERLAPS, rng.choice(_OVERLAPS)]
    specs = {f"{overlap}{number}": _spec(world, overlap) for number, overlap in enumerate(overlaps)}
    for w in workers:
        world.later(rng.randint(0, 500), world.nature, w.start)
    for number, (name, spec) in enumerate(specs.items()):
        world.spawn(managers[number % 2].actor, managers[number % 2].edit(name, spec))
    world.later(500, world.nature, _expire, world)
    Faults(world, workers, managers, specs).plan()
    world.run(START + FAULTS_FOR + QUIET)
    _close(world, workers)
    return world


def _spec(world: World, overlap: str) -> Spec:
    rng = world.rng
    return Spec(
        period=rng.choice((1_500, 2_500, 4_000)), overlap=overlap, misfire=rng.choice(("skip", "latest", "all")),
        retries=rng.choice((0, 0, 1, 2)), rerun=rng.random() < 0.4,
    )  # fmt: skip


def _expire(world: World) -> None:
    if world.etcd.up:
        world.etcd.expire()
    world.later(TTL // 8, world.nature, _expire, world)


def _close(world: World, workers: list[Worker]) -> None:
    """What should have been settled by now: claims of long ago, and records that nobody has delivered."""
    history, old = world.history, world.now - QUIET // 2
    history.end = world.now
    born = {put.key: commit.time for commit in history.commits for put in commit.puts if put.key[0] == "run"}
    going = {process.run.id.key for w in workers for process in w.machine.processes}
    history.open = [
        f"{'/'.join(map(str, key))}: {kv.value}"
        for key, kv in world.etcd.data.items()
        if key[0] == "run" and born.get(key, 0) < old and key not in going
    ]
    history.open += [
        f"spool of {w.name}: {len(w.machine.spool)}" for w in workers if not w.gone and w.machine.spool[9:]
    ]
