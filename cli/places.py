"""Where root may write: nowhere that another user could have turned into a place of root's own choosing."""

from __future__ import annotations

import os
import pwd
import stat
from contextlib import suppress
from pathlib import Path

from cli.errors import CommandError, ExitStatus


def refuse_others_place(place: Path, remedy: str) -> None:
    """CommandError where another user decides what stands there, and what is written would be root's.

    It need not be there yet: then what is above it counts. ``HOME`` may be another user's under sudo, and have links.
    """
    if os.geteuid() != 0:
        return
    for folder in {*_with_parents(place.absolute()), *_with_parents(Path(os.path.realpath(place)))}:
        with suppress(FileNotFoundError):
            _refuse(folder, remedy)


def _with_parents(path: Path) -> tuple[Path, ...]:
    return (path, *path.parents)


def _refuse(folder: Path, remedy: str) -> None:
    about = folder.lstat()
    others = about.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not about.st_mode & stat.S_ISVTX
    if about.st_uid == 0 and (folder.is_symlink() or not others):
        return
    whose = "others may write" if about.st_uid == 0 else f"of {_name_of(about.st_uid)}"
    raise CommandError(
        f"{folder} is not root's alone ({whose}), so root writes nothing there; {remedy}", ExitStatus.REFUSED
    )


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
