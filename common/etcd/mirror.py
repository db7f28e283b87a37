"""The mirror: gives its consumer every change under a prefix, in order, whatever happens to the watch.

It watches from a revision on and reads what was there before; what the watch brings meanwhile is delivered after
the reading, so that one which takes longer than etcd keeps revisions arrives all the same. When the watch ends, it
backs off with jitter and goes on:

    an error, a clean end, silence                  watches from the revision after the last that is delivered in full
    compaction, a watch that etcd refuses,          reads again, compares with what was delivered, watches from there
    a sentinel or a count that does not match,
    an etcd that is behind what was delivered

So a consumer sees changes only, never a restart; of several writes to one key that arrive together, or before a
reading, it sees the last; a key deleted and made again as one change (`new.create_revision` tells); and of a key that
came and went before a reading nothing at all.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from msgspec import Struct

from common.clock import Clock
from common.errors import EtcdCompactedError, EtcdError, UnavailableError
from common.etcd import _rpc
from common.etcd.calls import Stream
from common.etcd.client import EtcdClient
from common.etcd.types import key_value, range_of, to_text
from common.process.lifecycle import until_first
from common.protocol.txn import GetKey, KeyValue, Txn

_log = logging.getLogger(__name__)

T = TypeVar("T")

_FIRST_BACKOFF_S = 0.1
_MAX_BACKOFF_S = 5.0
AT_ONCE = 50
"""Changes delivered without a pause (more where one transaction made more): some ms of a consumer that parses."""
_QUESTIONS = 2
"""So many are unanswered before it is given up: one may have been asked just now."""
_DELETE = 1
"""etcd's number for a deletion event."""


