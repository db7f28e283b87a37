"""What one etcd takes on this machine: fires a second, alone and in company, and events to many watchers.

The transactions are those of a worker (claims as it makes them; then the second in rank's look, the lock, the run key),
asked by one process as fast as the answers come, of an etcd that syncs to disk and of one that does not. That process
has a core for itself at most, so beside what was reached stands what etcd used for it, and what would fill one.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.figures import Figure, WrongError
from bench.filling import fill, saved
from bench.sampling import cpu_s
from common.clock import SystemClock
from common.etcd import EtcdClient, Session, _rpc
from common.etcd.types import range_end
from common.jobs.job import JobSpec
from common.protocol.compares import create_revision_is, mod_revision_is
from common.protocol.fire_claims import Claims
from common.protocol.keys import Keys, RunId, Watched
from common.protocol.member import WorkerIdentity
from common.protocol.planned_job import PlannedJob, read_job
from common.protocol.planner import decide
from common.protocol.proposals import Answer
from common.protocol.txn import Delete, Put, Txn
from tests.support.cluster import EVERY_SECOND
from tests.support.etcd_server import EtcdServer, usual_etcd
from worker.record.unlocking import MAX_STEPS

_KEYS: Final = Keys()
_AT_ONCE: Final = {1: 64, MAX_STEPS: 8}
"""By how many fires go together: how many such groups are on their way at the same time."""
_SECONDS: Final = 10
_WATCHERS: Final = 500
_EVENTS: Final = 200
_LOST_AFTER_MS: Final = 300_000
_SETTLES_S: Final = 60


def one_round(share: float) -> list[Figure]:
    """With and without syncing; then the watchers."""
    seconds, watchers = max(1.0, _SECONDS * share), max(1, round(_WATCHERS * share))
    figures: list[Figure] = []
    for disk, arguments in (("synced", ("--unsafe-no-fsync=false",)), ("not synced", ())):
        for company, together in (("alone", 1), (f"{MAX_STEPS} together", MAX_STEPS)):
            rate, cpu_ms = asyncio.run(_claimed(arguments, together, seconds))
            name = f"{disk}, fires {company}"
            figures.append(Figure(name=f"{name}: reached", value=rate, unit="a second"))
            figures.append(Figure(name=f"{name}: etcd's CPU", value=cpu_ms, unit="ms a fire"))
            figures.append(Figure(name=f"{name}: that fill a core", value=1000 / cpu_ms, unit="a second"))
    rate, cpu_ms = asyncio.run(_watched(watchers))
    figures.append(Figure(name=f"events to {watchers} watchers: reached", value=rate, unit="a second"))
    figures.append(Figure(name="events: etcd's CPU", value=cpu_ms, unit="ms an event"))
    figures.append(Figure(name="events that fill a core", value=1000 / cpu_ms, unit="a second"))
    return figures


def _server(folder: str, arguments: tuple[str, ...] = ()) -> EtcdServer:
    return EtcdServer(usual_etcd(), Path(folder) / "etcd", arguments=arguments)


async def _claimed(arguments: tuple[str, ...], together: int, seconds: float) -> tuple[float, float]:
    """Fires a second, and etcd's CPU for each in ms."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        async with _server(folder, arguments) as server, EtcdClient([server.endpoint], timeout=30) as etcd:
            now_ms = time.time_ns() // 1_000_000
            names = [f"job-{number:06d}" for number in range(_AT_ONCE[together] * together)]
            specs = [JobSpec(name=name, command="true", cron_exprs=(EVERY_SECOND,)) for name in names]
            await fill(etcd, _KEYS, (saved(spec, now_ms) for spec in specs))
            found = await etcd.get_many([_KEYS.job(name) for name in names])
            jobs = [read_job(name, found[_KEYS.job(name)]) for name in names]
            session = await Session.open(
                etcd, key_of=lambda lease: _KEYS.worker("bench", lease), value=b"{}", ttl=_SETTLES_S + int(seconds),
                clock=SystemClock(),
            )  # fmt: skip
            until, used, began = time.monotonic() + seconds, cpu_s([server.pid]), time.monotonic()
            fires = await asyncio.gather(
                *(
                    _Runner(etcd, session, jobs[first : first + together], now_ms).run(until)
                    for first in range(0, len(jobs), together)
                )
            )
            took_s, used = time.monotonic() - began, cpu_s([server.pid]) - used
            return sum(fires) / took_s, used / sum(fires) * 1000


