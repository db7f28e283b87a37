"""A manager's audit chain on its disk: every method is called in the disk's own thread, one at a time.

    <directory>/<number>/     of one manager: the first number that no other manager holds the lock of
        chain                 the chain's name: host and 16 hex digits, made once
        <first>.entries       a line each: hash, blank, text; new files as they grow
        delivered             up to which entry the log store has them
        *.aside               what did not fit together; the first entry of a new chain names it

A chain goes on over restarts. Where its files do not hold together any more, or know less of it than etcd does (they
were put back to an older state, or copied to another machine), a new one begins, and names its predecessor.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from common.access.audit_chain import Entry, Head, Note, Outcome
from common.process.disk import sync_directory, written_once

SEGMENT_BYTES: Final = 2**20
KEPT_BYTES: Final = 64 * 2**20
"""Of what the log store has; older entries go from here."""
MOST_BYTES: Final = 2**30
"""Beyond that nothing more is written until the log store has taken some."""
_MOST_MANAGERS: Final = 100
_MOST_TAKEN_ALONG: Final = 100_000
_SUFFIX: Final = ".entries"
_DIGITS: Final = 12


class DamagedError(Exception):
    """The files do not hold together."""


@dataclass(slots=True, kw_only=True)
class _Segment:
    path: Path
    first: int
    size: int


class ChainFiles:
    """To be opened first; OSError from each where the disk does not do it, and then nothing has changed."""

    def __init__(self, directory: Path) -> None:
        self._parent = directory
        self._directory = directory
        self._lock: int | None = None
        self._segments: list[_Segment] = []
        self._owed: list[Note] = []
        """What a new chain begins with, until it is on the disk."""
        self._read_up_to: tuple[int, Path, int] | None = None
        """The entry up to which was read last, its file, and where it ends there."""
        self.head = Head(chain="")

    def open(self) -> str | None:
        """Go on with the chain that is there, or begin one. Why a new one had to begin; None: it had not."""
        if self._lock is None:
            self._directory, self._lock = self._take_one()
        name = f"{socket.gethostname()[:100].replace('/', '_')}.{secrets.token_hex(8)}"
        chain = written_once(self._directory / "chain", name)
        self.head = Head(chain=chain, delivered=self._read_delivered())
        try:
            self._read_end()
        except DamagedError as error:
            self.begin_anew(str(error), ms=0)
            return str(error)
        return None

    def close(self) -> None:
        """Another manager may have the directory."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def append(self, notes: Sequence[Note]) -> Head:
        """These are on the disk for good, as the next entries of the chain; the head that they make."""
        head, lines = self.head, list[bytes]()
        for note in (*self._owed, *notes):
            entry = Entry.after(head, note)
            head = Head(chain=head.chain, seq=entry.seq, hash=entry.hash, delivered=head.delivered, ms=note.ms)
            lines.append(f"{head.hash} {entry.text}\n".encode())
        if sum(segment.size for segment in self._segments) + sum(map(len, lines)) > MOST_BYTES:
            raise OSError(errno.ENOSPC, f"{MOST_BYTES:,} bytes wait for the log store already")
        if not self._segments or self._segments[-1].size > SEGMENT_BYTES:
            path = self._directory / f"{self.head.seq + 1:0{_DIGITS}d}{_SUFFIX}"
            self._segments.append(_Segment(path=path, first=self.head.seq + 1, size=0))
        try:
            _append_durably(self._segments[-1], b"".join(lines))
        except OSError:
            if not self._segments[-1].size:
                self._segments.pop()
            raise
        self.head, self._owed = head, []
        return head

    def undelivered(self, limit: int) -> list[Entry]:
        """The next ones that the log store has not confirmed. DamagedError: they are not as they were written."""
        if self.head.delivered >= self.head.seq:
            return []
        found = list[Entry]()
        for segment, following in self._with_following():
            if following is not None and following <= self.head.delivered + 1:
                continue
            start, first = 0, segment.first
            if self._read_up_to and self._read_up_to[:2] == (self.head.delivered, segment.path):
                start, first = self._read_up_to[2], self.head.delivered + 1
            for entry, end in _entries(segment, start, first):
                if entry.seq > self.head.delivered:
                    found.append(entry)
                    self._read_up_to = (entry.seq, segment.path, end)
                if len(found) == limit:
                    return found
        if not found:
            raise DamagedError(f"its entries from {self.head.delivered + 1} on are gone")
        return found

    def delivered(self, seq: int) -> Head:
        """The log store has all up to this one: what is not to be kept here any longer goes."""
        head = self.head
        self.head = Head(chain=head.chain, seq=head.seq, hash=head.hash, delivered=seq, ms=head.ms)
        descriptor = os.open(self._directory / "delivered", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(descriptor, f"{seq:0{_DIGITS}d}\n".encode(), 0)  # to deliver once more does no harm
        finally:
            os.close(descriptor)
        while (
            len(self._segments) > 1 and self._segments[1].first <= seq + 1
            and sum(segment.size for segment in self._segments) > KEPT_BYTES
        ):  # fmt: skip
            self._segments[0].path.unlink(missing_ok=True)
            self._segments.pop(0)
        return self.head

    def contradiction(self, stored: Head) -> str | None:
        """Why this cannot be a head of the chain that lies here; None: it can, as far as that is known."""
        if stored.seq > self.head.seq:
            return f"etcd knows {stored.seq} entries of it, and its files only {self.head.seq}"
        for segment, following in self._with_following():
            if following is not None and following <= stored.seq:
                continue
            for entry, _ in _entries(segment):
                if entry.seq == stored.seq:
                    return None if entry.hash == stored.hash else f"etcd knows another entry {stored.seq} of it"
                if entry.seq > stored.seq:
                    return None
        return None

    def begin_anew(self, why: str, *, ms: int) -> Head:
        """A new chain begins, and its first entry names this one; what the log store lacks is taken along."""
        former, rest = self.head, list[Note]()
        with contextlib.suppress(DamagedError):
            for segment in self._segments:
                rest += [entry.note for entry, _ in _entries(segment) if entry.seq > former.delivered]
        left_out = max(0, len(rest) - _MOST_TAKEN_ALONG)
        for path in self._directory.glob(f"*{_SUFFIX}"):
            path.rename(path.with_suffix(f".{former.chain.rpartition('.')[2]}.aside"))
        (self._directory / "delivered").unlink(missing_ok=True)
        (self._directory / "chain").unlink(missing_ok=True)
        name = f"{former.chain.rpartition('.')[0] or 'manager'}.{secrets.token_hex(8)}"
        chain = written_once(self._directory / "chain", name)
        self.head, self._segments = Head(chain=chain), []
        details = {"follows": former.chain, "seq": former.seq, "hash": former.hash, "why": why, "leftOut": left_out}
        first = Note(
            ms=ms or former.ms, who="etcron", via="", address="", action="audit.begin", object=f"audit {chain}",
            outcome=Outcome.DONE, details=details,
        )  # fmt: skip
        self._owed, self._read_up_to = [first.bounded(), *rest[:_MOST_TAKEN_ALONG]], None
        return self.append([])

    def _take_one(self) -> tuple[Path, int]:
        for number in range(_MOST_MANAGERS):
            directory = self._parent / str(number)
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                continue
            except OSError:
                os.close(descriptor)
                raise
            return directory, descriptor
        raise OSError(errno.EBUSY, f"{_MOST_MANAGERS} managers use it already")

    def _read_delivered(self) -> int:
        try:
            return int((self._directory / "delivered").read_text())
        except (OSError, ValueError):
            return 0

    def _read_end(self) -> None:
        """Where the chain ends; what a crash has left of a line behind it is cut off."""
        paths = sorted(path for path in self._directory.glob(f"*{_SUFFIX}") if path.stem.isdecimal())
        self._segments = [
            _Segment(path=path, first=int(path.stem), size=path.stat().st_size) for path in paths
        ]  # fmt: skip
        while self._segments and not _cut_to_lines(self._segments[-1]):
            self._segments.pop().path.unlink()
        delivered = self.head.delivered
        if not self._segments:
            if delivered:
                raise DamagedError(f"its files are gone, and {delivered} entries were delivered")
            return
        before: Entry | None = None
        for entry, _ in _entries(self._segments[-1]):
            if entry.chain != self.head.chain or (
                before and (entry.seq, entry.before) != (before.seq + 1, before.hash)
            ):
                raise DamagedError(f"entry {entry.seq} in {self._segments[-1].path.name} does not follow")
            before = entry
        assert before is not None, "a segment has a line"
        # The names of the segments before show how many entries they hold; what the log store has need not be here.
        delivered = min(max(delivered, self._segments[0].first - 1), before.seq)
        self.head = Head(
            chain=self.head.chain, seq=before.seq, hash=before.hash, delivered=delivered, ms=before.note.ms
        )  # fmt: skip

    def _with_following(self) -> Iterator[tuple[_Segment, int | None]]:
        """Each segment with the number of the first entry behind it."""
        for place, segment in enumerate(self._segments):
            following = self._segments[place + 1].first if place + 1 < len(self._segments) else None
            yield segment, following


def _entries(segment: _Segment, start: int = 0, first: int | None = None) -> Iterator[tuple[Entry, int]]:
    """The entries of a file, each with where it ends. DamagedError: one is not as it was written, or they are fewer.

    ``start``: from there on, where the entry ``first`` begins.
    """
    end, number = start, segment.first if first is None else first
    try:
        with segment.path.open("rb") as file:
            file.seek(start)
            while end < segment.size and (line := file.readline()):
                written_hash, _, text = line.decode(errors="replace").rstrip("\n").partition(" ")
                try:
                    entry = Entry.parse(text)
                except ValueError as error:
                    raise DamagedError(f"entry {number} in {segment.path.name}: {error}") from error
                if (entry.seq, entry.hash) != (number, written_hash):
                    raise DamagedError(f"entry {number} in {segment.path.name} was changed")
                end, number = end + len(line), number + 1
                yield entry, end
    except FileNotFoundError as error:
        raise DamagedError(f"{segment.path.name} is gone") from error
    if end < segment.size:
        raise DamagedError(f"the end of {segment.path.name} is gone")


def _cut_to_lines(segment: _Segment) -> int:
    """How long it is without the part of a line at its end, of which no caller has the answer."""
    data = segment.path.read_bytes()
    segment.size = data.rfind(b"\n") + 1
    if segment.size < len(data):
        os.truncate(segment.path, segment.size)
    return segment.size


def _append_durably(segment: _Segment, data: bytes) -> None:
    # Opened anew each time: the kernel reports an error of fsync once, to those who had the file open.
    descriptor = os.open(segment.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(descriptor, segment.size)  # what an earlier failure may have left
        os.lseek(descriptor, segment.size, os.SEEK_SET)
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fdatasync(descriptor)
        if segment.size == 0:
            sync_directory(segment.path.parent)
    except OSError:
        with contextlib.suppress(OSError):
            if segment.size == 0:
                segment.path.unlink()
            else:
                os.ftruncate(descriptor, segment.size)
        raise
    finally:
        os.close(descriptor)
    segment.size += len(data)
