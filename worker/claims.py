"""Deciding fires in etcd: proposals for up to 30 jobs go into one transaction, all or nothing.

    if   lease(my session's key) == my lease             a session that ended decides nothing
    and  mod_revision(jobs/J) == the one planned with    a changed, paused or deleted job never fires stale
    and  value(marks/J) == P                             nothing is skipped silently, nothing decided twice
    and  create_revision(runs/J/F/1) == 0
    and  create_revision(locks/J) == 0                   only where the claim takes the lock
    then put marks/J = F, put runs/J/F/1, put locks/J
    else read the marks, the jobs (keys only), the locks

One answer says which proposal failed, and why; the others are sent again without it. An answer that did not come
leaves the whole batch in doubt: see :mod:`worker.doubts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from common.etcd import (
    MAX_COMPARES,
    MAX_OPS,
    Compare,
    Get,
    KeyValue,
    Operation,
    Put,
    Session,
    TxnResult,
    absent,
    create_revision_is,
    mod_revision_is,
    present,
    value_is,
)
from common.keys import Keys, RunId, Watched, decode_mark, encode_mark
from common.planner import Decision
from common.request import Origin, Request
from common.run import EntryState, RunEntry, RunRecord, Verdict, final_entry
from worker.catalog import CatalogJob
from worker.identity import Identity
from worker.records import fire_record, single

MAX_PROPOSALS: Final = 30
"""In one transaction: 4 compares each, and 3 operations in each branch, within etcd's 128."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """The run that holds the lock which a fire wanted."""

    run: str
    lock_revision: int
    """The create revision of the lock."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Proposal:
    """One decision about one job, as this worker would have it."""

    job: CatalogJob
    decision: Decision
    start_by_ms: int = 0
    """Past it, the claimed fire does not start any more."""
    blocker: Blocker | None = None
    """Set: the fire is not claimed but recorded as skipped, for this run holds the lock."""

    @property
    def claims(self) -> bool:
        """Whether it takes the right to run a fire."""
        return self.decision.claim_ms is not None and self.blocker is None

    @property
    def locks(self) -> bool:
        return self.claims and self.job.takes_lock


class Answer(Enum):
    """What became of a proposal."""

    DONE = auto()
    MARK_MOVED = auto()
    """Somebody has decided more, or less, than presumed."""
    JOB_CHANGED = auto()
    LOCKED = auto()
    LOCK_CHANGED = auto()
    """The run that was in the way is in the way no more."""
    RUN_EXISTS = auto()
    """There is a run key at the fire already."""
    NO_SESSION = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A proposal and what became of it."""

    proposal: Proposal
    answer: Answer
    revision: int = 0
    """DONE: of the transaction; fence and mod revision of the run."""
    sent: float = 0.0
    """DONE: the monotonic time at which the transaction that succeeded was sent."""
    claim_ms: int = 0
    """DONE: the wall time in the run key."""
    finals: tuple[RunRecord, ...] = ()
    """DONE: the final records that it put, which are to be delivered."""
    mark_ms: int | None = None
    """MARK_MOVED: where it is; None where it is missing or unreadable."""
    blocker: Blocker | None = None
    """LOCKED: by what."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Part:
    """The share of one proposal in a transaction."""

    proposal: Proposal
    compares: list[Compare]
    then: list[Operation]
    otherwise: list[Operation]
    finals: list[RunRecord] = field(default_factory=list)


@dataclass(slots=True, kw_only=True, eq=False)
class Batch:
    """Proposals in one transaction, which is identical however often it is sent."""

    session: Session
    claim_ms: int
    parts: list[_Part] = field(default_factory=list)

    @property
    def proposals(self) -> list[Proposal]:
        return [part.proposal for part in self.parts]


class Claims:
    """Builds the transactions of a worker's decisions and reads their answers; sends nothing itself."""

    def __init__(self, keys: Keys, identity: Identity, *, lost_after_ms: int) -> None:
        self._keys = keys
        self._identity = identity
        self._lost_after_ms = lost_after_ms

    def batches(self, proposals: Iterable[Proposal], *, session: Session, now_ms: int) -> list[Batch]:
        """The proposals, at most one a job, in as few transactions as etcd's limits allow."""
        batches: list[Batch] = []
        for proposal in proposals:
            part = self._part(proposal, session, now_ms)
            if not batches or not _fits(batches[-1], part):
                batches.append(Batch(session=session, claim_ms=now_ms))
            batches[-1].parts.append(part)
        return batches

    def transaction(self, batch: Batch) -> tuple[list[Compare], list[Operation], list[Operation]]:
        """The compares and both branches of a batch."""
        compares: list[Compare] = [batch.session.alive]
        then: list[Operation] = []
        otherwise: list[Operation] = [Get(batch.session.key, True)]
        for part in batch.parts:
            compares += part.compares
            then += part.then
            otherwise += part.otherwise
        if any(part.proposal.decision.requests for part in batch.parts):
            then.append(Put(self._keys.seen(Watched.REQUESTS), b""))
        return compares, then, otherwise

    def read(self, batch: Batch, result: TxnResult, *, sent: float) -> tuple[list[Result], list[Proposal]]:
        """What became of each proposal, and those that an answer about others leaves to be sent again."""
        if not result.succeeded:
            return self._read_refusal(batch, result)
        return [
            Result(
                proposal=part.proposal, answer=Answer.DONE, revision=result.revision, sent=sent,
                claim_ms=batch.claim_ms, finals=tuple(part.finals),
            )
            for part in batch.parts
        ], []

    def entry(self, proposal: Proposal, *, session: Session, claim_ms: int) -> RunEntry:
        """The value of the run key that a claim puts."""
        plan_ms = proposal.decision.claim_ms
        assert plan_ms is not None, "only a claim has a run"
        return RunEntry(
            state=EntryState.OPEN,
            worker=self._identity.worker,
            session=session.id,
            instance=self._identity.instance,
            revision=proposal.job.revision,
            locked=proposal.locks,
            lost_after_ms=self.lost_after_ms(proposal.job),
            plan_ms=plan_ms,
            dispatch_ms=proposal.job.dispatch_ms(plan_ms),
            claim_ms=claim_ms,
        )

    def lost_after_ms(self, job: CatalogJob) -> int | None:
        """How long a run of the job may be out of touch; None: for ever."""
        match job.spec.lost_after_s:
            case None:
                return self._lost_after_ms
            case "never":
                return None
            case seconds:
                return int(seconds * 1000)

    def _part(self, proposal: Proposal, session: Session, now_ms: int) -> _Part:
        job, decision, keys = proposal.job, proposal.decision, self._keys
        part = _Part(
            proposal=proposal,
            compares=[
                mod_revision_is(keys.job(job.name), job.revision),
                value_is(keys.mark(job.name), encode_mark(decision.from_ms)),
            ],
            then=[Put(keys.mark(job.name), encode_mark(decision.to_ms))],
            otherwise=[Get(keys.mark(job.name)), Get(keys.job(job.name), True), Get(keys.lock(job.name))],
        )
        if decision.missed is not None:
            reason = "late" if decision.claim_ms is None else "late: a newer fire was due"
            record = fire_record(job, fires=decision.missed, status=Verdict.MISSED, reason=reason, now_ms=now_ms)
            self._put_final(part, record)
        for plan_ms in decision.requests:
            request = made_up(job, plan_ms, now_ms=now_ms)
            part.then.append(Put(keys.request(request.run_id), request.to_json()))
        if decision.claim_ms is not None:
            self._claim_or_skip(part, session, now_ms)
        return part

    def _claim_or_skip(self, part: _Part, session: Session, now_ms: int) -> None:
        proposal, keys = part.proposal, self._keys
        job, plan_ms = proposal.job, proposal.decision.claim_ms
        assert plan_ms is not None, "asked for only where there is a fire to claim"
        if proposal.blocker is not None:
            reason = f"overlap: {proposal.blocker.run} was going"
            record = fire_record(
                job, fires=single(plan_ms), status=Verdict.SKIPPED, reason=reason, now_ms=now_ms
            )
            self._put_final(part, record)
            part.compares.append(create_revision_is(keys.lock(job.name), proposal.blocker.lock_revision))
            return
        run_id = RunId.planned(job.name, plan_ms)
        part.compares.append(absent(keys.run(run_id)))
        entry = self.entry(proposal, session=session, claim_ms=now_ms)
        part.then.append(Put(keys.run(run_id), entry.to_json()))
        if proposal.locks:
            part.compares.append(absent(keys.lock(job.name)))
            part.then.append(Put(keys.lock(job.name), str(run_id).encode()))

    def _put_final(self, part: _Part, record: RunRecord) -> None:
        entry = final_entry(record, worker=self._identity.worker, instance=self._identity.instance)
        key = self._keys.run(record.run_id)
        part.compares.append(absent(key))
        part.then.append(Put(key, entry.to_json()))
        part.finals.append(record)

    def _read_refusal(self, batch: Batch, result: TxnResult) -> tuple[list[Result], list[Proposal]]:
        answers: list[Result] = []
        again: list[Proposal] = []
        for index, proposal in enumerate(batch.proposals):
            mark, job, lock = (result.one(1 + 3 * index + offset) for offset in range(3))
            ruled_out = _ruled_out(proposal, mark=mark, job=job, lock=lock)
            if ruled_out is None:
                again.append(proposal)
            else:
                answers.append(ruled_out)
        session = result.one(0)
        if session is None or session.lease != batch.session.lease_id:
            answers += [Result(proposal=proposal, answer=Answer.NO_SESSION) for proposal in again]
            again = []
        elif not answers and len(again) == 1:
            answers, again = [Result(proposal=again[0], answer=Answer.RUN_EXISTS)], []
        return answers, again


