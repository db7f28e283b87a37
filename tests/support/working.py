"""A worker in the test's own process, on real servers; and what a test wants to put into etcd, or see there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from common.clock import Clock, SystemClock
from common.configuration.config import WorkerConfig
from common.configuration.signatures import trust_of
from common.errors import UnavailableError
from common.etcd import Election, EtcdClient, EtcdUser, Session
from common.jobs.reader import parse_job
from common.process.lifecycle import Stop, run_loops
from common.protocol.compares import create_revision_is
from common.protocol.keys import Keys, RunId, Watched, encode_mark
from common.protocol.kill import Kill
from common.protocol.member import WorkerIdentity
from common.protocol.request import Origin, Request
from common.protocol.run import EntryState, RunEntry
from common.protocol.saved_job import SavedJob
from common.protocol.txn import KeyValue, Put, Txn
from common.runlog import RunLog
from tests.support.etcd_server import unused_prefix
from tests.support.forked import forked_programs
from tests.support.log_store import new_database
from tests.support.waiting import wait_until
from worker.agent import Agent
from worker.data_directory import open_data_directory
from worker.identity import locked_directory
from worker.lead.leader import Term
from worker.parts import Parts

SHORT_TTL_S = 2
"""For a test that waits for the end of a session. Others keep to the usual length: on a busy machine short ones end."""
NEVER = "0 0 0 1 1 * 2199"
"""A schedule that does not fire while a test runs."""


class SteppingClock(SystemClock):
    """The machine's clocks, and as much more as the test has said."""

    def __init__(self) -> None:
        self._ahead_s = 0.0

    def advance(self, seconds: float) -> None:
        self._ahead_s += seconds

    def wall_ms(self) -> int:
        return super().wall_ms() + round(self._ahead_s * 1000)

    def monotonic(self) -> float:
        return super().monotonic() + self._ahead_s

    def boottime(self) -> float:
        return super().boottime() + self._ahead_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one test's servers are, and what there is its own."""

    etcd: str
    log_store: str
    directory: Path
    prefix: str
    database: str

    @classmethod
    def new(cls, directory: Path, *, etcd: str, log_store: str) -> Place:
        return cls(
            etcd=etcd, log_store=log_store, directory=directory, prefix=unused_prefix("work"), database=new_database()
        )

    @property
    def keys(self) -> Keys:
        return Keys(self.prefix)


@dataclass(slots=True, kw_only=True)
class World:
    """etcd and the log store as the test sees them."""

    place: Place
    etcd: EtcdClient
    runlog: RunLog

    @property
    def keys(self) -> Keys:
        return self.place.keys

    async def save(
        self,
        name: str = "job",
        command: str | list[str] = "true",
        cron: str = NEVER,
        *,
        mark_ms: int | None = None,
        **fields: Any,
    ) -> KeyValue:
        """The job in etcd, as a manager puts it; its key."""
        mark_ms = SystemClock().wall_ms() if mark_ms is None else mark_ms
        trigger = {} if fields.keys() & {"after", "every", "at"} else {"cronExpr": cron}
        spec = parse_job({"name": name, "command": command, **trigger, **fields})
        value = SavedJob(spec=spec, anchor_ms=mark_ms).to_json()
        keys = self.keys
        await self.etcd.txn(Txn([], [
            Put(keys.job(name), value), Put(keys.mark(name), encode_mark(mark_ms)), Put(keys.seen(Watched.JOBS), b""),
        ]))  # fmt: skip
        kv = await self.etcd.get(keys.job(name))
        assert kv is not None
        return kv

    async def ask(self, job: KeyValue, plan_ms: int, *, expires_ms: int | None = None, name: str = "job") -> RunId:
        """Put a request."""
        run_id = RunId.planned(name, plan_ms)
        request = Request(
            run_id=run_id, origin=Origin.OFFERED, job_create_revision=job.create_revision, plan_ms=plan_ms,
            dispatch_ms=plan_ms, not_before_ms=SystemClock().wall_ms(), expires_ms=expires_ms,
        )  # fmt: skip
        puts = [Put(self.keys.request(run_id), request.to_json()), Put(self.keys.seen(Watched.REQUESTS), b"")]
        await self.etcd.txn(Txn([], puts))
        return run_id

    async def kill(self, run_id: RunId, by: str = "me") -> None:
        kill = Kill(run_id=run_id, by=by, at_ms=SystemClock().wall_ms(), reason="enough")
        puts = [Put(self.keys.kill(run_id), kill.to_json()), Put(self.keys.seen(Watched.KILLS), b"")]
        await self.etcd.txn(Txn([], puts))

    async def open_run(self, plan_ms: int = 1_790_000_000_000, *, name: str = "job", **changes: Any) -> KeyValue:
        """A run key, as a worker that is not there has left it, with its lock where it took one; its key."""
        run_id = RunId.planned(name, plan_ms)
        values: dict[str, Any] = {
            "state": EntryState.OPEN, "worker": "gone", "session": "123abc", "instance": "somebody-else",
            "locked": True, "lost_after_ms": 2000, "plan_ms": plan_ms, "dispatch_ms": plan_ms,
        }  # fmt: skip
        entry = RunEntry(**(values | changes))
        puts = [Put(self.keys.run(run_id), entry.to_json())]
        if entry.locked:
            puts.append(Put(self.keys.lock(name), str(run_id).encode()))
        await self.etcd.txn(Txn([], puts))
        kv = await self.etcd.get(self.keys.run(run_id))
        assert kv is not None
        return kv

    async def link(self, name: str = "job") -> Request | None:
        """The next link of the job's chain."""
        kv = await self.etcd.get(self.keys.chain(name))
        return Request.from_json(kv.value, run_id=self.keys.run_of(kv.key), revision=kv.mod_revision) if kv else None

    async def requests(self, name: str = "job") -> list[Request]:
        """What is asked for, by key."""
        pages = [page async for page in self.etcd.read_prefix(self.keys.requests_of(name))]
        return [
            Request.from_json(kv.value, run_id=self.keys.run_of(kv.key), revision=kv.mod_revision)
            for page in pages
            for kv in page.kvs
        ]

    async def entry(self, run_id: RunId) -> RunEntry | None:
        kv = await self.etcd.get(self.keys.run(run_id))
        return RunEntry.from_json(kv.value) if kv else None

    async def entries(self) -> dict[RunId, RunEntry]:
        """All run keys that can be read."""
        found = {}
        async for page in self.etcd.read_prefix(self.keys.runs):
            found.update({self.keys.run_of(kv.key): RunEntry.from_json(kv.value) for kv in page.kvs})
        return found

    async def has(self, key: str) -> bool:
        return await self.etcd.get(key) is not None

    async def sessions(self, worker: str = "w1") -> list[KeyValue]:
        return [kv async for page in self.etcd.read_prefix(self.keys.worker_sessions(worker)) for kv in page.kvs]

    async def record(self, run_id: RunId) -> dict[str, Any]:
        """What the log store says of the run, once it does."""
        found: list[dict[str, Any]] = []

        async def is_there() -> bool:
            with suppress(UnavailableError):  # it is busy
                found.extend(one for one in [await self.runlog.run(str(run_id))] if one is not None)
            return bool(found)

        await wait_until(is_there, description=f"the log store has {run_id}")
        return found[0]

    async def records(self, job: str = "job") -> list[dict[str, Any]]:
        return [item for item in (await self.runlog.runs(limit=500)).items if item["jobName"] == job]


