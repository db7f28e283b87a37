"""What etcd answered, taken in: what was won goes to the dispatcher, the rest is decided anew, or left to others."""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Mapping
from typing import Any, Protocol

from common.clock import Clock
from common.errors import EtcdError, UnavailableError
from common.etcd import EtcdClient, Session
from common.protocol import fire_decisions
from common.protocol.keys import Keys
from common.protocol.planner import Decision
from common.protocol.proposals import Answer, Proposal, Result
from common.protocol.run import RunRecord
from common.protocol.txn import KeyValue
from worker.plan.pending_jobs import Cue, PendingJob, PendingJobs

_log = logging.getLogger(__name__)


async def pass_over(client: EtcdClient, keys: Keys, proposal: Proposal, session: Session) -> bool:
    """Whether the way is free: the mark stands at the oldest fire that was in the way, or nothing is there any more."""
    found = await client.get_keys([keys.run(run_id) for run_id in proposal.run_ids])
    in_the_way = next((run_id for run_id in proposal.run_ids if keys.run(run_id) in found), None)
    if in_the_way is None:
        return True
    result = await client.txn(
        fire_decisions.pass_over(
            keys, proposal.job, in_the_way, mark_ms=proposal.decision.from_ms, guards=[session.alive]
        )
    )
    if result.succeeded:
        extra = {"action": "fire.passed_over", "run": str(in_the_way)}
        _log.error("%s has a run key that no decision has put there; it is passed over", in_the_way, extra=extra)
    return result.succeeded


LOCK_RETRY_MS = 100
"""A held lock is tried again this long after the dispatch time; only then the overlap policy decides."""
_LOOK_AGAIN_MS = 1000


class Claimant(Protocol):
    """Who takes over what was decided."""

    def won(self, result: Result, session: Session) -> None:
        """A fire was claimed."""

    def recorded(self, record: RunRecord, revision: int) -> None:
        """A final record was put into a run key, at this revision, for fires that did not run."""


class Decider(Protocol):
    """Who decides on, once an answer was taken in."""

    def wake(self) -> None: ...

    def outage(self, error: Exception) -> None: ...

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None: ...

    def wait_for_lock(self, pending: PendingJob, lock: KeyValue) -> None:
        """A due fire of a job that keeps one waiting found the lock held."""


class Answers:
    """Takes in the answers to proposals; their pending jobs say afterwards what is still to be decided."""

    def __init__(
        self,
        *,
        client: EtcdClient,
        keys: Keys,
        pending_jobs: PendingJobs,
        pending_of: Mapping[str, PendingJob],
        claimant: Claimant,
        decider: Decider,
        clock: Clock,
    ) -> None:
        self._client = client
        self._keys = keys
        self._pending_jobs = pending_jobs
        self._pending_of = pending_of
        self._claimant = claimant
        self._decider = decider
        self._clock = clock
        self._logged_detached: Session | None = None
        self.claims_lost = 0
        """Claims of fires that another worker had decided by then."""

    def outage(self, error: Exception) -> None:
        """etcd did not answer, or would not."""
        self._decider.outage(error)

    def answered(self, result: Result, session: Session) -> None:
        """Takes in what became of one proposal. What was won is won, even where the job has changed meanwhile."""
        proposal = result.proposal
        self.claims_lost += result.answer is Answer.MARK_MOVED and proposal.claims
        if result.answer is Answer.DONE:
            self._carried_out(result, session)
        elif result.answer is Answer.DETACHED and result.found is not None and self._logged_detached is not session:
            # Logged once a session: all of its fires are given up so, until its key is put again.
            self._logged_detached = session
            lease, own = result.found.lease, session.lease_id
            extra = {"action": "fires.detached", "key": session.key, "lease": f"{lease:x}", "own": f"{own:x}"}
            _log.warning(
                "takes no fires until its session's key is mended, so they are late: %s is under %s, "
                "not under lease %x", session.key, f"lease {lease:x}" if lease else "no lease", own, extra=extra,
            )  # fmt: skip
        pending = self._pending_of.get(proposal.job.name)
        if pending is None or pending.job is not proposal.job:
            return
        self._update(pending, result, session)
        pending.busy = pending.freed = False
        pending.tidy()
        if pending.look_again:
            pending.look_again = False
            self._pending_jobs.put_cue(self._clock.wall_ms(), Cue.LOOK, pending, 0)
        self._pending_jobs.line.join(pending)
        self._decider.wake()

    def won_late(self, result: Result, session: Session) -> None:
        """Takes in one that had been answered otherwise and has been carried out after all."""
        self._carried_out(result, session)

    def _carried_out(self, result: Result, session: Session) -> None:
        """Its run is started, its records are delivered."""
        if result.proposal.claims:
            self._claimant.won(result, session)
        for record in result.proposal.final_records:
            self._claimant.recorded(record, result.revision)

    def _update(self, pending: PendingJob, result: Result, session: Session) -> None:
        decision = result.proposal.decision
        match result.answer:
            case Answer.DONE:
                pending.base_ms, pending.blocker = decision.to_ms, None
                pending.waited &= decision.claim_ms is None
            case Answer.MARK_MOVED if result.mark_ms is not None and result.mark_ms >= pending.job.anchor_ms:
                pending.base_ms, pending.blocker = result.mark_ms, None
            # Until the steward has mended the mark, the session its key, or an operator what etcd has refused it for:
            case Answer.MARK_MOVED | Answer.DETACHED | Answer.REFUSED:
                pending.give_up()
                self._pending_jobs.put_cue(self._clock.wall_ms() + _LOOK_AGAIN_MS, Cue.LOOK, pending, 0)
            case Answer.JOB_CHANGED:
                pending.give_up()  # the catalog brings the job
            case Answer.LOCKED:
                self._locked(pending, decision, result.found)
            case Answer.LOCK_CHANGED:
                pending.blocker = None
            case Answer.RUN_EXISTS:
                pending.give_up()
                self._decider.spawn(self._pass_over(pending, result.proposal, session), "pass over")
            case Answer.NO_SESSION:
                pending.give_up()  # the next session looks at all jobs; at this one as soon as it is not busy
            case Answer.NOT_DONE:
                pass

    def _locked(self, pending: PendingJob, decision: Decision, lock: KeyValue | None) -> None:
        """A held lock is no verdict before the dispatch time, nor until 100 ms after it."""
        assert lock is not None
        dispatch_ms, now_ms = pending.job.dispatch_ms(decision.to_ms), self._clock.wall_ms()
        if pending.job.keeps_one and now_ms >= dispatch_ms:
            if not pending.freed:
                self._decider.wait_for_lock(pending, lock)
            return
        if now_ms >= dispatch_ms + LOCK_RETRY_MS:
            pending.blocker, pending.blocked_ms = lock, decision.claim_ms
            return
        at_ms = dispatch_ms if now_ms < dispatch_ms else dispatch_ms + LOCK_RETRY_MS
        self._pending_jobs.put_cue(at_ms, Cue.RETRY, pending, decision.to_ms)
        pending.parked = True

    async def _pass_over(self, pending: PendingJob, proposal: Proposal, session: Session) -> None:
        """A run key stands where a decision would put its own: the mark goes over it, so that the job goes on."""
        try:
            is_free = await pass_over(self._client, self._keys, proposal, session)
        except (EtcdError, UnavailableError) as error:
            self._decider.outage(error)
            return
        at_ms = self._clock.wall_ms() + (0 if is_free else _LOOK_AGAIN_MS)
        self._pending_jobs.put_cue(at_ms, Cue.LOOK, pending, 0)
        self._decider.wake()
