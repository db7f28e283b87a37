"""How a run is asked for beside the schedule, and how its request is claimed, ended, or put again.

*Asked for* (``ask``): one transaction, whichever manager sends it, and however often.

    if   the job is as it was looked at
    and  the call's own key is as it was read: absent, or over
    and  the dedupe key is as it was read                        only where one was given
    then put the request, the call's own key, [the dedupe key]
    else read the job and both keys

The call's own key outlives the request and its run, so a call in doubt learns from it whether it was carried out: sent
again, the transaction finds its own key, and asks for nothing twice.

*Claimed* (``claim``):

    if   my session is alive, the request is the one that I saw, its job is at the revision that I know,
    and  made when the request says,  no kill waits for it,  there is no such run
    and  the job's lock is free                             only where its claims take the lock
    and  the mark is as I read it                           only of a retry: no newer fire has taken its place
    then delete the request, put the run, [put the lock]    no mark: requests are beside the schedule

*Ended* without a run, or put again (``RequestEnd``), by the steward: what it believes for that, etcd has to confirm.

Pure: standard library and its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

from common.protocol.compares import Compare, absent, create_revision_is, mod_revision_is, value_is
from common.protocol.dedupe import Remembered
from common.protocol.follow_ups import FollowUp, merged
from common.protocol.keys import MAX_MARK_MS, Keys, Watched
from common.protocol.kill import Kill
from common.protocol.member import WorkerIdentity
from common.protocol.planned_job import PlannedJob
from common.protocol.request import Request
from common.protocol.run import EntryState, RunEntry, RunRecord, final_entry
from common.protocol.txn import Delete, Earlier, Fate, Get, KeyValue, Operation, Owner, Put, Txn, TxnResult
from common.verdicts import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class CallKeys:
    """Where a call looks, and where it is remembered."""

    job: str
    own: str
    dedupe: str | None

    @property
    def reads(self) -> list[Operation]:
        return [Get(key) for key in (self.job, self.own, self.dedupe) if key is not None]

    @property
    def look(self) -> Txn:
        """Its answer, as that of a refused `ask`, is read by `found`."""
        return Txn((), self.reads)

    def found(self, answer: TxnResult) -> Found:
        """What the reads have found."""
        dedupe = answer.one(2) if self.dedupe is not None else None
        return Found(job=answer.one(0), own=answer.one(1), dedupe=dedupe)

    def earlier(self, txn: Txn, refusal: TxnResult) -> Earlier:
        """What became of an earlier sending of `ask` or `remember`: its own key outlives the call."""
        own = self.found(refusal).own
        return own.mod_revision if own is not None and txn.has_put(own) else Fate.NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What etcd holds, as far as a call depends on it."""

    job: KeyValue | None
    own: KeyValue | None
    dedupe: KeyValue | None


def remember(call: CallKeys, there: Found, own: Remembered) -> Txn:
    """The run was asked for before, under the dedupe key: this call is answered the same from now on."""
    return Txn(_as_read(call, there), [Put(call.own, own.to_json())], call.reads)


def ask(
    keys: Keys, call: CallKeys, there: Found, requests: Sequence[Request], own: Remembered, dedupe: Remembered | None
) -> Txn:
    """``dedupe``: what is remembered under the dedupe key."""
    assert there.job is not None, "there is a job to run"
    compares = [*_as_read(call, there), mod_revision_is(there.job.key, there.job.mod_revision)]
    then: list[Operation] = [Put(request.key(keys), request.to_json()) for request in requests]
    then += [Put(keys.seen(Watched.REQUESTS), b""), Put(call.own, own.to_json())]
    if call.dedupe is not None and dedupe is not None:
        then.append(Put(call.dedupe, dedupe.to_json()))
    return Txn(compares, then, call.reads)


def _as_read(call: CallKeys, there: Found) -> list[Compare]:
    compares = [mod_revision_is(call.own, there.own.mod_revision if there.own else 0)]
    if call.dedupe is not None:
        compares.append(mod_revision_is(call.dedupe, there.dedupe.mod_revision if there.dedupe else 0))
    return compares


NO_LIMIT_MS: Final = MAX_MARK_MS
"""In place of an expiry: such a run starts however late."""
_RUN, _LOCK, _REQUEST, _JOB, _SESSION, _MARK = range(6)
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
        fence = self.fence_in(refusal)
        return fence if fence is not None else Fate.NEVER if self.is_over(refusal) else Fate.OPEN

    def fence_in(self, refusal: TxnResult) -> int | None:
        """The fence, where an earlier sending of this claim shows in what is there now."""
        run = refusal.one(_RUN)
        return run.create_revision if run is not None and run.value == self.entry.to_json() else None

    def meets_lock(self, refusal: TxnResult) -> bool:
        """Whether the job's lock is held."""
        return self.job.takes_lock and refusal.one(_LOCK) is not None

    def comes_late(self, refusal: TxnResult) -> bool:
        """Whether the request that it read is there no more."""
        request = refusal.one(_REQUEST)
        return request is None or request.mod_revision != self.request.revision

    def is_over(self, refusal: TxnResult) -> bool:
        """Whether the claim can never be carried out any more, however late it arrives."""
        job, own = refusal.one(_JOB), refusal.one(_SESSION)
        mark = None if self.mark is None else refusal.one(_MARK)
        return (
            self.comes_late(refusal)
            or job is None
            or job.mod_revision != self.job.revision
            or own is None  # one that is detached may be put again with its lease
            # A mark never comes back.
            or (self.mark is not None and (mark is None or mark.value != self.mark.value))
        )


