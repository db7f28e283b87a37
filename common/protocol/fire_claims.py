"""Deciding fires in etcd: proposals for up to 30 jobs go into one transaction, all or nothing.

    if   lease(my session's key) == my lease             a session that ended decides nothing
    and  mod_revision(jobs/J) == the one planned with    a changed, paused or deleted job never fires stale
    and  value(marks/J) == P                             nothing is skipped silently, nothing decided twice
    and  create_revision(runs/J/F/1) == 0
    and  create_revision(locks/J) == 0                   only where the claim takes the lock, or the fire waits for it
    then put marks/J = F, put runs/J/F/1, put locks/J
    else read my session's key, the marks, the jobs (keys only), the locks

One answer says which proposal failed, and why; the others are sent again without it. A large batch is sent without
those reads at first: a third of the transaction, and hardly ever carried out. Refused, it is sent again with them. An
answer that did not come leaves the whole batch in doubt: see ``worker/plan/doubts.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Generic

from common.protocol.compares import Compare, absent, create_revision_is, mod_revision_is, value_is
from common.protocol.keys import Keys, Watched, encode_mark, holder_of, read_mark
from common.protocol.member import Identity
from common.protocol.planned_job import PlannedJob
from common.protocol.proposals import MAX_PROPOSALS, Answer, Proposal, Result
from common.protocol.records import fire_record, passed_record, single
from common.protocol.request import Origin, Request
from common.protocol.run import EntryState, RunEntry, RunRecord, Verdict, final_entry
from common.protocol.txn import (
    Get,
    GetKey,
    KeyRevisions,
    KeyValue,
    Operation,
    Owner,
    OwnerT,
    Put,
    Txn,
    TxnResult,
    packed,
)

_OWN = 1
"""Of a transaction: the session's compare, the sentinel that is put, and the session's key that is read."""


@dataclass(slots=True, kw_only=True, eq=False)
class Part:
    """The share of one proposal in a transaction."""

    proposal: Proposal
    compares: list[Compare]
    then: list[Operation]
    otherwise: list[Operation]
    finals: list[RunRecord] = field(default_factory=list)
    entry: RunEntry | None = None
    """Of the run that it claims."""
    witness: Put | None = None
    """A run key that it puts, with a value that nobody else would put: there, it has been carried out."""


@dataclass(slots=True, kw_only=True, eq=False)
class Batch(Generic[OwnerT]):
    """Proposals in one transaction, which is identical however often it is sent."""

    session: OwnerT
    claim_ms: int
    parts: list[Part]

    @property
    def proposals(self) -> list[Proposal]:
        return [part.proposal for part in self.parts]

    @property
    def claims(self) -> int:
        """How many runs it would claim."""
        return sum(part.proposal.claims for part in self.parts)

    def of(self, parts: Iterable[Part]) -> Batch[OwnerT]:
        """The same claims, under the same identity, but only these."""
        return Batch(session=self.session, claim_ms=self.claim_ms, parts=list(parts))


class Claims:
    """Builds the transactions of a worker's decisions and reads their answers; sends nothing itself."""

    def __init__(self, keys: Keys, identity: Identity, *, lost_after_ms: int) -> None:
        self._keys = keys
        self._identity = identity
        self._lost_after_ms = lost_after_ms

    def batches(self, parts: Iterable[Part], *, session: OwnerT, now_ms: int) -> list[Batch[OwnerT]]:
        """The parts, at most one a job, in as few transactions as etcd's limits allow."""
        alike = packed(parts, lambda part: part, most=MAX_PROPOSALS, beside=_OWN)
        return [Batch(session=session, claim_ms=now_ms, parts=some) for some in alike]

    def transaction(self, batch: Batch[Any], *, asks_why: bool = True) -> Txn:
        """All of a batch; the one without ``asks_why`` has no reads for a refusal."""
        compares: list[Compare] = [batch.session.alive]
        then: list[Operation] = []
        otherwise: list[Operation] = [Get(batch.session.key)] if asks_why else []
        for part in batch.parts:
            compares += part.compares
            then += part.then
            if asks_why:
                otherwise += part.otherwise
        if any(part.proposal.decision.requests for part in batch.parts):
            then.append(Put(self._keys.seen(Watched.REQUESTS), b""))
        return Txn(compares, then, otherwise)

    def read(self, batch: Batch[Any], result: TxnResult, *, sent: float) -> tuple[list[Result], list[Part]]:
        """What became of each proposal, and the parts that an answer about others leaves to be sent again. Of a
        refusal: of the transaction that asks why."""
        if result.succeeded:
            return [carried_out(part, revision=result.revision, sent=sent) for part in batch.parts], []
        answers: list[Result] = []
        again: list[Part] = []
        for index, part in enumerate(batch.parts):
            at = 1 + 3 * index
            mark, job, lock = result.one(at), result.key(at + 1), result.one(at + 2)
            ruled_out = _ruled_out(part.proposal, mark=mark, job=job, lock=lock)
            if ruled_out is None:
                again.append(part)
            else:
                answers.append(ruled_out)
        session = result.one(0)
        if session is None or session.lease != batch.session.lease_id:
            why, lease = (Answer.NO_SESSION, 0) if session is None else (Answer.DETACHED, session.lease)
            answers += [Result(proposal=part.proposal, answer=why, key_lease=lease) for part in again]
            again = []
        elif not answers and len(again) == 1:
            answers, again = [Result(proposal=again[0].proposal, answer=Answer.RUN_EXISTS)], []
        return answers, again

    def entry(self, proposal: Proposal, *, session: Owner, claim_ms: int) -> RunEntry:
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
            labels=dict(proposal.job.spec.labels),
        )

    def lost_after_ms(self, job: PlannedJob) -> int | None:
        """How long a run of the job may be out of touch; None: for ever."""
        match job.spec.lost_after_s:
            case None:
                return self._lost_after_ms
            case "never":
                return None
            case seconds:
                return int(seconds * 1000)

    def part(self, proposal: Proposal, *, session: Owner, now_ms: int) -> Part:
        """The share of a proposal in a transaction that is about to be sent."""
        job, decision, keys = proposal.job, proposal.decision, self._keys
        job_key, mark, lock = keys.job(job.name), keys.mark(job.sequence), keys.lock(job.sequence)
        part = Part(
            proposal=proposal,
            compares=[mod_revision_is(job_key, job.revision), value_is(mark, encode_mark(decision.from_ms))],
            then=[Put(mark, encode_mark(decision.to_ms))],
            otherwise=[Get(mark), GetKey(job_key), Get(lock)],
        )
        if (record := passed_record(job, decision, now_ms=now_ms, late=proposal.late)) is not None:
            self._put_final(part, record)
        if proposal.needs_free_lock:
            part.compares.append(absent(lock))
        for plan_ms in decision.requests:
            request = made_up(job, plan_ms, now_ms=now_ms)
            part.then.append(Put(keys.request(request.run_id), request.to_json()))
        if (claim_ms := decision.claim_ms) is not None and (blocker := proposal.blocker) is not None:
            reason = f"overlap: {holder_of(blocker)} was going"
            record = fire_record(job, fires=single(claim_ms), status=Verdict.SKIPPED, reason=reason, now_ms=now_ms)
            self._put_final(part, record)
            part.compares.append(create_revision_is(lock, blocker.create_revision))
        elif claim_ms is not None:
            run_id = job.run_of(claim_ms)
            run = keys.run(run_id)
            part.entry = self.entry(proposal, session=session, claim_ms=now_ms)
            part.witness = Put(run, part.entry.to_json())
            part.compares.append(absent(run))
            part.then.append(part.witness)
            if proposal.locks:
                part.then.append(Put(lock, str(run_id).encode()))
        return part

    def _put_final(self, part: Part, record: RunRecord) -> None:
        entry = final_entry(record, worker=self._identity.worker, instance=self._identity.instance)
        key = self._keys.run(record.run_id)
        part.witness = Put(key, entry.to_json())
        part.compares.append(absent(key))
        part.then.append(part.witness)
        part.finals.append(record)


