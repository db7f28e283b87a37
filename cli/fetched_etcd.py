"""A sound etcd where none is installed: Debian's, verified, put beside etcron by `fetch_etcd.sh`, and found again.

In a checkout `etcron up` keeps it in ``.tools/up`` (the tests keep theirs in ``.tools``), elsewhere in the user's cache
directory. The user who starts `etcron up` owns both.
"""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping
from pathlib import Path

_CODE = Path(__file__).parent
_SERIES = ("3.5", "3.4")
"""The first of these that there is."""
_LIMIT_S = 30


def place_of(environ: Mapping[str, str]) -> Path:
    """Where it lies, or would."""
    checkout = _CODE.parent
    if (checkout / ".ci" / "venv").is_file():
        return checkout / ".tools" / "up"
    return Path(environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "etcron"


def fetched_etcd(place: Path) -> str | None:
    """The program, if it is there."""
    programs = [str(place / f"etcd-{series}" / "etcd") for series in _SERIES]
    return next((program for program in programs if os.access(program, os.X_OK)), None)


async def fetch(place: Path, stopping: asyncio.Event, *, limit_s: float = _LIMIT_S) -> str:
    """Why it could not be fetched, empty where it was; ends early where a stop is requested."""
    # `timeout` ends apt and all that it started, also once this process has been killed.
    limited = ("timeout", "-k", "2", str(limit_s), "sh", str(_CODE / "fetch_etcd.sh"), str(place), *_SERIES)
    try:
        process = await asyncio.create_subprocess_exec(*limited, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE)
    except OSError as error:
        return str(error)
    talking, stop = asyncio.ensure_future(process.communicate()), asyncio.ensure_future(stopping.wait())
    await asyncio.wait((talking, stop), return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if not talking.done():
        process.terminate()
    _, said = await talking
    match process.returncode:
        case 0:
            return ""
        case 124:
            return f"it took more than {limit_s:g} s"
        case _:
            return "; ".join(said.decode(errors="replace").splitlines()) or "it was stopped"
