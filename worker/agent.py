"""The worker as a whole: its parts, what one tells the other, and the order in which it starts and stops.

    start   end what a former life left running, open the spool, open a session, settle the former life's runs,
            read jobs, members, kills and requests; only then decide
    stop    take nothing new, hand on what has not started, let the rest end (up to the grace), end what is left,
            flush the records, then drop the session
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Final

from common.clock import Clock
from common.config import WorkerConfig
from common.errors import EtcdError, UnavailableError
from common.etcd import Change, EtcdClient, Mirror, Session
from common.keys import Keys, RunId, Watched
from common.kill import Kill
from common.lifecycle import Stop
from common.member import Beat
from common.runlog import RunLog
from worker.adoption import Adoption
from worker.catalog import Catalog
from worker.claims import Claims
from worker.deadlines import Deadlines
from worker.delivery import Delivery
from worker.dispatcher import Dispatcher
from worker.doubts import Doubts
from worker.executor import Executor
from worker.identity import Identity
from worker.kills import Kills
from worker.launch import Ending, Outcome
from worker.leftovers import end_leftovers
from worker.lost_runs import LostRuns
from worker.members import Members
from worker.records import run_record
from worker.registry import Registry
from worker.request_queue import RequestQueue
from worker.runs import Phase, Run, RunTable
from worker.scheduler import Scheduler
from worker.settlement import Settlement
from worker.spool import Spool
from worker.steward import Steward
from worker.stuck_fires import StuckFires
from worker.stuck_requests import StuckRequests
from worker.sweeping import Sweeping

_log = logging.getLogger(__name__)

_LEFTOVER_GRACE_S: Final = 5.0
_FLUSH_S: Final = 10.0
_SENTINELS_S: Final = 30.0
_CLOCK_S: Final = 1.0
_RETRY_S: Final = 5.0


class Agent:
    """One worker process."""

    def __init__(
        self, config: WorkerConfig, identity: Identity, spool: Spool, client: EtcdClient, runlog: RunLog, clock: Clock
    ) -> None:
        """In a running event loop, with the data directory locked."""
        self._config = config
        self._identity = identity
        self._spool = spool
        self._client = client
        self._runlog = runlog
        self._clock = clock
        self._settled_former = False
        self._given_up: dict[RunId, Run] = {}
        self._beats: dict[str, Beat] = {}
        self._keys = keys = Keys(config.key_prefix)
        timings = config.timings
        self._table = RunTable(config.slots)
        self._catalog = Catalog(keys, on_changed=self._job_changed)
        self._members = Members(keys, on_changed=self._membership_changed)
        self._kills = Kills(keys, on_kill=self._on_kill)
        self._executor = Executor(
            worker=identity.worker, instance=identity.instance, path=config.path, clock=clock, on_end=self._on_end
        )
        claims = Claims(keys, identity, lost_after_ms=config.lost_after_s * 1000)
        self._delivery = Delivery(
            spool, runlog, batch_size=config.job_log_batch_size, commit_timeout_ms=config.job_log_commit_timeout_ms,
            clock=clock, on_delivered=lambda run_ids: self._settlement.delivered(run_ids),
        )  # fmt: skip
        self._settlement = Settlement(
            client=client, keys=keys, table=self._table, kills=self._kills, spool=spool, clock=clock,
            worker=identity.worker, instance=identity.instance, live_workers=lambda: len(self._members.accepting()),
            on_unlocked=lambda job: self._requests.lock_freed(job), on_spool=self._on_spool,
        )  # fmt: skip
        self._dispatcher = Dispatcher(
            client=client, keys=keys, identity=identity, table=self._table, claims=claims, members=self._members,
            kills=self._kills, executor=self._executor, settlement=self._settlement, shell=config.bash_path,
            on_slot_free=self._slot_free, clock=clock,
        )  # fmt: skip
        doubts = Doubts(client, claims, keys, identity, clock)
        self._scheduler = Scheduler(
            client=client, keys=keys, worker=identity.worker, catalog=self._catalog, members=self._members,
            table=self._table, claims=claims, doubts=doubts, claimant=self._dispatcher, timings=timings, clock=clock,
        )  # fmt: skip
        self._requests = RequestQueue(
            client=client, keys=keys, identity=identity, catalog=self._catalog, members=self._members,
            kills=self._kills, table=self._table, claims=claims, timings=timings, on_won=self._dispatcher.add,
            clock=clock,
        )  # fmt: skip
        self._adoption = Adoption(
            client=client, keys=keys, identity=identity, table=self._table, kills=self._kills,
            settlement=self._settlement, on_lost=self._on_lost, clock=clock,
        )  # fmt: skip
        self._deadlines = Deadlines(table=self._table, executor=self._executor, timings=timings, clock=clock)
        self._mirrors = {
            Watched.JOBS: Mirror(client, keys.jobs, self._catalog.on_changes, clock=clock),
            Watched.KILLS: Mirror(client, keys.kills, self._kills.on_changes, clock=clock),
            Watched.REQUESTS: Mirror(client, keys.requests, self._requests.on_changes, clock=clock),
        }
        self._members_mirror = Mirror(client, keys.workers, self._members.on_changes, clock=clock)
        self._stuck_fires = StuckFires(
            client=client, keys=keys, worker=identity.worker, catalog=self._catalog, members=self._members,
            beats=self._beats, settlement=self._settlement, timings=timings, clock=clock,
        )  # fmt: skip
        self._steward = Steward(
            client=client, keys=keys, worker=identity.worker, clock=clock, companion=self._watch_beats,
            duties=[
                LostRuns(
                    client=client, keys=keys, worker=identity.worker, members=self._members,
                    settlement=self._settlement, store=runlog, clock=clock,
                ),
                self._stuck_fires,
                StuckRequests(
                    client=client, keys=keys, worker=identity.worker, catalog=self._catalog, members=self._members,
                    kills=self._kills, queue=self._requests, settlement=self._settlement, clock=clock,
                ),
                Sweeping(
                    client=client, keys=keys, kills=self._kills, members=self._members, mirrors=self._mirrors,
                    ttl_s=config.lease_ttl_s, compaction_minutes=config.compaction_minutes, clock=clock,
                ),
            ],
        )  # fmt: skip
        self._registry = Registry(
            client=client, keys=keys, identity=identity, slots=config.slots, labels=config.labels,
            ttl_s=config.lease_ttl_s, on_opened=self._on_opened, on_ended=self._on_session_ended,
            describe=self._describe, clock=clock,
        )  # fmt: skip
        self._wishes: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()

    # Starting and stopping

    async def prepare(self) -> None:
        """Before anything is claimed: nothing of a former life of this worker runs any more."""
        ended = await end_leftovers(self._identity.instance, _LEFTOVER_GRACE_S, self._clock)
        if ended:
            runs = sorted({str(one.run_id) for one in ended})
            extra = {"action": "leftovers.ended", "runs": len(runs)}
            _log.warning("ended what a former life of this worker had left running: %s", ", ".join(runs), extra=extra)

    def loops(self) -> Mapping[str, Callable[[], Coroutine[object, object, None]]]:
        """Every loop of the process, by name."""
        return {
            "registry": self._registry.run,
            "jobs": self._mirrors[Watched.JOBS].run,
            "kills": self._mirrors[Watched.KILLS].run,
            "requests": self._mirrors[Watched.REQUESTS].run,
            "members": self._members_mirror.run,
            "scheduler": self._scheduler.run,
            "dispatcher": self._dispatcher.run,
            "settlement": self._settlement.run,
            "delivery": self._delivery.run,
            "request queue": self._requests.run,
            "deadlines": self._deadlines.run,
            "steward": self._steward.run,
            "sentinels": self._watch_sentinels,
            "clock": self._watch_clock,
            "log store": self._prepare_log_store,
            "wishes": self._fulfil,
        }

    async def shut_down(self, stop: Stop) -> None:
        """In order: intake, what has not started, what runs, records, session."""
        self._scheduler.accepting = self._requests.accepting = False
        await self._registry.set_fault("stop", "stopping")
        self._dispatcher.stopping = True
        self._dispatcher.wake()
        await self._drained(stop)
        await self._executor.close()
        await self._all_settled()
        session = self._registry.session
        if session is not None:
            await session.close()
        await self._spool.close()

    async def _drained(self, stop: Stop) -> None:
        """Until nothing runs, the grace is over, or somebody hurries."""
        drained = asyncio.ensure_future(self._executor.drained())
        hurry = asyncio.ensure_future(stop.hurry.wait())
        await asyncio.wait(
            {drained, hurry}, timeout=self._config.shutdown_grace_s, return_when=asyncio.FIRST_COMPLETED
        )
        for task in (drained, hurry):
            task.cancel()

    async def _all_settled(self) -> None:
        try:
            async with asyncio.timeout(_FLUSH_S):
                while self._settlement.unsettled or self._table.claimed:
                    await asyncio.sleep(0.02)
                if await self._delivery.flush(_FLUSH_S):
                    while self._settlement.unsettled:
                        await asyncio.sleep(0.02)
        except TimeoutError:
            extra = {"action": "stop.unsettled", "runs": len(self._table)}
            _log.warning("%d runs are not settled yet: the next start goes on", len(self._table), extra=extra)

    # The session

    async def _on_opened(self, session: Session) -> None:
        """A session is live: settle or take over, know the world, then decide."""
        self._settlement.session = session
        if self._settled_former:
            await self._adoption.readopt(session)
        else:
            in_spool = [record.run_id async for record in self._spool.unacknowledged()]
            settled = await self._adoption.settle_former(in_spool)
            self._settled_former = True
            extra = {"action": "former.settled", "runs": settled, "spooled": len(in_spool)}
            _log.info("settled %d runs of a former life", settled, extra=extra)
        for mirror in (*self._mirrors.values(), self._members_mirror):
            await mirror.synced.wait()
        self._scheduler.session = self._requests.session = session
        self._scheduler.accepting = self._requests.accepting = self._registry.not_accepting is None
        self._scheduler.look_afresh("a session was opened")
        self._requests.replan()
        self._steward.stand_under(session)
        self._dispatcher.wake()

    def _on_session_ended(self) -> None:
        self._scheduler.session = self._requests.session = self._settlement.session = None
        self._steward.stand_under(None)

    # What one part tells the others

    def _job_changed(self, name: str) -> None:
        self._scheduler.job_changed(name)
        self._stuck_fires.job_changed(name)
        self._requests.wake()

    def _membership_changed(self) -> None:
        self._scheduler.look_afresh("the membership changed")
        self._requests.replan()

    def _slot_free(self) -> None:
        self._dispatcher.wake()
        self._scheduler.wake()
        self._requests.wake()

    def _on_kill(self, kill: Kill) -> None:
        run = self._table.get(kill.run_id)
        if run is None or run.fence >= kill.revision:
            return
        if run.phase is Phase.RUNNING:
            self._executor.end(run.run_id, Ending(reason=kill.reason, by=kill.by))
        self._dispatcher.wake()

    def _on_end(self, outcome: Outcome) -> None:
        run = self._table.get(outcome.run_id)
        late = None if run is not None else self._given_up.pop(outcome.run_id, None)
        ended = run or late
        if ended is None:
            return
        record = run_record(ended, outcome, host=self._identity.host)
        self._table.ended(ended, self._clock.monotonic())
        if run is not None:
            self._settlement.settle(run, record)
        else:
            self._settlement.deliver_late(record)
        self._slot_free()

    def _on_lost(self, run: Run) -> None:
        """Given up by the steward while out of touch: what held a lock is ended; what did not goes on, and comes late."""
        if run.phase is Phase.RUNNING:
            self._given_up[run.run_id] = run
            if run.entry.locked:
                self._executor.end(run.run_id, Ending(reason="given up as lost while out of touch with etcd"))
        elif run.phase is Phase.ENDED and run.record is not None and not run.delivered:
            self._settlement.deliver_late(run.record)

    def _on_spool(self, fault: str | None) -> None:
        accepting = fault is None and self._registry.session is not None
        if accepting and self._registry.not_accepting is None:
            return
        self._wishes.put_nowait(lambda: self._set_spool_fault(fault))

    async def _set_spool_fault(self, fault: str | None) -> None:
        await self._registry.set_fault("spool", fault)
        accepting = self._registry.not_accepting is None and self._registry.session is not None
        self._scheduler.accepting = self._requests.accepting = accepting
        self._scheduler.wake()

    def _describe(self) -> Beat:
        delivery = self._delivery.state
        store = None if delivery.healthy else f"log store: {delivery.last_error}"
        return Beat(
            kind="worker", wall_ms=self._clock.wall_ms(), free_slots=self._table.free_slots,
            running=self._table.running, waiting=self._scheduler.waiting, unsent_records=delivery.waiting,
            problem=self._registry.not_accepting or store,
        )  # fmt: skip

    # Small loops

    async def _fulfil(self) -> None:
        """What callbacks want done that has to be awaited, one after the other."""
        while True:
            wish = await self._wishes.get()
            await wish()

    async def _watch_beats(self) -> None:
        """The beats of all processes, for as long as this worker is steward."""
        self._beats.clear()
        await Mirror(self._client, self._keys.beats, self._beats_changed, clock=self._clock).run()

    def _beats_changed(self, changes: Sequence[Change]) -> None:
        for change in changes:
            name = change.key.removeprefix(self._keys.beats)
            self._beats.pop(name, None)
            if change.new is not None:
                self._beats[name] = Beat.from_json(change.new.value)

    async def _watch_sentinels(self) -> None:
        """A watch that died silently is found out by what it should have told."""
        while True:
            await asyncio.sleep(_SENTINELS_S)
            try:
                found = await self._client.get_many([self._keys.seen(watched) for watched in self._mirrors])
            except (EtcdError, UnavailableError):
                continue
            for watched, mirror in self._mirrors.items():
                kv = found.get(self._keys.seen(watched))
                if kv is not None and mirror.missed(kv.mod_revision):
                    mirror.resync("a sentinel was missed")

    async def _watch_clock(self) -> None:
        """A wall clock that leaves the boot clock has jumped: all plans are made anew."""
        offset_s = self._clock.wall_ms() / 1000 - self._clock.boottime()
        while True:
            await asyncio.sleep(_CLOCK_S)
            now_s = self._clock.wall_ms() / 1000 - self._clock.boottime()
            if abs(now_s - offset_s) * 1000 > self._config.max_clock_skew_ms:
                extra = {"action": "clock.jumped", "by_s": round(now_s - offset_s, 3)}
                _log.warning("the clock jumped by %.3f s", now_s - offset_s, extra=extra)
                offset_s = now_s
                self._scheduler.clock_jumped()
                self._dispatcher.wake()

    async def _prepare_log_store(self) -> None:
        """The log store's indexes, as soon as it is there."""
        while True:
            try:
                await self._runlog.prepare()
                break
            except UnavailableError as error:
                extra = {"action": "log_store.away"}
                _log.warning("the log store is away: %s", error, extra=extra)
                await asyncio.sleep(_RETRY_S)
        await asyncio.Event().wait()