def claim_of(
    request: Request, job: PlannedJob, session: Owner, *, keys: Keys, identity: WorkerIdentity, lost_after_ms: int,
    now_ms: int, mark: KeyValue | None,
) -> RequestClaim:  # fmt: skip
    """The claim of a request that is about to be sent. ``lost_after_ms``: where the job does not say."""
    entry = RunEntry(
        state=EntryState.OPEN, worker=identity.worker, session=session.id, instance=identity.instance,
        revision=job.revision, locked=job.takes_lock, lost_after_ms=job.lost_after_ms(lost_after_ms),
        plan_ms=request.plan_ms, dispatch_ms=max(request.dispatch_ms, request.not_before_ms), claim_ms=now_ms,
        trigger=request.trigger, by=request.by, note=request.note, create_ms=request.create_ms, args=request.args,
        env=request.env, labels=dict(job.spec.labels), grant=request.grant, scope=request.scope,
    )  # fmt: skip
    return RequestClaim(keys=keys, request=request, job=job, session=session, entry=entry, mark=mark)


def is_overtaken(request: Request, job: PlannedJob, mark_ms: int | None) -> bool:
    """Whether a newer fire has been decided since the lock came free for this retry: the fire has had its turn."""
    if request.mark_ms is None or mark_ms is None or not job.takes_lock:
        return False
    newest_ms = job.schedule.open_fires.last_before_ms(mark_ms + 1)
    return newest_ms is not None and newest_ms > max(request.mark_ms, job.anchor_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEnd:
    """The end of a request that cannot run any more."""

    status: Verdict
    reason: str
    by: str | None = None
    err: str | None = None
    """In words, where the verdict and its reason leave something out."""
    confirm: Compare | None = None
    """What has to be true in etcd for it."""

    @classmethod
    def killed(cls, keys: Keys, kill: Kill) -> Self:
        """While the kill is there."""
        there = create_revision_is(keys.kill(kill.run_id), kill.revision)
        return cls(status=Verdict.KILLED, reason="before start", by=kill.by, err=kill.before_start, confirm=there)

    @classmethod
    def deleted(cls, keys: Keys, name: str, job: PlannedJob | None) -> Self:
        """While there is no job of this name, or the one that was made since."""
        key = keys.job(name)
        confirm = absent(key) if job is None else create_revision_is(key, job.create_revision)
        return cls(status=Verdict.SKIPPED, reason="deleted", confirm=confirm)

    @classmethod
    def paused(cls, keys: Keys, job: PlannedJob) -> Self:
        """While the job is as it is."""
        return cls(status=Verdict.SKIPPED, reason="paused", confirm=mod_revision_is(keys.job(job.name), job.revision))

    @classmethod
    def out_of_scope(cls, keys: Keys, job: PlannedJob) -> Self:
        """Who chose its code had no say over the job as it is; while it is so."""
        as_known = mod_revision_is(keys.job(job.name), job.revision)
        err = (
            "skipped: it was asked for with arguments or variables, and the job has another user, other labels or "
            "other workers since; ask for it again"
        )
        return cls(status=Verdict.SKIPPED, reason="job changed", err=err, confirm=as_known)

    @classmethod
    def overtaken(cls, keys: Keys, job: PlannedJob) -> Self:
        """Of a retry whose place a newer fire has taken; a mark never goes back: only the job has to stay."""
        as_known = mod_revision_is(keys.job(job.name), job.revision)
        return cls(status=Verdict.SKIPPED, reason="overlap: a newer fire was decided", confirm=as_known)

    @classmethod
    def missed(cls, reason: str) -> Self:
        """Its time is over, by the clock alone."""
        return cls(status=Verdict.MISSED, reason=reason)


def end_request(
    keys: Keys, request: Request, ending: RequestEnd, record: RunRecord, follow_up: FollowUp, *, worker: str,
    guards: Sequence[Compare],
) -> Txn:  # fmt: skip
    """The request goes, its final record comes, and with it what follows."""
    key, request_key = keys.run(request.run_id), request.key(keys)
    writes: list[Put | Delete] = [
        Delete(request_key),
        Put(keys.seen(Watched.REQUESTS), b""),
        Put(key, final_entry(record, worker=worker).to_json()),
    ]
    compares = [*guards, mod_revision_is(request_key, request.revision), absent(key), *follow_up.compares]
    if ending.confirm is not None and ending.confirm not in follow_up.compares:
        compares.append(ending.confirm)
    return Txn(compares, merged(writes, follow_up))


def put_again(keys: Keys, request: Request, *, now_ms: int, guards: Sequence[Compare]) -> Txn:
    """Put again, so that every worker hears of it once more."""
    key, renewed = request.key(keys), replace(request, not_before_ms=now_ms)
    puts = [Put(key, renewed.to_json()), Put(keys.seen(Watched.REQUESTS), b"")]
    return Txn([*guards, mod_revision_is(key, request.revision)], puts)