@dataclass(slots=True, kw_only=True)
class Working:
    """One worker that runs in the test's loop."""

    agent: Agent
    identity: WorkerIdentity
    client: EtcdClient
    stop: Stop
    task: asyncio.Task[None]

    @property
    def parts(self) -> Parts:
        return self.agent.parts

    @property
    def session(self) -> Session:
        session = self.parts.registry.session
        assert session is not None, "there is no session"
        return session

    def is_deciding(self) -> bool:
        """Whether it takes fires and requests."""
        scheduler = self.parts.scheduler
        return scheduler.session is not None and self.parts.admission.takes_fires

    async def deciding(self) -> None:
        await wait_until(lambda: self.task.done() or self.is_deciding(), description=f"{self.identity.worker} decides")
        assert not self.task.done(), self.task.exception()

    async def deciding_after(self, session: Session) -> None:
        """Under another session than this one, which is over or will soon be."""
        await wait_until(
            lambda: self.is_deciding() and self.parts.scheduler.session is not session,
            description=f"{self.identity.worker} decides under a new session",
        )

    def running(self) -> list[RunId]:
        """The runs that have a process."""
        return list(self.parts.executor.running)


@asynccontextmanager
async def working(
    place: Place,
    name: str = "w1",
    *,
    etcd: str | None = None,
    user: EtcdUser | None = None,
    clock: Clock | None = None,
    **changes: Any,
) -> AsyncIterator[Working]:
    """A worker; ended in a hurry afterwards. `etcd`: another way to it than the test's own (a proxy)."""
    clock = clock or SystemClock()
    values: dict[str, Any] = {
        "etcd_endpoints": (etcd or place.etcd,), "mongodb_uri": place.log_store, "mongodb_database": place.database,
        "key_prefix": place.prefix, "data_dir": place.directory / name, "worker_name": name, "slots": 4,
        "lost_after_s": 300, "shutdown_grace_s": 1, "compaction_minutes": 0,
        "job_log_commit_timeout_ms": 50, "etcd_dial_timeout_ms": 1000, "mongodb_connect_timeout_ms": 1000,
    }  # fmt: skip
    config = WorkerConfig(**(values | changes))
    etcd_s, log_store_ms = config.etcd_dial_timeout_ms / 1000, config.mongodb_connect_timeout_ms
    with locked_directory(config.data_dir), forked_programs():
        data = open_data_directory(config)
        async with (
            EtcdClient(config.etcd_endpoints, timeout=etcd_s, user=user, clock=clock) as client,
            RunLog(config.mongodb_uri, database=config.mongodb_database, connect_timeout_ms=log_store_ms) as runlog,
        ):
            agent, stop = Agent(config, data, client, runlog, clock, trust_of(config)), Stop()
            async with agent.parts.guardian, agent.parts.launcher:
                await agent.prepare()
                loops = run_loops(stop, agent.loops(), shut_down=lambda: agent.shut_down(stop))
                task = asyncio.ensure_future(loops)
                try:
                    yield Working(agent=agent, identity=data.identity, client=client, stop=stop, task=task)
                finally:
                    stop.request("the test is over")
                    stop.hurry.set()
                    await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error


class _Elected:
    """An election that was won: the leader's key is there."""

    def __init__(self, key: str, revision: int) -> None:
        self.leads_compare = create_revision_is(key, revision)
        self.leading = True


async def term_of(world: World, session: Session) -> Term:
    """A term of office under this session."""
    revision = await world.etcd.put(world.keys.steward, b"w1", session.lease_id)
    return Term(session=session, election=cast(Election, _Elected(world.keys.steward, revision)))
