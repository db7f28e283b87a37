"""Looks that take descriptors, memory or a thread, repeated until there are some: no start of a worker fails so."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from worker.spooling.spool import SpoolError

_log = logging.getLogger(__name__)

_AGAIN_S: Final = 0.2
_SHORT_OF: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)

_T = TypeVar("_T")


async def once_possible(look: Callable[[], Awaitable[_T]], *, what: str) -> _T:
    """What the look finds. OSError, SpoolError: it fails for another reason. ``what``: for the log, told once."""
    is_said = False
    while True:
        try:
            return await look()
        except (OSError, SpoolError) as error:
            if not is_short(error):
                raise
            if not is_said:
                extra = {"action": "start.short", "looked_for": what}
                _log.warning("cannot look for %s, and waits: %s", what, error, extra=extra)
            is_said = True
        await asyncio.sleep(_AGAIN_S)


def is_short(error: BaseException) -> bool:
    """Whether it is for want of descriptors, memory or processes."""
    cause = error.__cause__ if isinstance(error, SpoolError) else error
    return isinstance(cause, OSError) and cause.errno in _SHORT_OF