def carried_out(part: Part, *, revision: int, sent: float) -> Result:
    """The result of a part whose transaction has this revision."""
    return Result(
        proposal=part.proposal, answer=Answer.DONE, revision=revision, sent=sent, entry=part.entry,
        finals=tuple(part.finals),
    )  # fmt: skip


def found_carried_out(part: Part, found: KeyValue | None) -> Result | None:
    """The result of a part whose witness lies in etcd as it would have put it: carried out, nobody knows when."""
    if part.witness is None or found is None or found.value != part.witness.value:
        return None
    return carried_out(part, revision=found.create_revision, sent=float("-inf"))


def made_up(job: PlannedJob, plan_ms: int, *, now_ms: int) -> Request:
    """The request for a misfire that the job's policy makes up for."""
    return Request(
        run_id=job.run_of(plan_ms),
        origin=Origin.MADE_UP,
        job_create_revision=job.create_revision,
        plan_ms=plan_ms,
        dispatch_ms=job.dispatch_ms(plan_ms),
        not_before_ms=now_ms,
        expires_ms=job.expires_ms(plan_ms),
    )


def _ruled_out(
    proposal: Proposal, *, mark: KeyValue | None, job: KeyRevisions | None, lock: KeyValue | None
) -> Result | None:
    if job is None or job.mod_revision != proposal.job.revision:
        return Result(proposal=proposal, answer=Answer.JOB_CHANGED)
    mark_ms = read_mark(mark)
    if mark_ms != proposal.decision.from_ms:
        return Result(proposal=proposal, answer=Answer.MARK_MOVED, mark_ms=mark_ms)
    if proposal.blocker is not None:
        changed = lock is None or lock.create_revision != proposal.blocker.create_revision
        return Result(proposal=proposal, answer=Answer.LOCK_CHANGED) if changed else None
    if proposal.needs_free_lock and lock is not None:
        return Result(proposal=proposal, answer=Answer.LOCKED, blocker=lock)
    return None
