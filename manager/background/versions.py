"""The former specs of jobs: out of etcd into the log store, and back to whoever asks what a job was.

The transaction that replaces a spec puts the former one beside it, so none is lost; here it goes on into the log store,
and then out of etcd. Any manager does so for all: putting a version twice changes nothing. What the log store does not
take stays in etcd, of each job the newest 50: no call lists more, and a user who edits a job again and again while the
log store is away does not fill etcd.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from common.access.rights import Rights
from common.errors import EtcdError, UnavailableError
from common.etcd import EtcdClient
from common.protocol import sweeps
from common.protocol.keys import Keys
from common.protocol.saved_job import EditKind, JobVersion
from common.protocol.txn import KeyValue
from common.runlog import RunLog

_log = logging.getLogger(__name__)

KEPT: Final = 50
_LOOK_EVERY_S = 60.0
"""For what other managers have left behind."""
_PAUSE_S = 1.0
"""Several edits in a row are delivered together."""
_AT_ONCE = 100


Deletion = tuple[int, int]
"""Puts deletions in order."""


def deletion_of(version: JobVersion) -> Deletion:
    """When it was, and the job's revision until then."""
    return version.ended_ms, version.revision


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pending:
    kv: KeyValue
    version: JobVersion


def sees_version(version: JobVersion, rights: Rights) -> bool:
    """Whether a caller may know of a former spec, by the labels that it carries itself."""
    labels = version.spec.get("labels")
    return rights.sees(labels if isinstance(labels, Mapping) else {})


class Versions:
    """What jobs were, for 50 versions each."""

    def __init__(self, etcd: EtcdClient, keys: Keys, runlog: RunLog, *, deadline_s: float) -> None:
        self._etcd = etcd
        self._keys = keys
        self._runlog = runlog
        self._deadline_s = deadline_s
        self._wake = asyncio.Event()
        self._edited: set[str] = set()

    def edited(self, job: str) -> None:
        """A job has been changed here: its former spec waits to be delivered."""
        self._edited.add(job)
        self._wake.set()

    async def of(self, job: str) -> list[JobVersion]:
        """The former specs of a job, newest first. UnavailableError: not all of them can be read now."""
        pending = [one.version async for one in self._pending(f"{self._keys.versions}{job}/")]
        stored = await self._runlog.versions.newest(job, limit=KEPT, deadline_seconds=self._deadline_s)
        by_key = {(one.ended_ms, one.revision): one for one in (*stored, *pending)}
        return [by_key[key] for key in sorted(by_key, reverse=True)][:KEPT]

    async def deleted(self, limit: int, behind: Deletion | None = None) -> tuple[list[JobVersion], bool]:
        """The last specs of the jobs that were deleted last, newest first, behind that one; and whether these are all.

        A job that was deleted several times may be there again further behind. UnavailableError: not all of them can
        be read now.
        """
        until = {} if behind is None else {"until_ms": behind[0]}
        stored = await self._runlog.versions.deleted(limit=limit, deadline_seconds=self._deadline_s, **until)
        pending = [one.version async for one in self._pending(self._keys.versions)]
        least_ms = stored[-1].ended_ms if len(stored) == limit else 0
        both = [*stored, *(one for one in pending if one.ended_with is EditKind.DELETE and one.ended_ms >= least_ms)]
        newest: dict[str, JobVersion] = {}
        for one in sorted(both, key=deletion_of, reverse=True):
            if behind is None or deletion_of(one) < behind:
                newest.setdefault(one.job, one)
        return list(newest.values()), len(stored) < limit

    async def run(self) -> None:
        """Deliver what lies in etcd, for ever."""
        prepared = False
        while True:
            edited, self._edited = self._edited, set()
            try:
                if not await self._all_delivered():
                    await self._forget_oldest(edited)
            except (EtcdError, UnavailableError) as error:
                self._edited |= edited
                _log.debug("former specs stay in etcd for now: %s", error, extra={"action": "versions.waiting"})
            if not prepared:
                with suppress(UnavailableError):
                    await self._runlog.versions.prepare()
                    prepared = True
            try:
                async with asyncio.timeout(_LOOK_EVERY_S):
                    await self._wake.wait()
            except TimeoutError:
                continue
            self._wake.clear()
            await asyncio.sleep(_PAUSE_S)

    async def _all_delivered(self) -> bool:
        """Whether nothing stays in etcd; the log store may be away, or refuse some."""
        batch, refused = list[_Pending](), 0
        try:
            async for one in self._pending(self._keys.versions):
                batch.append(one)
                if len(batch) >= _AT_ONCE:
                    refused += await self._move(batch)
                    batch = []
            if batch:
                refused += await self._move(batch)
        except UnavailableError as error:
            _log.debug("former specs stay in etcd for now: %s", error, extra={"action": "versions.waiting"})
            return False
        return not refused

    async def _move(self, batch: Sequence[_Pending]) -> int:
        """Into the log store, then out of etcd; may be repeated as a whole. How many the log store refuses."""
        refused = await self._runlog.versions.put([one.version for one in batch])
        for place, one in enumerate(batch):
            if place in refused:
                _set_aside(one.kv, refused[place])
                continue
            await self._etcd.txn(sweeps.delete_unchanged(one.kv))
        return len(refused)

    async def _forget_oldest(self, jobs: Iterable[str]) -> None:
        """Of the versions that are still in etcd, all but the newest of each job."""
        for job in jobs:
            prefix = f"{self._keys.versions}{job}/"
            if await self._etcd.count(prefix) <= KEPT:
                continue
            there = [one async for one in self._pending(prefix)]
            oldest = sorted(there, key=lambda one: one.version.revision)[:-KEPT]
            for start in range(0, len(oldest), _AT_ONCE):
                await self._etcd.txn(sweeps.old_versions([one.kv for one in oldest[start : start + _AT_ONCE]]))

    async def _pending(self, prefix: str) -> AsyncIterator[_Pending]:
        async for page in self._etcd.read_prefix(prefix):
            for kv in page.kvs:
                job, _, revision = kv.key.removeprefix(self._keys.versions).partition("/")
                try:
                    yield _Pending(kv=kv, version=JobVersion.from_json(kv.value, job=job, revision=int(revision)))
                except ValueError as error:
                    _set_aside(kv, str(error))


def _set_aside(kv: KeyValue, why: str) -> None:
    """It stays where it is, and harms no other."""
    _log.warning("%r stays in etcd: %s", kv.key, why, extra={"action": "version.set_aside", "key": kv.key})
