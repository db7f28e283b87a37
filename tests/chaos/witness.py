"""What the commands have written of themselves, read as it grows: the proxies share the loop, so no line twice."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tests.chaos.history import Evidence, Mark, boot_ns, wall_ms

_GOING_WITHIN_MS = 1000


class Witness:
    """The evidence file: each start and end, and of a run without an end its last sign of life."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._partial = b""
        self._marks: list[Evidence] = []
        self._lasts: dict[tuple[str, int], Evidence] = {}
        """By run and pid, of those that have not ended."""
        self._left: dict[tuple[str, int], Evidence] = {}
        """The same of what runs have left behind."""

    def all(self) -> list[Evidence]:
        """Everything so far."""
        self._read_on()
        return [*self._marks, *self._lasts.values(), *self._left.values()]

    def going(self) -> list[str]:
        """The runs that show signs of life."""
        return sorted(self.going_on())

    def going_on(self) -> dict[str, str]:
        """The same, each with its worker."""
        self._read_on()
        newest_ms = max((one.wall_ms for one in self._lasts.values()), default=0)
        lasts = [one for one in self._lasts.values() if newest_ms - one.wall_ms < _GOING_WITHIN_MS]
        return {one.run: one.worker for one in lasts}

    def note_those_that_linger(self) -> None:
        """Theirs is the last sign of life that nobody else can write: they wait, and no signal ends that."""
        self._read_on()
        for key, one in self._left.items():
            if one.mark is Mark.LINGERS and _waits(one.pid):
                self._left[key] = replace(one, boot_ns=boot_ns(), wall_ms=wall_ms())

    def jobs_since(self, ms: int) -> set[str]:
        """The jobs of which a command has started since."""
        self._read_on()
        return {_job(one.run) for one in self._marks if one.mark is Mark.START and one.wall_ms > ms}

    def _read_on(self) -> None:
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._offset)
            data = self._partial + file.read()
            self._offset = file.tell()
        *lines, self._partial = data.split(b"\n")
        for line in lines:
            self._take(json.loads(line))

    def _take(self, document: dict[str, object]) -> None:
        one = Evidence(**{**document, "mark": Mark(str(document["mark"]))})  # type: ignore[arg-type]
        if one.mark is Mark.LAST:
            self._lasts[one.run, one.pid] = one
            return
        if one.mark in (Mark.BACKGROUND, Mark.DEPARTED, Mark.LINGERS):
            self._left[one.run, one.pid] = one
            return
        self._marks.append(one)
        if one.mark is Mark.END:
            self._lasts.pop((one.run, one.pid), None)


def _waits(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "D"
    except OSError:
        return False


def _job(run: str) -> str:
    return run.partition("@")[0].partition("~")[0]