class Change(Struct, frozen=True, kw_only=True):
    """One key that is not as it was last delivered to the consumer."""

    key: str
    old_mod: int | None
    """The mod revision that was delivered before, or None: it was not there."""
    new: KeyValue | None
    """What is there now, or None: it was deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorTimings:
    """How soon a dead watch is noticed."""

    progress_s: float = 5.0
    """How often it looks whether anything has come since the look before; where nothing has, it asks the server for a
    sign of life (whose own interval is 10 minutes). So a quiet watch asks at every second look."""
    silence_s: float = 15.0
    """How long without any message, and with two questions unanswered, before the watch counts as dead."""
    grace_s: float = 5.0
    """How long events may be on their way after a sentinel has been read elsewhere."""


class _InterruptedError(Exception):
    """The watch is of no use any more: open another one."""


class _OutOfStepError(_InterruptedError):
    """Something was missed, or may have been: read again."""


class Mirror:
    """Keeps its owner in step with a prefix; knows of each key only the revision that it has delivered.

    `on_changes` is called in the event loop with a list of changes, each key at most once in it; it must not block.
    Of very many changes it is given some at a time; what one transaction has written comes together.
    Where it raises, each change of that list is given to it again alone, and `on_error` is called (and a line logged)
    for those that raise again: so one bad key harms no other. It must therefore bear to be given a change twice.
    """

    def __init__(
        self,
        client: EtcdClient,
        prefix: str,
        on_changes: Callable[[list[Change]], None],
        *,
        clock: Clock,
        on_error: Callable[[Change, Exception], None] | None = None,
        timings: MirrorTimings | None = None,
        page: int = 1000,
    ) -> None:
        self.prefix = prefix
        self.synced = asyncio.Event()
        """Set once the consumer has been given everything that the first complete reading found."""
        self.revision = 0
        """The consumer has been given everything up to this revision of etcd (and perhaps something later).

        It only grows, but where etcd is restored from a backup.
        """
        self.last_alive = clock.monotonic()
        """The monotonic time of the newest message from etcd."""
        self.newest_mod_revision = 0
        """The greatest revision of a write under the prefix, deletions included, that was delivered."""
        self.readings = 0
        """Complete readings so far; more than one means that the watch was interrupted."""
        self.misses = 0
        """Changes that a reading found although the watch had brought later ones: it had lost them."""
        self._client = client
        self._on_changes = on_changes
        self._on_error = on_error
        self._clock = clock
        self._timings = timings or MirrorTimings()
        self._page = page
        self._delivered: dict[str, int] = {}
        self._delivered_in_turn = 0
        self._expected: tuple[int, float] | None = None  # a sentinel's revision, and when it was first read
        self._interrupted = False  # whether it is out of step
        self._goes_on = False
        """Whether a watch from `_delivered_up_to` on brings all that has not been delivered."""
        self._held: dict[bytes, Any] | None = None
        """While it is reading: the last event of each key that the watch has brought."""
        self._delivered_up_to = 0
        """`revision`, or a later one up to which a sentinel has shown that nothing was missed."""
        self._wish: str | None = None
        self._wished = asyncio.Event()

    def __len__(self) -> int:
        """How many keys the consumer knows of."""
        return len(self._delivered)

    @property
    def silent_s(self) -> float:
        """Seconds since the newest message from etcd."""
        return self._clock.monotonic() - self.last_alive

    def resync(self, reason: str) -> None:
        """Reads the prefix again soon, and delivers what differs."""
        self._wish = reason
        self._wished.set()

    def missed(self, sentinel_mod_revision: int, read_at: int = 0) -> bool:
        """Whether a write that the sentinel speaks of should have arrived, and has not.

        ``read_at``: etcd's revision when the sentinel was read. One that matches shows that nothing was written between
        the two; so a watch of a quiet prefix can be opened again after the revision of its last event was compacted.
        Every write under the prefix also puts the sentinel, so events up to `sentinel_mod_revision` were to come.
        Those still on their way are given a grace: so the first call with a new revision is always False; the mirror
        remembers it, and by itself reads again should it not have arrived within the grace.
        """
        if self.revision >= sentinel_mod_revision:
            self._delivered_up_to = max(self._delivered_up_to, read_at)
            return False
        if self._expected is None:
            self._expected = (sentinel_mod_revision, self._clock.monotonic())
        return self._overdue()

    async def run(self) -> None:
        """Mirrors the prefix for ever; ends only by cancellation."""
        failures = 0
        while True:
            reason, started = "", self._clock.monotonic()
            try:
                if self._goes_on and await self._is_same_history():
                    await self._watch()
                else:
                    await self._read_and_watch()
            except* (_InterruptedError, UnavailableError, EtcdError) as group:
                reason = "; ".join(str(error) for error in group.exceptions)
                self._goes_on &= not any(isinstance(one, _OutOfStepError | EtcdError) for one in group.exceptions)
            # A watch that does not last is no success, or a large prefix would be read without end.
            lasted = self._clock.monotonic() - started > 2 * _MAX_BACKOFF_S
            failures = 0 if lasted else failures + 1
            pause_s = min(_MAX_BACKOFF_S, _FIRST_BACKOFF_S * 2.0 ** min(failures, 10)) * random.uniform(0.5, 1.0)
            level = logging.DEBUG if self._interrupted else logging.WARNING  # one line for each change of state
            self._interrupted = True
            extra = {"action": "mirror.interrupted", "prefix": self.prefix, "pause_s": round(pause_s, 2)}
            _log.log(level, "mirror of %s interrupted, reads again: %s", self.prefix, reason, extra=extra)
            await asyncio.sleep(pause_s)

    # Reading

    async def _read_and_watch(self) -> None:
        """Reads under a watch that is there already, then goes on with that."""
        self._wish = None
        self._wished.clear()
        self._goes_on = False
        revision = (await self._client.txn(Txn((), [GetKey(self.prefix or "\0")]))).revision
        self._held = {}
        try:
            await self._watch(since=revision, reading=lambda: self._read(revision))
        finally:
            self._held = None

    async def _read(self, revision: int) -> None:
        """Delivers what has changed since, up to this revision at least, and what the watch has brought.

        Where that is an earlier one, etcd has been restored from a backup: a watch from where we had been would be
        silent about all that happens until its revisions come there again.
        """
        found: dict[str, int] = {}
        earlier = self.revision
        is_restored = revision < earlier
        try:
            async for page in self._client.read_prefix(self.prefix, page=self._page, outlives_compaction=True):
                self.last_alive = self._clock.monotonic()
                for few in _parts(page.kvs):
                    changes = []
                    for kv in few:
                        old_mod = self._delivered.pop(kv.key, None)
                        found[kv.key] = kv.mod_revision
                        if old_mod != kv.mod_revision:
                            self.misses += not is_restored and kv.mod_revision <= earlier
                            changes.append(Change(key=kv.key, old_mod=old_mod, new=kv))
                    await self._deliver(changes)
            for few_keys in _parts(tuple(self._delivered)):
                await self._deliver([Change(key=key, old_mod=self._delivered.pop(key), new=None) for key in few_keys])
        finally:
            self._delivered.update(found)
        if is_restored:
            self.revision, self.newest_mod_revision, self._expected = revision, max(found.values(), default=0), None
            self._delivered_up_to = revision
            extra = {"action": "mirror.restored", "prefix": self.prefix, "revision": revision, "earlier": earlier}
            _log.warning("etcd is behind what it has told: was it restored from a backup?", extra=extra)
        self._reached(revision)
        await self._deliver_what_was_held()
        self.readings += 1
        if not self.synced.is_set():
            self._interrupted = True  # it is logged once
        self._note_in_step()
        self._goes_on = True
        self.synced.set()

    async def _deliver_what_was_held(self) -> None:
        while self._held:
            events = sorted(self._held.values(), key=lambda event: int(event.kv.mod_revision))
            self._held = {}
            for few in whole_revisions(events):
                await self._take(few)
        self._held = None

    async def _is_same_history(self) -> bool:
        """Whether etcd has what was delivered: one that was restored from a backup is behind, or has an older value."""
        newest = max(self._delivered, key=self._delivered.__getitem__, default=self.prefix)
        answer = await self._client.txn(Txn((), [GetKey(newest or "\0")]))
        self.last_alive, there = self._clock.monotonic(), answer.key(0)
        is_older = there is not None and there.mod_revision < self._delivered.get(newest, 0)
        return answer.revision >= self._delivered_up_to and not is_older

    def _note_in_step(self) -> None:
        if self._interrupted:
            self._interrupted = False
            extra = {"action": "mirror.synced", "prefix": self.prefix, "keys": len(self), "revision": self.revision}
            _log.info("mirror of %s is in step: %d keys", self.prefix, len(self), extra=extra)

    # Watching

    async def _watch(
        self, *, since: int | None = None, reading: Callable[[], Awaitable[None]] | None = None
    ) -> None:  # fmt: skip
        """Delivers changes from the revision after ``since`` (or the last delivered in full) on, until it raises."""
        stream = await self._client.watch_stream()
        try:
            first, end = range_of(self.prefix)
            create = {
                "key": first,
                "range_end": end,
                "start_revision": (self._delivered_up_to if since is None else since) + 1,
                "fragment": True,
            }
            await _write_within(self._timings.silence_s, stream, {"create_request": create})
            self.last_alive = self._clock.monotonic()
            await until_first(self._receive(stream), self._read_and_look_after(stream, reading))
        finally:
            stream.close()

    async def _read_and_look_after(self, stream: Stream, reading: Callable[[], Awaitable[None]] | None) -> None:
        if reading is not None:
            await reading()
        await self._look_after(stream)

    async def _receive(self, stream: Stream) -> None:
        fragments: list[Any] = []
        while True:
            response = await stream.read()
            self.last_alive = self._clock.monotonic()
            if response.canceled:  # which the server also says right after creating the watch
                if revision := response.compact_revision:
                    raise EtcdCompactedError(f"the watch needs revisions that were compacted up to {revision}")
                why = response.cancel_reason or "no reason given"
                raise _OutOfStepError(f"the server cancelled the watch: {why}")
            # A revision's events may be spread over fragments: nothing is delivered before the last one.
            fragments.extend(response.events)
            if fragments and not response.fragment:
                if self._held is not None:
                    self._held.update((event.kv.key, event) for event in fragments)
                else:
                    for events in whole_revisions(fragments):
                        await self._take(events)
                fragments = []

    async def _look_after(self, stream: Stream) -> None:
        """Asks for signs of life, and raises once the watch has to be given up."""
        looked_at, unanswered = self._clock.monotonic(), 0
        while True:
            try:
                async with asyncio.timeout(self._timings.progress_s):
                    await self._wished.wait()
                raise _OutOfStepError(f"asked to: {self._wish}")
            except TimeoutError:
                pass
            self._note_in_step()  # it has lasted so far
            is_quiet, looked_at = self.last_alive <= looked_at, self._clock.monotonic()
            if not is_quiet:
                unanswered = 0
            if self.silent_s >= self._timings.silence_s and unanswered >= _QUESTIONS:
                raise _InterruptedError(f"silent for {self.silent_s:.1f} s")
            if self._overdue():
                raise _OutOfStepError("the sentinel speaks of a write that did not arrive")
            if is_quiet:
                # The answer proves life only: its revision may be ahead of events that are still to come.
                await _write_within(self._timings.silence_s, stream, {"progress_request": {}})
                unanswered += 1

    async def _take(self, events: Sequence[Any]) -> None:
        """Delivers the events of one or more whole revisions, the last one for each key."""
        last_of = {event.kv.key: event for event in events}
        changes = []
        for raw_key, event in last_of.items():
            key = to_text(raw_key)
            old_mod = self._delivered.get(key)
            if event.kv.mod_revision <= (old_mod or 0):
                continue  # delivered before the watch was opened again
            if event.type == _DELETE:
                if self._delivered.pop(key, None) is not None:
                    changes.append(Change(key=key, old_mod=old_mod, new=None))
            else:
                self._delivered[key] = event.kv.mod_revision
                changes.append(Change(key=key, old_mod=old_mod, new=key_value(event.kv)))
        await self._deliver(changes)
        # Events come in the order of their revisions, so everything up to the last one is delivered.
        newest = events[-1].kv.mod_revision
        self.newest_mod_revision = max(self.newest_mod_revision, newest)
        self._reached(newest)

    # Delivering

    async def _deliver(self, changes: list[Change]) -> None:
        """Delivers them, and gives way after 50 or so: whatever changes, what is due in this process is not held up.

        Not after each: where others keep the loop busy, the watch of many small writes would fall behind.
        """
        if not changes:
            return
        for change in changes:
            if change.new is not None and change.new.mod_revision > self.newest_mod_revision:
                self.newest_mod_revision = change.new.mod_revision
        try:
            self._on_changes(changes)
        except Exception:  # whatever it was, it shows again below, for its own key
            for change in changes:
                self._deliver_alone(change)
        self._delivered_in_turn += len(changes)
        if self._delivered_in_turn >= AT_ONCE:
            self._delivered_in_turn = 0
            await asyncio.sleep(0)

    def _deliver_alone(self, change: Change) -> None:
        try:
            self._on_changes([change])
        except Exception as error:
            extra = {"action": "mirror.handler_failed", "key": change.key}
            _log.exception("the change of %s was not taken", change.key, extra=extra)
            if self._on_error is not None:
                self._on_error(change, error)

    def _reached(self, revision: int) -> None:
        self.revision = max(self.revision, revision)
        self._delivered_up_to = max(self._delivered_up_to, revision)
        if self._expected is not None and self.revision >= self._expected[0]:
            self._expected = None

    def _overdue(self) -> bool:
        if self._expected is None:
            return False
        return self._clock.monotonic() - self._expected[1] >= self._timings.grace_s


def _parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + AT_ONCE] for start in range(0, len(items), AT_ONCE))


def whole_revisions(events: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """The events in parts of at least 50, but the last; what one transaction has written stays together."""
    start = 0
    for index in range(1, len(events)):
        if index - start >= AT_ONCE and events[index].kv.mod_revision != events[index - 1].kv.mod_revision:
            yield events[start:index]
            start = index
    yield events[start:]


async def _write_within(seconds: float, stream: Stream, request: dict[str, Any]) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stream.write(_rpc.messages.WatchRequest(**request))
    except TimeoutError:
        raise _InterruptedError(f"the server took no request for {seconds:g} s") from None
