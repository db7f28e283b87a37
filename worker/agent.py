"""The worker as a whole: what one part tells another, and the order in which it starts and stops.

start   have a guardian, end what a former life left running, open the spool, open a session, have the clock judged,
        settle the former life's runs, read jobs, members, kills and requests; only then decide
stop    take nothing new, hand on what has not started, let the rest end (up to the grace), end what is left,
        flush the records, then drop the session
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Final

from common.clock import Clock
from common.configuration.config import WorkerConfig
from common.errors import UnavailableError
from common.etcd import EtcdClient, Session
from common.process.lifecycle import Stop
from common.protocol.drain import Drain
from common.protocol.keys import RunId
from common.protocol.kill import Kill
from common.protocol.member import Beat
from common.protocol.run import OUT_OF_TOUCH
from common.protocol.signatures import Trust
from common.runlog import RunLog
from common.verdicts import Verdict
from worker.admission import Reason
from worker.data_directory import DataDirectory
from worker.launch import Outcome, StopOrder
from worker.launcher.unstartable import NotNowError
from worker.members import LooksAfresh
from worker.parts import Parts
from worker.record.delivery import prepare_log_store
from worker.record.ending import run_named
from worker.record.records import NOT_STARTED, not_started_record, run_record
from worker.run.leftovers import end_leftovers, groups_of, look_for_leftovers
from worker.run.shortage import once_possible
from worker.runs import Phase, Run

_log = logging.getLogger(__name__)

_LEFTOVER_GRACE_S: Final = 5.0
_ASK_S: Final = 1.0
_PUBLISH_S: Final = 1.0
_FLUSH_S: Final = 10.0
_HURRIED_FLUSH_S: Final = 1.0
_LOOK_S: Final = 0.02


class Agent:
    """One worker process."""

    def __init__(
        self, config: WorkerConfig, data: DataDirectory, client: EtcdClient, runlog: RunLog, clock: Clock,
        trust: Trust | None = None,
    ) -> None:  # fmt: skip
        """In a running event loop, with the data directory locked. ``trust``: as for `Parts`."""
        self._config = config
        self._identity = data.identity
        self._spool = data.spool
        self._runlog = runlog
        self._clock = clock
        self._settled_former = False
        self._given_up: dict[RunId, Run] = {}
        self._has_to_begin = False
        """Whether broadcast jobs begin once the clock is right."""
        self._early_jumps: list[float] = []
        """Of the clock, noticed while the parts are made."""
        self._is_made = False
        self._looks_afresh = LooksAfresh(self._look_afresh, clock)
        self.parts = Parts(config, data, client, runlog, clock, events=self, trust=trust)
        self._is_made = True
        for by_s in self._early_jumps:
            self.clock_jumped(by_s)

    # Starting and stopping

    async def prepare(self) -> None:
        """Before anything is claimed: of a former life of this worker nothing runs any more that can be ended."""
        instance = self._identity.instance
        left = await once_possible(partial(look_for_leftovers, instance), what="what is left running")
        marked = {one.run_id for one in left}
        in_spool = await once_possible(partial(self._spool.find_former, marked), what="its records")
        ended = {run_id for run_id, one in in_spool.items() if one.record.status.end_is_known}
        # What those have left in the background that have ended by themselves was left on purpose. Where the log store
        # does not say, a run counts as not ended: a second one of its job may be going by now.
        asked = [run_id for text in marked.difference(ended) if (run_id := run_named(text)) is not None]
        try:
            found = await self._runlog.find(asked, deadline_seconds=_ASK_S) if asked else {}
        except UnavailableError:
            found = {}
        spared = ended.union(name for name, record in found.items() if record.status.end_is_known)
        survivors = await end_leftovers(instance, _LEFTOVER_GRACE_S, self._clock, spared=spared)
        groups = groups_of(survivors, self._clock.wall_ms())
        await self._spool.disk.call(self.parts.secrets.clear)  # whose thread is there, also where no other can be
        await once_possible(partial(self.parts.ending.recall, groups), what="what could not be ended")

    def loops(self) -> Mapping[str, Callable[[], Coroutine[object, object, None]]]:
        """Every loop of the process, by name."""
        return {**self.parts.loops(), "log store": partial(prepare_log_store, self._runlog)}

    async def shut_down(self, stop: Stop) -> None:
        """In order: intake, what has not started, what runs, records, session."""
        parts = self.parts
        parts.admission.set(Reason.STOP, "stopping")
        parts.dispatcher.wake()
        try:
            async with asyncio.timeout(_PUBLISH_S):  # others find out anyway
                await parts.registry.announce()
        except TimeoutError:
            pass
        await self._drained(stop)
        await parts.executor.close()
        await self._all_settled(_HURRIED_FLUSH_S if stop.hurry.is_set() else _FLUSH_S)
        await parts.registry.close()
        await self._spool.close()

    async def _drained(self, stop: Stop) -> None:
        """Until nothing runs, the grace is over, or a second signal hurries."""
        async with asyncio.TaskGroup() as tasks:
            # Nothing runs, and no claim is on its way that would have to be handed on.
            nothing_goes_on = _until(lambda: not self.parts.table.running and not self._claims)
            drained = tasks.create_task(nothing_goes_on, name="drained")
            hurry = tasks.create_task(stop.hurry.wait(), name="hurry")
            grace_s = self._config.shutdown_grace_s
            await asyncio.wait({drained, hurry}, timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
            drained.cancel()
            hurry.cancel()

    @property
    def _claims(self) -> int:
        parts = self.parts
        return parts.table.claimed + parts.scheduler.claims_in_flight + parts.requests.claims_in_flight

    async def _all_settled(self, within_s: float) -> None:
        settlement = self.parts.settlement
        try:
            async with asyncio.timeout(within_s):
                await _until(lambda: not settlement.unsettled and not self._claims)
                if await self.parts.delivery.flush(within_s):
                    await _until(lambda: not settlement.unsettled)
        except TimeoutError:
            pass
        if len(self.parts.table):
            extra = {"action": "stop.unsettled", "runs": len(self.parts.table)}
            _log.warning("%d runs are not settled yet: the next start goes on", len(self.parts.table), extra=extra)

    # The session

    async def session_opened(self, session: Session) -> None:
        """A session is live: settle or take over, know the world, then decide."""
        parts, since_s = self.parts, self._clock.boottime()
        parts.settlement.session = session
        if self._settled_former:
            await parts.adoption.readopt(session)
        else:
            await parts.clock_check.first()  # what is lost is dated, and so is what follows it
            settled = await parts.adoption.settle_former(
                session, self._spool.find_former, written=lambda: parts.delivery.written
            )
            self._settled_former = True  # once in the life of the process
            await self._spool.release_former()
            extra = {"action": "former.settled", "runs": settled, "waiting": self._spool.pending}
            _log.info("settled %d runs of a former life", settled, extra=extra)
        for mirror in (*parts.mirrors.values(), parts.members_mirror, parts.drain_watch.mirror):
            await mirror.synced.wait()
        await parts.clock_check.first()
        parts.admission.set(Reason.CLOCK, parts.clock_check.fault)
        await self._apply_drain(parts.drain_watch.drain)
        # By the clock as it is now: it may have been set meanwhile.
        self._begin_broadcast(session, self._clock.wall_ms() - round((self._clock.boottime() - since_s) * 1000))
        parts.scheduler.session = parts.requests.session = session
        self._wake_all()
        parts.scheduler.look_afresh("a session was opened")
        parts.requests.replan()
        parts.steward.stand_under(session)

    def session_ended(self) -> None:
        """Nothing is decided until there is another."""
        parts = self.parts
        parts.scheduler.session = parts.requests.session = parts.settlement.session = None
        parts.broadcast.end()
        self._has_to_begin = False
        parts.steward.stand_under(None)

    def _begin_broadcast(self, session: Session, since_ms: int) -> None:
        """What is owed counts from there; while the clock is off it is not known since when, so it begins later."""
        self._has_to_begin = self.parts.clock_check.fault is not None
        if self.parts.drain_watch.drain is None and not self._has_to_begin:
            self.parts.broadcast.begin(session, since_ms)

    async def _admit(self, reason: Reason, why: str | None) -> None:
        """A reason holds at once, and has claimed runs handed on; one that goes, when it is written in etcd."""
        self.parts.admission.set(reason, why)
        self._wake_all()
        await self.parts.registry.announce()
        self._wake_all()

    def _wake_all(self) -> None:
        self.parts.scheduler.wake()
        self.parts.requests.wake()
        self.parts.dispatcher.wake()

    # What one part tells the others

    def job_changed(self, name: str) -> None:
        """There is another revision of the job, or none."""
        self.parts.scheduler.job_changed(name)
        self.parts.broadcast.job_changed(name)
        self.parts.stuck_fires.job_changed(name)
        self.parts.chains.job_changed(name)
        self.parts.requests.job_changed(name)
        self.parts.kills.job_changed(name)

    def sequence_changed(self, name: str) -> None:
        """This worker's own sequence of a broadcast job has been opened, or closed."""
        self.parts.scheduler.job_changed(name)

    def membership_changed(self) -> None:
        """Others may be ranked than before; and each has another share of what may wait in etcd."""
        self.parts.settlement.keep_to_share()
        self._looks_afresh.changed(self.parts.members.accepting())

    def _look_afresh(self) -> None:
        self.parts.scheduler.look_afresh("the membership changed")
        self.parts.requests.replan()

    def slot_free(self) -> None:
        """A slot came free."""
        self._wake_all()

    def lock_freed(self, job: str) -> None:
        """This worker has freed the job's lock."""
        self.parts.requests.lock_freed(job)
        self.parts.scheduler.lock_freed(job)

    def clock_jumped(self, by_s: float) -> None:
        """A part that is reading the clock decides nothing by it; then, what was planned by it is planned again."""
        if not self._is_made:
            self._early_jumps.append(by_s)
            return
        parts = self.parts
        parts.clock_check.jumped(by_s)
        if parts.settlement.session is not None:
            parts.settlement.session.confirm_soon()  # the machine may have stood still, and its boot clock with it
        parts.admission.set(Reason.CLOCK, parts.clock_check.fault)
        parts.admission.is_planning_anew = True
        asyncio.get_running_loop().call_soon(self._plan_anew)

    def guardian_saw_leap(self) -> None:
        """The guardian noticed that the wall clock leapt ahead: what was sent before that does not count there."""
        if (session := self.parts.settlement.session) is not None:
            session.confirm_soon()

    def _plan_anew(self) -> None:
        self.parts.admission.is_planning_anew = False
        self.parts.scheduler.clock_jumped()
        self.parts.broadcast.clock_jumped()
        self.parts.requests.replan()
        self._wake_all()

    async def clock_judged(self, fault: str | None) -> None:
        """The clock is off, or (None) may be trusted again."""
        session = self.parts.scheduler.session
        if fault is None and self._has_to_begin and session is not None:
            self._begin_broadcast(session, self._clock.wall_ms())
        await self._admit(Reason.CLOCK, fault)

    def kill_wished(self, kill: Kill) -> None:
        """A user wants a run ended: also one that was given up as lost, and goes on."""
        run = self.parts.table.get(kill.run_id) or self._given_up.get(kill.run_id)
        if run is None or not kill.reaches(run.fence):
            return
        if run.phase is Phase.RUNNING:
            self.parts.executor.end(run.run_id, StopOrder(reason=kill.reason, by=kill.by))
        self.parts.dispatcher.wake()

    def run_ended(self, outcome: Outcome) -> None:
        """The processes of a run are gone."""
        settlement = self.parts.settlement
        self.parts.tails.ended(outcome.run_id)
        run, left = self.parts.table.get(outcome.run_id), outcome.left
        late = None if run is not None else self._given_up.pop(outcome.run_id, None)
        if left is not None and run is not None:
            self.parts.ending.add(run.run_id, left)
        elif left is not None:
            left.close()  # its lock has passed on already
            self.parts.guardian.over(outcome.run_id)
        ended = run or late
        if ended is None:
            return
        record = run_record(ended, outcome, host=self._identity.host)
        self.parts.table.ended(ended, self._clock.monotonic(), is_ending=run is not None and left is not None)
        if run is not None:
            settlement.settle(run, record)
        else:
            settlement.deliver_late(record)
        self.slot_free()

    def run_not_started(self, run_id: RunId, why: NotNowError) -> None:
        """Nothing of it was started, after all; and nothing will be of one that was given up meanwhile."""
        if (run := self._given_up.pop(run_id, None)) is None:
            self.parts.dispatcher.not_started(run_id, why)
            return
        now_ms, host = self._clock.wall_ms(), self._identity.host
        record = not_started_record(run, status=Verdict.MISSED, reason=NOT_STARTED, now_ms=now_ms, host=host)
        self.parts.table.ended(run, self._clock.monotonic())
        self.parts.settlement.deliver_late(record)
        self.slot_free()

    def run_over(self, run_id: RunId, given_up: str | None) -> None:
        """Nothing is left of a run that was ending, or it was given up, in these words: its lock may pass on."""
        if (run := self.parts.table.get(run_id)) is not None:
            self.parts.settlement.over(run)
        else:
            self.parts.adoption.over(run_id, given_up)
        self.slot_free()

    def run_stuck(self, run_id: RunId) -> None:
        """Its process cannot be ended: it waits in the kernel, for a mount or a device that does not answer."""
        if (run := self.parts.table.get(run_id) or self._given_up.get(run_id)) is not None:
            self.parts.table.stuck(run)
            self.slot_free()

    def run_given_up(self, run: Run) -> None:
        """Given up by the steward while out of touch: what held a lock is ended; what did not goes on, and comes late.

        The record of one that has ended is given to the spool already, and replaces `lost`.
        """
        self.parts.ending.forget(run.run_id)
        if run.phase is Phase.RUNNING:
            self._given_up[run.run_id] = run
            if run.entry.locked:
                self.parts.executor.end(run.run_id, StopOrder(reason="given up as lost while out of touch with etcd"))
        self.slot_free()

    def run_past_deadline(self, run_id: RunId, by_guardian: bool) -> bool:
        """It may soon be given up as lost, and is ended before that, or was (``by_guardian``); whether it is now."""
        process = self.parts.executor.running.get(run_id)
        already = process is not None and process.stop_order is not None
        ended = self.parts.executor.end(run_id, StopOrder(reason=OUT_OF_TOUCH), exited_too=by_guardian)
        if ended and not already:
            extra = {"action": "run.deadline", "run": str(run_id)}
            _log.warning("%s is ended: %s", run_id, OUT_OF_TOUCH, extra=extra)
        return ended

    def delivered(self, run_ids: list[RunId]) -> None:
        """The log store has these records."""
        self.parts.settlement.delivered(run_ids)

    async def drained(self, drain: Drain | None) -> None:
        """This worker is to take nothing new, and (None) may again."""
        parts = self.parts
        if drain is not None:
            parts.broadcast.end()
        elif (session := parts.scheduler.session) is not None:
            # Before anything else may be decided: what is open is as it was before the drain.
            self._begin_broadcast(session, self._clock.wall_ms())
        await self._apply_drain(drain)

    async def _apply_drain(self, drain: Drain | None) -> None:
        await self._admit(Reason.DRAIN, None if drain is None else str(drain))

    async def spool_refuses(self, fault: str | None) -> None:
        """The spool takes no records, or (None) takes them again."""
        if fault is None:
            self.parts.settlement.spool_takes()
        await self._admit(Reason.SPOOL, fault)

    async def guardian_away(self, fault: str | None) -> None:
        """Nothing can be started, for there is no guardian; or (None) there is one again."""
        await self._admit(Reason.GUARDIAN, fault)

    def describe(self) -> Beat:
        """What the beat says of this worker."""
        parts = self.parts
        parts.clock_watch.look()
        delivery = parts.delivery.state
        store = None if delivery.healthy else f"log store: {delivery.last_error}"
        scarce = "the spool is over half of spoolLimitBytes: outputs are cut" if self._spool.is_scarce else None
        refused = parts.refusals.problem
        return Beat(
            kind="worker", wall_ms=self._clock.wall_ms(), free_slots=parts.table.free_slots,
            running=parts.table.running, waiting=parts.scheduler.waiting, unsent_records=delivery.waiting,
            problem=parts.admission.why_not
            or "; ".join(filter(None, (parts.clock_check.awaited, parts.verifier.problem, refused, store, scarce,
                                       parts.outbox_writer.problem)))
            or None,
            not_permitted=parts.steward.not_permitted, clock=parts.clock_watch.name,
            ending_count=len(parts.ending), ending=parts.ending.listed,
        )  # fmt: skip


async def _until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - only while stopping, and of several parts at once
        await asyncio.sleep(_LOOK_S)
