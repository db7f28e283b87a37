"""What is the usual way of several commands: the same for each of many names."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cli.errors import CommandError, ExitStatus
from cli.printing import say, tell


def go_through(names: Iterable[str], act: Callable[[str], str]) -> int:
    """Do it for each name and print what it says. One that fails stops no other, but for a server that is away.

    The exit status is that of the first failure.
    """
    status: int = ExitStatus.OK
    for name in dict.fromkeys(names):
        try:
            for line in act(name).splitlines():
                tell(line)
        except CommandError as error:
            if error.status in (ExitStatus.UNAVAILABLE, ExitStatus.USAGE):
                raise
            say(f"etcron: {name}: {error}" if name else f"etcron: {error}")
            status = status or error.status
    return status
