"""Secrets that a user types or pipes in: never as an argument, which every user of a machine can read."""

from __future__ import annotations

import getpass
import os
import sys
from typing import Final

from cli.errors import CommandError, ExitStatus

_MOST_BYTES: Final = 4096


def from_stdin(option: str) -> str:
    """The first line of stdin, without its end."""
    line = sys.stdin.buffer.readline(_MOST_BYTES + 1)
    try:
        text = line.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise CommandError(f"{option}: what came is not UTF-8", ExitStatus.USAGE) from None
    if not text or len(line) > _MOST_BYTES:
        raise CommandError(f"{option}: the first line of stdin is empty, or too long", ExitStatus.USAGE)
    return text


def typed(prompt: str, *, option: str, twice: bool = False) -> str:
    """Asked for on the terminal, without showing what is typed."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        message = f"there is no terminal to type a password on; send it with {option}"
        raise CommandError(message, ExitStatus.USAGE) from None
    try:
        text = getpass.getpass(f"{prompt}: ")
        if twice and getpass.getpass(f"{prompt} again: ") != text:
            raise CommandError("these were two different ones; nothing was changed", ExitStatus.USAGE)
    except (EOFError, UnicodeError):
        raise CommandError("nothing was typed", ExitStatus.USAGE) from None
    return text
