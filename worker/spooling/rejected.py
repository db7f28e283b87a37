"""Where records go that the log store takes in no form: a file for a person to look at, of limited size. Blocking."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from common.protocol.run import RunRecord
from worker.spooling.spool_segments import sync_directory

REJECTED: Final = "rejected.jsonl"
BEFORE: Final = "rejected.1.jsonl"
"""Where a file goes that has reached its limit; the one before it is removed."""
LIMIT_BYTES: Final = 128 * 1024**2
"""A log store that takes nothing at all, because of a rule of its own, is not to fill the worker's disk."""


def set_aside(directory: Path, refused: Iterable[tuple[RunRecord, str]], *, limit_bytes: int = LIMIT_BYTES) -> None:
    """The records, each with the store's reason, are on the disk in ``rejected.jsonl``; OSError where not."""
    lines = [json.dumps({"reason": reason, "record": record.to_document()}) for record, reason in refused]
    _make_room(directory, limit_bytes)
    is_new = not (directory / REJECTED).exists()
    with (directory / REJECTED).open("ab", buffering=0) as file:
        before = file.tell()
        try:
            _write_all(file, "".join(f"{line}\n" for line in lines).encode("ascii"))
            os.fsync(file.fileno())
            if is_new:
                sync_directory(directory)
        except OSError:
            file.truncate(before)  # it is tried again: no half lines, and none twice
            raise


def _make_room(directory: Path, limit_bytes: int) -> None:
    path = directory / REJECTED
    if path.exists() and path.stat().st_size >= limit_bytes:
        path.replace(directory / BEFORE)


def _write_all(file: io.FileIO, data: bytes) -> None:
    while data:
        data = data[file.write(data) :]
