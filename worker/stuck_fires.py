"""The steward's second duty: fires that the first two in rank have left undecided.

A fire undecided 5 s after its dispatch time and within its grace, while another worker shows free slots, is offered to
all as a request. A fire that nobody can take any more is recorded as missed, by the job's policy, so that nothing is
missed in silence. One batched read of the marks of the jobs that had a fire due, and one of the locks of those that
have something undecided; no read for an idle job.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Mapping, Sequence
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
    present,
    value_is,
)
from common.keys import Keys, RunId, Watched, encode_mark
from common.planner import Decision, decide, decide_for_nobody
from common.request import Origin, Request
from common.run import RunRecord, Verdict, final_entry
from common.timings import Timings
from worker.aside import Aside
from worker.catalog import Catalog, CatalogJob
from worker.claims import read_mark
from worker.members import Beats, Members
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
_YIELD_EVERY: Final = 50
_FAR_AHEAD_MS: Final = 86_400_000
_STALE_CHECKS: Final = 1000


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
        beats: Beats,
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
        self._aside = Aside("stuck fire")
        self._checks: list[tuple[int, str, int]] = []
        self._undecided: set[str] = set()
        self._far_ahead: dict[str, int] = {}
        self._leading = False

    def begin(self) -> None:
        """Every job is looked at once, then each when it has had a fire."""
        self._leading = True
        now_ms = self._clock.wall_ms()
        self._checks = [(now_ms, name, job.revision) for name, job in self._catalog.jobs.items()]
        heapq.heapify(self._checks)

    def end(self) -> None:
        self._leading = False
        self._checks.clear()
        self._undecided.clear()
        self._far_ahead.clear()

    def job_changed(self, name: str) -> None:
        """The catalog has another revision of the job."""
        job = self._catalog.jobs.get(name)
        if not self._leading or job is None:
            return
        heapq.heappush(self._checks, (self._clock.wall_ms() + _LOOK_AGAIN_MS, name, job.revision))
        if len(self._checks) > 2 * len(self._catalog.jobs) + _STALE_CHECKS:
            self._drop_stale()

    def _drop_stale(self) -> None:
        """Of a job that is saved again and again, only the check of its newest revision stays."""
        jobs = self._catalog.jobs
        self._checks = [one for one in self._checks if one[1] in jobs and jobs[one[1]].revision == one[2]]
        heapq.heapify(self._checks)

    async def perform(self, term: Term) -> None:
        now_ms = self._clock.wall_ms()
        jobs = self._due(now_ms)
        looked_at = 0
        try:
            stuck = await self._with_something_undecided(jobs, now_ms)
            locks = await self._locks(stuck)
            for looked_at, job in enumerate(jobs):
                if looked_at % _YIELD_EVERY == _YIELD_EVERY - 1:
                    await asyncio.sleep(0)
                if job.name in stuck:
                    with self._aside.apart(job.name, job.revision):
                        mark, lock = stuck[job.name], locks.get(self._keys.lock(job.sequence))
                        await self._look_at(term, job, mark, lock, now_ms)
                with self._aside.apart(job.name, job.revision):
                    self._check_next(job, now_ms)
            looked_at = len(jobs)
        finally:
            for job in jobs[looked_at:]:  # etcd has gone away: they must not be forgotten
                heapq.heappush(self._checks, (now_ms, job.name, job.revision))

    def _due(self, now_ms: int) -> list[CatalogJob]:
        jobs: list[CatalogJob] = []
        while self._checks and self._checks[0][0] <= now_ms and len(jobs) < _AT_ONCE:
            _, name, revision = heapq.heappop(self._checks)
            job = self._catalog.jobs.get(name)
            if job is not None and job.revision == revision:
                jobs.append(job)
        return jobs

    def _check_next(self, job: CatalogJob, now_ms: int) -> None:
        """5 s after the next fire; every 5 s where fires come closer than that, or while one stays undecided."""
        if not job.spec.enabled:
            return
        next_ms: int | None = now_ms
        if job.name not in self._undecided:
            next_ms = job.schedule.next_after_ms(max(now_ms - OFFER_AFTER_MS, job.anchor_ms))
        if next_ms is None:
            return
        at_ms = job.dispatch_ms(next_ms) + OFFER_AFTER_MS
        if at_ms < now_ms + _LOOK_AGAIN_MS:
            following_ms = job.schedule.next_after_ms(next_ms)
            if following_ms is not None and following_ms - next_ms < _LOOK_AGAIN_MS:
                at_ms = now_ms + _LOOK_AGAIN_MS
        heapq.heappush(self._checks, (at_ms, job.name, job.revision))

    async def _with_something_undecided(self, jobs: Sequence[CatalogJob], now_ms: int) -> dict[str, KeyValue | None]:
        """The jobs whose mark is behind a fire of 5 s ago, or is none, with their marks."""
        marks = await self._client.get_many([self._keys.mark(job.sequence) for job in jobs]) if jobs else {}
        found: dict[str, KeyValue | None] = {}
        for index, job in enumerate(jobs):
            if index % _YIELD_EVERY == _YIELD_EVERY - 1:
                await asyncio.sleep(0)
            self._undecided.discard(job.name)
            with self._aside.apart(job.name, job.revision):
                mark = marks.get(self._keys.mark(job.sequence))
                mark_ms = read_mark(mark)
                if mark_ms is None or self._is_behind(job, mark_ms, now_ms):
                    found[job.name] = mark
                else:
                    self._say_far_ahead(job, mark_ms, now_ms)
        return found

    def _is_behind(self, job: CatalogJob, mark_ms: int, now_ms: int) -> bool:
        due_ms = job.schedule.last_before_ms(now_ms - OFFER_AFTER_MS + 1)
        return job.spec.enabled and due_ms is not None and due_ms > max(mark_ms, job.anchor_ms)

    def _say_far_ahead(self, job: CatalogJob, mark_ms: int, now_ms: int) -> None:
        if mark_ms <= now_ms + _FAR_AHEAD_MS or self._far_ahead.get(job.name) == mark_ms:
            return
        self._far_ahead[job.name] = mark_ms
        extra = {"action": "mark.in_the_future", "job": job.name, "mark_ms": mark_ms}
        _log.error("the mark of %r lies more than a day ahead: it does not fire until then", job.name, extra=extra)

    async def _locks(self, stuck: Mapping[str, KeyValue | None]) -> dict[str, KeyValue]:
        return await self._client.get_many([self._keys.lock(name) for name in stuck]) if stuck else {}

    async def _look_at(
        self, term: Term, job: CatalogJob, mark: KeyValue | None, lock: KeyValue | None, now_ms: int
    ) -> None:
        mark_ms = read_mark(mark)
        if mark_ms is None:
            await self._give_mark(term, job, mark, now_ms)
            return
        for _ in range(_STEPS):
            step_ms = await self._step(term, job, lock if job.takes_lock else None, mark_ms, now_ms)
            if step_ms is None:
                return
            mark_ms = step_ms

    async def _step(self, term: Term, job: CatalogJob, lock: KeyValue | None, mark_ms: int, now_ms: int) -> int | None:
        """One decision; the new mark, or None where there is nothing (more) to decide."""
        until_ms, base_ms = now_ms - OFFER_AFTER_MS, max(mark_ms, job.anchor_ms)
        patience_ms = 2 * self._timings.hedge_ms + self._timings.max_clock_skew_ms
        given_up = decide_for_nobody(
            job.schedule, job.spec.misfire, mark_ms=base_ms, now_ms=now_ms, patience_ms=patience_ms
        )
        if given_up is not None:
            step_ms = await self._give_up(term, job, given_up, mark_ms, now_ms)
            if step_ms is None:
                self._undecided.add(job.name)
            return step_ms
        decision = decide(job.schedule, job.spec.misfire, mark_ms=base_ms, until_ms=until_ms, now_ms=now_ms)
        if decision is None:
            return None
        self._undecided.add(job.name)
        usual = decision.claim_ms is not None and decision.missed is None
        if not usual or now_ms > job.dispatch_ms(decision.to_ms) + job.spec.misfire.grace_ms:
            return None  # a misfire: a worker's to make up for, until its window is over
        if lock is not None:
            return await self._skip(term, job, lock, mark_ms=mark_ms, plan_ms=decision.to_ms, now_ms=now_ms)
        if not self._somebody_else_is_free(job, decision.to_ms):
            return None
        return await self._offer(term, job, decision.to_ms, mark_ms, now_ms)

    async def _give_up(self, term: Term, job: CatalogJob, decision: Decision, mark_ms: int, now_ms: int) -> int | None:
        assert decision.missed is not None
        nobody = not self._members.eligible(job.spec)
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
            Put(self._keys.mark(job.sequence), encode_mark(to_ms)),
            Put(key, final_entry(record, worker=self._worker).to_json()),
        ]
        result = await self._client.txn(compares, then, [Get(key, keys_only=True)])
        if result.succeeded:
            self._settlement.deliver_final(record, result.revision)
            return to_ms
        return await self._pass_over(term, job, record, mark_ms) if result.one(0) is not None else None

    async def _pass_over(self, term: Term, job: CatalogJob, record: RunRecord, mark_ms: int) -> int | None:
        """A run key stands already where the record would go: the mark goes over that fire, so that the job goes on."""
        compares = [*self._usual(term, job, mark_ms), present(self._keys.run(record.run_id))]
        passed = await self._client.txn(compares, [Put(self._keys.mark(job.sequence), encode_mark(record.plan_ms))])
        if not passed.succeeded:
            return None
        extra = {"action": "fire.passed_over", "job": job.name, "plan_ms": record.plan_ms}
        _log.error("a fire of %r has a run key that nobody claimed; it is passed over", job.name, extra=extra)
        return record.plan_ms

    async def _skip(
        self, term: Term, job: CatalogJob, lock: KeyValue, *, mark_ms: int, plan_ms: int, now_ms: int
    ) -> int | None:
        """A held lock decides it: the overlap policy says that the fire is skipped."""
        reason = f"overlap: {lock.value.decode(errors='replace')[:300]} was going"
        record = fire_record(job, fires=single(plan_ms), status=Verdict.SKIPPED, reason=reason, now_ms=now_ms)
        held = create_revision_is(lock.key, lock.create_revision)
        return await self._record(term, job, record, mark_ms=mark_ms, to_ms=plan_ms, only_if=held)

    async def _offer(self, term: Term, job: CatalogJob, plan_ms: int, mark_ms: int, now_ms: int) -> int | None:
        """To all, where somebody beside the first two in rank has a free slot."""
        run_id = RunId.planned(job.sequence, plan_ms)
        dispatch_ms = job.dispatch_ms(plan_ms)
        request = Request(
            run_id=run_id, origin=Origin.OFFERED, job_create_revision=job.create_revision, plan_ms=plan_ms,
            dispatch_ms=dispatch_ms, not_before_ms=now_ms, expires_ms=dispatch_ms + job.spec.misfire.grace_ms,
        )  # fmt: skip
        result = await self._client.txn(
            [*self._usual(term, job, mark_ms), absent(self._keys.run(run_id)), absent(self._keys.request(run_id))],
            [
                Put(self._keys.mark(job.sequence), encode_mark(plan_ms)),
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
            value_is(self._keys.mark(job.sequence), encode_mark(mark_ms)),
        ]

    def _somebody_else_is_free(self, job: CatalogJob, plan_ms: int) -> bool:
        return self._beats.any_free(self._members.order(job.spec, str(plan_ms))[2:])

    async def _give_mark(self, term: Term, job: CatalogJob, mark: KeyValue | None, now_ms: int) -> None:
        """A job without a readable mark gets one: from now on it fires."""
        key = self._keys.mark(job.sequence)
        compare = absent(key) if mark is None else mod_revision_is(key, mark.mod_revision)
        exists = mod_revision_is(self._keys.job(job.name), job.revision)
        new_mark = encode_mark(max(now_ms, job.anchor_ms))
        result = await self._client.txn([*term.holds, exists, compare], [Put(key, new_mark)], [Get(key)])
        if result.succeeded:
            extra = {"action": "mark.given", "job": job.name}
            _log.error("the job %r had no readable mark; it has one from now on", job.name, extra=extra)
