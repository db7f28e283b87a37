"""A dispatcher and a settlement on a real etcd, with a fake executor and a fake spool; time moves only when told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from common.clock import SystemClock
from common.errors import EtcdInDoubtError, EtcronError
from common.etcd import Change, EtcdClient, Session
from common.jobs.reader import parse_job
from common.process.disk import Disk
from common.protocol.fire_claims import Batch, Claims
from common.protocol.keys import Keys, RunId, encode_mark
from common.protocol.kill import Kill
from common.protocol.member import Member, WorkerIdentity
from common.protocol.planned_job import read_job
from common.protocol.planner import Decision
from common.protocol.request import Request
from common.protocol.run import RunEntry, RunRecord
from common.protocol.saved_job import SavedJob
from common.protocol.txn import KeyValue, Put, Txn, TxnResult
from common.verdicts import Verdict
from tests.support.fake_clock import FakeClock
from tests.support.waiting import wait_until
from worker.admission import Admission
from worker.catalog import Catalog
from worker.dispatcher import Dispatcher
from worker.kills import Kills
from worker.launch import Launch, Outcome
from worker.launcher.unstartable import NotNowError, TooEarlyError, TooLateError
from worker.members import Members
from worker.record.ending import EndingRuns
from worker.record.follow_up_reader import FollowUpReader
from worker.record.records import run_record
from worker.record.settlement import Settlement
from worker.refusals import Refusals
from worker.run.executor import Executor
from worker.runs import Run, RunTable
from worker.secrets import Secrets

SECOND = 1000
NOON = 1_790_000_040_000
ME = WorkerIdentity(worker="w1", instance="mine", host="h1")


class FakeExecutor:
    """Takes what is to be started, as long as that is allowed; nothing runs."""

    def __init__(self, clock: FakeClock) -> None:
        self.launches: list[Launch] = []
        self.asked = 0
        """Times that it was to start one."""
        self.stopped_for_ms = 0
        """On the way to the next start; so is what follows."""
        self.set_back_by_ms = 0
        self.on_not_now: Callable[[RunId, NotNowError], None]
        self._clock = clock

    def start(self, launches: Sequence[Launch]) -> None:
        for launch in launches:
            if (not_now := self._start(launch)) is not None:
                asyncio.get_running_loop().call_soon(self.on_not_now, launch.run_id, not_now)

    def _start(self, launch: Launch) -> NotNowError | None:
        self.asked += 1
        self._clock.advance(self.stopped_for_ms)
        if self.set_back_by_ms:
            self._clock.set_wall(self._clock.wall_ms() - self.set_back_by_ms)
        self.stopped_for_ms = self.set_back_by_ms = 0
        if launch.start_until is not None and self._clock.boottime() >= launch.start_until:
            return TooLateError()
        if launch.not_before_ms is not None and self._clock.wall_ms() < launch.not_before_ms:
            return TooEarlyError()
        self.launches.append(launch)
        return None

    @property
    def started(self) -> list[str]:
        return [str(launch.run_id) for launch in self.launches]


class FakeSpool:
    """Keeps records; refuses them, or takes its time, when told to."""

    def __init__(self) -> None:
        self.records: list[RunRecord] = []
        self.fault: str | None = None
        self.open = asyncio.Event()
        self.open.set()
        self._tasks: set[asyncio.Future[int | EtcronError]] = set()

    def accept(
        self, record: RunRecord, told: Callable[[int | EtcronError], None], is_needed: Callable[[], bool] = bool
    ) -> None:
        self._tasks.add(task := asyncio.ensure_future(self._append(record)))
        task.add_done_callback(lambda done: None if done.cancelled() else told(done.result()))

    async def _append(self, record: RunRecord) -> int | EtcronError:
        await self.open.wait()
        if self.fault is not None:
            return EtcronError(self.fault)
        self.records.append(record)
        return len(self.records)


class Losing(EtcdClient):
    """Loses the answers to writes under ``runs/`` while told to; they are carried out first, or not."""

    losing = 0
    carry_out = True
    writes = 0

    async def txn(self, transaction: Txn) -> TxnResult:
        writes = any(operation.writes for operation in transaction.then)
        self.writes += writes
        if self.losing and writes:
            self.losing -= 1
            if self.carry_out:
                await super().txn(transaction)
            raise EtcdInDoubtError("a lost answer")
        return await super().txn(transaction)


class Workshop:
    """One worker from the claim to the deletion of the run key."""

    def __init__(self, client: Losing, prefix: str, session: Session, slots: int) -> None:
        self.client = client
        self.keys = keys = Keys(prefix)
        self.clock = FakeClock(NOON)
        self.session = session
        self.table = RunTable(slots)
        self.kills = Kills(keys, on_kill=lambda kill: None)
        self.members = Members(keys, "w1", on_changed=lambda: None)
        self.catalog = Catalog(keys, on_changed=lambda name: None)
        self.claims = Claims(keys, ME, lost_after_ms=300_000)
        self.executor = FakeExecutor(self.clock)
        self.spool = FakeSpool()
        self.unlocked: list[str] = []
        self.faults: list[str] = []
        self.live_workers = 1
        self.guarded = True
        self.refusals = Refusals(self.clock)
        self.settlement = Settlement(
            client=client, keys=keys, table=self.table, kills=self.kills,
            follow_ups=FollowUpReader(client, keys, self.catalog), refusals=self.refusals, spool=self.spool,
            clock=self.clock,
            worker=ME.worker, instance=ME.instance, live_workers=lambda: self.live_workers,
            on_unlocked=self.unlocked.append, on_refused=self.faults.append,
        )  # fmt: skip
        self.ending = EndingRuns(
            client=client, keys=keys, directory=Path("/nowhere"), disk=Disk(), clock=self.clock,
            on_written=lambda _: None, on_over=lambda _, __: None,
        )  # fmt: skip
        self.settlement.session = session
        self.admission = Admission()
        self.dispatcher = Dispatcher(
            client=client, keys=keys, identity=ME, table=self.table, members=self.members,
            kills=self.kills, executor=cast(Executor, self.executor), settlement=self.settlement,
            refusals=self.refusals, shell="/bin/sh", on_slot_free=lambda: self.dispatcher.wake(),
            stuck_before=lambda _: 0, is_guarded=lambda: self.guarded, admission=self.admission, clock=self.clock,
            secrets=Secrets(None, runtime=Path("/nowhere"), default_user=None),
        )  # fmt: skip
        self.executor.on_not_now = self.dispatcher.not_started

    async def claim(self, name: str = "job", plan_ms: int = NOON, *, grace_s: int = 60, **fields: Any) -> Run:
        """A fire of a job of its own, claimed in etcd and given to the dispatcher."""
        trigger = {} if "after" in fields else {"cronExpr": "* * * * * * *"}
        spec = parse_job({"name": name, "command": f"run {name}"} | trigger | fields)
        value = SavedJob(spec=spec, anchor_ms=plan_ms - SECOND).to_json()
        mark = Put(self.keys.mark(name), encode_mark(plan_ms - SECOND))
        await self.client.txn(Txn([], [Put(self.keys.job(name), value), mark]))
        kv = await self.client.get(self.keys.job(name))
        assert kv is not None
        self.catalog.on_changes([Change(key=kv.key, old_mod=None, new=kv)])
        decision = Decision(from_ms=plan_ms - SECOND, to_ms=plan_ms, claim_ms=plan_ms)
        now_ms, sent = self.clock.wall_ms(), self.clock.boottime()
        proposal = self.claims.propose(
            read_job(name, kv), decision, session=self.session, now_ms=now_ms, start_by_ms=plan_ms + grace_s * SECOND
        )
        batch = Batch(session=self.session, proposals=[proposal])
        [result], _ = self.claims.read(batch, await self.client.txn(self.claims.transaction(batch)), sent=sent)
        self.dispatcher.won(result, self.session)
        run = self.table.get(RunId.planned(name, plan_ms))
        assert run is not None
        return run

    def passes(self, ms: int) -> None:
        self.clock.advance(ms)
        self.dispatcher.wake()

    def others(self, *names: str) -> None:
        """These workers are there, too."""
        changes: list[Change] = []
        for lease, name in enumerate(("w1", *names), 1):
            member = Member(worker=name, session=f"{lease:x}", instance=name, host="h", address="a", slots=1)
            kv = KeyValue(
                key=self.keys.worker(name, member.session), value=member.to_json(), create_revision=1, mod_revision=1,
                version=1, lease=lease,
            )  # fmt: skip
            changes.append(Change(key=kv.key, old_mod=None, new=kv))
        self.members.on_changes(changes)
        self.dispatcher.wake()

    def kill(self, run: Run, *, revision: int = 1 << 40) -> None:
        document = Kill(run_id=run.run_id, by="ops", reason="enough", at_ms=NOON, revision=revision)
        self.kills.by_run[run.run_id] = document
        self.dispatcher.wake()

    def end(self, run: Run, **fields: Any) -> RunRecord:
        """The run's processes have ended."""
        values: dict[str, Any] = {"verdict": Verdict.SUCCESS, "end_ms": self.clock.wall_ms()}
        outcome = Outcome(run_id=run.run_id, **(values | fields))
        record = run_record(run, outcome, host="h1")
        self.table.ended(run, self.clock.monotonic())
        self.settlement.settle(run, record)
        self.dispatcher.wake()
        return record

    async def started(self, *runs: Run) -> None:
        wanted = {str(run.run_id) for run in runs}
        await wait_until(lambda: wanted <= set(self.executor.started), description=f"{wanted} started")

    async def settled(self) -> None:
        await wait_until(lambda: self.settlement.unsettled == 0, description="all is settled")

    async def entry(self, run: Run) -> RunEntry | None:
        kv = await self.client.get(self.keys.run(run.run_id))
        return None if kv is None else RunEntry.from_json(kv.value)

    async def edit(self, name: str = "job", *, tell: bool = False, **fields: Any) -> None:
        """Save the job anew, as a manager does; its worker hears of it later, or now."""
        spec = parse_job({"name": name, "command": "edited"} | fields)
        await self.client.put(self.keys.job(name), SavedJob(spec=spec, anchor_ms=self.clock.wall_ms()).to_json())
        if tell:
            kv = await self.client.get(self.keys.job(name))
            self.catalog.on_changes([Change(key=self.keys.job(name), old_mod=None, new=kv)])

    async def requests(self, name: str = "job") -> list[Request]:
        """What is asked for, by key."""
        pages = [page async for page in self.client.read_prefix(self.keys.requests_of(name))]
        return [
            Request.from_json(kv.value, run_id=self.keys.run_of(kv.key), revision=kv.mod_revision)
            for page in pages
            for kv in page.kvs
        ]

    async def lock(self, name: str = "job") -> KeyValue | None:
        return await self.client.get(self.keys.lock(name))


@asynccontextmanager
async def workshop(endpoint: str, prefix: str, *, slots: int = 4) -> AsyncIterator[Workshop]:
    """Its loops run inside the block."""
    async with Losing([endpoint]) as client:
        keys = Keys(prefix)
        session = await Session.open(
            client, key_of=lambda lease: keys.worker(ME.worker, lease), value=b"{}", ttl=60, clock=SystemClock()
        )
        shop = Workshop(client, prefix, session, slots)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(shop.dispatcher.run()), group.create_task(shop.settlement.run())]
            try:
                yield shop
            finally:
                for task in tasks:
                    task.cancel()
        await session.close()
