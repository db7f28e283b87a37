"""A word that a directory keeps: written whole and durably the first time, and read from then on."""

from __future__ import annotations

import os
from pathlib import Path

from worker.spooling.spool_segments import sync_directory


def written_once(path: Path, value: str) -> str:
    """What the file says; ``value``, written down, where it does not say anything yet. OSError: it cannot be."""
    if path.exists() and (text := path.read_text(errors="replace").strip()):
        return text
    draft = path.with_suffix(".new")
    with draft.open("w") as file:
        file.write(value + "\n")
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    sync_directory(path.parent)
    return value
