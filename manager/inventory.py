"""Jobs and workers read straight from etcd: what the parent's calls answer, and what no watch is worth (the beats).

One bad key harms nobody else: a value that does not parse is handed out with its problem.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from common.etcd import EtcdClient, KeyValue
from common.keys import Keys
from common.member import Beat, Member
from manager.edits import Stored

_LISTED_AT_ONCE: Final = 250
"""Parsed without a pause: other requests wait for so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenWorker:
    """A session of a worker, or a session key that is not one of ours."""

    key: str
    member: Member | None
    beat: Beat | None = None
    problem: str | None = None


class Inventory:
    """Reads jobs and workers."""

    def __init__(self, etcd: EtcdClient, keys: Keys) -> None:
        self._etcd = etcd
        self._keys = keys

    async def jobs(self) -> AsyncIterator[list[Stored]]:
        """Every job as at one revision, a page at a time, without its mark."""
        async for page in self._etcd.read_prefix(self._keys.jobs, page=_LISTED_AT_ONCE):
            yield [self._stored(kv) for kv in page.kvs]

    async def workers(self) -> list[SeenWorker]:
        """Every session key, in the order of workers' names, with the worker's newest beat."""
        beats = await self.beats()
        sessions: list[KeyValue] = []
        async for page in self._etcd.read_prefix(self._keys.workers):
            sessions += page.kvs
        return self.seen(sessions, beats)

    def seen(self, sessions: Iterable[KeyValue], beats: Mapping[str, bytes]) -> list[SeenWorker]:
        """The workers in these session keys, each with its newest beat, in the order of their keys."""
        return [self._seen(kv, beats) for kv in sorted(sessions, key=lambda kv: kv.key)]

    async def beats(self) -> dict[str, bytes]:
        """The newest beat of each process, by its name, as it was sent."""
        beats = {}
        async for page in self._etcd.read_prefix(self._keys.beats):
            for kv in page.kvs:
                beats[kv.key.removeprefix(self._keys.beats)] = kv.value
        return beats

    def _stored(self, kv: KeyValue) -> Stored:
        return Stored.read(kv.key.removeprefix(self._keys.jobs), kv, None)

    def _seen(self, kv: KeyValue, beats: Mapping[str, bytes]) -> SeenWorker:
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
