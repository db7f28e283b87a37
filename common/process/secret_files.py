"""Secrets in files: read only where no other user of the machine can read or change them. In a thread: it blocks."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

MOST_BYTES: Final = 65_536
"""Of one secret."""
OTHERS_READ: Final = stat.S_IROTH
OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


class SecretError(Exception):
    """A secret cannot be had. The text says why, and never holds a value."""


def credentials_directory() -> Path | None:
    """systemd's (LoadCredential=); None: there is none."""
    given = os.environ.get("CREDENTIALS_DIRECTORY")
    return Path(given) if given else None


def secret_in(path: Path) -> bytes:
    """What the file holds. FileNotFoundError, NotADirectoryError; SecretError."""
    return bytes_of(path, forbidden=OTHERS_WRITE | OTHERS_READ)


def bytes_of(path: Path, *, forbidden: int) -> bytes:
    """FileNotFoundError; SecretError: it cannot be read, or it is in other users' reach."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise SecretError(f"{path} cannot be read: {error.strerror}") from None
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise SecretError(f"{path} is no file")
        if about.st_uid not in (0, os.geteuid()):
            raise SecretError(f"{path} belongs to another user than root and our own: chown it")
        if about.st_mode & forbidden:
            raise SecretError(f"{path} is open to other users: chmod go-w,o-r")
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise SecretError(f"{path} has more than {MOST_BYTES:,} bytes")
    return content
