"""Reads records back from the spool's segments, a page at a time: what cannot be read is said and skipped. Blocking."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from common.protocol.run import RunRecord
from worker.spooling.spool_segments import Segment, frame_size, frames, has_cursor, record_of

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
