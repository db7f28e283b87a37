"""A simulated fleet: who is ranked for which fire, when each rank tries, and what the steward offers to all.

Ranks are the product's own (`common.protocol.placement`), and so are transactions, decisions, slots and times. What a
fleet has and this has not: a network that is slow or loses answers, clocks that differ, a membership that changes, and
work that takes time; so the counts are those of a fleet on machines that keep up.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Final

from bench.filling import saved
from bench.simulate_etcd import CountingEtcd, Counts
from bench.simulate_worker import Health, SimulatedWorker, Timeline, Tries
from common.etcd import EtcdClient
from common.jobs.job import JobSpec
from common.protocol import fire_decisions
from common.protocol.access_keys import AccessKeys
from common.protocol.keys import Keys, encode_mark, read_mark
from common.protocol.placement import Candidate, Placement, bucket_of
from common.protocol.planned_job import PlannedJob, read_job
from common.protocol.request import Request
from common.protocol.txn import Put, Txn
from common.timings import OFFER_AFTER_MS, Timings

MIDNIGHT_MS: Final = 1_790_035_200_000
"""The fires of all jobs lie in the seconds after this midnight (UTC)."""
_SAVED_MS: Final = MIDNIGHT_MS - 3_600_000
_FULL_FOR_MS: Final = 10_000
_KEYS: Final = Keys()
_TIMINGS: Final = Timings()
BY_WORKERS: Final = (_KEYS.jobs, _KEYS.kills, _KEYS.requests, _KEYS.workers, _KEYS.steward, _KEYS.rules)
"""What every worker watches, beside its own drain and the outputs that it is asked for."""
BY_MANAGERS: Final = (_KEYS.jobs, _KEYS.runs, _KEYS.workers, AccessKeys(_KEYS.prefix).prefix)
"""What every manager watches closely: it notices a second later that such a watch is dead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What is simulated: each job has one fire, in one of so many seconds."""

    workers: int
    fires: int
    seconds: int
    """The fires are spread over so many seconds, evenly; within one, over its milliseconds by jitter. 1: a burst, all
    due at the same moment."""
    slots: int = 16
    dead: float = 0.0
    """The share of workers that are dead, and ranked still."""
    full: float = 0.0
    """The share of workers that live and have no free slot until 10 s after the last fire."""
    managers: int = 2
    run_ms: tuple[int, int] = (50, 150)
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the fires of a scenario have cost, all of them together."""

    counts: Counts
    tries: Tries
    undecided: int
    """Fires that nobody has taken: they wait for a slot."""
    busiest: float
    """Fires of which the busiest worker is first in rank, in parts of the mean."""


def simulate(scenario: Scenario) -> Outcome:
    """Everything from before the first fire until nothing more happens; the same seed has the same outcome."""
    return _Fleet(scenario).run()


@cache
def _placement(candidates: tuple[Candidate, ...]) -> Placement:
    """The ranks of one fleet are remembered for all its scenarios."""
    return Placement(candidates)


