"""The spool: a record that was appended is on this worker's disk for good, until the log store has it.

Appends share their fsync: all that arrive while one is running go into the next. Nothing here blocks the loop: the
file work is the disk's thread's, one thing at a time. Memory stays bounded however long the log store is away: what the
tail cache has no room for is read back from the disk. As the spool fills, outputs are cut, then dropped (`spool_room`);
a record is refused only by the disk itself. The worker holds the lock on the directory.

A record that is not safe after five seconds is refused, with all that wait behind it: the disk hangs. What was being
written then may come to be there once the disk goes on. It is delivered like any other: a record is named by its run,
so the log store keeps one. Until then all is refused at once. What waits before is bounded, too: outputs are cut as it
grows, then dropped, then records are refused.

If we die before an append has returned, the record may be there or not; whole or not at all. If we die between a write
to the log store and `acknowledge`, the records are read again.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import logging
from collections import deque
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from common.errors import EtcronError
from common.process.disk import Disk
from common.protocol.run import RunRecord
from worker.record.spool_room import Room
from worker.record.spool_segments import (
    Mark,
    Segment,
    append_durably,
    find_segments,
    frame,
    is_there,
    make_room,
    new_segment,
    read_cursor,
    read_page,
    try_out,
    write_cursor,
)

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

SEGMENT_BYTES = 4 * 1024 * 1024
CACHE_BYTES = 8 * 1024 * 1024
READ_BYTES = 8 * 1024 * 1024
SAFE_WITHIN_S = 5.0
"""Or the disk hangs."""
_LOOKS = 10
"""In that time. They are counted, not the time: a process that was stopped has not waited for its disk."""
_ARRIVING_BYTES = 64 * 1024 * 1024
"""Of records that are not safe yet."""
_TRIAL_BYTES = 1024 * 1024
_ALL = 1 << 30
_MANY_NEEDED = 1000
_CLOSED = "the spool is closed: its worker stops"
_WORTH_REMOVING_BYTES = 256 * 1024
"""A segment of so much is removed once it is delivered, although there is room in it: a small disk gets it back."""
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class SpoolError(EtcronError):
    """The spool did not take the record. Make room on the worker's disk; the spool goes on by itself."""


def _not_needed() -> bool:
    """No later process has to find it."""
    return False


class _Waiting(Struct, frozen=True):
    """An append whose frame is not on the disk yet."""

    frame: bytes
    record: RunRecord
    on_done: Callable[[int | SpoolError], None]
    is_needed: Callable[[], bool]
    since: int
    """How many looks there had been when it came."""


class _Cached(Struct, frozen=True, gc=False):
    position: int
    record: RunRecord
    size: int


class Spooled(Struct, frozen=True):
    """What the spool knows of a run that a former process has ended."""

    position: int
    record: RunRecord
    """Without its output."""


