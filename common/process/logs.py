"""One line for each event: time, level, logger, message, and the fields of `extra` as key=value. No passwords.

2026-03-29T01:00:00.000Z INFO    worker.registry  session opened  action=session_opened lease=7587
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from typing import TextIO

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
_AUTHORITY = re.compile(r"(\w://[^\s:/@]*):(\S++)")
_BARE = re.compile(r"[^\s\"'=\\]+")
# What a terminal obeys instead of showing it; reasons and names that users give can have it.
_UNSHOWN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)

# Libraries that are chatty, or that would log documents and commands when they are asked to debug.
_QUIET = ("aiohttp.access", "asyncio", "grpc", "pymongo")


def configure_logging(level: str = "info", *, stream: TextIO | None = None) -> None:
    """Send everything from `level` (debug, info, warning, error) up to the stream (stderr), one line for each event."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(LineFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.captureWarnings(True)


class LineFormatter(logging.Formatter):
    """Everything about an event in one line; only a traceback makes it more, indented below it."""

    def format(self, record: logging.LogRecord) -> str:
        message = _plain(record.getMessage())
        parts = [f"{_utc(record)} {record.levelname:<7} {record.name}  {message}", _fields(record)]
        line = "  ".join(part for part in parts if part)
        if record.exc_info:
            told = self.formatException(record.exc_info).split("\n")
            line += "".join(f"\n    {_plain(one)}" for one in told)
        return _AUTHORITY.sub(_without_password, line)


def _without_password(found: re.Match[str]) -> str:
    _, at, host = found[2].rpartition("@")
    return f"{found[1]}:***@{host}" if at else found[0]


def _utc(record: logging.LogRecord) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"


def _fields(record: logging.LogRecord) -> str:
    extras = ((name, value) for name, value in record.__dict__.items() if name not in _STANDARD)
    return " ".join(f"{name}={_shown(value)}" for name, value in extras)


def _shown(value: object) -> str:
    text = str(value)
    return _plain(text if _BARE.fullmatch(text) else json.dumps(text, ensure_ascii=False))


def _plain(text: str) -> str:
    """The same with what a terminal would obey written out, such as ``\\x1b``; a line stays one line."""
    return _UNSHOWN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
