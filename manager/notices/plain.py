"""Text that jobs and servers wrote, without what a terminal, a header or a page would obey."""

from __future__ import annotations

import re
from typing import Final

from common.words.progress import without_progress

MOST_LINES: Final = 40
_MOST_LINE: Final = 400
_LOOKED_AT: Final = 65_536
_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)?"  # OSC and other strings
    r"|\x1b[ -/]*[0-~]?"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
_NO_TEXT: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufff9-\ufffb\u202a-\u202e\u2066-\u2069]")
"""Controls but for tab and line feed; half characters; what turns the direction of writing around."""
_BREAKS: Final = re.compile(r"\s+")


def line(text: str, most: int = 200) -> str:
    """One line, for a header, a subject or a cell."""
    shown = _BREAKS.sub(" ", _NO_TEXT.sub(" ", _ESCAPES.sub("", text[: 4 * most]))).strip()
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def last_lines(output: str) -> str:
    """The last ``MOST_LINES`` lines of any output, as they stood on the screen in the end; without progress."""
    tail = output[-_LOOKED_AT:]
    tail = without_progress(_ESCAPES.sub("", tail.replace("\r\n", "\n"))).rstrip()
    lines = [_NO_TEXT.sub("", one.rstrip("\r").rpartition("\r")[2]) for one in tail.split("\n")[-MOST_LINES:]]
    return "\n".join(one if len(one) <= _MOST_LINE else f"{one[:_MOST_LINE]}…" for one in lines)
