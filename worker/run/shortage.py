"""What a worker has to look for, it looks for again while it is short of descriptors, memory or processes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from common.errors import EtcronError
from worker.launcher.unstartable import SHORT_OF

_log = logging.getLogger(__name__)

_AGAIN_S: Final = 0.2

_T = TypeVar("_T")


async def once_possible(look: Callable[[], Awaitable[_T]], *, what: str) -> _T:
    """What the look finds. OSError, EtcronError: it fails for another reason. ``what``: for the log, once."""
    is_logged = False
    while True:
        try:
            return await look()
        except (OSError, EtcronError) as error:
            if not is_short(error):
                raise
            if not is_logged:
                extra = {"action": "start.short", "looked_for": what}
                _log.warning("cannot look for %s, and waits: %s", what, error, extra=extra)
            is_logged = True
        await asyncio.sleep(_AGAIN_S)


def is_short(error: BaseException) -> bool:
    """Whether it is for want of descriptors, memory or processes."""
    cause = error.__cause__ if isinstance(error, EtcronError) else error
    return isinstance(cause, OSError) and cause.errno in SHORT_OF
