"""A spool's own name, random, written once into its directory: positions in it name a record only together with it.

It is not the instance: whoever removes a spool's files, to get room, begins at position 1 again.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

from worker.written_once import written_once

_FILE: Final = "name"


def name_of_spool(directory: Path) -> str:
    """The name that stands there, else a new one. Where the disk takes none, it is good for this life only."""
    new = secrets.token_hex(8)
    try:
        return written_once(directory / _FILE, new)
    except OSError:
        return new
