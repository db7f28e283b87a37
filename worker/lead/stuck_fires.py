"""The steward looks after fires that the first two in rank have left undecided.

Each job is looked at when it has had a fire: one batched read of the marks of those that had one due 5 s ago, and one
of the locks of those that have something undecided; no read for an idle job. What is to become of such a fire:
:mod:`undecided_fires`.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable
from typing import Final

from common.clock import Clock
from common.etcd import EtcdClient
from common.protocol import fire_decisions
from common.protocol.keys import Keys, read_mark
from common.protocol.planned_job import PlannedJob
from common.protocol.planner import Held
from common.protocol.txn import KeyValue
from common.timings import OFFER_AFTER_MS, Timings
from worker.absences import Absences
from worker.catalog import Catalog
from worker.lead.leader import Term
from worker.lead.roster import Roster
from worker.lead.undecided_fires import Case, UndecidedFires
from worker.members import Beats, Members
from worker.plan.mark_scan import read_marks
from worker.quarantine import Quarantine
from worker.record.settlement import Settlement

_log = logging.getLogger(__name__)

_LOOK_AGAIN_MS: Final = 5000
"""At a job with fires closer than that, or an undecided one: a pace of its own, beside `OFFER_AFTER_MS`."""
_AT_ONCE: Final = 2000
"""Jobs looked at in one turn."""
FIRST_LOOKS: Final = 5000
"""And of those that it has not looked at since it began: 100,000 in 20 s."""
_STEPS: Final = 20
"""Decisions for one job in one turn."""
_YIELD_EVERY: Final = 50
_FAR_AHEAD_MS: Final = 86_400_000
_STALE_CHECKS: Final = 1000


class StuckFires:
    """Offers, skips or gives up what no worker has decided."""

    name = "looking after stuck fires"
    every_s = 1.0

    def __init__(
        self,
        *,
        client: EtcdClient,
        keys: Keys,
        worker: str,
        catalog: Catalog,
        members: Members,
        beats: Beats,
        absences: Absences,
        roster: Roster,
        settlement: Settlement,
        timings: Timings,
        clock: Clock,
        held: Callable[[], Held | None] = lambda: None,
    ) -> None:
        """``held``: as the scheduler's."""
        self._client = client
        self._keys = keys
        self._catalog = catalog
        self._clock = clock
        self._undecided_fires = UndecidedFires(
            client=client,
            keys=keys,
            worker=worker,
            members=members,
            beats=beats,
            absences=absences,
            roster=roster,
            settlement=settlement,
            timings=timings,
            held=held,
        )
        self._quarantine = Quarantine("stuck fire")
        self._checks: list[tuple[int, str, int]] = []
        self._unseen: dict[str, None] = {}
        """Jobs that it has not looked at since it began, and that have not changed since."""
        self._undecided: set[str] = set()
        self._far_ahead: dict[str, int] = {}
        self._leading = False

    def begin(self) -> None:
        """Every job is looked at once, then each when it has had a fire."""
        self._leading = True
        self._undecided_fires.begin()
        self._checks = []
        self._unseen = dict.fromkeys(self._catalog.jobs)

    def end(self) -> None:
        self._leading = False
        self._checks.clear()
        self._unseen.clear()
        self._undecided.clear()
        self._far_ahead.clear()

    def job_changed(self, name: str) -> None:
        """The catalog has another revision of the job."""
        job = self._catalog.jobs.get(name)
        self._unseen.pop(name, None)
        if job is None:
            self._undecided_fires.forget(name)
        if not self._leading or job is None or job.spec.broadcast:
            return
        heapq.heappush(self._checks, (self._clock.wall_ms() + _LOOK_AGAIN_MS, name, job.revision))
        jobs = self._catalog.jobs
        if len(self._checks) > 2 * len(jobs) + _STALE_CHECKS:
            # Of a job that is saved again and again, only the check of its newest revision stays.
            self._checks = [one for one in self._checks if one[1] in jobs and jobs[one[1]].revision == one[2]]
            heapq.heapify(self._checks)

    async def perform(self, term: Term) -> None:
        self._undecided_fires.begin_turn()
        now_ms = self._clock.wall_ms()
        left = {job.name: job for job in self._due(now_ms)}
        try:
            stuck = await self._with_something_undecided(left, now_ms)
            locks = await self._client.get_many([self._keys.lock(name) for name in stuck]) if stuck else {}
            for index, (name, mark) in enumerate(stuck.items(), 1):
                if index % _YIELD_EVERY == 0:
                    await asyncio.sleep(0)
                job = left[name]
                with self._quarantine.isolate(job.name, job.revision):
                    await self._look_at(term, job, mark, locks.get(self._keys.lock(job.sequence)), now_ms)
                with self._quarantine.isolate(job.name, job.revision):
                    self._check_next(job, now_ms)
                del left[name]
        finally:
            for job in left.values():  # etcd has gone away: they must not be forgotten
                heapq.heappush(self._checks, (now_ms, job.name, job.revision))

    def _due(self, now_ms: int) -> list[PlannedJob]:
        jobs: list[PlannedJob] = []
        while self._checks and self._checks[0][0] <= now_ms and len(jobs) < _AT_ONCE:
            _, name, revision = heapq.heappop(self._checks)
            job = self._catalog.jobs.get(name)
            if job is not None and job.revision == revision:
                jobs.append(job)
        for _ in range(min(len(self._unseen), FIRST_LOOKS)):
            job = self._catalog.jobs.get(self._unseen.popitem()[0])
            if job is not None and not job.spec.broadcast:  # of a broadcast job each worker decides its own fires
                jobs.append(job)
        return jobs

    def _check_next(self, job: PlannedJob, now_ms: int) -> None:
        """5 s after the next fire; every 5 s where fires come closer than that, or while one stays undecided."""
        if not job.spec.enabled:
            return
        at_ms = again_ms = now_ms + _LOOK_AGAIN_MS
        if job.name not in self._undecided:
            next_ms = job.schedule.next_after_ms(max(job.came_up_ms(now_ms - OFFER_AFTER_MS), job.anchor_ms))
            if next_ms is None:
                return
            at_ms = job.dispatch_ms(next_ms) + OFFER_AFTER_MS
            following_ms = job.schedule.next_after_ms(next_ms) if at_ms < again_ms else None
            if following_ms is not None and following_ms - next_ms < _LOOK_AGAIN_MS:
                at_ms = again_ms
        heapq.heappush(self._checks, (at_ms, job.name, job.revision))

    async def _with_something_undecided(self, left: dict[str, PlannedJob], now_ms: int) -> dict[str, KeyValue | None]:
        """The jobs whose mark is behind a fire of 5 s ago, or no mark for them, with their marks.

        The others are taken out of ``left``, and looked at again when they have had a fire.
        """
        jobs = tuple(left.values())
        marks = await read_marks(self._client, self._keys, [job.sequence for job in jobs]) if jobs else {}
        found: dict[str, KeyValue | None] = {}
        for index, job in enumerate(jobs, 1):
            if index % _YIELD_EVERY == 0:
                await asyncio.sleep(0)
            self._undecided.discard(job.name)
            with self._quarantine.isolate(job.name, job.revision):
                mark = marks.get(job.sequence)
                mark_ms = read_mark(mark)
                if mark_ms is None or mark_ms < job.anchor_ms or self._is_behind(job, mark_ms, now_ms):
                    found[job.name] = mark
                    continue
                self._undecided_fires.decided(job)
                self._say_far_ahead(job, mark_ms, now_ms)
                self._check_next(job, now_ms)
            del left[job.name]
        return found

    def _is_behind(self, job: PlannedJob, mark_ms: int, now_ms: int) -> bool:
        """Whether the first fire that the mark leaves undecided, and so the earliest to be due, was due 5 s ago."""
        if not job.spec.enabled:
            return False
        next_ms = job.schedule.next_after_ms(max(mark_ms, job.anchor_ms))
        return next_ms is not None and job.dispatch_ms(next_ms) <= now_ms - OFFER_AFTER_MS

    def _say_far_ahead(self, job: PlannedJob, mark_ms: int, now_ms: int) -> None:
        if mark_ms <= now_ms + _FAR_AHEAD_MS or self._far_ahead.get(job.name) == mark_ms:
            return
        self._far_ahead[job.name] = mark_ms
        extra = {"action": "mark.in_the_future", "job": job.name, "mark_ms": mark_ms}
        remedy = "it does not fire until then; `etcron job unblock` sets it back"
        _log.error("the mark of %r lies more than a day ahead: %s", job.name, remedy, extra=extra)

    async def _look_at(
        self, term: Term, job: PlannedJob, mark: KeyValue | None, lock: KeyValue | None, now_ms: int
    ) -> None:
        self._undecided.add(job.name)  # also where etcd refuses what is to be written
        mark_ms = read_mark(mark)
        if mark_ms is None or mark_ms < job.anchor_ms:
            # Without a readable mark it gets one, and fires from now on; where it lay before the anchor, from there.
            at_ms = job.anchor_ms if mark_ms is not None else max(now_ms, job.anchor_ms)
            result = await self._client.txn(
                fire_decisions.give_mark(self._keys, job, mark, at_ms=at_ms, guards=term.holds)
            )  # fmt: skip
            if result.succeeded:
                extra = {"action": "mark.given", "job": job.name}
                _log.error("the job %r had no mark of its own save or later; it has one now", job.name, extra=extra)
            return
        lock = lock if job.takes_lock else None
        for _ in range(_STEPS):
            step_ms = await self._undecided_fires.step(Case(term, job, lock, mark_ms, now_ms))
            if step_ms is None:
                break
            mark_ms = step_ms
        if not self._is_behind(job, mark_ms, now_ms):
            self._undecided.discard(job.name)
