"""Proof from outside of what ran: each command of a burst appends its number to one file, whoever starts it."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections import Counter
from pathlib import Path
from typing import Final

from bench.figures import WrongError

_WIDTH: Final = 6
_LOOK_S: Final = 0.02


class Evidence:
    """The file, and the commands that write to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()
        path.chmod(0o666)  # whoever the peer runs its commands as

    def command(self, number: int) -> str:
        """It says hello, and that it has started; the shell does both by itself, without another process."""
        return f"echo hello; echo {number:0{_WIDTH}d} >>{shlex.quote(str(self.path))}"

    def count(self) -> int:
        """How many have started; a look at the size of the file, which costs nobody anything."""
        return self.path.stat().st_size // (_WIDTH + 1)

    def last_start(self) -> float:
        """When the last one started (Unix time, s), by the time of the file."""
        return self.path.stat().st_mtime

    async def all_started(self, count: int, deadline_s: float) -> None:
        """Returns once as many have started; WrongError where they have not by that Unix time."""
        while self.count() < count:
            if time.time() > deadline_s:
                raise WrongError(f"only {self.count()} of {count} have started by now")
            await asyncio.sleep(_LOOK_S)

    def missing(self, count: int) -> list[int]:
        """The numbers from 0 on that are not there."""
        starts = {int(number) for number in self.path.read_text().split()}
        return [number for number in range(count) if number not in starts]

    def check(self, count: int) -> None:
        """WrongError unless each of the numbers from 0 on is there once."""
        starts = Counter(self.path.read_text().split())
        twice = [number for number, times in starts.items() if times > 1]
        missing = self.missing(count)
        if twice or missing:
            raise WrongError(f"{len(missing)} of {count} did not start, {len(twice)} started more than once")