class _Runner:
    """Has some jobs fire, all of them and again, as a worker would if commands took no time."""

    def __init__(self, etcd: EtcdClient, session: Session, jobs: Sequence[PlannedJob], anchor_ms: int) -> None:
        self._etcd = etcd
        self._session = session
        self._jobs = jobs
        self._claims = Claims(
            _KEYS, WorkerIdentity(worker="bench", instance="0" * 32, host="bench"), lost_after_ms=_LOST_AFTER_MS
        )
        self._mark_ms = dict.fromkeys((job.name for job in jobs), anchor_ms)

    async def run(self, until: float) -> int:
        """How many fires there were until then."""
        fires = 0
        while time.monotonic() < until:
            runs = await self._claim()
            await self._etcd.get_many([_KEYS.mark(self._jobs[0].name)])
            locks = [(_KEYS.lock(run.job), revision) for run, revision in runs]
            await self._must(
                [create_revision_is(key, fence) for key, fence in locks], [Delete(key) for key, _ in locks]
            )
            entries = [(_KEYS.run(run), revision) for run, revision in runs]
            await self._must([mod_revision_is(key, mod) for key, mod in entries], [Delete(key) for key, _ in entries])
            fires += len(runs)
        return fires

    async def _claim(self) -> list[tuple[RunId, int]]:
        """The next fire of each job, with the revision of its claim."""
        proposals = []
        for job in self._jobs:
            plan_ms = job.schedule.next_after_ms(self._mark_ms[job.name])
            assert plan_ms is not None, "they fire every second"
            decision = decide(
                job.fires, job.spec.misfire, mark_ms=self._mark_ms[job.name], until_ms=plan_ms, now_ms=plan_ms
            )
            assert decision is not None, "a fire is due"
            self._mark_ms[job.name] = plan_ms
            proposals.append(self._claims.propose(job, decision, session=self._session, now_ms=plan_ms))
        won: list[tuple[RunId, int]] = []
        for batch in self._claims.batches(proposals, session=self._session):
            results, rest = self._claims.read(batch, await self._etcd.txn(self._claims.transaction(batch)), sent=0.0)
            if rest or any(result.answer is not Answer.DONE for result in results):
                raise WrongError("a claim was refused, and nobody else claims")
            won += [
                (RunId.planned(r.proposal.job.name, self._mark_ms[r.proposal.job.name]), r.revision) for r in results
            ]
        return won

    async def _must(self, compares: Sequence[Any], then: Sequence[Delete]) -> None:
        if not (await self._etcd.txn(Txn(compares, then))).succeeded:
            raise WrongError("a key is not as it was left, and nobody else writes")


async def _watched(watchers: int) -> tuple[float, float]:
    """Events a second to all watchers together, and etcd's CPU for each in ms."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        async with _server(folder) as server, EtcdClient([server.endpoint], timeout=30) as etcd:
            heard = await asyncio.gather(*(_Watcher.begin(etcd) for _ in range(watchers)))
            used, began = cpu_s([server.pid]), time.monotonic()
            hearing = asyncio.gather(*(watcher.hear(_EVENTS) for watcher in heard))
            for number in range(_EVENTS):
                key = _KEYS.requests + f"job-{number:06d}/1790000000000"
                await etcd.txn(Txn([], [Put(key, b"x" * 200), Put(_KEYS.seen(Watched.REQUESTS), b"")]))
            await asyncio.wait_for(hearing, _SETTLES_S)
            took_s, used = time.monotonic() - began, cpu_s([server.pid]) - used
            events = watchers * _EVENTS
            return events / took_s, used / events * 1000


class _Watcher:
    """Watches requests, as every worker does."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    @classmethod
    async def begin(cls, etcd: EtcdClient) -> _Watcher:
        stream, prefix = await etcd.watch_stream(), _KEYS.requests.encode()
        create = {"key": prefix, "range_end": range_end(prefix), "start_revision": 0, "fragment": True}
        await stream.write(_rpc.messages.WatchRequest(create_request=create))
        await stream.read()
        return cls(stream)

    async def hear(self, events: int) -> None:
        """Returns once so many have come."""
        while events > 0:
            events -= len((await self._stream.read()).events)
        self._stream.close()
