"""A spool's own name, random, written once into its directory: positions in it name a record only together with it.

It is not the instance: whoever removes a spool's files, to get room, begins at position 1 again.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

from worker.spool_segments import sync_directory

_FILE: Final = "name"


def name_of_spool(directory: Path) -> str:
    """The name that stands there, else a new one. Where the disk takes none, it is good for this life only."""
    path, new = directory / _FILE, secrets.token_hex(8)
    try:
        if path.exists() and (there := path.read_text(errors="replace").strip()):
            return there
        draft = path.with_suffix(".new")
        with draft.open("w") as file:
            file.write(new + "\n")
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
        sync_directory(directory)
    except OSError:
        pass
    return new
