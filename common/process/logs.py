"""One line for each event: time, level, logger, message, and the fields of `extra` as key=value. No passwords.

A caller that logs waits for no reader of the lines: a thread writes them, and those that find 10,000 waiting are
dropped.

2026-03-29T01:00:00.000Z INFO    worker.registry  session opened  action=session_opened lease=7587

The same as JSON, for programs:

{"time": "2026-03-29T01:00:00.000Z", "level": "info", "logger": "worker.registry", "message": "session opened",
 "action": "session_opened", "lease": 7587}
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from queue import Empty, Full, Queue
from threading import Thread
from typing import TextIO

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
_AUTHORITY = re.compile(r"(\w://[^\s:/@]*):(\S++)")
_BARE = re.compile(r"[^\s\"'=\\]+")
# What a terminal obeys instead of showing it; reasons and names that users give can have it.
_UNSHOWN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)

_WAITING_LINES = 10_000
_FLUSH_S = 1.0

# Libraries that are chatty, or that would log documents and commands when they are asked to debug.
_QUIET = ("aiohttp.access", "asyncio", "grpc", "pymongo")


def configure_logging(level: str = "info", form: str = "text", *, stream: TextIO | None = None) -> None:
    """Send everything from `level` (debug, info, warning, error) up to the stream (stderr), one line for each event.

    ``form``: text or json.
    """
    handler = UnwaitingHandler(partial(_write_all, 2) if stream is None else stream.write)
    handler.setFormatter(JsonFormatter() if form == "json" else LineFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.captureWarnings(True)


class UnwaitingHandler(logging.Handler):
    """Writes what is logged, in order, and keeps no caller waiting: not for a disk that hangs, nor for a full pipe."""

    def __init__(self, write: Callable[[str], object], *, waiting_lines: int = _WAITING_LINES) -> None:
        """``write`` may take its time. Not that of `sys.stderr`: the interpreter's end would wait for its lock."""
        super().__init__()
        self._written_by = write
        self._lines: Queue[str] = Queue(waiting_lines)
        self._dropped = self._dropped_logged = 0
        self._thread: Thread | None = None
        self._start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:
            self.handleError(record)
            return
        self._start()
        try:
            self._lines.put_nowait(line)
        except Full:
            self._dropped += 1

    def flush(self) -> None:
        """What was logged so far is written, or a second has passed."""
        if self._thread is None:
            with suppress(Empty):
                while True:
                    self._write(self._lines.get_nowait())
        with self._lines.all_tasks_done:
            self._lines.all_tasks_done.wait_for(lambda: not self._lines.unfinished_tasks, _FLUSH_S)

    def _start(self) -> None:
        """Where the machine is out of processes lines wait until it has one again, or this one ends."""
        if self._thread is None:
            thread = Thread(target=self._write_for_ever, name="log", daemon=True)
            with suppress(RuntimeError):
                thread.start()
                self._thread = thread

    def _write_for_ever(self) -> None:
        while True:
            self._write(self._lines.get())

    def _write(self, line: str) -> None:
        dropped = self._dropped - self._dropped_logged
        if dropped:
            self._dropped_logged += dropped
            line = f"{line}\n    (before or after this {dropped:,} lines were dropped: nobody took them)"
        with suppress(OSError, ValueError):  # its reader has ended, or it was closed
            self._written_by(f"{line}\n")
        self._lines.task_done()


def _write_all(descriptor: int, text: str) -> None:
    data = text.encode(errors="backslashreplace")
    while data:
        data = data[os.write(descriptor, data) :]


class LineFormatter(logging.Formatter):
    """Everything about an event in one line; only a traceback makes it more, indented below it."""

    def format(self, record: logging.LogRecord) -> str:
        message = _plain(record.getMessage())
        fields = " ".join(f"{name}={_shown(value)}" for name, value in _extras(record))
        parts = [f"{_utc(record)} {record.levelname:<7} {record.name}  {message}", fields]
        line = "  ".join(part for part in parts if part)
        if record.exc_info:
            lines = self.formatException(record.exc_info).split("\n")
            line += "".join(f"\n    {_plain(one)}" for one in lines)
        return _AUTHORITY.sub(_without_password, line)


class JsonFormatter(logging.Formatter):
    """Everything about an event as one JSON object in one line. The fields of `extra` stand beside ``time``, ``level``,
    ``logger`` and ``message``; a traceback is ``traceback``.
    """

    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, object] = dict(_extras(record))
        document |= {
            "time": _utc(record), "level": record.levelname.lower(), "logger": record.name,
            "message": record.getMessage(),
        }  # fmt: skip
        if record.exc_info:
            document["traceback"] = self.formatException(record.exc_info)
        return json.dumps({name: _json_value(value) for name, value in document.items()}, ensure_ascii=False)


def _extras(record: logging.LogRecord) -> Iterator[tuple[str, object]]:
    return ((name, value) for name, value in record.__dict__.items() if name not in _STANDARD)


def _utc(record: logging.LogRecord) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"


def _json_value(value: object) -> object:
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    text = _UNSHOWN.sub(lambda found: found[0] if found[0] == "\n" else _written_out(found), str(value))
    return _AUTHORITY.sub(_without_password, text)


def _without_password(found: re.Match[str]) -> str:
    _, at, host = found[2].rpartition("@")
    return f"{found[1]}:***@{host}" if at else found[0]


def _shown(value: object) -> str:
    text = str(value)
    return _plain(text if _BARE.fullmatch(text) else json.dumps(text, ensure_ascii=False))


def _plain(text: str) -> str:
    """The same with what a terminal would obey written out, such as ``\\x1b``; a line stays one line."""
    return _UNSHOWN.sub(_written_out, text)


def _written_out(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