class _Fleet:
    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._random = random.Random(scenario.seed)
        self._now_ms = MIDNIGHT_MS - 1000
        self._coming: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()
        self._etcd = CountingEtcd(
            workers=dict.fromkeys(BY_WORKERS, scenario.workers), managers=dict.fromkeys(BY_MANAGERS, scenario.managers)
        )
        self._tries = Tries()
        names = [f"worker-{number:04d}" for number in range(scenario.workers)]
        self._placement = _placement(tuple(Candidate(name, scenario.slots) for name in names))
        self._workers = self._members(names)
        self._fires = [(job, self._plan_of(job)) for job in self._jobs()]

    def _members(self, names: Sequence[str]) -> Mapping[str, SimulatedWorker]:
        scenario = self._scenario
        dead, full = round(len(names) * scenario.dead), round(len(names) * scenario.full)
        healths = [Health.DEAD] * dead + [Health.FULL] * full
        healths += [Health.WELL] * (len(names) - len(healths))
        self._random.shuffle(healths)
        timeline = Timeline(now_ms=lambda: self._now_ms, at=self._at)
        client = EtcdClient(["127.0.0.1:1"])  # of which nothing is ever asked
        return {
            name: SimulatedWorker(
                name, number, health=health, slots=scenario.slots, keys=_KEYS, etcd=self._etcd, tries=self._tries,
                client=client, timeline=timeline, run_ms=lambda: self._random.randint(*scenario.run_ms),
            )
            for number, (name, health) in enumerate(zip(names, healths, strict=True))
        }  # fmt: skip

    def _jobs(self) -> Iterable[PlannedJob]:
        """Saved as a manager saves them, and read as a worker reads them."""
        is_burst = self._scenario.seconds == 1
        for number in range(self._scenario.fires):
            second = number % self._scenario.seconds
            expr = f"{second % 60} {second // 60} 0 * * * *"
            name = f"job-{number:07d}"
            spec = JobSpec(name=name, command="true", cron_exprs=(expr,), jitter_s=0 if is_burst else 1)
            value = saved(spec, _SAVED_MS).to_json()
            self._etcd.txn(Txn([], [Put(_KEYS.job(name), value), Put(_KEYS.mark(name), encode_mark(_SAVED_MS))]))
            kv = self._etcd.get(_KEYS.job(name))
            assert kv is not None
            yield read_job(name, kv)

    @staticmethod
    def _plan_of(job: PlannedJob) -> int:
        plan_ms = job.schedule.next_after_ms(MIDNIGHT_MS - 1)
        assert plan_ms is not None
        return plan_ms

    def run(self) -> Outcome:
        before = self._etcd.counts.copy()
        self._plan(rank=0, after_ms=-_TIMINGS.claim_lead_ms, tell=SimulatedWorker.come_up)
        self._plan(rank=1, after_ms=_TIMINGS.hedge_ms, tell=SimulatedWorker.hedge)
        due: dict[int, list[tuple[PlannedJob, int]]] = defaultdict(list)
        for job, plan_ms in self._fires:
            due[-(-job.dispatch_ms(plan_ms) // 1000)].append((job, plan_ms))
        for second, fires in due.items():
            self._at(second * 1000 + OFFER_AFTER_MS, lambda fires=fires: self._look(fires))  # type: ignore[misc]
        for worker in self._workers.values():
            self._at(MIDNIGHT_MS + self._scenario.seconds * 1000 + _FULL_FOR_MS, worker.get_slots)
        while self._coming:
            self._now_ms, _, act = heapq.heappop(self._coming)
            act()
        firsts = Counter(self._firsts(job, plan_ms)[0] for job, plan_ms in self._fires)
        return Outcome(
            counts=self._etcd.counts - before, tries=self._tries,
            undecided=sum(self._is_undecided(job, plan_ms) for job, plan_ms in self._fires),
            busiest=max(firsts.values()) * self._scenario.workers / len(self._fires),
        )  # fmt: skip

    def _at(self, ms: int, act: Callable[[], None]) -> None:
        heapq.heappush(self._coming, (ms, next(self._numbers), act))

    # Ranks

    def _firsts(self, job: PlannedJob, plan_ms: int) -> tuple[str, ...]:
        return self._placement.firsts(bucket_of(job.name, str(plan_ms)))

    def _plan(
        self, *, rank: int, after_ms: int, tell: Callable[[SimulatedWorker, Sequence[tuple[PlannedJob, int]]], None]
    ) -> None:
        """What comes up for one worker at the same moment comes up together."""
        told: dict[tuple[int, str], list[tuple[PlannedJob, int]]] = defaultdict(list)
        for job, plan_ms in self._fires:
            firsts = self._firsts(job, plan_ms)
            if rank < len(firsts):
                told[job.dispatch_ms(plan_ms) + after_ms, firsts[rank]].append((job, plan_ms))
        for (at_ms, name), fires in told.items():
            self._at(at_ms, lambda name=name, fires=fires: tell(self._workers[name], fires))  # type: ignore[misc]

    # The steward

    def _look(self, jobs: Sequence[tuple[PlannedJob, int]]) -> None:
        """Once a second, the marks of the jobs that had a fire 5 s ago, in one batched read."""
        marks = self._etcd.get_many([_KEYS.mark(job.name) for job, _ in jobs])
        for job, plan_ms in jobs:
            mark_ms = read_mark(marks.get(_KEYS.mark(job.name)))
            if mark_ms != _SAVED_MS:
                continue
            order = self._placement.order(bucket_of(job.name, str(plan_ms)))
            if any(self._workers[name].free_slots for name in order[2:]):
                self._offer(job, plan_ms, order)

    def _offer(self, job: PlannedJob, plan_ms: int, order: Sequence[str]) -> None:
        """As `worker.lead.undecided_fires` does; the two compares of the steward's office are left out."""
        request = fire_decisions.offered(job, plan_ms, now_ms=self._now_ms)
        key = request.key(_KEYS)
        result = self._etcd.txn(
            fire_decisions.offer(
                _KEYS, job, request, None, mark_ms=_SAVED_MS, to_ms=plan_ms, worker=order[0], guards=()
            )
        )
        assert result.succeeded, "it has just seen that the fire is undecided"
        self._tries.offered += 1
        kv = self._etcd.get(key)
        assert kv is not None
        seen = Request.from_json(kv.value, run_id=request.run_id, revision=kv.mod_revision)
        for rank, name in enumerate(order):
            at_ms = seen.not_before_ms + rank * _TIMINGS.hedge_ms
            self._at(at_ms, lambda name=name: self._workers[name].turn_at(job, seen))  # type: ignore[misc]

    def _is_undecided(self, job: PlannedJob, plan_ms: int) -> bool:
        mark_ms = read_mark(self._etcd.get(_KEYS.mark(job.name)))
        return mark_ms is not None and mark_ms < plan_ms
