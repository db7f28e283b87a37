"""One worker of a simulated fleet: what it claims when, by the product's own claims, slots and request claims.

Answers come at once and nothing is lost on the way: two tries meet only where the protocol itself lets them. The times
are those of the protocol; a worker that has slots to fill acts at most every 20 ms, so that how much goes into one
transaction follows from the load and not from this machine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from bench.simulate_etcd import CountingEtcd
from common.clock import SystemClock
from common.etcd import EtcdClient, Lease, Session
from common.protocol.compares import Compare, create_revision_is, mod_revision_is
from common.protocol.fire_claims import Claims
from common.protocol.keys import Keys, RunId, read_mark
from common.protocol.member import WorkerIdentity
from common.protocol.planned_job import PlannedJob
from common.protocol.planner import decide
from common.protocol.proposals import Answer, Result
from common.protocol.request import Request
from common.protocol.request_writes import claim_of
from common.protocol.run import RunEntry
from common.protocol.txn import Delete, Put, Txn
from common.timings import OFFER_AFTER_MS
from worker.pacing import AT_ONCE_S, TOGETHER_S
from worker.record.unlocking import MAX_STEPS
from worker.runs import Run, RunTable

ACTS_EVERY_MS: Final = 20
"""How soon a claim follows the one before; a real one is as quick as its answers."""
_UNLOCKS_WITHIN_MS: Final = round(TOGETHER_S * 1000)
"""Each of the jobs has one fire, so nobody waits for its lock (docs/internals/protocol.md, "The end of a run")."""
_UNLOCKS_AT_ONCE_MS: Final = round(AT_ONCE_S * 1000)
"""Of a run that was claimed from a request."""
DELIVERS_EVERY_MS: Final = 1000
"""`jobLogCommitTimeout`: a stream of records is written so often; one that comes alone at once."""
_LOST_AFTER_MS: Final = 300_000


class Health(Enum):
    """What a worker is good for while the fires come due."""

    WELL = auto()
    DEAD = auto()
    """It does nothing; its session has not ended yet, so it is ranked."""
    FULL = auto()
    """It lives, and what it runs leaves no slot free until all fires have been due for a while."""


@dataclass(slots=True)
class Tries:
    """What came of the tries of all workers, counted by fires."""

    claimed: int = 0
    lost: int = 0
    """Claims of a fire that somebody else had decided before."""
    hedges: int = 0
    """Marks read by the second in rank."""
    hedged: int = 0
    """Fires that the second in rank claimed, having found them undecided."""
    offered: int = 0
    """Fires that the steward offered to all."""
    requests_claimed: int = 0
    requests_lost: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Simulated time, in ms since the epoch."""

    now_ms: Callable[[], int]
    at: Callable[[int, Callable[[], None]], None]
    """Have something done at a time."""


