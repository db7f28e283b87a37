"""Claimed runs, started at their dispatch time: not before it, not past their grace, and only on a fresh claim.

claimed --(dispatch time, a free slot, claim sent < 2 s ago)--> running
claimed --(claim sent >= 2 s ago)--> re-stamped, then looked at again
claimed --(1 s without a slot, or graceful stop)--> handed on to a worker that has one
claimed --(its secrets are looked up)--> waits for them, unless it is to end or to be handed on
claimed --(killed before start, or past its grace)--> settled without a process
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from itertools import count
from typing import Any

from common.clock import Clock
from common.errors import EtcdError, UnavailableError
from common.etcd import EtcdClient, Session
from common.etcd.pack import Step
from common.etcd.settle import AGAIN_S, answered
from common.process.secret_files import SecretError
from common.protocol.keys import Keys, RunId
from common.protocol.kill import Kill
from common.protocol.member import WorkerIdentity
from common.protocol.proposals import Result
from common.protocol.run import RunRecord
from common.protocol.run_writes import hand_on, owns_lock, restamp
from common.protocol.txn import Txn
from common.timings import STAMP_VALID_S
from common.verdicts import Verdict
from worker.admission import Admission
from worker.kills import Kills
from worker.launch import Launch
from worker.launcher.unstartable import NotNowError
from worker.members import Members
from worker.plan.cues import Alarm
from worker.record.records import NOT_STARTED, not_started_record
from worker.record.settlement import Settlement
from worker.record.unlocking import Steps
from worker.refusals import Refusals
from worker.run.executor import Executor
from worker.runs import Phase, Run, RunTable
from worker.secrets import Lookup, Secrets

_log = logging.getLogger(__name__)

HAND_ON_AFTER_MS = 1000
"""How long a claimed run waits for a slot, from its dispatch time, or from its claim where that came later."""
MOST_STUCK_RUNS = 16
"""Of a job on one worker; each holds a process and three descriptors until what it waits for comes back."""
_STARTS_IN_A_TURN = 20
"""Then others have theirs: a start takes a millisecond in which nothing else happens."""
_RETRY_S = 0.3


class Dispatcher:
    """Starts what was claimed, or gives it a truthful end."""

    def __init__(
        self,
        *,
        client: EtcdClient,
        keys: Keys,
        identity: WorkerIdentity,
        table: RunTable,
        members: Members,
        kills: Kills,
        executor: Executor,
        settlement: Settlement,
        refusals: Refusals,
        shell: str,
        on_slot_free: Callable[[], None],
        stuck_before: Callable[[str], int],
        is_guarded: Callable[[], bool],
        admission: Admission,
        secrets: Secrets,
        clock: Clock,
        forbids: Callable[[Run], str | None] = lambda _: None,
    ) -> None:
        """``stuck_before(job)``: of how many runs of it, of a former life, something lives that cannot be ended.
        ``forbids``: why a run must not be started, whatever was claimed. ``is_guarded``: whether a process
        may be started now; else a run waits as it would for a slot.
        """
        self._client = client
        self._keys = keys
        self._identity = identity
        self._table = table
        self._members = members
        self._kills = kills
        self._executor = executor
        self._settlement = settlement
        self._refusals = refusals
        self._shell = shell
        self._on_slot_free = on_slot_free
        self._stuck_before = stuck_before
        self._is_guarded = is_guarded
        self._admission = admission
        self._secrets = secrets
        self._forbids = forbids
        self._clock = clock
        self._alarm = Alarm(clock)
        self._ready: list[tuple[int, int, Run]] = []
        self._numbers = count()
        self._lookups: dict[Run, Lookup] = {}
        """Those that wait for their secrets."""
        self._to_start: list[Run] = []
        self._to_hand_on: list[Run] = []
        self._stamping = 0
        """Slots of the runs whose claims are being renewed: they start as soon as that is done."""
        self._tasks: asyncio.TaskGroup | None = None

    def won(self, result: Result, session: Session) -> None:
        """Take over a claim that etcd has granted."""
        proposal, entry = result.proposal, result.proposal.entry
        assert entry is not None, "it is a claim"
        self.add(
            Run(
                run_id=proposal.job.run_of(entry.plan_ms), job=proposal.job, entry=entry,
                fence=result.revision, mod_revision=result.revision, session=session, sent=result.sent,
                start_by_ms=proposal.start_by_ms, unlocked=False,
            )
        )  # fmt: skip

    def add(self, run: Run) -> None:
        """Take over a claimed run."""
        self._table.add(run)
        run.turn = next(self._numbers)
        if run.lacks_secrets:  # looked up now, while it waits for its time
            self._begin_look_up(run)
        else:
            self._put_back(run)

    def recorded(self, record: RunRecord, revision: int) -> None:
        """See to the delivery of a final record that was put for fires that did not run."""
        self._settlement.deliver_final(record, revision)

    def wake(self) -> None:
        """A slot came free, or the worker is stopping."""
        self._alarm.ring()

    async def run(self) -> None:
        """Starts claimed runs until cancelled."""
        async with asyncio.TaskGroup() as self._tasks:
            while True:
                self._alarm.clear()
                now_ms = self._clock.wall_ms()
                late_ms = self._see_to_lookups(now_ms)
                again_ms = self._see_to_due(now_ms)
                self._start_all(now_ms)
                self._hand_on_all()
                await self._alarm.wait_until_wall(min(filter(None, (late_ms, again_ms)), default=None))

    def _see_to_lookups(self, now_ms: int) -> int | None:
        """What is to end, or to be handed on, waits for its secrets no more; returns when the next is too late."""
        for run, lookup in list(self._lookups.items()):
            is_killed = self._kills.of(run.run_id, run.fence) is not None
            if is_killed or now_ms > run.start_by_ms or not self._admission.starts_claimed or self._is_gone(run):
                del self._lookups[run]
                lookup.abandon()
                self._put(run)
        return min((run.start_by_ms + 1 for run in self._lookups), default=None)

    def _is_gone(self, run: Run) -> bool:
        """It has ended, or is another worker's."""
        return run.phase is not Phase.CLAIMED or self._table.get(run.run_id) is not run

    def _see_to_due(self, now_ms: int) -> int | None:
        """The next step of what is due, oldest first; returns the wall time at which to look again.

        Where one waits for slots, those behind it wait, too. But it may be for this worker alone: then they are handed
        on in their time.
        """
        waiting: list[Run] = []
        for _ in range(_STARTS_IN_A_TURN):
            if not self._ready or (self._ready[0][0] > now_ms and self._admission.starts_claimed):
                break
            run = heapq.heappop(self._ready)[2]
            if self._is_gone(run):
                continue
            if not self._dispatch(run, now_ms, behind=bool(waiting)):
                waiting.append(run)
                if self._may_hand_on(run):
                    break
        else:
            if len(waiting) < _STARTS_IN_A_TURN:
                self._alarm.ring()  # there may be more that need not wait
        next_ms = self._ready[0][0] if self._ready else None
        if not waiting:
            return next_ms
        again_ms = [next_ms] if next_ms is not None and next_ms > now_ms else []
        for run in waiting:
            self._put(run)
            again_ms.append(
                min(_hand_on_ms(run), run.start_by_ms + 1) if self._may_hand_on(run) else run.start_by_ms + 1
            )
        return min(again_ms)

    def _put(self, run: Run) -> None:
        heapq.heappush(self._ready, (run.dispatch_ms, run.turn, run))

    def _may_hand_on(self, run: Run) -> bool:
        return bool(self._members.eligible(run.job) - {self._identity.worker})

    def _dispatch(self, run: Run, now_ms: int, *, behind: bool) -> bool:
        """One claimed run's next step; False: it waits for a slot. ``behind``: one that was there before it waits."""
        kill = self._kills.of(run.run_id, run.fence)
        if kill is not None:
            self._end_unstarted(run, Verdict.KILLED, "before start", kill=kill)
        elif now_ms > run.start_by_ms and not self._admission.is_clock_off:
            self._end_unstarted(run, Verdict.MISSED, NOT_STARTED)
        elif not self._admission.starts_claimed:
            self._to_hand_on.append(run)
        elif run.lacks_secrets:  # it was to be handed on, and is not any more
            self._begin_look_up(run)
        elif self._table.stuck_runs_of(job := run.run_id.job) + self._stuck_before(job) >= MOST_STUCK_RUNS:
            self._end_unstarted(
                run, Verdict.SKIPPED, f"{MOST_STUCK_RUNS} runs of it on worker {self._identity.worker} cannot be ended"
            )
        elif behind or not (self._is_guarded() and self._table.may_start(run, beside=self._stamping)):
            if now_ms < _hand_on_ms(run) or not self._may_hand_on(run):
                return False
            self._to_hand_on.append(run)
        elif self._clock.boottime() - run.sent >= STAMP_VALID_S:
            self._stamping += run.slots
            self._spawn(self._stamp(run), "re-stamp")
        elif (why := self._forbids(run)) is not None:
            self._end_unstarted(run, Verdict.SKIPPED, f"not believed: it {why}")
        else:
            self._table.started(run)
            self._to_start.append(run)
        return True

    def _start_all(self, now_ms: int) -> None:
        """Together: one by one each would cost half as much again (see ``Execution``)."""
        runs, self._to_start = self._to_start, []
        if not runs:
            return
        for run in runs:
            run.schedule_ms = now_ms
        self._executor.start([self._launch(run) for run in runs])

    def not_started(self, run_id: RunId, _why: NotNowError) -> None:
        """Nothing of it was started, after all: what allowed it did not hold any more when it was to be.

        By the time as it is now it is stamped again, waits for its time, or is too late in every respect.
        """
        if (run := self._table.get(run_id)) is not None and run.phase is Phase.RUNNING:
            self._table.not_started(run)
            self._put_back(run)

    def _launch(self, run: Run) -> Launch:
        spec, entry, secrets = run.job.spec, run.entry, run.secrets
        return Launch(
            run_id=run.run_id, spec=spec, args=entry.args, plan_ms=entry.plan_ms, fence=run.fence,
            shell=spec.shell or self._shell, fault=run.fault,
            env={**spec.env, **(secrets.env if secrets else {}), **entry.env}, masked=secrets.values if secrets else (),
            start_until=run.sent + STAMP_VALID_S, not_before_ms=run.dispatch_ms,
        )  # fmt: skip

    def _end_unstarted(self, run: Run, status: Verdict, reason: str, *, kill: Kill | None = None) -> None:
        record = not_started_record(
            run, status=status, reason=reason, now_ms=self._clock.wall_ms(), host=self._identity.host, kill=kill
        )
        self._table.ended(run, self._clock.monotonic())
        self._settlement.settle(run, record)
        self._on_slot_free()

    # Steps that ask etcd

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        assert self._tasks is not None, "only while the dispatcher runs"
        self._tasks.create_task(work, name=name)

    def _begin_look_up(self, run: Run) -> None:
        lookup = self._lookups[run] = Lookup()
        self._spawn(self._look_up_secrets(run, lookup), "secrets")
        self._alarm.ring()  # it may be too late before that has ended

    async def _look_up_secrets(self, run: Run, lookup: Lookup) -> None:
        found, fault = None, None
        try:
            found = await self._secrets.of(run.job.spec, lookup)
        except SecretError as error:
            fault = str(error)
        if self._lookups.get(run) is lookup and not self._is_gone(run):
            del self._lookups[run]
            run.secrets, run.fault = found, fault
            self._put_back(run)
        else:
            lookup.abandon()
            self._alarm.ring()

    async def _stamp(self, run: Run) -> None:
        """Renews the claim of a run that waited, under the session that is current now."""
        try:
            session = self._settlement.session
            if session is None:
                await self._later(run)
                return
            entry, txn = restamp(self._keys, run.run_id, run.entry, mod_revision=run.mod_revision, session=session)
            sent = self._clock.boottime()
            try:
                result = await self._client.txn(txn)
            except (EtcdError, UnavailableError) as error:
                self._refusals.note(str(run.run_id), error)
                await self._later(run)
                return
            if result.succeeded:
                run.entry, run.session, run.mod_revision, run.sent = entry, session, result.revision, sent
                self._put_back(run)
            elif run.reread(result.one(0)):
                # The session has ended, and its successor re-adopts the run; or a write in doubt had been carried out.
                await self._later(run)
            elif self._table.get(run.run_id) is run:
                self._settlement.lost_to_others(run)
                self._on_slot_free()
        finally:
            self._stamping -= run.slots
            self._alarm.ring()

    async def _later(self, run: Run) -> None:
        await asyncio.sleep(_RETRY_S)
        self._put_back(run)

    def _put_back(self, run: Run) -> None:
        self._put(run)
        self._alarm.ring()

    def _hand_on_all(self) -> None:
        """Hands on what was found to wait in vain: one by itself, several together."""
        runs, self._to_hand_on = self._to_hand_on, []
        if len(runs) > 1:
            self._spawn(self._hand_on_together(runs), "hand on")
        elif runs:
            self._spawn(self._hand_on(runs[0]), "hand on")

    async def _hand_on_together(self, runs: Sequence[Run]) -> None:
        """In as few transactions as etcd's limits allow; what is not as believed is asked of by itself."""
        steps = Steps(self._client, self._refusals, self._clock)
        await steps.carry_out([self._step_to_hand_on(run) for run in runs])
        while steps.aside:
            await asyncio.sleep(AGAIN_S)
            await steps.carry_out([])

    def _step_to_hand_on(self, run: Run) -> Step:
        return Step(
            self._handing_on(run), lambda _: self._handed_on(run),
            lambda: self._spawn(self._hand_on(run), "hand on"), str(run.run_id),
        )  # fmt: skip

    async def _hand_on(self, run: Run) -> None:
        """Turns a claim of which no process was started into a request that anybody may take, however long that takes:
        once in doubt, nothing else tells whether the run may start here."""
        patience = self._refusals.patience(str(run.run_id))
        result = await answered(partial(self._client.txn, self._handing_on(run)), patience)
        if result.succeeded or not run.reread(result.one(0)):
            self._handed_on(run)
        elif run.holds_lock and not owns_lock(result.key(1), run.fence):
            # A user has deleted its lock by hand: the job is not its any more, and waiting would not bring it back.
            extra = {"action": "run.lock_gone", "run": str(run.run_id)}
            _log.warning("%s is not started: its lock is not its own any more", run.run_id, extra=extra)
            self._end_unstarted(run, Verdict.MISSED, "claimed, not started: its lock was taken from it")
        else:
            await self._later(run)  # re-adopted meanwhile

    def _handed_on(self, run: Run) -> None:
        extra = {"action": "run.handed_on", "run": str(run.run_id)}
        may_start = self._admission.starts_claimed and self._is_guarded()
        why = "no free slot" if may_start else "nothing starts here now"
        _log.info("%s is handed on: %s", run.run_id, why, extra=extra)
        self._table.forget(run)
        self._on_slot_free()

    def _handing_on(self, run: Run) -> Txn:
        now_ms = run.dispatch_ms if self._admission.is_clock_off else self._clock.wall_ms()
        return hand_on(self._keys, run, now_ms=now_ms)


def _hand_on_ms(run: Run) -> int:
    """When a run that waits for a slot is handed on. In a burst most are claimed long after their dispatch time."""
    return max(run.dispatch_ms, run.entry.claim_ms) + HAND_ON_AFTER_MS
