"""The spool's files: segments of frames, and the cursor. Blocking; the spool calls it from its own thread.

A segment is named by the position of its first record, ``00000000000000000042.spool``. A frame is the payload's length
and a CRC-32 of length and payload (4 bytes each, little endian), then the payload: the record's document as JSON.
Positions count records from 1 and are never used twice. Beside the segments: ``cursor``, and ``torn`` with the newest
end of a segment that was cut off, for a person to look at. What cannot be read is logged and skipped.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from common.json_text import to_json
from common.process.disk import sync_directory
from common.protocol.run import RunRecord

_HEADER = struct.Struct("<II")
_LENGTH = struct.Struct("<I")
_SUFFIX = ".spool"
_TRIAL = "trial"
_CURSOR = "cursor"
_TORN = "torn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One file of records that are on the disk for good."""

    path: Path
    first: int
    """Position of its first record."""
    count: int
    size: int
    """Bytes of its frames; what lies behind them is not ours."""

    @property
    def last(self) -> int:
        """Position of its last record; ``first - 1`` while it has none."""
        return self.first + self.count - 1


def frame(record: RunRecord) -> bytes:
    """The record as it lies on the disk."""
    payload = to_json(record.to_document())
    length = _LENGTH.pack(len(payload))
    return length + _LENGTH.pack(zlib.crc32(payload, zlib.crc32(length))) + payload


def frames(data: bytes) -> Iterator[tuple[int, memoryview | None]]:
    """Each frame from the start: where it ends, and its payload; None for a damaged one that a whole one follows.

    Ends at the first that is torn, or damaged with nothing whole behind it.
    """
    offset = 0
    while (end := _end_of_frame(data, offset)) is not None:
        payload = _whole_payload(data, offset, end)
        if payload is None:
            next_end = _end_of_frame(data, end)
            if next_end is None or _whole_payload(data, end, next_end) is None:
                return
        yield end, payload
        offset = end


def _end_of_frame(data: bytes, offset: int) -> int | None:
    """Where the frame ends, by its own word; None where the data end before."""
    if offset + _HEADER.size > len(data):
        return None
    length, _ = _HEADER.unpack_from(data, offset)
    end = offset + _HEADER.size + int(length)
    return end if end <= len(data) else None


def _whole_payload(data: bytes, offset: int, end: int) -> memoryview | None:
    length, check = _HEADER.unpack_from(data, offset)
    payload = memoryview(data)[offset + _HEADER.size : end]
    return payload if zlib.crc32(payload, zlib.crc32(_LENGTH.pack(length))) == check else None


def record_of(payload: bytes | memoryview) -> RunRecord:
    """The record of a frame; ValueError where it is none of ours."""
    try:
        return RunRecord.from_document(json.loads(bytes(payload).decode(errors="surrogatepass")))
    except RecursionError as error:
        raise ValueError(f"not a record of a run: {error}") from error


def frame_size(payload: bytes | memoryview) -> int:
    """How much of a segment the payload takes."""
    return _HEADER.size + len(payload)


def new_segment(directory: Path, first: int) -> Segment:
    """An empty segment; its file is made by the first write."""
    return Segment(path=directory / f"{first:020d}{_SUFFIX}", first=first, count=0, size=0)


def find_segments(directory: Path) -> tuple[list[Segment], int]:
    """The segments in order, and how many bytes of a torn end were cut off the last one, and set aside.

    Only the last one is read: what a crash tears is its end. Of the others the names tell how many records they hold.
    An empty file before the last is what a failed attempt to begin a segment has left: it names no position.
    """
    found = sorted(path for path in directory.iterdir() if path.suffix == _SUFFIX and path.stem.isdecimal())
    if not found:
        return [], 0
    paths = [path for path in found[:-1] if path.stat().st_size] + found[-1:]
    for path in set(found).difference(paths):
        path.unlink()
    firsts = [int(path.stem) for path in paths]
    segments = [
        Segment(path=path, first=first, count=following - first, size=path.stat().st_size)
        for path, first, following in zip(paths[:-1], firsts[:-1], firsts[1:], strict=True)
    ]
    last, torn = _repaired(paths[-1], firsts[-1])
    return [*segments, last], torn


def _repaired(path: Path, first: int) -> tuple[Segment, int]:
    data = path.read_bytes()
    ends = [end for end, _ in frames(data)]
    size = ends[-1] if ends else 0
    if size < len(data):
        with contextlib.suppress(OSError):  # the disk may be full; what is cut off was never reported as safe
            (path.parent / _TORN).write_bytes(data[size:])
        with path.open("r+b") as file:
            file.truncate(size)
            os.fsync(file.fileno())
    return Segment(path=path, first=first, count=len(ends), size=size), len(data) - size


def is_there(segment: Segment) -> bool:
    """Whether its records still are, as far as the size of its file tells: a user may have removed or emptied it."""
    try:
        return segment.path.stat().st_size >= segment.size
    except FileNotFoundError:
        return False


