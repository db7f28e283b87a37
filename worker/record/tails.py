"""What runs print goes to the log store while they go on, of those that a user looks at; of others nothing is done.

A manager shows by a key (``tails/``) that a user looks. Then each second at most, and 64 KiB at most, the newest of
what the run's output keeps is sent (4 KiB every three seconds where they look at the last lines alone): a command that
prints faster has gaps, which the chunks' places tell. All of it is best effort, in a task of its own: a log store that
is slow or away costs the chunks, and no record and no run anything.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from common.clock import Clock
from common.errors import UnavailableError
from common.etcd import Change, EtcdClient, Mirror
from common.protocol import tails
from common.protocol.keys import Keys, RunId
from common.runlog import Chunk, TailStore
from worker.run.output import Output, as_text
from worker.run.running import Running

_log = logging.getLogger(__name__)

MOST_BYTES: Final = 65_536
"""Of one run, in one go."""
_EVERY_S: Final = 1.0
_LAST_BYTES: Final = 4_096
_LAST_EVERY_S: Final = 3.0
_LOOK_S: Final = 0.25
_RUNS_AT_ONCE: Final = 32
_KEPT: Final = 16
"""So many of a run's chunks stay in the log store, beside its first."""
_UNWANTED: Final = 4_096
"""What is beyond is the steward's."""


@dataclass(slots=True, eq=False)
class _Feed:
    """How far a run's output has been sent."""

    sent_to: int = 0
    sent_at: float = float("-inf")
    """On the monotonic clock."""
    pending: list[Chunk] = field(default_factory=list)
    """Sent, and perhaps not stored: it is sent again as it is."""
    stored: deque[str] = field(default_factory=deque)

    def has_news(self, output: Output) -> bool:
        return bool(self.pending) or not self.stored or output.printed > self.sent_to


class TailSender:
    """Sends until it is cancelled; ``run`` and the mirror belong into the TaskGroup."""

    def __init__(
        self, client: EtcdClient, keys: Keys, *, worker: str, running: Mapping[RunId, Running], store: TailStore,
        clock: Clock,
    ) -> None:  # fmt: skip
        """``running``: the runs that have processes, as they are at each moment."""
        self._keys = keys
        self._running = running
        self._store = store
        self._clock = clock
        self._looks: dict[RunId, dict[str, bool]] = {}
        """Which managers look at a run, and whether at its last lines alone."""
        self._feeds: dict[RunId, _Feed] = {}
        """Of runs that have not ended."""
        self._unwanted: deque[str] = deque(maxlen=_UNWANTED)
        """Chunks that are to be deleted."""
        self._has_work = asyncio.Event()
        self._is_away = False
        self.mirror = Mirror(client, keys.tails_of(worker), self._on_changes, clock=clock)

    def ended(self, run_id: RunId) -> None:
        """It prints no more: its record has all."""
        if (feed := self._feeds.pop(run_id, None)) is not None:
            self._unwanted += [*feed.stored, *(chunk.id for chunk in feed.pending)]
            self._has_work.set()

    def _on_changes(self, changes: Sequence[Change]) -> None:
        for change in changes:
            try:
                run_id, manager = self._keys.tail_of(change.key)
            except ValueError as error:
                key = ascii(change.key)  # it may be no text
                _log.warning("%s is left out: %s", key, error, extra={"action": "tail.odd", "key": key})
                continue
            managers = self._looks.setdefault(run_id, {})
            managers.pop(manager, None)
            if change.new is not None:
                managers[manager] = tails.is_short(change.new.value)
            elif not managers:
                del self._looks[run_id]
        self._has_work.set()

    async def run(self) -> None:
        """Sends while a user looks; a log store that is away is tried again."""
        while True:
            await self._has_work.wait()
            self._has_work.clear()
            while self._looks or self._unwanted:
                try:
                    await self._send()
                    await self._delete()
                    self._is_away = False
                except UnavailableError as error:
                    level, self._is_away = (logging.DEBUG if self._is_away else logging.WARNING), True
                    extra = {"action": "tail.unsent", "error": str(error)}
                    _log.log(level, "what runs print is not sent to those who look: %s", error, extra=extra)
                await asyncio.sleep(_EVERY_S if self._is_away else _LOOK_S)

    async def _send(self) -> None:
        now = self._clock.monotonic()
        due = list[tuple[RunId, _Feed]]()
        for run_id, managers in self._looks.items():
            if (run := self._running.get(run_id)) is None:
                continue
            feed, is_short = self._feeds.setdefault(run_id, _Feed()), all(managers.values())
            if now - feed.sent_at < (_LAST_EVERY_S if is_short else _EVERY_S) or not feed.has_news(run.output):
                continue
            most = _LAST_BYTES if is_short and feed.stored else MOST_BYTES
            feed.pending = feed.pending or _chunks(run_id, run.output, feed, most)
            due.append((run_id, feed))
        due = sorted(due, key=lambda one: one[1].sent_at)[:_RUNS_AT_ONCE]
        for _, feed in due:
            feed.sent_at = now
        if chunks := [chunk for _, feed in due for chunk in feed.pending]:
            await self._store.put(chunks, self._clock.wall_ms())
        for run_id, feed in due:
            sent, feed.pending = feed.pending, []
            feed.sent_to = max([feed.sent_to, *(chunk.end for chunk in sent)])
            ids = [chunk.id for chunk in sent if chunk.id not in feed.stored]
            if self._feeds.get(run_id) is not feed:
                self._unwanted += ids  # it has ended meanwhile
                continue
            feed.stored += ids
            while len(feed.stored) > 1 + _KEPT:
                self._unwanted.append(feed.stored[1])
                del feed.stored[1]

    async def _delete(self) -> None:
        if ids := list(self._unwanted):
            await self._store.delete(ids)
            for _ in ids:
                self._unwanted.popleft()


def _chunks(run_id: RunId, output: Output, feed: _Feed, most: int) -> list[Chunk]:
    """What is to be sent next; at first something in any case, by which who looks knows that it is sent."""
    run, pieces = str(run_id), output.newest(feed.sent_to, most)
    found = [Chunk(run=run, start=start, size=len(piece), text=as_text(piece)) for start, piece in pieces]
    return found or ([] if feed.stored else [Chunk(run=run, start=0, size=0, text="")])
