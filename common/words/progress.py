"""Lines ``::progress 40% text``, by which a command tells how far it is."""

from __future__ import annotations

import re
from typing import Final

_LINE: Final = r"^::progress[ \t]{1,8}(\d{1,3}(?:\.\d{1,6})?)([ \t%][^\n]*)?"
PROGRESS: Final = re.compile(rf"{_LINE}\n", re.MULTILINE)
"""A whole line: how far in per cent, and what follows."""
_LAST_TOO: Final = re.compile(rf"{_LINE}(?:\n|\Z)", re.MULTILINE)


def without_progress(output: str) -> str:
    """The other lines of an output that has ended."""
    return _LAST_TOO.sub("", output) if "::progress" in output else output