def append_durably(segment: Segment, added: Sequence[bytes]) -> Segment:
    """The added frames are on the disk for good behind the segment's others, or OSError and none of them counts.

    Always cuts what an earlier failure may have left behind the good end. The file is opened anew each time: an error
    of fsync is reported once and to those who had the file open, so a descriptor of before it is not to be trusted.
    A first write that fails leaves no file: the position in its name may come to lie in the segment before.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
    is_new = segment.count == 0
    descriptor = os.open(segment.path, flags, 0o600)
    try:
        os.ftruncate(descriptor, segment.size)
        os.lseek(descriptor, segment.size, os.SEEK_SET)
        _write_all(descriptor, b"".join(added))
        os.fdatasync(descriptor)
        if is_new:
            sync_directory(segment.path.parent)
    except OSError:
        with contextlib.suppress(OSError):
            if is_new:
                segment.path.unlink()
            else:
                os.ftruncate(descriptor, segment.size)
        raise
    finally:
        os.close(descriptor)
    size = segment.size + sum(map(len, added))
    return Segment(path=segment.path, first=segment.first, count=segment.count + len(added), size=size)


def try_out(directory: Path, offset: int, size: int) -> None:
    """OSError where so many bytes more cannot be written at that offset of a file; nothing stays of the trial."""
    path = directory / _TRIAL
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.lseek(descriptor, offset, os.SEEK_SET)
        _write_all(descriptor, os.urandom(size))  # zeros cost nothing on some file systems
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
        path.unlink(missing_ok=True)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def read_cursor(directory: Path) -> int:
    """The position up to which all is delivered; 0 where the file is missing or damaged (then all is sent again)."""
    try:
        text, _, check = (directory / _CURSOR).read_text().strip().partition(" ")
        return int(text) if int(check, 16) == zlib.crc32(text.encode()) else 0
    except (OSError, ValueError):
        return 0


def has_cursor(directory: Path) -> bool:
    """Whether its file is there, as it is in every spool that is in use."""
    return (directory / _CURSOR).exists()


def make_room(directory: Path) -> None:
    """What a process that died in the middle of a trial has left is gone; the cursor has its place on the disk.

    So that a record's delivery can be written down on a disk that has become full. OSError where the disk is full now.
    """
    (directory / _TRIAL).unlink(missing_ok=True)
    if not has_cursor(directory):
        write_cursor(directory, 0)


def write_cursor(directory: Path, position: int, *, durably: bool = False) -> None:
    """Remembered across a crash of the process; forced to the disk only where asked: to deliver again does no harm."""
    text = f"{position:020d}"
    descriptor = os.open(directory / _CURSOR, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(descriptor, f"{text} {zlib.crc32(text.encode()):08x}\n".encode(), 0)
        if durably:
            os.fdatasync(descriptor)
            sync_directory(directory)
    finally:
        os.close(descriptor)


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a page ended, so that the next one need not look through all that stands before it."""

    path: Path
    position: int
    """Of the last record before it."""
    offset: int
    """In the file, of the first byte behind that record."""


def read_page(
    segments: Sequence[Segment], after: int, limit: int, max_bytes: int, mark: Mark | None = None
) -> tuple[list[tuple[int, RunRecord]], int, Mark | None]:
    """The records behind ``after`` that the next segment holds, with positions, and up to where it was looked at.

    At most ``limit`` and, but for the first, ``max_bytes``. ``segments``: in order; one goes beyond ``after``.
    ``mark``: as the page before gave it; it serves where this page begins there. OSError: not now, it seems.
    """
    segment = next(segment for segment in segments if segment.last > after)
    start, before_it = 0, segment.first - 1
    if mark is not None and mark.path == segment.path and mark.position == after:
        start, before_it = mark.offset, mark.position
    try:
        with segment.path.open("rb") as file:
            file.seek(start)
            data = file.read(segment.size - start)
    except FileNotFoundError:
        if not has_cursor(segment.path.parent):
            raise  # all of it is away: not mounted, perhaps
        _say_unreadable(segment, after + 1, "its file is gone, with all from here on")
        return [], segment.last, None
    found: list[tuple[int, RunRecord]] = []
    taken, behind, position = 0, start, before_it
    whole = itertools.islice(frames(data), segment.last - before_it)
    for position, (end, payload) in enumerate(whole, before_it + 1):
        before, behind = behind, start + end
        if position <= after:
            continue
        if payload is None:
            _say_unreadable(segment, position, "damaged")
            continue
        taken += frame_size(payload)
        if len(found) >= limit or (found and taken > max_bytes):
            return found, position - 1, Mark(segment.path, position - 1, before)
        try:
            found.append((position, record_of(payload)))
        except ValueError as error:
            _say_unreadable(segment, position, error)
    if position < segment.last:
        _say_unreadable(segment, position + 1, "damaged from here on")
    return found, segment.last, None


def _say_unreadable(segment: Segment, position: int, why: object) -> None:
    _log.error(
        "a record in the spool cannot be read and is skipped: %s", why,
        extra={"action": "spool_unreadable", "segment": segment.path.name, "position": position},
    )  # fmt: skip
