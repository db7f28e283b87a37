"""The garbage collector looks rarely, and leaves alone what a process has read at its start.

100,000 jobs are a million objects. Python's collector looks at all of them in one go, a fifth of a second in which
nothing else happens, whenever a quarter as many new ones have come. They hold no cycles, and go by their reference
counts when a job is edited; so there is nothing to find there.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from typing import Final

_RARELY: Final = 10
_COLLECTIONS: Final = (5_000, 20, 20)
"""Objects that are new, and how often the young are looked through before the older, and those before all."""
_log = logging.getLogger(__name__)


def collect_rarely() -> None:
    """For a worker, at its start: garbage in cycles is rare, and looking for it takes 0.1 s with 10,000 jobs."""
    gc.freeze()  # what has been imported stays
    gc.set_threshold(*_COLLECTIONS)


async def leave_alone_what_is_read(has_read: asyncio.Event) -> None:
    """A loop: whatever lives once ``has_read`` is set is not looked at again. One whole collection comes before it.

    Until then whole collections are rarer: nearly all that is made then stays.
    """
    usual = gc.get_threshold()
    gc.set_threshold(*usual[:2], _RARELY * usual[2])
    try:
        await has_read.wait()
    finally:
        gc.set_threshold(*usual)
    gc.collect()
    gc.freeze()
    extra = {"action": "heap.frozen", "objects": gc.get_freeze_count()}
    _log.debug("the collector leaves %d objects alone", gc.get_freeze_count(), extra=extra)
    await asyncio.Event().wait()
