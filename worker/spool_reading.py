"""Reads records back from the spool's segments, a page at a time: what cannot be read is said and skipped. Blocking."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence

from common.run import RunRecord
from worker.spool_segments import Segment, frame_size, frames, record_of

_log = logging.getLogger(__name__)

_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError)


def read_page(
    segments: Sequence[Segment], after: int, limit: int, max_bytes: int
) -> tuple[list[tuple[int, RunRecord]], int]:
    """The records behind ``after`` that the next segment holds, with positions, and up to where it was looked at.

    At most ``limit`` and, but for the first, ``max_bytes``. ``segments``: in order; one goes beyond ``after``.
    """
    segment = next(segment for segment in segments if segment.last > after)
    with segment.path.open("rb") as file:
        data = file.read(segment.size)
    found: list[tuple[int, RunRecord]] = []
    taken, position = 0, segment.first - 1
    for position, (_, payload) in enumerate(itertools.islice(frames(data), segment.count), segment.first):
        if position <= after:
            continue
        if payload is None:
            _say_unreadable(segment, position, "damaged")
            continue
        taken += frame_size(payload)
        if len(found) >= limit or (found and taken > max_bytes):
            return found, position - 1
        try:
            found.append((position, record_of(payload)))
        except _UNREADABLE as error:
            _say_unreadable(segment, position, error)
    if position < segment.last:
        _say_unreadable(segment, position + 1, "damaged from here on")
    return found, segment.last


def _say_unreadable(segment: Segment, position: int, why: object) -> None:
    _log.error(
        "a record in the spool cannot be read and is skipped: %s", why,
        extra={"action": "spool_unreadable", "segment": segment.path.name, "position": position},
    )  # fmt: skip