def made_up(job: CatalogJob, plan_ms: int, *, now_ms: int) -> Request:
    """The request for a misfire that the job's policy makes up for."""
    return Request(
        run_id=RunId.planned(job.name, plan_ms),
        origin=Origin.MADE_UP,
        job_create_revision=job.create_revision,
        plan_ms=plan_ms,
        dispatch_ms=job.dispatch_ms(plan_ms),
        not_before_ms=now_ms,
        expires_ms=plan_ms + job.spec.misfire.window_ms,
    )


def pass_over(proposal: Proposal, keys: Keys, session: Session) -> tuple[list[Compare], list[Operation]]:
    """The transaction that moves a job's mark over a fire whose run key somebody else has put there."""
    decision, name = proposal.decision, proposal.job.name
    suspects = [ms for ms in (decision.missed.lo_ms if decision.missed else None, decision.claim_ms) if ms is not None]
    in_the_way = keys.run(RunId.planned(name, suspects[-1]))
    return (
        [
            session.alive,
            mod_revision_is(keys.job(name), proposal.job.revision),
            value_is(keys.mark(name), encode_mark(decision.from_ms)),
            present(in_the_way),
        ],
        [Put(keys.mark(name), encode_mark(suspects[-1]))],
    )


def read_mark(kv: KeyValue | None) -> int | None:
    """The mark in a key; None where it is missing or unreadable."""
    try:
        return None if kv is None else decode_mark(kv.value)
    except ValueError:
        return None


