"""What cron makes of a command's `%`: an unescaped one ends the command, the rest is its input. Pure.

In the rest every `%` is a line end, and `\\%` is a `%` in both. Here the input comes through a pipe, which leaves the
command's exit status as it is.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Final

_PERCENT: Final = re.compile(r"\\%|%")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command line for the shell, and what it reads."""

    line: str
    stdin: str | None = None
    """None: nothing."""

    @property
    def shell_line(self) -> str:
        """The command with its input as one line for a POSIX shell."""
        if self.stdin is None:
            return self.line
        # The line end before `)` ends a comment at the end of the command.
        return f"printf '%s\\n' {' '.join(map(shlex.quote, self.stdin.split(chr(10))))} | (\n{self.line}\n)"


def parse_command(text: str) -> Command:
    """The command and its input as cron would take them apart."""
    parts = [""]
    at = 0
    for match in _PERCENT.finditer(text):
        parts[-1] += text[at : match.start()]
        at = match.end()
        if match[0] == "%":
            parts.append("")
        else:
            parts[-1] += "%"
    parts[-1] += text[at:]
    if len(parts) == 1:
        return Command(line=parts[0])
    if parts[1:] == [""]:
        return Command(line=parts[0].rstrip())  # its input is empty, as it is anyway
    # cron ends the input with a line end of its own where it has none.
    lines = parts[1:-1] if parts[-1] == "" else parts[1:]
    return Command(line=parts[0].rstrip(), stdin="\n".join(lines))
