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

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic

from common.protocol.compares import Compare, absent, create_revision_is, mod_revision_is, value_is
from common.protocol.keys import Keys, Watched, encode_mark, holder_of, read_mark
from common.protocol.member import WorkerIdentity
from common.protocol.planned_job import PlannedJob
from common.protocol.planner import Decision
from common.protocol.proposals import MAX_PROPOSALS, Answer, Proposal, Result
from common.protocol.records import fire_record, passed_record, single
from common.protocol.request import Origin, Request
from common.protocol.run import EntryState, RunEntry, RunRecord, final_entry
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
from common.verdicts import Verdict

_OWN = 1
"""Of a transaction: the session's compare, the sentinel that is put, and the session's key that is read."""


@dataclass(slots=True, kw_only=True, eq=False)
class Batch(Generic[OwnerT]):
    """Proposals in one transaction, which is identical however often it is sent."""

    session: OwnerT
    proposals: list[Proposal]

    @property
    def claim_count(self) -> int:
        """How many runs it would claim."""
        return sum(proposal.claims for proposal in self.proposals)

    def only(self, proposals: Iterable[Proposal]) -> Batch[OwnerT]:
        """These proposals of it, under the same identity."""
        return Batch(session=self.session, proposals=list(proposals))


class Claims:
    """Builds the transactions of a worker's decisions and reads their answers; sends nothing itself."""

    def __init__(self, keys: Keys, identity: WorkerIdentity, *, lost_after_ms: int) -> None:
        self._keys = keys
        self._identity = identity
        self._lost_after_ms = lost_after_ms

    def batches(self, proposals: Iterable[Proposal], *, session: OwnerT) -> list[Batch[OwnerT]]:
        """The proposals, at most one a job, in as few transactions as etcd's limits allow."""
        alike = packed(proposals, lambda proposal: proposal, most=MAX_PROPOSALS, beside=_OWN)
        return [Batch(session=session, proposals=some) for some in alike]

    def transaction(self, batch: Batch[Any], *, asks_why: bool = True) -> Txn:
        """All of a batch; the one without ``asks_why`` has no reads for a refusal."""
        compares: list[Compare] = [batch.session.alive]
        then: list[Operation] = []
        otherwise: list[Operation] = [Get(batch.session.key)] if asks_why else []
        for proposal in batch.proposals:
            compares += proposal.compares
            then += proposal.then
            if asks_why:
                otherwise += proposal.otherwise
        if any(proposal.decision.requests for proposal in batch.proposals):
            then.append(Put(self._keys.seen(Watched.REQUESTS), b""))
        return Txn(compares, then, otherwise)

    def read(self, batch: Batch[Any], result: TxnResult, *, sent: float) -> tuple[list[Result], list[Proposal]]:
        """What became of each proposal, but those that an answer about others leaves to be sent again. Of a refusal: of
        the transaction that asks why."""
        if result.succeeded:
            return [
                Result(proposal=proposal, answer=Answer.DONE, revision=result.revision, sent=sent)
                for proposal in batch.proposals
            ], []
        answers: list[Result] = []
        again: list[Proposal] = []
        for index, proposal in enumerate(batch.proposals):
            at = 1 + 3 * index
            mark, job, lock = result.one(at), result.key(at + 1), result.one(at + 2)
            ruled_out = _ruled_out(proposal, mark=mark, job=job, lock=lock)
            if ruled_out is None:
                again.append(proposal)
            else:
                answers.append(ruled_out)
        session = result.one(0)
        if session is None or session.lease != batch.session.lease_id:
            why = Answer.NO_SESSION if session is None else Answer.DETACHED
            answers += [Result(proposal=proposal, answer=why, found=session) for proposal in again]
            again = []
        elif not answers and len(again) == 1:
            answers, again = [Result(proposal=again[0], answer=Answer.RUN_EXISTS)], []
        return answers, again

    def propose(
        self, job: PlannedJob, decision: Decision, *, session: Owner, now_ms: int, start_by_ms: int = 0,
        blocker: KeyValue | None = None, late: str | None = None,
    ) -> Proposal:  # fmt: skip
        """The proposal for a transaction that is about to be sent. ``late``: why those that it misses were not started
        in time, where that is known."""
        keys = self._keys
        job_key, mark, lock = keys.job(job.name), keys.mark(job.sequence), keys.lock(job.sequence)
        proposal = Proposal(
            job=job, decision=decision, start_by_ms=start_by_ms, blocker=blocker,
            compares=[mod_revision_is(job_key, job.revision), value_is(mark, encode_mark(decision.from_ms))],
            then=[Put(mark, encode_mark(decision.to_ms))],
            otherwise=[Get(mark), GetKey(job_key), Get(lock)],
        )  # fmt: skip
        if (record := passed_record(job, decision, now_ms=now_ms, late=late)) is not None:
            self._put_final(proposal, record)
        if proposal.needs_free_lock:
            proposal.compares.append(absent(lock))
        for plan_ms in decision.requests:
            request = catch_up_request(job, plan_ms, now_ms=now_ms)
            proposal.then.append(Put(keys.request(request.run_id), request.to_json()))
        if (claim_ms := decision.claim_ms) is not None and blocker is not None:
            reason = f"overlap: {holder_of(blocker)} was going"
            record = fire_record(job, fires=single(claim_ms), status=Verdict.SKIPPED, reason=reason, now_ms=now_ms)
            self._put_final(proposal, record)
            proposal.compares.append(create_revision_is(lock, blocker.create_revision))
        elif claim_ms is not None:
            run_id = job.run_of(claim_ms)
            run = keys.run(run_id)
            proposal.entry = RunEntry(
                state=EntryState.OPEN, worker=self._identity.worker, session=session.id,
                instance=self._identity.instance, revision=job.revision, locked=proposal.locks,
                lost_after_ms=job.lost_after_ms(self._lost_after_ms), plan_ms=claim_ms,
                dispatch_ms=job.dispatch_ms(claim_ms), claim_ms=now_ms, labels=dict(job.spec.labels),
            )  # fmt: skip
            proposal.witness = Put(run, proposal.entry.to_json())
            proposal.compares.append(absent(run))
            proposal.then.append(proposal.witness)
            if proposal.locks:
                proposal.then.append(Put(lock, str(run_id).encode()))
        return proposal

    def _put_final(self, proposal: Proposal, record: RunRecord) -> None:
        entry = final_entry(record, worker=self._identity.worker, instance=self._identity.instance)
        key = self._keys.run(record.run_id)
        proposal.witness = Put(key, entry.to_json())
        proposal.compares.append(absent(key))
        proposal.then.append(proposal.witness)
        proposal.final_records.append(record)


def found_carried_out(proposal: Proposal, found: Mapping[str, KeyValue]) -> Result | None:
    """The result of a proposal whose witness etcd has as it was sent: it was carried out, at an unknown time."""
    witness = proposal.witness
    there = None if witness is None else found.get(witness.key)
    if witness is None or there is None or there.value != witness.value:
        return None
    return Result(proposal=proposal, answer=Answer.DONE, revision=there.create_revision, sent=float("-inf"))


def catch_up_request(job: PlannedJob, plan_ms: int, *, now_ms: int) -> Request:
    """The request for a misfire that the job's policy makes up for."""
    return Request(
        run_id=job.run_of(plan_ms),
        origin=Origin.CATCH_UP,
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
    if read_mark(mark) != proposal.decision.from_ms:
        return Result(proposal=proposal, answer=Answer.MARK_MOVED, found=mark)
    if proposal.blocker is not None:
        changed = lock is None or lock.create_revision != proposal.blocker.create_revision
        return Result(proposal=proposal, answer=Answer.LOCK_CHANGED) if changed else None
    if proposal.needs_free_lock and lock is not None:
        return Result(proposal=proposal, answer=Answer.LOCKED, found=lock)
    return None
