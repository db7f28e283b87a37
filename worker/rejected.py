"""Where records go that the log store takes in no form: a file for a person to look at. Blocking."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from common.run import RunRecord

REJECTED = "rejected.jsonl"


def set_aside(directory: Path, refused: Iterable[tuple[RunRecord, str]]) -> None:
    """The records, each with the store's reason, are on the disk in ``rejected.jsonl``; OSError where not."""
    lines = [json.dumps({"reason": reason, "record": record.to_document()}) for record, reason in refused]
    with (directory / REJECTED).open("a", encoding="ascii") as file:
        file.write("".join(f"{line}\n" for line in lines))
        file.flush()
        os.fsync(file.fileno())
