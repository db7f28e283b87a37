"""The workers that were here and are not: as etcd remembers them, and as this worker saw them go.

In step with ``roster/`` only while this worker is steward; who goes, and when, every worker sees.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from common.clock import Clock
from common.etcd import Change
from common.protocol.keys import Keys
from common.protocol.member import Member
from common.protocol.roster import Left, RosterEntry

_log = logging.getLogger(__name__)


class Known(NamedTuple):
    """An entry, and the mod revision of its key."""

    entry: RosterEntry
    revision: int


class Roster:
    """Kept by whoever sees the workers (`saw`) and by a mirror of ``roster/`` (`on_changes`)."""

    def __init__(self, keys: Keys, clock: Clock) -> None:
        self._keys = keys
        self._clock = clock
        self._live: frozenset[str] = frozenset()
        self._left_ms: dict[str, int] = {}
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
        self._live = live

    def on_changes(self, changes: Sequence[Change]) -> None:
        """The mirror's changes, taken in; what cannot be read stands for a worker that left long ago."""
        for change in changes:
            name = change.key.removeprefix(self._keys.roster)
            self.by_name.pop(name, None)
            if change.new is None:
                self._forget(name)
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

    def _forget(self, name: str) -> None:
        if name not in self._live:
            self._left_ms.pop(name, None)
