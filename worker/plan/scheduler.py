"""The loop: wait until something is due, decide what to do about it, apply it.

Deciding is arithmetic (``common/protocol/planner.py``); applying is one transaction for up to 30 jobs (``sending.py``),
whose answers are taken in by ``answers.py``. What was won goes to the dispatcher, which starts it at its dispatch time.
What others have left undecided is found by reading the marks (``mark_scan.py``); what waits for a lock is woken by
``lock_waits.py``.

Nothing is decided blindly: after a start, an outage or a clock jump, all marks are read first.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine
from typing import Any

from common.clock import Clock
from common.errors import EtcdError, UnavailableError
from common.etcd import EtcdClient, Session
from common.protocol.fire_claims import Claims
from common.protocol.keys import Keys, split_sequence
from common.protocol.planned_job import PlannedJob
from common.protocol.planner import Decision, Held, decide
from common.protocol.proposals import Proposal, start_by_ms
from common.protocol.txn import KeyValue
from common.timings import Timings
from worker.absences import Absences
from worker.admission import Admission
from worker.catalog import Catalog
from worker.members import Members
from worker.pacing import ENOUGH_FOR_S, TURN_S
from worker.plan.answers import Answers, Claimant
from worker.plan.cues import Alarm
from worker.plan.doubts import Doubts
from worker.plan.hedges import Hedges
from worker.plan.lock_waits import FiresAtLocks, LockPoll
from worker.plan.mark_scan import MarkScan
from worker.plan.pending_jobs import Cue, PendingJob, PendingJobs
from worker.plan.sending import Sending
from worker.quarantine import Quarantine
from worker.refusals import Refusals
from worker.runs import RunTable

_log = logging.getLogger(__name__)

_BACKOFF_S = 0.25
_LONG_LATE_MS = 2000
_WAITER = "fires"
_PLANS_IN_A_TURN = 500


class Scheduler:
    """Decides the fires of this worker's ranks, in time, in batches, each job's in order."""

    def __init__(
        self,
        *,
        client: EtcdClient,
        keys: Keys,
        worker: str,
        catalog: Catalog,
        members: Members,
        table: RunTable,
        claims: Claims,
        doubts: Doubts,
        refusals: Refusals,
        claimant: Claimant,
        absences: Absences,
        admission: Admission,
        locks: LockPoll,
        timings: Timings,
        clock: Clock,
        held: Callable[[], Held | None] = lambda: None,
        believes: Callable[[PlannedJob], bool] = lambda _: True,
    ) -> None:
        """``believes``: whether a job is one that may run; asked before each claim.

        ``held``: for how long a leap of the clock had this worker decide nothing, if one had."""
        self._held = held
        self._believes = believes
        self._worker = worker
        self._catalog = catalog
        self._members = members
        self._table = table
        self._claims = claims
        self._absences = absences
        self._timings = timings
        self._clock = clock
        self._alarm = Alarm(clock)
        self._pending_jobs = PendingJobs(claim_lead_ms=timings.claim_lead_ms)
        self._pending_of: dict[str, PendingJob] = {}
        self._answers = Answers(
            client=client, keys=keys, pending_jobs=self._pending_jobs, pending_of=self._pending_of, claimant=claimant,
            decider=self, clock=clock,
        )  # fmt: skip
        self._sending = Sending(
            client=client,
            claims=claims,
            doubts=doubts,
            refusals=refusals,
            table=table,
            listener=self._answers,
            clock=clock,
        )
        self._mark_scan = MarkScan(
            client=client,
            keys=keys,
            members=members,
            pending_jobs=self._pending_jobs,
            timings=timings,
        )
        self._fires_at_locks = FiresAtLocks(
            client=client,
            keys=keys,
            members=members,
            locks=locks,
            pending_jobs=self._pending_jobs,
            decider=self,
            clock=clock,
        )
        self._admission = admission
        self._hedges = Hedges()
        self._quarantine = Quarantine("fire of job")
        self._tasks: asyncio.TaskGroup | None = None
        self._to_plan: dict[str, PendingJob] = {}
        """Those without a place among the cues, for the clock has jumped."""
        self._plan_from_ms = 0
        self._wants_look: str | None = None
        self._gap_since_look = False
        self._gap_until_ms = 0
        """Before this nothing was decided here for a while."""
        self._holds_until = float("-inf")
        """Nothing is decided before, by the monotonic clock, where enough is claimed ahead of free slots."""
        self._short_since_ms: int | None = None
        """Since when due fires have waited for slots; None: none do."""
        self._must_read_marks = True
        """Whether nothing may be decided before all marks have been read."""
        self._is_looking = False
        self._has_looked = False
        self._looked_under: Session | None = None
        self._out_of_reach = False
        self.session: Session | None = None
        """Under which decisions are made; None: none are made."""

    # What others tell

    def job_changed(self, name: str) -> None:
        """The catalog has another revision of the job, or none."""
        old = self._pending_of.pop(name, None)
        if old is not None:
            self._pending_jobs.retire(old)
        job = self._catalog.planned(name)
        if job is not None and job.spec.enabled:
            now_ms = self._clock.wall_ms()
            pending = PendingJob(job=job, base_ms=job.anchor_ms)
            # A fire that is due already comes up at once, but before the first look, which reads every mark anyhow.
            newest = job.fires.newest_due_ms(now_ms) if self._has_looked else None
            overdue = newest is not None and newest > job.anchor_ms
            came_up_ms = max(job.anchor_ms, job.came_up_ms(now_ms))
            self._pending_jobs.advance(pending, newest - 1 if overdue and newest is not None else came_up_ms)
            self._pending_of[name] = pending
            if old is not None:
                self._go_on(pending, old)
        self._alarm.ring()

    def _go_on(self, pending: PendingJob, old: PendingJob) -> None:
        """What was due under the revision before, and waits here, is decided as it would have been: a fire that has
        waited for a lock has its window, not its grace alone."""
        job = pending.job
        if not job.spec.fires_alike(old.job.spec) or old.until_ms <= max(old.base_ms, pending.base_ms):
            return
        if self._members.rank(job, str(old.until_ms)) in (0, 1):
            pending.base_ms, pending.until_ms = max(old.base_ms, pending.base_ms), old.until_ms
            pending.fresh_ms, pending.waited = old.fresh_ms, old.waited
            self._pending_jobs.line.join(pending)

    def look_afresh(self, reason: str, *, after_a_gap: bool = False) -> None:
        """Read all marks and decide what is undecided: after a start, a new membership, a clock jump, an outage."""
        self._wants_look = reason
        self._gap_since_look |= after_a_gap
        self._must_read_marks |= after_a_gap
        if after_a_gap:
            self._short_since_ms = None  # what waited for slots waits for the look now
        self._alarm.ring()

    def clock_jumped(self) -> None:
        """The wall clock is not what the cues were planned by: plan all of them again, and look afresh."""
        self._pending_jobs.cues.clear()
        self._hedges.clear()
        self._to_plan, self._plan_from_ms = dict(self._pending_of), self._clock.wall_ms()
        self.look_afresh("the clock jumped", after_a_gap=True)

    def wake(self) -> None:
        """A slot came free, or a session is there."""
        self._alarm.ring()

    def lock_freed(self, sequence: str) -> None:
        """This worker has freed the lock: a fire that waits for it is tried at once."""
        pending = self._pending_of.get(split_sequence(sequence)[0])
        if pending is None or pending.job.sequence != sequence or not pending.job.keeps_one:
            return
        may_decide = self.session is not None and self._admission.takes_fires and not self._must_read_marks
        if may_decide and self._fires_at_locks.freed(pending, self._clock.wall_ms()):
            self._alarm.ring()

    def wait_for_lock(self, pending: PendingJob, lock: KeyValue) -> None:
        """A due fire found the lock held: it waits, or has the run ended that holds it."""
        self._fires_at_locks.add(pending, lock)
        self.spawn(self._read(self._fires_at_locks.replace(pending, lock)), "replace")

    @property
    def claims_in_flight(self) -> int:
        """Runs whose claim etcd has not answered yet: what is won is still to come."""
        return self._sending.in_flight

    @property
    def claims_lost(self) -> int:
        """Since this process began: claims of fires that another worker had decided by then."""
        return self._answers.claims_lost

    @property
    def waiting(self) -> int:
        """Jobs with due fires that wait for a slot."""
        return len(self._pending_jobs.line)

    # The loop

    async def run(self) -> None:
        """Schedules until cancelled."""
        async with asyncio.TaskGroup() as self._tasks:
            while True:
                self._alarm.clear()
                await self._alarm.wait_until_wall(self._turn(self._clock.wall_ms()))

    def _turn(self, now_ms: int) -> int | None:
        """Does what is due; the wall time at which to look again."""
        if self.session is None or not self._admission.takes_fires:
            if self.session is None and self._looked_under is not None:
                self._absences.lost_touch(self._looked_under.confirmed_boottime)
            self._looked_under = None
            return None
        if self.session is not self._looked_under:
            self._looked_under = self.session
            self.look_afresh(self._wants_look or "decides again", after_a_gap=True)
        self._plan_some()
        if self._wants_look is not None and not self._is_looking:
            reason, after_a_gap = self._wants_look, self._gap_since_look
            self._wants_look, self._gap_since_look = None, False
            self._is_looking = self._has_looked = True
            self._absences.begins()
            if after_a_gap:
                self._gap_until_ms = now_ms
            self.spawn(self._look(reason, now_ms, after_a_gap), "look afresh")
        self._collect(now_ms)
        again_ms = None if self._must_read_marks else self._decide(self.session, now_ms)
        # As the second in rank it looks with slots that none of its own fires waits for.
        spare = 0 if self.waiting else self._table.free_slots
        if spare > 0 and (hedged := self._hedges.take(now_ms, spare)):
            self.spawn(self._read(self._mark_scan.hedge(hedged)), "hedge")
        return min((ms for ms in (again_ms, self._pending_jobs.cues.next_ms) if ms is not None), default=None)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Do it beside the loop, and end with it."""
        assert self._tasks is not None, "only while the loop runs"
        self._tasks.create_task(work, name=name)

    # Wait: what has come up

    def _plan_some(self) -> None:
        """Of the jobs that are to be planned anew, as many as take a moment; others have their turn before the rest."""
        for _ in range(min(len(self._to_plan), _PLANS_IN_A_TURN)):
            _, pending = self._to_plan.popitem()
            if pending.gone:
                continue  # it is planned already
            pending.parked = False
            with self._quarantine.isolate(pending.job.name, pending.job.revision):
                self._pending_jobs.line.join(pending)
                # By the time of the jump: what has come up since comes up at once.
                self._pending_jobs.advance(
                    pending, max(pending.job.anchor_ms, pending.job.came_up_ms(self._plan_from_ms))
                )
        if self._to_plan:
            self._alarm.ring()

    def _collect(self, now_ms: int) -> None:
        hedged: list[tuple[PendingJob, int]] = []
        looked_at: list[PendingJob] = []
        for cue, pending, plan_ms in self._pending_jobs.due(now_ms):
            match cue:
                case Cue.FIRE:
                    with self._quarantine.isolate(pending.job.name, pending.job.revision):  # harms no other
                        self._fire_came_up(pending, plan_ms, now_ms)
                case Cue.HEDGE:
                    hedged.append((pending, plan_ms))
                case Cue.RETRY:
                    pending.parked = False
                    self._pending_jobs.line.join(pending)
                case Cue.LOOK:
                    looked_at.append(pending)
        if hedged:
            self._hedges.add(hedged, now_ms)
        if looked_at:
            self.spawn(self._read(self._mark_scan.look(looked_at, now_ms)), "look at some")

    def _fire_came_up(self, pending: PendingJob, plan_ms: int, now_ms: int) -> None:
        job = pending.job
        if now_ms - job.dispatch_ms(plan_ms) > _LONG_LATE_MS:
            # Of many that went by, only the newest: the mark tells of the others.
            plan_ms = max(plan_ms, job.fires.newest_due_ms(now_ms) or plan_ms)
        match self._members.rank(job, str(plan_ms)):
            case 0:
                self._pending_jobs.want(pending, plan_ms)
                if pending.parked and job.keeps_one:
                    # The lock may be free unheard. If it is not, what holds it is to be replaced at the dispatch time.
                    self._pending_jobs.put_cue(now_ms, Cue.RETRY, pending, plan_ms)
                    self._pending_jobs.put_cue(job.dispatch_ms(plan_ms), Cue.RETRY, pending, plan_ms)
            case 1:
                at_ms = job.dispatch_ms(plan_ms) + self._timings.hedge_ms
                self._pending_jobs.put_cue(at_ms, Cue.HEDGE, pending, plan_ms)
            case _:
                pass
        self._pending_jobs.advance(pending, plan_ms)

    async def _read(self, look: Coroutine[Any, Any, None]) -> None:
        try:
            await look
        except (EtcdError, UnavailableError) as error:
            self.outage(error)
        self._alarm.ring()

    # Look afresh

    async def _look(self, reason: str, now_ms: int, after_a_gap: bool) -> None:
        extra = {"action": "look.afresh", "reason": reason, "jobs": len(self._pending_of)}
        level, began_s = logging.DEBUG if self._out_of_reach else logging.INFO, self._clock.boottime()
        _log.log(level, "looks at %d jobs afresh: %s", len(self._pending_of), reason, extra=extra)
        try:
            await self._mark_scan.look(
                list(self._pending_of.values()), now_ms, after_a_gap=after_a_gap, held=self._held()
            )
        except (EtcdError, UnavailableError) as error:
            self.outage(error)
            await asyncio.sleep(_BACKOFF_S)
        else:
            if self._out_of_reach:
                self._out_of_reach = False
                _log.info("etcd is in reach again", extra={"action": "scheduler.in_reach"})
            self._absences.in_touch(began_s)
            self._must_read_marks = self._gap_since_look
        self._is_looking = False
        self._alarm.ring()

    def outage(self, error: Exception) -> None:
        """etcd did not answer: nothing is decided before all marks have been read."""
        level = logging.DEBUG if self._out_of_reach else logging.WARNING  # one line for each change of state
        self._out_of_reach = True
        if self.session is not None:
            self._absences.lost_touch(self.session.confirmed_boottime)
        _log.log(level, "etcd is out of reach: %s", error, extra={"action": "scheduler.outage"})
        self.look_afresh("etcd was out of reach", after_a_gap=True)

    # Decide

    def _decide(self, session: Session, now_ms: int) -> int | None:
        """Decides what may be decided now; the wall time at which to do so again, though nothing rings."""
        now = self._clock.monotonic()
        has_enough = self._table.has_enough(now)
        if not has_enough or now >= self._holds_until:
            self._holds_until = now + ENOUGH_FOR_S
            self._propose(session, now_ms, claims=not has_enough)
        # Else nothing rings if what it waits for does not end: runs that take long, say.
        return now_ms + math.ceil((self._holds_until - now) * 1000) if has_enough else None

    def _propose(self, session: Session, now_ms: int, *, claims: bool) -> None:
        """Hands as many decisions to etcd as slots allow, and as can be made in one turn; or only such as take none."""
        began = self._clock.monotonic()
        room = self._table.whole_transactions(self._table.may_claim(began, _WAITER)) if claims else 0
        waits_for = urgency = 0
        proposals: list[Proposal] = []
        while (pending := self._pending_jobs.line.first()) is not None:
            proposal = self._proposal(pending, session, now_ms)
            if proposal is not None and proposal.claims and room < proposal.slots:
                waits_for, urgency = proposal.slots, pending.job.spec.priority
                self._short_since_ms = self._short_since_ms or now_ms
                break
            self._pending_jobs.line.leave()
            if proposal is None:
                continue
            room -= proposal.slots
            pending.busy = True
            proposals.append(proposal)
            if self._clock.monotonic() - began > TURN_S:
                self._alarm.ring()
                break
        else:
            self._short_since_ms = None
        if claims:
            had_some = any(proposal.claims for proposal in proposals)
            self._table.wait_for(_WAITER, waits_for, urgency=urgency, had_some=had_some)
        for batch in self._claims.batches(proposals, session=session):
            self.spawn(self._sending.send(batch), "decisions")

    def _proposal(self, pending: PendingJob, session: Session, now_ms: int) -> Proposal | None:
        """What to do first about the job's undecided fires; None where there is nothing, or no telling."""
        job, proposal = pending.job, None
        if not self._believes(job):
            pending.give_up()
            return None
        try:
            pending.fresh_ms = self._fresh_ms(pending, now_ms)
            decision = decide(
                job.fires, job.spec.misfire, mark_ms=pending.base_ms, until_ms=pending.until_ms, now_ms=now_ms,
                fresh_ms=pending.fresh_ms, waited=pending.waited, held=self._held(),
            )  # fmt: skip
            if decision is not None:
                if decision.claim_ms != pending.blocked_ms:
                    pending.blocker = pending.blocked_ms = None
                proposal = self._claims.propose(
                    job, decision, session=session, now_ms=now_ms, blocker=pending.blocker,
                    start_by_ms=start_by_ms(job, decision, now_ms, waited=pending.waited, held=self._held()),
                    late=self._why_late(pending, decision),
                )  # fmt: skip
        except Exception:  # whatever it is, it harms no other job
            extra = {"action": "decision.failed", "job": job.name}
            _log.exception("the fires of %r cannot be decided", job.name, extra=extra)
        if proposal is None:
            pending.give_up()
        return proposal

    def _fresh_ms(self, pending: PendingJob, now_ms: int) -> int | None:
        """Also of what it was another's turn to decide when this worker looked afresh, and has come to this one: by its
        hedge, or with the next fire. Where another was there, it may wait there for a slot, and has its grace.
        """
        if pending.fresh_ms is not None or pending.base_ms >= self._gap_until_ms or pending.job.of_worker is not None:
            return pending.fresh_ms  # of a worker's own sequence it was never another's turn
        job, held, fresh_ms = pending.job, self._held(), self._gap_until_ms
        if held is not None:
            fresh_ms = held.limits(fresh_ms, job.spec.misfire, now_ms=now_ms)
        newest = job.fires.newest_due_ms(fresh_ms)
        first = job.schedule.next_after_ms(pending.base_ms)
        last = None if newest is None else job.schedule.last_before_ms(newest)
        if first is None or last is None or last < first:
            return None
        due_ms = job.dispatch_ms(first), job.dispatch_ms(last)
        return newest if self._absences.all_were_away(self._members.eligible(job), *due_ms) else None

    def _why_late(self, pending: PendingJob, decision: Decision) -> str | None:
        """What is known to have held up all that it misses; None: nothing, or they had waited for a lock as well."""
        missed, job = decision.missed, pending.job
        if missed is None or pending.waited:
            return None
        lo_ms, hi_ms = job.dispatch_ms(missed.lo_ms), job.dispatch_ms(missed.hi_ms)
        short_since_ms = self._short_since_ms
        if short_since_ms is not None and short_since_ms <= lo_ms and missed.lo_ms >= (pending.fresh_ms or 0):
            return f"late: {self._worker} had no free slot"
        return self._absences.why_late(job, self._members.eligible(job), lo_ms, hi_ms)
