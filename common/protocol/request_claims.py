"""The transaction that claims a request, and what its answer says.

if   my session is alive, the request is the one that I saw, its job is at the revision that I know,
and  made when the request says,  no kill waits for it,  there is no such run
and  the job's lock is free                             only where its claims take the lock
and  the mark is as I read it                           only of a retry: no newer fire has taken its place
then delete the request, put the run, [put the lock]    no mark: requests are beside the schedule
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from common.protocol.compares import absent, create_revision_is, mod_revision_is, value_is
from common.protocol.fire_claims import Claims
from common.protocol.keys import MAX_MARK_MS, Keys, Watched
from common.protocol.member import Identity
from common.protocol.planned_job import PlannedJob
from common.protocol.request import Request
from common.protocol.run import EntryState, RunEntry
from common.protocol.txn import Delete, Earlier, Fate, Get, KeyValue, Operation, Owner, Put, Txn, TxnResult

NO_LIMIT_MS: Final = MAX_MARK_MS
"""In place of an expiry: such a run starts however late."""
_RUN, _LOCK = 0, 1
"""Where the answer of a refusal has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestClaim:
    """One claim of a request; identical however often it is sent."""

    keys: Keys
    request: Request
    job: PlannedJob
    session: Owner
    entry: RunEntry
    """The value of the run key that it puts."""
    mark: KeyValue | None = None
    """Of a retry: the job's mark, as it was read just before."""

    def transaction(self) -> Txn:
        """The claim, and what tells why it is refused."""
        keys, request, job, run_id = self.keys, self.request, self.job, self.request.run_id
        compares = [
            self.session.alive,
            mod_revision_is(request.key(keys), request.revision),
            mod_revision_is(keys.job(job.name), job.revision),
            create_revision_is(keys.job(job.name), request.job_create_revision),
            absent(keys.kill(run_id)),
            absent(keys.run(run_id)),
        ]
        then: list[Operation] = [Delete(request.key(keys)), Put(keys.run(run_id), self.entry.to_json())]
        if not request.is_chain:  # the next link comes under the same key, with the sentinel, and tells who missed this
            then.append(Put(keys.seen(Watched.REQUESTS), b""))
        if job.takes_lock:
            compares.append(absent(keys.lock(job.sequence)))
            then.append(Put(keys.lock(job.sequence), str(run_id).encode()))
        if self.mark is not None:
            compares.append(value_is(self.mark.key, self.mark.value))
        reads = [keys.run(run_id), keys.lock(job.sequence), request.key(keys), keys.job(job.name), self.session.key]
        reads += [self.mark.key] if self.mark is not None else []
        return Txn(compares, then, [Get(key) for key in reads])

    def earlier(self, refusal: TxnResult) -> Earlier:
        """What became of an earlier sending of this claim."""
        fence = self.is_carried_out_in(refusal)
        return fence if fence is not None else Fate.NEVER if self.is_over(refusal) else Fate.OPEN

    def is_carried_out_in(self, refusal: TxnResult) -> int | None:
        """The fence, where an earlier sending of this claim shows in what is there now."""
        run = refusal.one(_RUN)
        return run.create_revision if run is not None and run.value == self.entry.to_json() else None

    def meets_lock(self, refusal: TxnResult) -> bool:
        """Whether the job's lock is held."""
        return self.job.takes_lock and refusal.one(_LOCK) is not None

    def is_over(self, refusal: TxnResult) -> bool:
        """Whether the claim can never be carried out any more, however late it arrives."""
        request, job, own = (refusal.one(index) for index in (2, 3, 4))
        return (
            request is None
            or request.mod_revision != self.request.revision
            or job is None
            or job.mod_revision != self.job.revision
            or own is None  # one that is detached may be put again with its lease
            or (self.mark is not None and _value(refusal.one(5)) != self.mark.value)  # a mark never comes back
        )


def claim_of(
    request: Request, job: PlannedJob, session: Owner, *, keys: Keys, identity: Identity, claims: Claims,
    now_ms: int, mark: KeyValue | None,
) -> RequestClaim:  # fmt: skip
    """The claim of a request that is about to be sent."""
    entry = RunEntry(
        state=EntryState.OPEN, worker=identity.worker, session=session.id, instance=identity.instance,
        revision=job.revision, locked=job.takes_lock, lost_after_ms=claims.lost_after_ms(job),
        plan_ms=request.plan_ms, dispatch_ms=max(request.dispatch_ms, request.not_before_ms), claim_ms=now_ms,
        trigger=request.trigger, by=request.by, note=request.note, create_ms=request.create_ms, args=request.args,
        env=request.env,
    )  # fmt: skip
    return RequestClaim(keys=keys, request=request, job=job, session=session, entry=entry, mark=mark)


def is_overtaken(request: Request, job: PlannedJob, mark_ms: int | None) -> bool:
    """Whether a newer fire has been decided since the lock came free for this retry: the fire has had its turn."""
    if request.mark_ms is None or mark_ms is None or not job.takes_lock:
        return False
    newest_ms = job.schedule.open_fires.last_before_ms(mark_ms + 1)
    return newest_ms is not None and newest_ms > max(request.mark_ms, job.anchor_ms)


def _value(kv: KeyValue | None) -> bytes | None:
    return None if kv is None else kv.value
