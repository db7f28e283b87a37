"""The warnings and errors that children write to their logs, shown on the terminal as they come."""

from __future__ import annotations

import re
from pathlib import Path

_ALARMING = re.compile(rb"^\S+ (?:WARNING|ERROR|CRITICAL) ")
_AT_MOST = 20


class LogEcho:
    """Follows one log from where it is now."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = path.stat().st_size if path.exists() else 0

    def alarming_lines(self) -> list[str]:
        """The warnings and errors written since the last call; of many only the last ones, which says so."""
        lines = [line.decode(errors="replace") for line in self._new_lines() if _ALARMING.match(line)]
        if len(lines) <= _AT_MOST:
            return lines
        return [f"({len(lines) - _AT_MOST} more in {self._path})", *lines[-_AT_MOST:]]

    def _new_lines(self) -> list[bytes]:
        """The complete lines since the last call; a log that became shorter was trimmed, and is read from its start."""
        try:
            with self._path.open("rb") as file:
                if file.seek(0, 2) < self._offset:
                    self._offset = 0
                file.seek(self._offset)
                text = file.read()
        except OSError:
            return []
        complete = text[: text.rfind(b"\n") + 1]
        self._offset += len(complete)
        return complete.splitlines()
