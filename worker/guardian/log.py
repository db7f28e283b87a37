"""The guardian logs where its worker does, and waits for no reader: what nobody takes now is dropped.

A worker that hangs may hang *because* nobody reads its log (a stopped terminal, a supervisor that is frozen). Its
guardian has the same pipe, and must not hang with it.
"""

from __future__ import annotations

import logging
import select

from common.process.logs import configure_logging


def configure_unwaiting_logging(level: str, *, descriptor: int = 2) -> None:
    """As ``configure_logging`` does; a line is written only while the descriptor of the log would take it at once."""
    configure_logging(level)
    logging.raiseExceptions = False  # it would tell of them on the same descriptor
    for handler in logging.getLogger().handlers:
        handler.addFilter(_OnlyWhereTaken(descriptor))


class _OnlyWhereTaken(logging.Filter):
    """Lets pass what can be written without waiting; a pipe says so while 4096 bytes of it are free."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    def filter(self, record: logging.LogRecord) -> bool:
        return any(events & select.POLLOUT for _, events in self._poll.poll(0))
