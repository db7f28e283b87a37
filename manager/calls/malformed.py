"""No HTTP request, too long a line, a garbled body: each is answered with 400, and leaves one line in the log."""

from __future__ import annotations

import logging
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

_LIBRARY: Final = "aiohttp.server"
_SHOWN: Final = 200


class _OneLine(logging.Filter):
    """The library logs a traceback for each: anybody who can connect could fill the log with them."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, web.RequestPayloadError):
            error = error.__cause__  # the library reads on after the answer, and meets it again
        if not isinstance(error, HttpProcessingError):
            return True
        record.msg, record.args = "a request could not be read: %s", (error.message[:_SHOWN],)
        record.exc_info, record.exc_text = None, None
        record.levelno, record.levelname = logging.INFO, "INFO"
        record.__dict__["action"] = "request.malformed"
        return logging.getLogger(_LIBRARY).isEnabledFor(logging.INFO)


_ONE_LINE: Final = _OneLine()


def keep_malformed_quiet() -> None:
    """Have the library's log say so in one line; once or often."""
    logging.getLogger(_LIBRARY).addFilter(_ONE_LINE)
