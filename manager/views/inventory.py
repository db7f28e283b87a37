"""Jobs and workers read straight from etcd: what the legacy API answers, and what no watch is worth (the beats).

One bad key harms no other: a value that does not parse is handed out with its problem.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from common.access.rights import Rights
from common.etcd import EtcdClient
from common.protocol.clocks import Clocks
from common.protocol.drain import Drain
from common.protocol.edits import Stored
from common.protocol.keys import Keys
from common.protocol.member import Beat, Member, is_worker_name
from common.protocol.roster import RosterEntry
from common.protocol.txn import KeyValue

_LISTED_AT_ONCE: Final = 250
"""Parsed without a pause: other requests wait for so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenWorker:
    """A session of a worker, or a session key that is not one of ours."""

    key: str
    member: Member | None
    """None: not one of ours, or of a worker that is not live."""
    beat: Beat | None = None
    problem: str | None = None
    name: str | None = None
    """The worker's, as far as its key tells."""
    drain: Drain | None = None
    past: RosterEntry | None = None
    """What is remembered of one that is not live."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """All workers, which processes there are, how the clocks compare, and whether a steward is elected."""

    workers: Sequence[SeenWorker]
    beating: Collection[str]
    """Each process that has a session, by its name: a manager, too."""
    clocks: Clocks | None
    has_steward: bool


def is_seen(stored: Stored, rights: Rights) -> bool:
    """Whether a caller may know of this job; of what is no job only who administers everything may."""
    return rights.sees_unlabelled if stored.saved is None else rights.sees(stored.saved.spec.labels)


class Inventory:
    """Reads jobs and workers."""

    def __init__(self, etcd: EtcdClient, keys: Keys) -> None:
        self._etcd = etcd
        self._keys = keys

    async def jobs(self, rights: Rights) -> AsyncGenerator[list[Stored]]:
        """Every job that a caller may know of as at one revision, a page at a time, without its mark."""
        async for page in self._etcd.read_prefix(self._keys.jobs, page=_LISTED_AT_ONCE):
            read = [Stored.read(kv.key.removeprefix(self._keys.jobs), kv, None) for kv in page.kvs]
            if rights.sees_unlabelled:
                yield read
            elif rights.sees_all:  # a look at each job's labels takes a millisecond for 1,000 of them
                yield [one for one in read if one.saved is not None]
            else:
                yield [one for one in read if is_seen(one, rights)]

    async def fleet(self) -> Fleet:
        """Every session key, with the worker's newest beat, and every worker that is drained or was here, by name."""
        keys = self._keys
        sessions, beats, drains, roster, clocks, steward = await self._etcd.read_prefixes(
            keys.workers, keys.beats, keys.drains, keys.roster, keys.clocks, keys.steward
        )
        return Fleet(
            workers=self.seen(sessions, self._beats_in(beats), self._drains_in(drains), self._roster_in(roster)),
            beating=self._beats_in(beats),
            clocks=_clocks_in(next((kv for kv in clocks if kv.key == keys.clocks), None)),
            has_steward=any(kv.key == keys.steward for kv in steward),
        )

    async def workers(self) -> Sequence[SeenWorker]:
        """Those of the fleet."""
        return (await self.fleet()).workers

    async def live(self) -> list[SeenWorker]:
        """Every session key alone."""
        return self.seen(await self._under(self._keys.workers), {})

    async def _under(self, prefix: str) -> list[KeyValue]:
        return [kv async for page in self._etcd.read_prefix(prefix) for kv in page.kvs]

    def seen(
        self,
        sessions: Iterable[KeyValue],
        beats: Mapping[str, bytes],
        drains: Mapping[str, Drain] | None = None,
        roster: Mapping[str, RosterEntry] | None = None,
    ) -> list[SeenWorker]:
        """The workers in these session keys, each with its newest beat and its drain; then those that are not live."""
        drains, roster = drains or {}, roster or {}
        seen = [self._seen(kv, beats, drains) for kv in sessions]
        live = {worker.name for worker in seen}
        seen += [
            SeenWorker(
                key=self._keys.roster_entry(name) if name in roster else self._keys.drain(name),
                member=None, name=name, drain=drains.get(name), past=roster.get(name),
            )
            for name in drains.keys() | roster.keys()
            if name not in live
        ]  # fmt: skip
        return sorted(seen, key=lambda worker: (worker.name or "", worker.key))

    async def drains(self) -> dict[str, Drain]:
        """The drained workers by name, live or not."""
        return self._drains_in(await self._under(self._keys.drains))

    def _drains_in(self, kvs: Iterable[KeyValue]) -> dict[str, Drain]:
        return {kv.key.removeprefix(self._keys.drains): Drain.from_json(kv.value) for kv in kvs}

    async def roster(self) -> dict[str, RosterEntry]:
        """Every worker that is remembered, by name, live or not."""
        return self._roster_in(await self._under(self._keys.roster))

    def _roster_in(self, kvs: Iterable[KeyValue]) -> dict[str, RosterEntry]:
        roster = {}
        for kv in kvs:
            name = kv.key.removeprefix(self._keys.roster)
            with suppress(ValueError):  # the steward says so
                roster[name] = RosterEntry.from_json(kv.value, worker=name)
        return roster

    async def beats(self) -> dict[str, bytes]:
        """The newest beat of each process, by its name, as it was sent."""
        return self._beats_in(await self._under(self._keys.beats))

    def _beats_in(self, kvs: Iterable[KeyValue]) -> dict[str, bytes]:
        return {kv.key.removeprefix(self._keys.beats): kv.value for kv in kvs}

    async def complaints(self) -> tuple[dict[str, str], dict[str, str]]:
        """What etcd does not let a worker do as the steward, by the worker; why a notifier does not tell all, by it."""
        refused, untold = {}, {}
        for name, value in (await self.beats()).items():
            with suppress(ValueError):
                beat = Beat.from_json(value)
                if beat.not_permitted is not None:
                    refused[name] = beat.not_permitted
                if beat.kind == "manager" and beat.problem is not None:
                    untold[name] = beat.problem
        return refused, untold

    async def clocks(self) -> Clocks | None:
        """The newest comparison of clocks; None: there is none, or none that can be read."""
        return _clocks_in(await self._etcd.get(self._keys.clocks))

    def _seen(self, kv: KeyValue, beats: Mapping[str, bytes], drains: Mapping[str, Drain]) -> SeenWorker:
        try:
            worker, session = self._keys.session_of(kv.key)
            if not is_worker_name(worker):
                raise ValueError("no worker may be called so")  # the workers set it aside, too
            member = Member.from_json(kv.value, worker=worker, session=session, lease=kv.lease)
        except ValueError as error:
            return SeenWorker(key=kv.key, member=None, problem=str(error))
        try:
            beat = Beat.from_json(beats[worker]) if worker in beats else None
        except ValueError:
            beat = None
        return SeenWorker(key=kv.key, member=member, beat=beat, name=worker, drain=drains.get(worker))


def _clocks_in(kv: KeyValue | None) -> Clocks | None:
    try:
        return None if kv is None else Clocks.from_json(kv.value)
    except ValueError:
        return None  # the processes that read it have logged it
