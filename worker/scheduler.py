"""The loop: wait until something is due, decide what to do about it, apply it.

Deciding is arithmetic (:mod:`common.planner`, :mod:`common.placement`); applying is one transaction for up to 30 jobs
(:mod:`worker.claims`). What was won goes to the dispatcher, which starts it at its dispatch time.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from common.clock import Clock
from common.errors import EtcdError, EtcdInDoubtError, UnavailableError
from common.etcd import EtcdClient, Session
from common.keys import Keys
from common.planner import Decision, decide
from common.run import RunRecord
from common.timings import Timings
from worker.agenda import Agenda, Agendum, Cue
from worker.alarm import Alarm
from worker.catalog import Catalog, CatalogJob
from worker.claims import Answer, Batch, Blocker, Claims, Proposal, Result, pass_over, read_mark
from worker.doubts import Doubts
from worker.members import Members
from worker.runs import RunTable

_log = logging.getLogger(__name__)

LOCK_RETRY_MS = 100
"""A held lock is tried again this long after the dispatch time; only then the overlap policy decides."""
_BACKOFF_S = 0.25
_MANY = 500
"""From so many jobs on, marks are read by pages instead of one by one."""
_YIELD_EVERY = 200
_LONG_LATE_MS = 2000


class Claimant(Protocol):
    """Who takes over what was decided."""

    def won(self, result: Result, session: Session) -> None:
        """A fire was claimed."""

    def recorded(self, record: RunRecord, revision: int) -> None:
        """A final record was put into a run key, at this revision, for fires that did not run."""


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
        claimant: Claimant,
        timings: Timings,
        clock: Clock,
    ) -> None:
        self._client = client
        self._keys = keys
        self._worker = worker
        self._catalog = catalog
        self._members = members
        self._table = table
        self._claims = claims
        self._doubts = doubts
        self._claimant = claimant
        self._timings = timings
        self._clock = clock
        self._alarm = Alarm(clock)
        self._agenda = Agenda()
        self._agenda_of: dict[str, Agendum] = {}
        self._in_flight = 0
        self._tasks: asyncio.TaskGroup | None = None
        self._wants_look: str | None = None
        self._looking = False
        self._looked = False
        self.session: Session | None = None
        """Under which decisions are made; None: none are made."""
        self.accepting = False
        """Whether new fires are taken."""

    # What others tell

    def job_changed(self, name: str) -> None:
        """The catalog has another revision of the job, or none."""
        old = self._agenda_of.pop(name, None)
        if old is not None:
            old.gone = True
        job = self._catalog.jobs.get(name)
        if job is not None and job.spec.enabled:
            self._agenda_of[name] = self._new_agendum(job, self._clock.wall_ms())
        self._alarm.ring()

    def look_afresh(self, reason: str) -> None:
        """Read all marks and decide what nobody has: after a start, a new membership, a clock jump, an outage."""
        self._wants_look = reason
        self._alarm.ring()

    def clock_jumped(self) -> None:
        """The wall clock is not what the cues were planned by: plan all of them again, and look afresh."""
        self._agenda.forget_cues()
        now_ms = self._clock.wall_ms()
        for agendum in self._agenda_of.values():
            agendum.parked = False
            self._advance(agendum, max(agendum.job.anchor_ms, now_ms))
        self.look_afresh("the clock jumped")

    def wake(self) -> None:
        """A slot came free, or a session is there."""
        self._alarm.ring()

    @property
    def waiting(self) -> int:
        """Jobs with due fires that wait for a slot."""
        return self._agenda.waiting

    def next_fire_ms(self) -> int | None:
        """The soonest moment at which something comes up."""
        return self._agenda.next_cue_ms()

    # The loop

    async def run(self) -> None:
        """Schedules until cancelled."""
        async with asyncio.TaskGroup() as self._tasks:
            while True:
                self._alarm.clear()
                now_ms = self._clock.wall_ms()
                if self.session is not None and self.accepting:
                    self._start_look(now_ms)
                    self._collect(now_ms)
                    self._propose(now_ms)
                    await self._alarm.wait_until_wall(self._agenda.next_cue_ms())
                else:
                    await self._alarm.wait_until_wall(None)

    def _spawn(self, work: object, name: str) -> None:
        assert self._tasks is not None, "only while the loop runs"
        self._tasks.create_task(work, name=name)  # type: ignore[arg-type]

    # Wait: what has come up

    def _new_agendum(self, job: CatalogJob, now_ms: int) -> Agendum:
        """The job's place on the agenda. A fire that is due already comes up at once, but before the first look,
        which reads every mark anyhow."""
        agendum = Agendum(job=job, base_ms=job.anchor_ms)
        newest = job.schedule.last_before_ms(now_ms + 1) if self._looked else None
        overdue = newest is not None and newest > job.anchor_ms
        self._advance(agendum, newest - 1 if overdue and newest is not None else max(job.anchor_ms, now_ms))
        return agendum

    def _advance(self, agendum: Agendum, after_ms: int) -> None:
        agendum.next_ms = plan_ms = agendum.job.schedule.next_after_ms(after_ms)
        if plan_ms is not None:
            at_ms = agendum.job.dispatch_ms(plan_ms) - self._timings.claim_lead_ms
            self._agenda.put_cue(at_ms, Cue.FIRE, agendum, plan_ms)

    def _collect(self, now_ms: int) -> None:
        hedged: list[tuple[Agendum, int]] = []
        for cue, agendum, plan_ms in self._agenda.due(now_ms):
            match cue:
                case Cue.FIRE:
                    self._fire_came_up(agendum, plan_ms, now_ms)
                case Cue.HEDGE:
                    hedged.append((agendum, plan_ms))
                case Cue.RETRY:
                    agendum.parked = False
                    self._agenda.enqueue(agendum)
        if hedged:
            self._spawn(self._hedge(hedged), "hedge")

    def _fire_came_up(self, agendum: Agendum, plan_ms: int, now_ms: int) -> None:
        job = agendum.job
        if now_ms - plan_ms > _LONG_LATE_MS:  # of many that went by, only the newest: the mark tells of the others
            plan_ms = max(plan_ms, job.schedule.last_before_ms(now_ms + 1) or plan_ms)
        match self._members.placement.rank(self._worker, job.name, str(plan_ms)):
            case 0:
                self._want(agendum, plan_ms)
            case 1:
                at_ms = job.dispatch_ms(plan_ms) + self._timings.hedge_ms
                self._agenda.put_cue(at_ms, Cue.HEDGE, agendum, plan_ms)
            case _:
                pass
        self._advance(agendum, plan_ms)

    def _want(self, agendum: Agendum, plan_ms: int) -> None:
        """The fire is this worker's to decide, presuming that all before it are decided, unless it knows better."""
        if not agendum.wants:
            agendum.base_ms = max(agendum.base_ms, agendum.job.base_before(plan_ms))
        agendum.until_ms = max(agendum.until_ms, plan_ms)
        self._agenda.enqueue(agendum)

    async def _hedge(self, hedged: list[tuple[Agendum, int]]) -> None:
        """Rank 1's try: only with free slots, after one batched look at the marks."""
        wanted = [(agendum, plan_ms) for agendum, plan_ms in hedged if agendum.base_ms < plan_ms]
        if not wanted or self._table.free_slots == 0:
            return
        try:
            marks = await self._client.get_many([self._keys.mark(agendum.job.name) for agendum, _ in wanted])
        except (EtcdError, UnavailableError) as error:
            self._outage(error)
            return
        for agendum, plan_ms in wanted:
            mark_ms = read_mark(marks.get(self._keys.mark(agendum.job.name)))
            if mark_ms is not None and mark_ms < plan_ms and not agendum.gone:
                agendum.base_ms = max(mark_ms, agendum.job.anchor_ms)
                self._want(agendum, plan_ms)
            elif mark_ms is not None:
                agendum.base_ms = max(agendum.base_ms, mark_ms)
        self._alarm.ring()

    # Looking afresh

    def _start_look(self, now_ms: int) -> None:
        if self._wants_look is None or self._looking:
            return
        reason, self._wants_look = self._wants_look, None
        self._looking = self._looked = True
        self._spawn(self._look(reason, now_ms), "look afresh")

    async def _look(self, reason: str, now_ms: int) -> None:
        extra = {"action": "look.afresh", "reason": reason, "jobs": len(self._agenda_of)}
        _log.info("looks at %d jobs afresh: %s", len(self._agenda_of), reason, extra=extra)
        try:
            marks = await self._read_marks()
        except (EtcdError, UnavailableError) as error:
            self._outage(error)
            await asyncio.sleep(_BACKOFF_S)
            self._looking = False
            self.look_afresh(reason)
            return
        for index, (name, agendum) in enumerate(list(self._agenda_of.items())):
            if index % _YIELD_EVERY == _YIELD_EVERY - 1:
                await asyncio.sleep(0)
            if not agendum.gone and (mark_ms := marks.get(name)) is not None:
                self._look_at(agendum, mark_ms, now_ms)
        self._looking = False
        self._alarm.ring()

    async def _read_marks(self) -> dict[str, int]:
        names = list(self._agenda_of)
        marks: dict[str, int] = {}
        if len(names) < _MANY:
            found = await self._client.get_many([self._keys.mark(name) for name in names])
            kvs = [*found.values()]
        else:
            kvs = [kv async for page in self._client.read_prefix(self._keys.marks) for kv in page.kvs]
        for kv in kvs:
            if (mark_ms := read_mark(kv)) is not None:
                marks[self._keys.job_of(kv.key)] = mark_ms
        return marks

    def _look_at(self, agendum: Agendum, mark_ms: int, now_ms: int) -> None:
        """Ranks 0 and 1 of the newest due fire decide; the first at once, the second after the hedge."""
        job = agendum.job
        if agendum.busy:
            return
        base_ms = max(mark_ms, job.anchor_ms)
        if (agendum.queued or agendum.parked) and agendum.base_ms >= base_ms:
            return  # it waits for a slot, or for a lock, here: it keeps its grace
        newest = job.schedule.last_before_ms(now_ms + 1)
        if newest is None or newest <= base_ms:
            agendum.base_ms = base_ms if not agendum.wants else agendum.base_ms
            return
        match self._members.placement.rank(self._worker, job.name, str(newest)):
            case 0:
                agendum.base_ms, agendum.afresh = base_ms, True
                agendum.until_ms = max(agendum.until_ms, newest)
                self._agenda.enqueue(agendum)
            case 1:
                self._agenda.put_cue(now_ms + self._timings.hedge_ms, Cue.HEDGE, agendum, newest)
            case _:
                pass

    # Decide

    def _propose(self, now_ms: int) -> None:
        """Hands as many decisions to etcd as slots allow."""
        session = self.session
        if session is None:
            return
        room = self._table.may_claim(self._clock.monotonic()) - self._in_flight
        proposals: list[Proposal] = []
        put_back: list[Agendum] = []
        while (agendum := self._agenda.dequeue()) is not None:
            proposal = self._proposal(agendum, now_ms)
            if proposal is None:
                continue
            if proposal.claims and room <= 0:
                put_back.append(agendum)
                break
            room -= proposal.claims
            agendum.busy = True
            proposals.append(proposal)
        for agendum in put_back:
            self._agenda.enqueue(agendum)
        for batch in self._claims.batches(proposals, session=session, now_ms=now_ms):
            self._in_flight += sum(proposal.claims for proposal in batch.proposals)
            self._spawn(self._apply(batch), "claims")

    def _proposal(self, agendum: Agendum, now_ms: int) -> Proposal | None:
        job = agendum.job
        misfire = job.spec.misfire
        decision = decide(
            job.schedule, misfire,
            mark_ms=agendum.base_ms, until_ms=agendum.until_ms, now_ms=now_ms, afresh=agendum.afresh,
        )  # fmt: skip
        if decision is None:
            agendum.until_ms = 0
            return None
        return Proposal(
            job=job, decision=decision, blocker=agendum.blocker, start_by_ms=self._start_by_ms(job, decision, now_ms)
        )

    def _start_by_ms(self, job: CatalogJob, decision: Decision, now_ms: int) -> int:
        if decision.claim_ms is None:
            return 0
        dispatch_ms = job.dispatch_ms(decision.claim_ms)
        in_grace = now_ms <= dispatch_ms + job.spec.misfire.grace_ms
        return dispatch_ms + (job.spec.misfire.grace_ms if in_grace else job.spec.misfire.window_ms)

    # Apply

    async def _apply(self, batch: Batch) -> None:
        """Sends a batch, and again what an answer about others leaves over; ends when every proposal has its answer."""
        try:
            while batch.parts:
                sent = self._clock.monotonic()
                answer = await self._client.txn(*self._claims.transaction(batch))
                results, again = self._claims.read(batch, answer, sent=sent)
                for result in results:
                    self._in_flight -= result.proposal.claims
                    self._answered(result, batch.session)
                batch = self._rest(batch, again, bool(results))
        except EtcdInDoubtError as error:
            self._outage(error)
            self._in_flight -= sum(proposal.claims for proposal in batch.proposals)
            await self._doubts.settle(batch, lambda result: self._answered(result, batch.session))
        except (EtcdError, UnavailableError) as error:  # certainly not carried out
            self._outage(error)
            self._in_flight -= sum(proposal.claims for proposal in batch.proposals)
            await asyncio.sleep(_BACKOFF_S)
            for proposal in batch.proposals:
                self._free(proposal)

    def _rest(self, batch: Batch, again: list[Proposal], progress: bool) -> Batch:
        """What is to be sent again: all that is left; one alone where an answer has ruled out nobody."""
        rest = Batch(session=batch.session, claim_ms=self._clock.wall_ms())
        if not again:
            return rest
        now_ms = self._clock.wall_ms()
        first, *others = self._claims.batches(
            again if progress else again[:1], session=batch.session, now_ms=now_ms
        )
        assert not others, "what fitted into one transaction still does"
        if not progress:
            for proposal in again[1:]:
                self._spawn(self._apply(self._claims.batches([proposal], session=batch.session, now_ms=now_ms)[0]), "c")
        return first

    def _free(self, proposal: Proposal) -> Agendum | None:
        agendum = self._agenda_of.get(proposal.job.name)
        if agendum is None or agendum.job is not proposal.job:
            return None
        agendum.busy = False
        self._agenda.enqueue(agendum)
        self._alarm.ring()
        return agendum

    def _answered(self, result: Result, session: Session) -> None:
        """Takes in what became of one proposal. What was won is won, even where the job has changed meanwhile."""
        proposal = result.proposal
        if result.answer is Answer.DONE:
            if proposal.claims:
                self._claimant.won(result, session)
            for record in result.finals:
                self._claimant.recorded(record, result.revision)
        agendum = self._agenda_of.get(proposal.job.name)
        if agendum is None or agendum.job is not proposal.job:
            return
        self._update(agendum, result)
        agendum.busy = False
        self._agenda.enqueue(agendum)
        self._alarm.ring()

    def _update(self, agendum: Agendum, result: Result) -> None:
        decision = result.proposal.decision
        match result.answer:
            case Answer.DONE:
                agendum.base_ms, agendum.blocker, agendum.afresh = decision.to_ms, None, False
            case Answer.MARK_MOVED if result.mark_ms is not None:
                agendum.base_ms, agendum.blocker = max(result.mark_ms, agendum.job.anchor_ms), None
            case Answer.MARK_MOVED | Answer.JOB_CHANGED:
                agendum.until_ms, agendum.blocker = 0, None  # the steward mends the mark, the catalog brings the job
            case Answer.LOCKED:
                self._locked(agendum, decision, result.blocker)
            case Answer.LOCK_CHANGED:
                agendum.blocker = None
            case Answer.RUN_EXISTS:
                self._spawn(self._pass_over(result.proposal), "pass over")
                agendum.until_ms = 0
            case Answer.NO_SESSION:
                agendum.until_ms = 0  # the next session looks afresh

    def _locked(self, agendum: Agendum, decision: Decision, blocker: Blocker | None) -> None:
        """A held lock is no verdict before the dispatch time, nor until 100 ms after it."""
        assert decision.claim_ms is not None
        dispatch_ms, now_ms = agendum.job.dispatch_ms(decision.claim_ms), self._clock.wall_ms()
        if now_ms >= dispatch_ms + LOCK_RETRY_MS:
            agendum.blocker = blocker
            return
        at_ms = dispatch_ms if now_ms < dispatch_ms else dispatch_ms + LOCK_RETRY_MS
        self._agenda.put_cue(at_ms, Cue.RETRY, agendum, decision.claim_ms)
        agendum.parked = True

    async def _pass_over(self, proposal: Proposal) -> None:
        """A run key stands where a claim would put its own: the mark goes over that fire, so that the job goes on."""
        if self.session is None:
            return
        extra = {"action": "fire.passed_over", "job": proposal.job.name, "plan_ms": proposal.decision.claim_ms}
        _log.error("a fire of %r has a run key that nobody claimed; it is passed over", proposal.job.name, extra=extra)
        try:
            await self._client.txn(*pass_over(proposal, self._keys, self.session))
        except (EtcdError, UnavailableError) as error:
            self._outage(error)
        self.look_afresh("a fire was passed over")

    def _outage(self, error: Exception) -> None:
        """etcd did not answer: what was due meanwhile is looked at afresh."""
        extra = {"action": "scheduler.outage"}
        _log.warning("etcd is out of reach: %s", error, extra=extra)
        self._wants_look = self._wants_look or "etcd was out of reach"