def _ruled_out(
    proposal: Proposal, *, mark: KeyValue | None, job: KeyValue | None, lock: KeyValue | None
) -> Result | None:
    if job is None or job.mod_revision != proposal.job.revision:
        return Result(proposal=proposal, answer=Answer.JOB_CHANGED)
    mark_ms = read_mark(mark)
    if mark_ms != proposal.decision.from_ms:
        return Result(proposal=proposal, answer=Answer.MARK_MOVED, mark_ms=mark_ms)
    if proposal.blocker is not None:
        changed = lock is None or lock.create_revision != proposal.blocker.lock_revision
        return Result(proposal=proposal, answer=Answer.LOCK_CHANGED) if changed else None
    if proposal.locks and lock is not None:
        blocker = Blocker(run=lock.value.decode(errors="replace")[:300], lock_revision=lock.create_revision)
        return Result(proposal=proposal, answer=Answer.LOCKED, blocker=blocker)
    return None


def _fits(batch: Batch, part: _Part) -> bool:
    parts: Sequence[_Part] = [*batch.parts, part]
    return (
        len(parts) <= MAX_PROPOSALS
        and 1 + sum(len(one.compares) for one in parts) <= MAX_COMPARES
        and 1 + sum(len(one.then) for one in parts) <= MAX_OPS
        and 1 + sum(len(one.otherwise) for one in parts) <= MAX_OPS
    )
