"""Keeps the catalog, the open runs and the workers in step with etcd, and says since when they are not.

Each manager watches for itself. What two of them show differs by what is on its way to one of them, far below a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from common.clock import Clock
from common.errors import EtcronError, UnavailableError
from common.etcd import Change, EtcdClient, Mirror, MirrorTimings
from common.instants import iso
from common.protocol.keys import Keys, RunId, Watched
from common.protocol.member import Member, is_worker_name
from common.protocol.txn import GetKey, KeyValue, Txn
from manager.watch.blocked import BlockedJobs
from manager.watch.catalog import Catalog, KnownJob
from manager.watch.notices import NoticeRecords
from manager.watch.open_runs import OpenRuns

_log = logging.getLogger(__name__)

_TIMINGS: Final = MirrorTimings(progress_s=1.0, silence_s=8.0)
"""A quiet watch asks for a sign of life every two seconds."""
_STALE_S = 5.0
"""Without a sign of life for so long, what we know is shown as old: two questions for one have got no answer."""
_FIRST_READING_S = 2.0
_OWN_WRITE_S = 1.0
_SENTINELS_S = 30.0
_JOBS_A_PAGE = 250
"""Read and parsed without a pause: other requests wait for so long."""


class Listener(Protocol):
    """Who wants to know at once; must not block."""

    def job_changed(self, name: str, labels: Sequence[Mapping[str, str] | None]) -> None: ...
    def runs_changed(self, job: str, labels: Mapping[str, str]) -> None: ...
    def run_settled(self, run: RunId, labels: Mapping[str, str]) -> None: ...
    def workers_changed(self) -> None: ...


class Watching:
    """The mirrors of one manager."""

    def __init__(self, etcd: EtcdClient, keys: Keys, listener: Listener, *, clock: Clock) -> None:
        self._etcd = etcd
        self._keys = keys
        self._clock = clock
        self.catalog = Catalog(keys, on_changed=listener.job_changed)
        self.open_runs = OpenRuns(
            keys, on_changed=listener.runs_changed, on_settled=listener.run_settled, labels_at=self.labels_at
        )
        self.blocked = BlockedJobs(etcd, keys, self.catalog, clock=clock)
        self.notices = NoticeRecords(etcd, keys, clock=clock)
        self.workers: dict[str, KeyValue] = {}
        """The session keys as they were last seen."""
        self._members: list[Member] | None = None
        """What they say, once a call has asked."""
        self._silence: tuple[float, int] | None = None
        self._workers_changed = listener.workers_changed
        self._jobs = self._mirror(keys.jobs, self.catalog.on_changes, _JOBS_A_PAGE)
        self._runs = self._mirror(keys.runs, self.open_runs.on_changes)
        self._mirrors = self._jobs, self._runs, self._mirror(keys.workers, self._take_workers)

    async def run(self) -> None:
        """Watch for ever; an etcd that is away is tried again."""
        async with asyncio.TaskGroup() as tasks:
            for mirror in self._mirrors:
                tasks.create_task(mirror.run(), name=f"mirror {mirror.prefix}")
            tasks.create_task(self._read_sentinels(), name="sentinels")
            tasks.create_task(self.notices.run(), name="channels, rules and silences")

    def labels_at(self, name: str, revision: int) -> Mapping[str, str]:
        """The labels of a job at this revision; none where it is at another one by now."""
        job = self.catalog.get(name)
        return (job.labels if job is not None and job.revision == revision else None) or {}

    def command_at(self, name: str, revision: int) -> str | None:
        """The command of a job at this revision; None where it is at another one by now."""
        job = self.catalog.get(name)
        return job.saved.spec.command_line if job and job.saved and job.revision == revision else None

    @property
    def jobs_read(self) -> asyncio.Event:
        """Set once the catalog has been read."""
        return self._jobs.synced

    @property
    def runs_read(self) -> asyncio.Event:
        """Set once the open runs have been read."""
        return self._runs.synced

    @property
    def all_read(self) -> bool:
        """Whether jobs, runs and workers have been read once."""
        return all(mirror.synced.is_set() for mirror in self._mirrors)

    async def ready(self) -> None:
        """Return once they have been. UnavailableError where that does not come about within two seconds."""
        if self.all_read:
            return
        try:
            async with asyncio.timeout(_FIRST_READING_S):
                for mirror in self._mirrors:
                    await mirror.synced.wait()
        except TimeoutError:
            raise UnavailableError(
                "the jobs have not been read from etcd since this manager started: etcd is away, or it takes a moment"
            ) from None

    @property
    def members(self) -> Sequence[Member]:
        """The live workers, each by its newest session."""
        if self._members is None:
            self._members = self._read_members()
        return self._members

    def _read_members(self) -> list[Member]:
        newest: dict[str, Member] = {}
        for kv in self.workers.values():
            try:
                worker, session = self._keys.session_of(kv.key)
                if not is_worker_name(worker):
                    raise ValueError("no worker may be called so")  # the workers set it aside, too
                member = Member.from_json(kv.value, worker=worker, session=session, lease=kv.lease)
            except ValueError:
                continue  # shown as broken in the list of workers
            if member.attached and (worker not in newest or newest[worker].since_ms <= member.since_ms):
                newest[worker] = member
        return [newest[name] for name in sorted(newest)]

    @property
    def stale_since_ms(self) -> int | None:
        """Since when (wall clock) a watch has heard nothing of etcd; None: what we know is what there is."""
        heard = min(mirror.last_alive for mirror in self._mirrors)
        silent_s = self._clock.monotonic() - heard
        if silent_s < _STALE_S:
            return None
        if self._silence is None or self._silence[0] != heard:
            # Reckoned once for each silence, so that it is always shown with the same words.
            self._silence = (heard, self._clock.wall_ms() - int(silent_s * 1000))
        return self._silence[1]

    @property
    def warnings(self) -> list[str]:
        """What a user who looks at jobs should know about them; nothing while all is well."""
        since_ms = self.stale_since_ms
        if since_ms is None:
            return []
        return [f"etcd cannot be reached: jobs and runs are shown as they were at {iso(since_ms)}"]

    async def has_seen(self, name: str, revision: int) -> bool:
        """Whether the catalog shows a write to this job at this revision, or a later one; waits a second for it."""

        def shows() -> bool:
            job = self.catalog.get(name)
            return (job is not None and job.revision >= revision) or self._jobs.revision >= revision

        return await self._soon(shows)

    async def has_reached(self, revision: int) -> bool:
        """Whether the catalog shows everything up to this revision; waits a second for it."""
        return await self._soon(lambda: self._jobs.revision >= revision)

    async def _soon(self, condition: Callable[[], bool]) -> bool:
        return await self.catalog.changes.until(condition, 0 if self.stale_since_ms is not None else _OWN_WRITE_S)

    async def job(self, name: str, *, revision: int) -> KnownJob | None:
        """The job as of this revision at least: as we know it, or else as etcd has it."""
        if await self.has_seen(name, revision):
            return self.catalog.get(name)
        kv = await self._etcd.get(self._keys.job(name))
        return None if kv is None else KnownJob.read(name, kv)

    def _mirror(self, prefix: str, on_changes: Callable[[list[Change]], None], page: int = 1000) -> Mirror:
        return Mirror(self._etcd, prefix, on_changes, clock=self._clock, timings=_TIMINGS, page=page)

    def _take_workers(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.new is None:
                self.workers.pop(change.key, None)
            else:
                self.workers[change.key] = change.new
        self._members = None
        self._workers_changed()

    async def _read_sentinels(self) -> None:
        """Finds a watch on the jobs that died silently."""
        key = self._keys.seen(Watched.JOBS)
        while True:
            await asyncio.sleep(_SENTINELS_S)
            try:
                answer = await self._etcd.txn(Txn((), [GetKey(key)]))
            except EtcronError as error:
                extra = {"action": "sentinel.unread", "key": key, "error": str(error)}
                _log.debug("the sentinel of the jobs was not read", extra=extra)
                continue
            sentinel = answer.key(0)
            self._jobs.missed(sentinel.mod_revision if sentinel is not None else 0, answer.revision)
