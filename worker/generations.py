"""The highest generation that was verified of each job, kept on disk: an older spec, signed as it is, is not believed.

A line for each, in the order in which they were seen. A worker whose directory was emptied takes what etcd shows.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final, Self

from common.process.disk import Disk, replace_durably

_log = logging.getLogger(__name__)

_WRITE_EVERY_S: Final = 1.0
_SUPERFLUOUS: Final = 10_000
"""Lines beyond one for each job; with more the file is written anew, at a start."""
_CUT_SHORT: Final = " \n"
"""Ends a line of which a part may be missing: no name of a job ends in a space, so it is not read."""


class Generations:
    """By job; in memory at once, on disk a moment later."""

    def __init__(self, path: Path, seen: dict[str, int], *, is_cut_short: bool = False) -> None:
        """``is_cut_short``: the last line of the file has no end."""
        self._path = path
        self._is_cut_short = is_cut_short
        self._seen = seen
        self._unwritten: list[str] = []
        self._fault: str | None = None

    @classmethod
    def open(cls, path: Path) -> Self:
        """What the file says, where there is one; before there is a loop. OSError: it cannot be used."""
        seen: dict[str, int] = {}
        text = path.read_text(errors="replace") if path.exists() else ""
        is_cut_short = text != "" and not text.endswith("\n")
        lines = (text + _CUT_SHORT if is_cut_short else text).splitlines()
        for line in lines:
            number, _, name = line.partition(" ")
            if name and not name.endswith(" ") and number.isascii() and number.isdecimal():
                seen[name] = max(seen.get(name, 0), int(number))
        if len(lines) > len(seen) + _SUPERFLUOUS:
            replace_durably(path, "".join(_line(name, number) for name, number in seen.items()))
            is_cut_short = False
        return cls(path, seen, is_cut_short=is_cut_short)

    def of(self, job: str) -> int:
        """0: none was seen."""
        return self._seen.get(job, 0)

    def note(self, job: str, generation: int) -> None:
        """It was verified."""
        if generation > self.of(job):
            self._seen[job] = generation
            self._unwritten.append(_line(job, generation))

    async def run(self, disk: Disk) -> None:
        """Writes down what is new, until cancelled."""
        while True:
            await asyncio.sleep(_WRITE_EVERY_S)
            if not (lines := self._unwritten):
                continue
            self._unwritten = []
            try:
                await disk.call(_append, self._path, (_CUT_SHORT if self._is_cut_short else "") + "".join(lines))
                self._fault, self._is_cut_short = None, False
            except OSError as error:
                self._is_cut_short = True
                self._unwritten = lines + self._unwritten
                if self._fault is None:
                    extra = {"action": "generations.unwritten"}
                    _log.warning("generations of jobs are not written down yet: %s", error, extra=extra)
                self._fault = str(error)


def _line(job: str, generation: int) -> str:
    return f"{generation} {job}\n"


def _append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)
