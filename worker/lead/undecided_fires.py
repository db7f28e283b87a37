"""What the steward makes of a fire that no worker has decided.

A fire undecided 5 s after its dispatch time and within its grace, while another worker shows free slots, is offered to
all as a request; where the lock is held, the overlap policy decides it. A fire that no worker can take any more is
recorded as missed, by the job's policy, so that nothing is missed in silence; one that the calendar closes, as skipped.
Where one fire is kept waiting for a lock that is held, it is left alone until its window is over.

While no live worker could take a job's fires, what can never run any more is recorded as it passes, with who has gone;
what may still run waits for one that comes back. With no worker live at all, the first to come back records it.

Every decision compares that this worker is the steward, the job's revision and the mark, as a worker's do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from common.etcd import EtcdClient
from common.protocol import fire_decisions
from common.protocol.absence import why_no_worker
from common.protocol.keys import Keys, holder_of
from common.protocol.placement import is_eligible
from common.protocol.planned_job import PlannedJob
from common.protocol.planner import NO_WORKER_FOR_MS, Decision, Held, decide, give_up_unclaimed, miss_while_no_worker
from common.protocol.records import fire_record, passed_record, single
from common.protocol.run import RunRecord
from common.protocol.txn import KeyValue
from common.timings import OFFER_AFTER_MS, Timings
from common.verdicts import Verdict
from worker.absences import Absences
from worker.lead.leader import Term
from worker.lead.roster import Roster
from worker.members import Beats, Members
from worker.record.settlement import Settlement

_log = logging.getLogger(__name__)

_RECORDS_A_SECOND: Final = 50
"""Of what no worker can take, of all jobs together: a thousand jobs of one machine that has gone."""


@dataclass(frozen=True, slots=True)
class Case:
    """A job with something undecided, as it was read."""

    term: Term
    job: PlannedJob
    lock: KeyValue | None
    """Only where the job's claims take it."""
    mark_ms: int
    now_ms: int

    @property
    def base_ms(self) -> int:
        return max(self.mark_ms, self.job.anchor_ms)

    @property
    def holder(self) -> str | None:
        """The run that holds the lock."""
        return None if self.lock is None else holder_of(self.lock)


