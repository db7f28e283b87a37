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
_PASSWORD = re.compile(r"(\w://[^\s:/@]*):[^\s]*@")
_BARE = re.compile(r"[^\s\"'=\\]+")

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
        message = record.getMessage().replace("\n", "\\n")
        parts = [f"{_utc(record)} {record.levelname:<7} {record.name}  {message}", _fields(record)]
        line = "  ".join(part for part in parts if part)
        if record.exc_info:
            line += "\n    " + self.formatException(record.exc_info).replace("\n", "\n    ")
        return _PASSWORD.sub(r"\1:***@", line)


def _utc(record: logging.LogRecord) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"


def _fields(record: logging.LogRecord) -> str:
    extras = ((name, value) for name, value in record.__dict__.items() if name not in _STANDARD)
    return " ".join(f"{name}={_shown(value)}" for name, value in extras)


def _shown(value: object) -> str:
    text = str(value)
    return text if _BARE.fullmatch(text) else json.dumps(text, ensure_ascii=False)
