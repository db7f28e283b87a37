"""The workers that were here and are not, so that a machine that is gone is not silent.

``Roster``: as etcd remembers them, and as this worker saw them go. It is in step with ``roster/`` only while this
worker is steward; who goes, and when, every worker sees.

``RosterKeeping``: a worker that stops says so itself; of one whose session ended without a word, the steward writes
that it is gone. Each is written when it comes, when it leaves, and once an hour while it is here. One that is not here
is forgotten after 30 days, or as the one that left first where there are more than 1,000, or when an operator says so.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from common.clock import Clock
from common.etcd import Change, EtcdClient
from common.protocol import roster
from common.protocol.keys import Keys
from common.protocol.member import Member
from common.protocol.roster import KEPT_MS, MOST_KEPT, Left, RosterEntry
from common.protocol.txn import Txn
from worker.lead.leader import Term
from worker.members import Members

_log = logging.getLogger(__name__)


class Known(NamedTuple):
    """An entry, and the mod revision of its key."""

    entry: RosterEntry
    revision: int


class Roster:
    """Kept by the reader of the workers (`saw`) and by a mirror of ``roster/`` (`on_changes`)."""

    def __init__(self, keys: Keys, clock: Clock) -> None:
        self._keys = keys
        self._clock = clock
        self._live: frozenset[str] = frozenset()
        self._left_ms: dict[str, int] = {}
        """In the order in which they left; of no more than are remembered in etcd."""
        self.by_name: dict[str, Known] = {}

    @property
    def live(self) -> frozenset[str]:
        """The workers with a session."""
        return self._live

    def saw(self, members: Iterable[Member]) -> None:
        """These have a session now."""
        live = frozenset(member.worker for member in members if member.attached)
        self._left_ms.update(dict.fromkeys(self._live - live, self._clock.wall_ms()))
        for name in live:
            self._left_ms.pop(name, None)
        while len(self._left_ms) > MOST_KEPT:
            del self._left_ms[next(iter(self._left_ms))]
        self._live = live

    def on_changes(self, changes: Sequence[Change]) -> None:
        """The mirror's changes, taken in; what cannot be read stands for a worker that left long ago."""
        for change in changes:
            name = change.key.removeprefix(self._keys.roster)
            self.by_name.pop(name, None)
            if change.new is None:
                if name not in self._live:
                    self._left_ms.pop(name, None)
                continue
            try:
                entry = RosterEntry.from_json(change.new.value, worker=name)
            except ValueError as error:
                extra = {"action": "roster.unread", "key": change.key}
                _log.warning("the key %r is %s", change.key, error, extra=extra)
                entry = RosterEntry(worker=name, host="", seen_ms=0, left=Left.GONE)
            self.by_name[name] = Known(entry, change.new.mod_revision)

    def away(self) -> Mapping[str, RosterEntry]:
        """Those that are not here."""
        return {name: known.entry for name, known in self.by_name.items() if name not in self._live}

    def left_ms(self, entry: RosterEntry) -> int:
        """When a worker that is not here was seen last, by this worker or by who wrote the entry."""
        return entry.seen_ms if entry.left is not None else max(entry.seen_ms, self._left_ms.get(entry.worker, 0))


SEEN_EVERY_MS: Final = 3_600_000
_AT_ONCE: Final = 100
"""Writes in one turn."""


class RosterKeeping:
    """Writes down who is here, and who is no more."""

    name = "remembering the workers"
    every_s = 2.0

    def __init__(self, *, client: EtcdClient, keys: Keys, members: Members, roster: Roster, clock: Clock) -> None:
        self._client = client
        self._keys = keys
        self._members = members
        self._roster = roster
        self._clock = clock
        self._left = 0

    def begin(self) -> None:
        """Nothing to read anew: each write compares what it is based on."""

    def end(self) -> None:
        """Nothing to forget: each write compares what it is based on."""

    async def perform(self, term: Term) -> None:
        """Nothing is compared with what was read: every write compares what it is based on."""
        now_ms, self._left = self._clock.wall_ms(), _AT_ONCE
        for key, member in list(self._members.by_key.items()):
            entry = RosterEntry.of(member, seen_ms=now_ms)
            if member.attached and self._is_news(entry):
                await self._write(
                    roster.came(self._keys, entry, key, known_revision=self._known(entry.worker), guards=term.holds)
                )
        for name, entry in self._roster.away().items():
            if entry.left is None:
                gone = replace(entry, left=Left.GONE, seen_ms=self._roster.left_ms(entry))
                await self._write(self._went(term, name, gone))
        away = sorted(self._roster.away().values(), key=lambda one: one.seen_ms)
        too_many = len(self._roster.by_name) - MOST_KEPT
        old = [one.worker for number, one in enumerate(away) if number < too_many or one.seen_ms < now_ms - KEPT_MS]
        for name in old:
            await self._write(self._went(term, name, None))

    def _is_news(self, entry: RosterEntry) -> bool:
        known = self._roster.by_name.get(entry.worker)
        if known is None or entry.seen_ms - known.entry.seen_ms >= SEEN_EVERY_MS:
            return True
        return replace(entry, seen_ms=known.entry.seen_ms) != known.entry

    async def _write(self, txn: Txn) -> None:
        if self._left > 0:
            self._left -= 1
            await self._client.txn(txn)

    def _went(self, term: Term, name: str, entry: RosterEntry | None) -> Txn:
        return roster.went(self._keys, name, entry, known_revision=self._known(name), guards=term.holds)

    def _known(self, name: str) -> int:
        known = self._roster.by_name.get(name)
        return 0 if known is None else known.revision