class SimulatedWorker:
    """Claims fires and requests, runs them for a while, frees their locks and deletes their keys."""

    def __init__(
        self, name: str, number: int, *, health: Health, slots: int, keys: Keys, etcd: CountingEtcd, tries: Tries,
        client: EtcdClient, timeline: Timeline, run_ms: Callable[[], int],
    ) -> None:  # fmt: skip
        """``client`` only stands in the session's place of one: nothing is ever sent with it."""
        self.name = name
        self.health = health
        self.table = RunTable(slots)
        self._keys = keys
        self._etcd = etcd
        self._tries = tries
        self._timeline = timeline
        self._run_ms = run_ms
        self._identity = WorkerIdentity(worker=name, instance=f"{number:032x}", host=name)
        self._claims = Claims(keys, self._identity, lost_after_ms=_LOST_AFTER_MS)
        lease = Lease(id=0x694D_0000_0000_0000 + number, ttl_s=10)
        key = keys.worker(name, f"{lease.id:x}")
        self._session = Session(client, lease=lease, key=key, value=b"", clock=SystemClock())
        etcd.txn(Txn([], [Put(key, b"{}", lease.id)]))
        self._wanted: dict[str, tuple[PlannedJob, int]] = {}
        self._to_hedge: list[tuple[PlannedJob, int, int]] = []
        self._hedged: set[str] = set()
        self._requests: dict[str, tuple[PlannedJob, Request]] = {}
        self._to_start: deque[Run] = deque()
        self._to_unlock: list[Run] = []
        self._to_deliver: list[Run] = []
        self._delivers_from_ms = 0
        self._acts_from_ms = 0
        self._to_act = False

    @property
    def free_slots(self) -> int:
        """As it tells them in its beat."""
        return self.table.free_slots if self.health is Health.WELL else 0

    def get_slots(self) -> None:
        """What kept all its slots is over: it tries what has waited for them."""
        if self.health is Health.FULL:
            self.health = Health.WELL
            self._wake()

    # Fires

    def come_up(self, fires: Sequence[tuple[PlannedJob, int]]) -> None:
        """Fires of which it is the first in rank may be claimed from now on."""
        if self.health is not Health.DEAD:
            self._wanted.update((job.name, (job, plan_ms)) for job, plan_ms in fires)
            self._wake()

    def hedge(self, fires: Sequence[tuple[PlannedJob, int]]) -> None:
        """It is the second in rank, and it is time to look, once it has slots to spare."""
        if self.health is not Health.DEAD:
            until_ms = self._timeline.now_ms() + OFFER_AFTER_MS
            self._to_hedge += [(job, plan_ms, until_ms) for job, plan_ms in fires]
            self._look_at_hedged()

    def _look_at_hedged(self) -> None:
        """With one batched read; what is too old is the steward's."""
        if not self._to_hedge or not self.free_slots or self._wanted:
            return
        now_ms = self._timeline.now_ms()
        fires = [(job, plan_ms) for job, plan_ms, until_ms in self._to_hedge if now_ms <= until_ms]
        self._to_hedge = []
        marks = self._etcd.get_many([self._keys.mark(job.name) for job, _ in fires])
        self._tries.hedges += len(fires)
        for job, plan_ms in fires:
            mark_ms = read_mark(marks.get(self._keys.mark(job.name)))
            if mark_ms is not None and mark_ms < plan_ms:
                self._hedged.add(job.name)
                self._wanted[job.name] = job, plan_ms
                self._wake()

    def _propose(self) -> None:
        now_ms = self._timeline.now_ms()
        if self.table.has_enough(now_ms / 1000):
            return  # each run that ends wakes it
        room = self.table.whole_transactions(self.table.may_claim(now_ms / 1000))
        chosen = list(self._wanted.values())[: max(0, room)]
        proposals = []
        for job, plan_ms in chosen:
            del self._wanted[job.name]
            decision = decide(
                job.fires, job.spec.misfire, mark_ms=job.base_before(plan_ms), until_ms=plan_ms, now_ms=now_ms
            )
            assert decision is not None, "each job has one fire, which it knows to be undecided"
            proposals.append(self._claims.propose(job, decision, session=self._session, now_ms=now_ms))
        for batch in self._claims.batches(proposals, session=self._session):
            again = batch
            while again.proposals:
                answer = self._etcd.txn(self._claims.transaction(again))
                results, rest = self._claims.read(again, answer, sent=0.0)
                for result in results:
                    self._answered(result)
                again = again.only(rest)

    def _answered(self, result: Result) -> None:
        job, plan_ms = result.proposal.job, result.proposal.decision.claim_ms
        assert plan_ms is not None
        by_hedge = job.name in self._hedged
        self._hedged.discard(job.name)
        if result.answer is not Answer.DONE:
            self._tries.lost += 1
            self._wake()  # the slot that it would have taken is there for the next
            return
        self._tries.claimed += 1
        self._tries.hedged += by_hedge
        entry = result.proposal.entry
        assert entry is not None, "it is a claim"
        self._won(RunId.planned(job.name, plan_ms), job, entry, result.revision)

    # Requests

    def turn_at(self, job: PlannedJob, request: Request) -> None:
        """Its rank's time for the request has come: it claims it, or waits for a slot."""
        key = request.key(self._keys)
        if self.health is not Health.DEAD and self._etcd.get(key) is not None:
            self._requests[key] = job, request
            self._wake()

    def _claim_requests(self) -> None:
        for key, (job, request) in list(self._requests.items()):
            there = self._etcd.get(key)
            if there is None:
                del self._requests[key]  # the watch has told that it is gone
            elif self.free_slots:
                del self._requests[key]
                self._claim_request(job, request)

    def _claim_request(self, job: PlannedJob, request: Request) -> None:
        claim = claim_of(
            request, job, self._session, keys=self._keys, identity=self._identity, lost_after_ms=_LOST_AFTER_MS,
            now_ms=self._timeline.now_ms(), mark=None,
        )  # fmt: skip
        answer = self._etcd.txn(claim.transaction())
        if answer.succeeded:
            self._tries.requests_claimed += 1
            self._won(request.run_id, job, claim.entry, answer.revision, request)
        else:
            self._tries.requests_lost += 1

    # Runs

    def _won(
        self, run_id: RunId, job: PlannedJob, entry: RunEntry, revision: int, request: Request | None = None
    ) -> None:
        run = Run(
            run_id=run_id, job=job, entry=entry, fence=revision, mod_revision=revision, session=self._session, sent=0.0,
            start_by_ms=0, request=request,
        )  # fmt: skip
        self.table.add(run)
        self._to_start.append(run)
        self._timeline.at(max(self._timeline.now_ms(), run.dispatch_ms), self._start_some)

    def _start_some(self) -> None:
        now_ms = self._timeline.now_ms()
        while self._to_start and self._to_start[0].dispatch_ms <= now_ms and self.table.may_start(self._to_start[0]):
            run = self._to_start.popleft()
            self.table.started(run)
            self._timeline.at(now_ms + self._run_ms(), lambda run=run: self._end(run))  # type: ignore[misc]

    def _end(self, run: Run) -> None:
        self.table.ended(run, self._timeline.now_ms() / 1000)
        if run.request is not None:
            self._timeline.at(self._timeline.now_ms() + _UNLOCKS_AT_ONCE_MS, self._unlock)
        elif not self._to_unlock:
            self._timeline.at(self._timeline.now_ms() + _UNLOCKS_WITHIN_MS, self._unlock)
        self._to_unlock.append(run)
        self._start_some()
        self._wake()

    def _unlock(self) -> None:
        runs, self._to_unlock = self._to_unlock, []
        locks = [(self._keys.lock(run.run_id.job), run.fence) for run in runs]
        self._delete([(create_revision_is(lock, fence), Delete(lock)) for lock, fence in locks])
        self._to_deliver += runs
        if runs:
            self._timeline.at(max(self._timeline.now_ms(), self._delivers_from_ms), self._deliver)

    def _deliver(self) -> None:
        """The log store has them: their keys go."""
        now_ms = self._timeline.now_ms()
        if not self._to_deliver or now_ms < self._delivers_from_ms:
            return
        runs, self._to_deliver, self._delivers_from_ms = self._to_deliver, [], now_ms + DELIVERS_EVERY_MS
        entries = [(self._keys.run(run.run_id), run.mod_revision) for run in runs]
        self._delete([(mod_revision_is(key, revision), Delete(key)) for key, revision in entries])
        for run in runs:
            self.table.forget(run)

    def _delete(self, steps: Sequence[tuple[Compare, Delete]]) -> None:
        """As many in one transaction as a worker puts into one."""
        for start in range(0, len(steps), MAX_STEPS):
            batch = steps[start : start + MAX_STEPS]
            answer = self._etcd.txn(Txn([compare for compare, _ in batch], [delete for _, delete in batch]))
            assert answer.succeeded, "nobody else touches the keys of its runs"

    # Acting

    def _wake(self) -> None:
        """It acts once, soon: at once where it has not just acted."""
        if not self._to_act and self.health is Health.WELL:
            self._to_act = True
            self._timeline.at(max(self._timeline.now_ms(), self._acts_from_ms), self._act)

    def _act(self) -> None:
        self._to_act, self._acts_from_ms = False, self._timeline.now_ms() + ACTS_EVERY_MS
        self._claim_requests()
        self._propose()
        self._look_at_hedged()
