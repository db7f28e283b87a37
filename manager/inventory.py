"""Jobs and workers, read straight from etcd by pages: no state of our own, so every manager answers the same.

One bad key harms nobody else: a value that does not parse is handed out with its problem.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from common.errors import InvalidInputError, Problem
from common.etcd import EtcdClient, GetPrefix, KeyValue
from common.keys import Keys
from common.member import Beat, Member
from manager.edits import Stored

MAX_SCAN: Final = 5_000
"""How many jobs one page of a filtered list looks at; it may hold fewer than asked for and have a next one."""
_CHUNK: Final = 100
_MOST: Final = 1_000
_LISTED_AT_ONCE: Final = 250
"""Parsed without a pause: other requests wait for so long."""


class JobState(StrEnum):
    """What a list of jobs can be narrowed to."""

    ENABLED = "enabled"
    PAUSED = "paused"
    BROKEN = "broken"
    """Its value in etcd is not a job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs: all conditions must hold; the default is every job."""

    text: str = ""
    """In the name or the command, whatever its case."""
    labels: tuple[tuple[str, str | None], ...] = ()
    """Each with its value, or None: any value."""
    state: JobState | None = None

    def takes(self, stored: Stored) -> bool:
        spec = stored.saved.spec if stored.saved else None
        if self.state is not None and self.state is not state_of(stored):
            return False
        if self.text and self.text not in f"{stored.name}\n{spec.command if spec else ''}".casefold():
            return False
        labels = spec.labels if spec else {}
        return all(name in labels and value in (None, labels[name]) for name, value in self.labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """Some jobs in the order of their names, each with its mark, and where the next page starts (None: nowhere)."""

    jobs: Sequence[Stored]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenWorker:
    """A session of a worker, or a session key that is not one of ours."""

    key: str
    member: Member | None
    beat: Beat | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class _GetAfter(GetPrefix):
    """Reads the first `limit` keys under the prefix that come after one of them."""

    after: str = ""

    def add_to(self, operations: Any) -> None:
        GetPrefix.add_to(self, operations)
        if self.after:
            operations[-1].request_range.key = self.after.encode(errors="surrogateescape") + b"\0"


def state_of(stored: Stored) -> JobState:
    """Where a job stands."""
    if stored.saved is None:
        return JobState.BROKEN
    return JobState.ENABLED if stored.saved.spec.enabled else JobState.PAUSED


class Inventory:
    """Reads jobs and workers."""

    def __init__(self, etcd: EtcdClient, keys: Keys) -> None:
        self._etcd = etcd
        self._keys = keys

    async def jobs(self) -> AsyncIterator[list[Stored]]:
        """Every job as at one revision, a page at a time, without its mark."""
        async for page in self._etcd.read_prefix(self._keys.jobs, page=_LISTED_AT_ONCE):
            yield [self._stored(kv) for kv in page.kvs]

    async def page(self, wanted: JobFilter, *, cursor: str | None, limit: int) -> JobPage:
        """The next `limit` jobs after the cursor. InvalidInputError where the cursor is not one of ours."""
        after = "" if cursor is None else _decode(cursor)
        found: list[Stored] = []
        scanned, chunk = 0, min(limit + 1, _CHUNK)
        while True:
            kvs = await self._after(after, chunk)
            for kv in kvs:
                if len(found) == limit:
                    return await self._cut(found, after)
                stored = self._stored(kv)
                after = stored.name
                if wanted.takes(stored):
                    found.append(stored)
            scanned += len(kvs)
            if len(kvs) < chunk:
                return await self._cut(found, None)
            if scanned >= MAX_SCAN:
                return await self._cut(found, after)
            chunk = _MOST if sum(len(kv.value) for kv in kvs) < _CHUNK * 1_000 else _CHUNK

    async def workers(self) -> list[SeenWorker]:
        """Every session key, in the order of workers' names, with the worker's newest beat."""
        beats = {}
        async for page in self._etcd.read_prefix(self._keys.beats):
            for kv in page.kvs:
                beats[kv.key.removeprefix(self._keys.beats)] = kv.value
        seen = []
        async for page in self._etcd.read_prefix(self._keys.workers):
            seen += [self._seen(kv, beats) for kv in page.kvs]
        return seen

    async def _after(self, name: str, limit: int) -> tuple[KeyValue, ...]:
        after = self._keys.job(name) if name else ""
        return (await self._etcd.txn((), [_GetAfter(self._keys.jobs, limit=limit, after=after)])).kvs(0)

    async def _cut(self, found: list[Stored], after: str | None) -> JobPage:
        marks = await self._etcd.get_many([self._keys.mark(stored.name) for stored in found])
        with_marks = [stored.with_mark(marks.get(self._keys.mark(stored.name))) for stored in found]
        return JobPage(jobs=with_marks, next_cursor=None if after is None else _encode(after))

    def _stored(self, kv: KeyValue) -> Stored:
        return Stored.read(kv.key.removeprefix(self._keys.jobs), kv, None)

    def _seen(self, kv: KeyValue, beats: dict[str, bytes]) -> SeenWorker:
        try:
            worker, session = self._keys.session_of(kv.key)
            member = Member.from_json(kv.value, worker=worker, session=session, lease=kv.lease)
        except ValueError as error:
            return SeenWorker(key=kv.key, member=None, problem=str(error))
        try:
            beat = Beat.from_json(beats[worker]) if worker in beats else None
        except ValueError:
            beat = None
        return SeenWorker(key=kv.key, member=member, beat=beat)


def _encode(name: str) -> str:
    return base64.urlsafe_b64encode(b"j" + name.encode(errors="surrogateescape")).decode().rstrip("=")


def _decode(cursor: str) -> str:
    try:
        text = base64.b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, UnicodeError):
        text = b""
    if text[:1] != b"j" or len(text) < 2:
        remedy = "give the nextCursor of the page before, unchanged, or leave it out"
        raise InvalidInputError([Problem(field="cursor", message="is not a cursor of this list", remedy=remedy)])
    return text[1:].decode(errors="surrogateescape")
