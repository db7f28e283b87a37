"""The steward's second duty: fires that the first two in rank have left undecided.

A fire undecided 5 s after its dispatch time and within its grace, while another worker shows free slots, is offered to
all as a request. A fire that nobody can take any more is recorded as missed, by the job's policy, so that nothing is
missed in silence. One batched read of the marks of the jobs that had a fire due; no read for an idle job.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Mapping
from typing import Final

from common.clock import Clock
from common.etcd import (
    Compare,
    EtcdClient,
    Get,
    KeyValue,
    Operation,
    Put,
    absent,
    create_revision_is,
    mod_revision_is,
    value_is,
)
from common.keys import Keys, RunId, Watched, encode_mark
from common.member import Beat
from common.planner import Decision, decide, decide_for_nobody
from common.request import Origin, Request
from common.run import RunRecord, Verdict, final_entry
from common.timings import Timings
from worker.catalog import Catalog, CatalogJob
from worker.claims import read_mark
from worker.members import Members
from worker.records import fire_record, single
from worker.settlement import Settlement
from worker.steward import Term

_log = logging.getLogger(__name__)

OFFER_AFTER_MS: Final = 5000
_LOOK_AGAIN_MS: Final = 5000
_AT_ONCE: Final = 2000
"""Jobs looked at in one turn."""
_STEPS: Final = 20
"""Decisions for one job in one turn."""


class StuckFires:
    """Offers, skips or gives up what nobody has decided."""

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
        beats: Mapping[str, Beat],
        settlement: Settlement,
        timings: Timings,
        clock: Clock,
    ) -> None:
        self._client = client
        self._keys = keys
        self._worker = worker
        self._catalog = catalog
        self._members = members
        self._beats = beats
        self._settlement = settlement
        self._timings = timings
        self._clock = clock
        self._checks: list[tuple[int, str, int]] = []
        self._undecided: set[str] = set()
        self._leading = False

    def begin(self) -> None:
        """Every job is looked at once, then each when it has had a fire."""
        self._leading = True
        now_ms = self._clock.wall_ms()
        self._checks = [(now_ms, name, job.revision) for name, job in self._catalog.jobs.items()]
        heapq.heapify(self._checks)

    def job_changed(self, name: str) -> None:
        """The catalog has another revision of the job."""
        job = self._catalog.jobs.get(name)
        if self._leading and job is not None:
            heapq.heappush(self._checks, (self._clock.wall_ms() + _LOOK_AGAIN_MS, name, job.revision))

    async def perform(self, term: Term) -> None:
        now_ms = self._clock.wall_ms()
        jobs = self._due(now_ms)
        if not jobs:
            return
        marks = await self._client.get_many([self._keys.mark(job.name) for job in jobs])
        for job in jobs:
            mark = marks.get(self._keys.mark(job.name))
            await self._look_at(term, job, mark, now_ms)
            self._check_next(job, now_ms)

    def _due(self, now_ms: int) -> list[CatalogJob]:
        jobs: list[CatalogJob] = []
        while self._checks and self._checks[0][0] <= now_ms and len(jobs) < _AT_ONCE:
            _, name, revision = heapq.heappop(self._checks)
            job = self._catalog.jobs.get(name)
            if job is not None and job.revision == revision:
                jobs.append(job)
        return jobs

    def _check_next(self, job: CatalogJob, now_ms: int) -> None:
        """5 s after the next fire, but at most every 5 s; while something stays undecided, every 5 s."""
        undecided = job.name in self._undecided
        next_ms = now_ms if undecided else job.schedule.next_after_ms(max(now_ms - OFFER_AFTER_MS, job.anchor_ms))
        if next_ms is not None and job.spec.enabled:
            at_ms = max(now_ms + _LOOK_AGAIN_MS, job.dispatch_ms(next_ms) + OFFER_AFTER_MS)
            heapq.heappush(self._checks, (at_ms, job.name, job.revision))

    async def _look_at(self, term: Term, job: CatalogJob, mark: KeyValue | None, now_ms: int) -> None:
        self._undecided.discard(job.name)
        mark_ms = read_mark(mark)
        if mark_ms is None:
            await self._give_mark(term, job, mark, now_ms)
            return
        if mark_ms > now_ms + 86_400_000:
            extra = {"action": "mark.in_the_future", "job": job.name, "mark_ms": mark_ms}
            _log.error("the mark of %r lies more than a day ahead: it does not fire until then", job.name, extra=extra)
        if not job.spec.enabled:
            return
        for _ in range(_STEPS):
            step_ms = await self._step(term, job, max(mark_ms, job.anchor_ms), mark_ms, now_ms)
            if step_ms is None:
                return
            mark_ms = step_ms

    async def _step(self, term: Term, job: CatalogJob, base_ms: int, mark_ms: int, now_ms: int) -> int | None:
        """One decision; the new mark, or None where there is nothing (more) to decide."""
        until_ms = now_ms - OFFER_AFTER_MS
        patience_ms = 2 * self._timings.hedge_ms + self._timings.max_clock_skew_ms + OFFER_AFTER_MS
        given_up = decide_for_nobody(
            job.schedule, job.spec.misfire, mark_ms=base_ms, now_ms=now_ms, patience_ms=patience_ms
        )
        if given_up is not None:
            return await self._give_up(term, job, given_up, mark_ms, now_ms)
        decision = decide(job.schedule, job.spec.misfire, mark_ms=base_ms, until_ms=until_ms, now_ms=now_ms)
        if decision is None:
            return None
        self._undecided.add(job.name)
        usual = decision.claim_ms is not None and decision.missed is None
        if not usual or now_ms > job.dispatch_ms(decision.to_ms) + job.spec.misfire.grace_ms:
            return None  # a misfire: a worker's to make up for, until its window is over
        return await self._offer(term, job, decision, mark_ms, now_ms)

    async def _give_up(
        self, term: Term, job: CatalogJob, decision: Decision, mark_ms: int, now_ms: int
    ) -> int | None:
        assert decision.missed is not None
        nobody = not self._members.accepting()
        record = fire_record(
            job, fires=decision.missed, status=Verdict.MISSED, now_ms=now_ms,
            reason="no eligible worker" if nobody else "late",
        )  # fmt: skip
        return await self._record(term, job, record, mark_ms=mark_ms, to_ms=decision.to_ms)

    async def _record(
        self, term: Term, job: CatalogJob, record: RunRecord, *, mark_ms: int, to_ms: int,
        only_if: Compare | None = None,
    ) -> int | None:  # fmt: skip
        key = self._keys.run(record.run_id)
        compares = [*self._usual(term, job, mark_ms), absent(key), *([only_if] if only_if else [])]
        then: list[Operation] = [
            Put(self._keys.mark(job.name), encode_mark(to_ms)),
            Put(key, final_entry(record, worker=self._worker).to_json()),
        ]
        result = await self._client.txn(compares, then)
        if not result.succeeded:
            return None
        self._settlement.deliver_final(record, result.revision)
        return to_ms

    async def _offer(
        self, term: Term, job: CatalogJob, decision: Decision, mark_ms: int, now_ms: int
    ) -> int | None:
        """To all, where somebody beside the first two in rank has a free slot; a held lock decides it instead."""
        plan_ms = decision.to_ms
        lock = await self._client.get(self._keys.lock(job.name)) if job.takes_lock else None
        if lock is not None:
            reason = f"overlap: {lock.value.decode(errors='replace')[:300]} was going"
            record = fire_record(job, fires=single(plan_ms), status=Verdict.SKIPPED, reason=reason, now_ms=now_ms)
            held = create_revision_is(lock.key, lock.create_revision)
            return await self._record(term, job, record, mark_ms=mark_ms, to_ms=plan_ms, only_if=held)
        if not self._somebody_else_is_free(job, plan_ms):
            return None
        run_id = RunId.planned(job.name, plan_ms)
        dispatch_ms = job.dispatch_ms(plan_ms)
        request = Request(
            run_id=run_id, origin=Origin.OFFERED, job_create_revision=job.create_revision, plan_ms=plan_ms,
            dispatch_ms=dispatch_ms, not_before_ms=now_ms, expires_ms=dispatch_ms + job.spec.misfire.grace_ms,
        )  # fmt: skip
        result = await self._client.txn(
            [*self._usual(term, job, mark_ms), absent(self._keys.run(run_id)), absent(self._keys.request(run_id))],
            [
                Put(self._keys.mark(job.name), encode_mark(plan_ms)),
                Put(self._keys.request(run_id), request.to_json()),
                Put(self._keys.seen(Watched.REQUESTS), b""),
            ],
        )
        if result.succeeded:
            extra = {"action": "fire.offered", "run": str(run_id)}
            _log.info("%s is offered to all: nobody has taken it", run_id, extra=extra)
        return plan_ms if result.succeeded else None

    def _usual(self, term: Term, job: CatalogJob, mark_ms: int) -> list[Compare]:
        return [
            *term.holds,
            mod_revision_is(self._keys.job(job.name), job.revision),
            value_is(self._keys.mark(job.name), encode_mark(mark_ms)),
        ]

    def _somebody_else_is_free(self, job: CatalogJob, plan_ms: int) -> bool:
        for name in self._members.accepting():
            rank = self._members.placement.rank(name, job.name, str(plan_ms))
            beat = self._beats.get(name)
            if rank is not None and rank > 1 and beat is not None and beat.free_slots > 0:
                return True
        return False

    async def _give_mark(self, term: Term, job: CatalogJob, mark: KeyValue | None, now_ms: int) -> None:
        """A job without a readable mark gets one: from now on it fires."""
        key = self._keys.mark(job.name)
        compare = absent(key) if mark is None else mod_revision_is(key, mark.mod_revision)
        exists = mod_revision_is(self._keys.job(job.name), job.revision)
        new_mark = encode_mark(max(now_ms, job.anchor_ms))
        result = await self._client.txn([*term.holds, exists, compare], [Put(key, new_mark)], [Get(key)])
        if result.succeeded:
            extra = {"action": "mark.given", "job": job.name}
            _log.error("the job %r had no readable mark; it has one from now on", job.name, extra=extra)
