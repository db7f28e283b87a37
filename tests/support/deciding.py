"""Schedulers on a real etcd, under a clock that moves only when told; what they win and record is collected."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from msgspec import structs

from common.clock import SystemClock
from common.etcd import Change, EtcdClient, Session
from common.jobs.reader import parse_job
from common.protocol.fire_claims import Claims
from common.protocol.keys import Keys, RunId, decode_mark, encode_mark
from common.protocol.member import WorkerIdentity
from common.protocol.placement import Candidate, Placement
from common.protocol.planned_job import PlannedJob, read_job
from common.protocol.proposals import Result
from common.protocol.request import Request
from common.protocol.run import RunEntry, RunRecord
from common.protocol.saved_job import SavedJob
from common.protocol.txn import Delete, KeyValue, Put, Txn
from common.timings import Timings
from tests.support.fake_clock import FakeClock
from tests.support.waiting import wait_until
from worker.absences import Absences
from worker.admission import Admission, Reason
from worker.catalog import Catalog
from worker.members import Members
from worker.plan.doubts import Doubts
from worker.plan.lock_waits import LockPoll
from worker.plan.scheduler import Scheduler
from worker.refusals import Refusals
from worker.runs import Run, RunTable

SECOND = 1000
MINUTE = 60 * SECOND
NOON = 1_790_000_040_000
"""A whole minute; the fake clock of these tests starts here."""


@dataclass(eq=False)
class Planner:
    """One worker as far as deciding goes; a ``Claimant`` that keeps what it is given."""

    name: str
    keys: Keys
    client: EtcdClient
    clock: FakeClock
    session: Session
    slots: int = 8
    won_results: list[Result] = field(default_factory=list)
    records: list[RunRecord] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.identity = WorkerIdentity(worker=self.name, instance=f"instance-of-{self.name}", host="h")
        self.catalog = Catalog(self.keys, on_changed=lambda name: self.scheduler.job_changed(name))
        self.absences = Absences(worker=self.name, clock=self.clock)
        self.members = Members(self.keys, self.name, on_changed=lambda: None, on_seen=self.absences.saw)
        self.table = RunTable(self.slots)
        self.claims = Claims(self.keys, self.identity, lost_after_ms=300_000)
        self.doubts = Doubts(self.client, self.claims, self.keys, self.clock)
        self.refusals = Refusals(self.clock)
        self.locks = LockPoll(self.client, self.keys)
        self.admission = Admission()
        self.scheduler = Scheduler(
            client=self.client, keys=self.keys, worker=self.name, catalog=self.catalog, members=self.members,
            table=self.table, claims=self.claims, doubts=self.doubts, refusals=self.refusals, claimant=self,
            absences=self.absences, admission=self.admission, locks=self.locks, timings=Timings(), clock=self.clock,
        )  # fmt: skip

    def won(self, result: Result, session: Session) -> None:
        """Keeps the claim, and takes its slot."""
        self.won_results.append(result)
        entry = result.proposal.entry
        assert entry is not None
        self.table.add(
            Run(
                run_id=RunId.planned(result.proposal.job.name, entry.plan_ms), job=result.proposal.job, entry=entry,
                fence=result.revision, mod_revision=result.revision, session=session, sent=result.sent,
                start_by_ms=result.proposal.start_by_ms,
            )
        )  # fmt: skip

    def recorded(self, record: RunRecord, revision: int) -> None:
        self.records.append(record)

    @property
    def wins(self) -> list[int]:
        """The plan times claimed, in the order of winning."""
        return [ms for result in self.won_results if (ms := result.proposal.decision.claim_ms) is not None]

    def begin(self) -> None:
        """Let it decide."""
        self.scheduler.session = self.session
        self.admission.set(Reason.STOP, None)
        self.admission.announced()
        self.scheduler.look_afresh("a test begins")

    def free_slots(self) -> None:
        """Every claimed run is over and forgotten."""
        for run in self.table:
            self.table.forget(run)
        self.scheduler.wake()


class World:
    """Jobs in etcd, and planners that know them."""

    def __init__(self, client: EtcdClient, prefix: str) -> None:
        self.client = client
        self.keys = Keys(prefix)
        self.clock = FakeClock(NOON)
        self.planners: list[Planner] = []
        self.jobs: dict[str, PlannedJob] = {}

    def rank(self, *names: str) -> None:
        """These workers, in this order of rank, for every fire."""
        for planner in self.planners:
            planner.members.placement = Ranked(names)

    async def save(self, name: str = "job", *, anchor_ms: int | None = None, tell: bool = True, **fields: Any) -> int:
        """A job as a manager saves it now (or at another clock); the planners hear of it."""
        anchor_ms = self.clock.wall_ms() if anchor_ms is None else anchor_ms
        job = {"name": name, "command": "true", "cronExpr": "* * * * * * *"} | fields
        spec = parse_job({field: value for field, value in job.items() if value is not None})
        value = SavedJob(spec=spec, anchor_ms=anchor_ms).to_json()
        puts = [Put(self.keys.job(name), value), Put(self.keys.mark(name), encode_mark(anchor_ms))]
        await self.client.txn(Txn([], puts))
        kv = await self.client.get(self.keys.job(name))
        assert kv is not None
        self.jobs[name] = read_job(name, kv)
        if tell:
            self.tell(kv.key, kv)
        return kv.mod_revision

    async def delete(self, name: str = "job", *, tell: bool = True) -> None:
        await self.client.txn(Txn([], [Delete(self.keys.job(name))]))
        if tell:
            self.tell(self.keys.job(name), None)

    def tell(self, key: str, kv: KeyValue | None) -> None:
        for planner in self.planners:
            planner.catalog.on_changes([Change(key=key, old_mod=None, new=kv)])

    def put_copy(self, kv: KeyValue, name: str, anchor_ms: int) -> tuple[Put, Put]:
        """The same job by another name, with its mark."""
        old = self.keys.job_of(kv.key)
        value = kv.value.replace(f'"name":"{old}"'.encode(), f'"name":"{name}"'.encode())
        return Put(self.keys.job(name), value), Put(self.keys.mark(name), encode_mark(anchor_ms))

    def tell_copy(self, kv: KeyValue, name: str, revision: int) -> None:
        """The planners hear of it."""
        put, _ = self.put_copy(kv, name, 0)
        copy = structs.replace(kv, key=put.key, value=put.value, mod_revision=revision, create_revision=revision)
        self.tell(copy.key, copy)

    async def mark(self, name: str = "job") -> int:
        kv = await self.client.get(self.keys.mark(name))
        assert kv is not None
        return decode_mark(kv.value)

    async def set_mark(self, mark_ms: int, name: str = "job") -> None:
        await self.client.put(self.keys.mark(name), encode_mark(mark_ms))

    async def lock(self, run: str = "job@1#1", name: str = "job") -> int:
        return await self.client.put(self.keys.lock(name), run.encode())

    async def unlock(self, name: str = "job") -> None:
        await self.client.delete(self.keys.lock(name))

    async def runs(self, name: str = "job") -> dict[int, RunEntry]:
        """The run keys of a job by plan time."""
        entries: dict[int, RunEntry] = {}
        async for page in self.client.read_prefix(self.keys.runs_of(name)):
            for kv in page.kvs:
                plan_ms = self.keys.run_of(kv.key).plan_ms
                assert plan_ms is not None
                entries[plan_ms] = RunEntry.from_json(kv.value)
        return entries

    async def requests(self) -> list[Request]:
        """All requests, by their keys."""
        pages = self.client.read_prefix(self.keys.requests)
        kvs = [kv async for page in pages for kv in page.kvs]
        return [Request.from_json(kv.value, run_id=self.keys.run_of(kv.key)) for kv in kvs]

    def at(self, wall_ms: int) -> None:
        """The clock comes to this moment, and everybody looks at it."""
        self.clock.advance(wall_ms - self.clock.wall_ms())
        for planner in self.planners:
            planner.scheduler.wake()

    async def mark_comes_to(self, mark_ms: int, name: str = "job") -> None:
        async def there() -> bool:
            return await self.mark(name) == mark_ms

        await wait_until(there, description=f"the mark of {name} at {mark_ms}")
        await self.settled()

    async def settled(self) -> None:
        """Nothing is on its way to etcd, as far as the loops can tell without time passing."""
        for _ in range(3):
            await self.client.get(self.keys.prefix)
            await wait_until(
                lambda: (
                    not any(pending.busy for p in self.planners for pending in p.scheduler._pending_of.values())
                    and not any(p.scheduler._is_looking or p.scheduler._wants_look for p in self.planners)
                ),
                description="nothing is on its way",
            )
            await asyncio.sleep(0)


class Ranked(Placement):
    """The same order for every fire."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(Candidate(name, 1) for name in names)
        self._fixed = tuple(names)

    def order(self, bucket: int) -> tuple[str, ...]:
        return self._fixed

    def firsts(self, bucket: int) -> tuple[str, ...]:
        return self._fixed[:2]


@asynccontextmanager
async def planning(
    client: EtcdClient, prefix: str, *, names: Sequence[str] = ("w1",), clients: Sequence[EtcdClient] = (),
    slots: int = 8, start: bool = True,
) -> AsyncIterator[World]:  # fmt: skip
    """A world with these workers, the first of them rank 0 for every fire; their loops run inside the block."""
    world = World(client, prefix)
    sessions: list[Session] = []
    for index, name in enumerate(names):
        session = await Session.open(
            client, key_of=lambda lease, name=name: world.keys.worker(name, lease), value=b"{}", ttl=60,  # type: ignore[misc]
            clock=SystemClock(),
        )  # fmt: skip
        sessions.append(session)
        own = clients[index] if index < len(clients) else client
        world.planners.append(Planner(name, world.keys, own, world.clock, session, slots))
    world.rank(*names)
    async with asyncio.TaskGroup() as group:
        runs = [run for planner in world.planners for run in (planner.scheduler.run, planner.locks.run)]
        tasks = [group.create_task(run()) for run in runs]
        try:
            if start:
                for planner in world.planners:
                    planner.begin()
                await world.settled()
            yield world
        finally:
            for task in tasks:
                task.cancel()
    for session in sessions:
        await session.close()