class Spool:
    """Append, read from the cursor, acknowledge. Use from one event loop."""

    def __init__(
        self, directory: Path, segments: list[Segment], cursor: int, *,
        limit_bytes: int | None, segment_bytes: int, cache_bytes: int, arriving_bytes: int, safe_within_s: float,
    ) -> None:  # fmt: skip
        """Use `open`."""
        self.disk = Disk()
        """Does all that the spool asks for, and may be asked by others for more."""
        with contextlib.suppress(RuntimeError):  # now: when it is needed, the machine may be out of processes
            self.disk.start()
        self._former = range(cursor + 1, segments[-1].last + 1)
        """Positions that a former process has left; they stay, and are not written off, until they are released."""
        self._former_is_kept = bool(self._former)
        self._directory = directory
        self._segments = segments
        self._cursor = cursor
        self._room = Room(limit_bytes)
        self._segment_bytes = segment_bytes
        self._cache_bytes = cache_bytes
        self._waiting: list[_Waiting] = []
        self._arriving_bytes = 0
        self._arriving_room = Room(arriving_bytes, of="the room for what waits for the worker's disk")
        self._refused_bytes = 0
        self._batch: Sequence[_Waiting] = ()
        """What is being written."""
        self._committing: asyncio.Future[Sequence[Segment]] | None = None
        self._safe_within_s = safe_within_s
        self._looks = 0
        self._next_look: asyncio.TimerHandle | None = None
        self._hangs = False
        """Whether what is being written was refused, because it takes too long."""
        self._tail: deque[_Cached] = deque()
        self._tail_bytes = 0
        self._mark: Mark | None = None
        self._needed: deque[tuple[int, Callable[[], bool]]] = deque()
        """By position: whether a later process may still have to ask for the record, delivered or not."""
        self._many_needed = _MANY_NEEDED
        self._is_closed = False
        self._on_disk = cursor
        """The cursor that a later process will find."""
        self.on_record: Callable[[RunRecord], None] | None = None
        """Called with each record that comes, where they are counted."""
        self.changed = asyncio.Event()
        """Set when records have come to the disk; the reader clears it before looking."""

    @classmethod
    def open(
        cls, directory: Path, *,
        limit_bytes: int | None = None, segment_bytes: int = SEGMENT_BYTES, cache_bytes: int = CACHE_BYTES,
        arriving_bytes: int = _ARRIVING_BYTES, safe_within_s: float = SAFE_WITHIN_S,
    ) -> Self:  # fmt: skip
        """The spool as the last process left it; made where there is none. A torn last record is cut off.

        ``limit_bytes``: how much disk it should take; outputs are cut from half of it on. SpoolError where the
        directory cannot be used. Reads at most one segment. To be called before there is a loop to block.
        """
        try:
            directory.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(OSError):
                make_room(directory)
            segments, torn = find_segments(directory)
            cursor = read_cursor(directory)
        except OSError as error:
            raise SpoolError(f"the spool in {directory} cannot be opened: {error}") from error
        if torn:
            _log.warning("a torn end of the spool was set aside", extra={"action": "spool_torn", "bytes": torn})
        if not segments or segments[-1].last < cursor:
            segments.append(new_segment(directory, cursor + 1))
        cursor = max(cursor, segments[0].first - 1)
        return cls(
            directory, segments, cursor,
            limit_bytes=limit_bytes, segment_bytes=segment_bytes, cache_bytes=cache_bytes,
            arriving_bytes=arriving_bytes, safe_within_s=safe_within_s,
        )  # fmt: skip

    @property
    def directory(self) -> Path:
        """Where it lies."""
        return self._directory

    @property
    def cursor(self) -> int:
        """The position up to which all is acknowledged; positions count from 1."""
        return self._cursor

    @property
    def last(self) -> int:
        """The position of the newest record on the disk."""
        return self._segments[-1].last

    @property
    def pending(self) -> int:
        """How many records are on the disk and not acknowledged."""
        return self.last - self._cursor

    @property
    def size_bytes(self) -> int:
        """How much disk the records take, those acknowledged but not yet removed included."""
        return sum(segment.size for segment in self._segments)

    @property
    def is_scarce(self) -> bool:
        """Whether it is so full that outputs are cut."""
        return self._room.is_scarce(self.size_bytes + self._arriving_bytes)

    @property
    def cached_bytes(self) -> int:
        """How much of the newest records is kept in memory, by their size on the disk."""
        return self._tail_bytes

    async def append(self, record: RunRecord, is_needed: Callable[[], bool] = _not_needed) -> int:
        """The record's position, once it is on the disk for good, with as much of its output as there is room for.

        SpoolError: it is not there (the disk is full, fails, or hangs); the spool stays usable. ``is_needed``: whether
        a process that begins when this one has died has to find the record, though it is delivered.
        """
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.accept(record, partial(_settle, done), is_needed)
        return await done

    def accept(
        self,
        record: RunRecord,
        on_done: Callable[[int | SpoolError], None],
        is_needed: Callable[[], bool] = _not_needed,
    ) -> None:
        """The same, for who has many: ``on_done`` gets the position or the error, later. It must not raise."""
        if (refusal := self._refusal) is not None:
            asyncio.get_running_loop().call_soon(on_done, refusal)
            return
        record = self._room.fitted(record, self.size_bytes + self._arriving_bytes)
        record = self._arriving_room.fitted(record, self._arriving_bytes)
        data = frame(record)
        self._arriving_bytes += len(data)
        self._waiting.append(_Waiting(data, record, on_done, is_needed, self._looks))
        if self.on_record is not None:
            self.on_record(record)
        self._commit_what_waits()
        self._look_later()

    @property
    def _refusal(self) -> SpoolError | None:
        """Why no record is taken now."""
        if self._is_closed:
            return SpoolError(_CLOSED)
        if self._hangs:
            return self._hanging
        if self._arriving_room.is_full(self._arriving_bytes):
            return SpoolError(f"the spool's disk is too slow: {self._arriving_bytes:,} bytes wait for it")
        return None

    @property
    def _hanging(self) -> SpoolError:
        why = f"the spool's disk hangs (nothing could be written for {self._safe_within_s:g} s)"
        return SpoolError(f"{why}: mend it where {self._directory} is; it goes on by itself then")

    def _look_later(self) -> None:
        if self._next_look is None:
            after_s = self._safe_within_s / _LOOKS
            self._next_look = asyncio.get_running_loop().call_later(after_s, self._look)

    def _look(self) -> None:
        """Whether the record that has waited longest is safe in time."""
        self._next_look = None
        self._looks += 1
        if self._committing is None or self._hangs:
            return
        if self._looks - self._batch[0].since > _LOOKS:
            # All that are not safe are refused; what is being written may still come to be there.
            self._hangs = True
            waiting, self._waiting = self._waiting, []
            self._arriving_bytes -= sum(len(one.frame) for one in waiting)
            for one in (*self._batch, *waiting):
                one.on_done(self._hanging)
        else:
            self._look_later()

    async def read(
        self, limit: int, *, after: int | None = None, max_bytes: int = READ_BYTES
    ) -> list[tuple[int, RunRecord]]:
        """Up to ``limit`` records with their positions, oldest first, behind ``after`` (default: the cursor).

        At most ``max_bytes`` of them, but at least one. Empty only where there are none. SpoolError: the disk does not
        give them back.
        """
        return await self._read_behind(max(after or 0, self._cursor), limit, max_bytes)

    async def acknowledge(self, position: int) -> None:
        """Everything up to ``position`` is delivered: it is not read again, and whole segments of it are removed.

        SpoolError: that could not be written down; it is read again after a restart only.
        """
        self._cursor = max(self._cursor, min(position, self.last))
        while self._tail and self._tail[0].position <= self._cursor:
            self._tail_bytes -= self._tail.popleft().size
        newest = self._segments[-1]
        is_idle = self._committing is None and not self._waiting  # nothing goes into it now
        if is_idle and newest.last <= self._cursor and newest.size >= _WORTH_REMOVING_BYTES:
            self._segments.append(new_segment(self._directory, self.last + 1))
        settled = self._settled()
        gone = [segment for segment in self._segments[:-1] if segment.last <= settled]
        self._segments = self._segments[len(gone) :]
        # Where no file is left to tell the position by its name, only the cursor does.
        last_one = gone[-1:] if not any(segment.count for segment in self._segments) else []
        try:
            await self._in_thread(self._forget, settled, gone, last_one)
        except SpoolError:
            self._segments[:0] = last_one
            raise
        self._on_disk = settled

    def _settled(self) -> int:
        """Up to where the records count as delivered on the disk: what they say is known in etcd, too.

        A process that ends between the two leaves the verdicts here to the next one, where the log store may not be
        there to be asked: those of its own runs, and those of a former process that it has not settled yet.
        """
        self._drop_unneeded()
        own = min(self._cursor, self._needed[0][0] - 1) if self._needed else self._cursor
        return min(own, self._former.start - 1) if self._former_is_kept else own

    def _drop_unneeded(self) -> None:
        while self._needed and not self._needed[0][1]():
            self._needed.popleft()
        if len(self._needed) > self._many_needed:  # behind one that stays
            self._needed = deque(one for one in self._needed if one[1]())
            self._many_needed = max(_MANY_NEEDED, 2 * len(self._needed))

    async def find_former(self, wanted: Collection[str]) -> dict[str, Spooled]:
        """The newest records of these runs (by their ids) among those that a former process has left undelivered.

        Delivered meanwhile or not, until `release_former`. Reads page by page; there may be very many.
        """
        found: dict[str, Spooled] = {}
        position = self._former.start - 1
        # A segment at a time: less would read it again for each page.
        while wanted and position + 1 in self._former and (page := await self._read_behind(position, _ALL, READ_BYTES)):
            for position, record in page:
                if position in self._former and (run_id := str(record.run_id)) in wanted:
                    found[run_id] = Spooled(position, replace(record, output=""))
        return found

    async def release_former(self) -> None:
        """The records of a former process are not asked for any more: those that are delivered may go."""
        self._former_is_kept = False
        with contextlib.suppress(SpoolError):
            await self.acknowledge(self._cursor)

    async def try_out(self) -> None:
        """SpoolError while a mebibyte, or what was refused last, would be refused where the next record would go.

        Or while that takes too long; a disk that hangs is waited for.
        """
        size = max(_TRIAL_BYTES, self._refused_bytes)
        offset = self._segments[-1].size
        offset = offset if offset + size <= self._segment_bytes else 0
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        await self._in_thread(try_out, self._directory, offset, size)
        if loop.time() - began_s > self._safe_within_s:
            raise self._hanging
        self._refused_bytes = 0

    async def close(self) -> None:
        """Waits for the appends under way; nothing is open then. Not for a disk that hangs."""
        if self._settled() > self._on_disk:
            with contextlib.suppress(SpoolError, TimeoutError):  # they are delivered once more
                async with asyncio.timeout(self._safe_within_s):
                    await self.acknowledge(self._cursor)
        while self._committing is not None and not self._hangs:  # last: others may come while something is waited for
            await asyncio.wait([self._committing], timeout=self._safe_within_s / _LOOKS)
        self._is_closed = True
        self.disk.close()

    def _commit_what_waits(self) -> None:
        """One write and one fsync for all that wait, unless one is running: its end calls this again."""
        if self._committing is not None or not self._waiting:
            return
        # Those that have waited longest: about a segment's worth, as a segment is read back as a whole.
        sizes = itertools.accumulate(len(waiting.frame) for waiting in self._waiting)
        count = max(1, sum(1 for _ in itertools.takewhile(lambda size: size <= self._segment_bytes, sizes)))
        self._batch, self._waiting = self._waiting[:count], self._waiting[count:]
        frames = [waiting.frame for waiting in self._batch]
        self._committing = self.disk.call(self._commit, self._segments[-1], frames)
        self._committing.add_done_callback(self._committed)

    def _commit(self, active: Segment, frames: Sequence[bytes]) -> Sequence[Segment]:
        """In the thread: the segments that take the place of the active one."""
        is_full = active.size + len(frames[0]) > self._segment_bytes
        # Behind records that a user has removed, no later process would find those that are added.
        if active.count and (is_full or not is_there(active)):
            return [active, append_durably(new_segment(self._directory, active.last + 1), frames)]
        return [append_durably(active, frames)]

    def _committed(self, future: asyncio.Future[Sequence[Segment]]) -> None:
        batch, were_answered = self._batch, self._hangs
        self._committing, self._batch, self._hangs = None, (), False
        size = sum(len(waiting.frame) for waiting in batch)
        self._arriving_bytes -= size
        first, error = self.last + 1, future.exception()
        if error is None:
            self._segments[-1:] = future.result()
            for position, waiting in enumerate(batch, first):
                self._tail.append(_Cached(position, waiting.record, len(waiting.frame)))
                self._tail_bytes += len(waiting.frame)
                if waiting.is_needed():
                    self._needed.append((position, waiting.is_needed))
            self._drop_unneeded()
            while self._tail_bytes > self._cache_bytes:
                self._tail_bytes -= self._tail.popleft().size
            self.changed.set()
        else:
            self._refused_bytes = size
        for position, waiting in enumerate(() if were_answered else batch, first):
            waiting.on_done(position if error is None else self._fault(error))
        self._commit_what_waits()

    def _read_tail(self, position: int, limit: int, max_bytes: int) -> list[tuple[int, RunRecord]]:
        start = position + 1 - self._tail[0].position
        found: list[tuple[int, RunRecord]] = []
        taken = 0
        for cached in itertools.islice(self._tail, start, start + limit):
            taken += cached.size
            if found and taken > max_bytes:
                break
            found.append((cached.position, cached.record))
        return found

    async def _read_behind(self, position: int, limit: int, max_bytes: int) -> list[tuple[int, RunRecord]]:
        while position < self.last:
            if self._tail and self._tail[0].position <= position + 1:
                return self._read_tail(position, limit, max_bytes)
            found, looked_at, self._mark = await self._in_thread(
                read_page, tuple(self._segments), position, limit, max_bytes, self._mark
            )
            if found:
                return found
            # What cannot be read back may be in memory still.
            position = max(position, min(looked_at, self._tail[0].position - 1)) if self._tail else looked_at
        return []

    def _forget(self, cursor: int, gone: Sequence[Segment], last_one: Sequence[Segment]) -> None:
        """In the thread. Room is given back also where the cursor cannot be written: the names say as much.

        If the power fails after the cursor is on the disk and before the last one is removed, both say the same.
        """
        for segment in gone[: len(gone) - len(last_one)]:
            segment.path.unlink(missing_ok=True)
        write_cursor(self._directory, cursor, durably=bool(last_one))
        for segment in last_one:
            segment.path.unlink(missing_ok=True)

    async def _in_thread(self, work: Callable[..., _T], *arguments: object) -> _T:
        if self._is_closed:
            raise SpoolError(_CLOSED)
        try:
            return await self.disk.call(work, *arguments)
        except OSError as error:
            raise self._fault(error) from error

    def _fault(self, error: BaseException) -> SpoolError:
        if isinstance(error, OSError) and error.errno in _FULL:
            why = f"the spool's disk is full ({error.strerror})"
            return SpoolError(f"{why}: make room where {self._directory} is; it goes on by itself then")
        return SpoolError(f"the spool's disk fails: {error}")


def _settle(done: asyncio.Future[int], outcome: int | SpoolError) -> None:
    """Wakes what waits; an append that was cancelled waits no more."""
    if done.done():
        return
    if isinstance(outcome, SpoolError):
        done.set_exception(outcome)
    else:
        done.set_result(outcome)
