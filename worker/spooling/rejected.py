"""Where records go that the log store takes in no form: a file for a person to look at. Blocking."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable
from pathlib import Path

from common.run import RunRecord

REJECTED = "rejected.jsonl"


def set_aside(directory: Path, refused: Iterable[tuple[RunRecord, str]]) -> None:
    """The records, each with the store's reason, are on the disk in ``rejected.jsonl``; OSError where not."""
    lines = [json.dumps({"reason": reason, "record": record.to_document()}) for record, reason in refused]
    with (directory / REJECTED).open("ab", buffering=0) as file:
        before = file.tell()
        try:
            _write_all(file, "".join(f"{line}\n" for line in lines).encode("ascii"))
            os.fsync(file.fileno())
        except OSError:
            file.truncate(before)  # it is tried again: no half lines, and none twice
            raise


def _write_all(file: io.FileIO, data: bytes) -> None:
    while data:
        data = data[file.write(data) :]