class UndecidedFires:
    """Decides them one step at a time."""

    def __init__(
        self,
        *,
        client: EtcdClient,
        keys: Keys,
        worker: str,
        members: Members,
        beats: Beats,
        absences: Absences,
        roster: Roster,
        settlement: Settlement,
        timings: Timings,
        held: Callable[[], Held | None],
    ) -> None:
        """``held``: as the scheduler's."""
        self._held = held
        self._client = client
        self._keys = keys
        self._worker = worker
        self._members = members
        self._beats = beats
        self._absences = absences
        self._roster = roster
        self._no_worker_since: dict[str, int] = {}
        self._last_left_ms: dict[tuple[object, ...], int | None] = {}
        """By what jobs ask for: when the last worker that had it left; None: one that has it is here, or none was."""
        self._left = 0
        self._settlement = settlement
        self._patience_ms = 2 * timings.hedge_ms + timings.max_clock_skew_ms

    def begin_turn(self) -> None:
        """A second has begun."""
        self._left = _RECORDS_A_SECOND
        self._last_left_ms.clear()

    def begin(self) -> None:
        """Since when no worker could take a job's fires is not known."""
        self._no_worker_since.clear()

    def decided(self, job: PlannedJob) -> None:
        """Nothing of the job is undecided now. Where a worker could take it, the time that none could is over."""
        if job.name in self._no_worker_since and self._members.eligible(job):
            del self._no_worker_since[job.name]

    def forget(self, name: str) -> None:
        """There is no such job any more."""
        self._no_worker_since.pop(name, None)

    async def step(self, case: Case) -> int | None:
        """One decision; the new mark, or None where there is nothing (more) to decide, or others did."""
        job, now_ms = case.job, case.now_ms
        given_up = self._given_up(case)
        if given_up is not None:
            return await self._pass(case, given_up)
        until_ms = job.fires.newest_due_ms(now_ms - OFFER_AFTER_MS)
        if until_ms is None:
            return None
        decision = decide(
            job.fires, job.spec.misfire, mark_ms=case.base_ms, until_ms=until_ms, now_ms=now_ms, held=self._held()
        )
        if decision is None:
            return None
        if decision.closed is not None:
            return await self._pass(case, decision)
        if not fire_decisions.is_in_time(job, decision, now_ms):
            return None
        if case.lock is None:
            others = self._members.order(job, str(decision.to_ms))[2:]
            return await self._offer(case, decision) if self._beats.any_free(others, job.spec.slots) else None
        if job.keeps_one:
            return None
        # A held lock decides it: the overlap policy says that the fire is skipped.
        reason, fires = f"overlap: {case.holder} was going", single(decision.to_ms)
        record = fire_record(job, fires=fires, status=Verdict.SKIPPED, reason=reason, now_ms=now_ms)
        return await self._record(case, record, to_ms=decision.to_ms, lock=case.lock)

    def _given_up(self, case: Case) -> Decision | None:
        job, now_ms, held = case.job, case.now_ms, self._held()
        if self._members.eligible(job) or case.lock is not None:
            self._no_worker_since.pop(job.name, None)
            return give_up_unclaimed(
                job.fires, job.spec.misfire, mark_ms=case.base_ms, now_ms=now_ms, patience_ms=self._patience_ms,
                held=held,
            )  # fmt: skip
        seen_ms = self._no_worker_since.setdefault(job.name, now_ms)
        if now_ms - seen_ms < NO_WORKER_FOR_MS:
            return None  # who has just become steward does not know who was here a moment ago
        if held is not None and now_ms < held.until_ms + job.spec.misfire.grace_ms:
            return None  # what was due while no worker decided has its grace from then on
        since_ms = self._since_ms(job, seen_ms)
        decision = miss_while_no_worker(
            job.fires, job.spec.misfire, mark_ms=case.base_ms, now_ms=now_ms, since_ms=since_ms,
            patience_ms=self._patience_ms,
        )  # fmt: skip
        if decision is None or self._left <= 0:
            return None
        self._left -= 1
        return decision

    def _since_ms(self, job: PlannedJob, seen_ms: int) -> int:
        """Since when no worker could take its fires: the last that could has left then, or else the first look at it.

        Where one that could is here and takes none, it is not known since when it takes none.
        """
        spec = job.spec
        asked = (spec.slots, *sorted(spec.workers.items()))
        if asked not in self._last_left_ms:
            is_here = any(is_eligible(spec, one.labels, one.slots) for one in self._members.by_key.values())
            away = () if is_here else self._roster.away().values()
            self._last_left_ms[asked] = max(
                (self._roster.left_ms(one) for one in away if is_eligible(spec, one.labels, one.slots)), default=None
            )
        left_ms = self._last_left_ms[asked]
        return seen_ms if left_ms is None else left_ms

    async def _pass(self, case: Case, decision: Decision) -> int | None:
        record = passed_record(case.job, decision, now_ms=case.now_ms, late=self._why_late(case, decision))
        assert record is not None, "it passes some"
        return await self._record(case, record, to_ms=decision.to_ms)

    def _why_late(self, case: Case, decision: Decision) -> str | None:
        job, missed = case.job, decision.missed
        if missed is None:
            return None
        eligible = self._members.eligible(job)
        has_just_left = not eligible and case.now_ms - self._since_ms(job, case.now_ms) < NO_WORKER_FOR_MS
        if case.holder is not None and (job.keeps_one or has_just_left):
            return f"late: {case.holder} was going"
        if not eligible:
            live, away = self._members.by_key.values(), self._roster.away().values()
            return f"no worker: {why_no_worker(job.spec, live, away, now_ms=case.now_ms)}"
        if self._beats.all_taken(eligible, job.spec.slots):
            return "late: no worker had a free slot"
        lo_ms, hi_ms = job.dispatch_ms(missed.lo_ms), job.dispatch_ms(missed.hi_ms)
        return self._absences.why_late(job, eligible, lo_ms, hi_ms)

    async def _record(
        self, case: Case, record: RunRecord, *, to_ms: int, lock: KeyValue | None = None
    ) -> int | None:  # fmt: skip
        """``lock``: as it has to be still."""
        result = await self._client.txn(
            fire_decisions.record(
                self._keys, case.job, record, mark_ms=case.mark_ms, to_ms=to_ms, worker=self._worker,
                guards=case.term.holds, lock=lock,
            )
        )  # fmt: skip
        if result.succeeded:
            self._settlement.deliver_final(record, result.revision)
            return to_ms
        if not fire_decisions.is_in_the_way(result):
            return None
        # A run key stands already where the record would go: the mark goes over that fire, so that the job goes on.
        passed = await self._client.txn(
            fire_decisions.pass_over(
                self._keys, case.job, record.run_id, mark_ms=case.mark_ms, guards=case.term.holds
            )
        )  # fmt: skip
        if not passed.succeeded:
            return None
        name = case.job.name
        extra = {"action": "fire.passed_over", "job": name, "plan_ms": record.plan_ms}
        _log.error("a fire of %r has a run key that nobody claimed; it is passed over", name, extra=extra)
        return record.plan_ms

    async def _offer(self, case: Case, decision: Decision) -> int | None:
        """To all; what the decision passes is recorded with it."""
        request = fire_decisions.offered(case.job, decision.to_ms, now_ms=case.now_ms)
        record = passed_record(case.job, decision, now_ms=case.now_ms)
        result = await self._client.txn(
            fire_decisions.offer(
                self._keys, case.job, request, record, mark_ms=case.mark_ms, to_ms=decision.to_ms, worker=self._worker,
                guards=case.term.holds,
            )
        )  # fmt: skip
        if not result.succeeded:
            return None
        if record is not None:
            self._settlement.deliver_final(record, result.revision)
        extra = {"action": "fire.offered", "run": str(request.run_id)}
        _log.info("%s is offered to all: nobody has taken it", request.run_id, extra=extra)
        return decision.to_ms
