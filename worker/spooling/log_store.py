"""The log store's indexes are made as soon as it is there; nothing waits for that."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from common.errors import UnavailableError
from common.runlog import RunLog

_log = logging.getLogger(__name__)

_RETRY_S: Final = 5.0


async def prepare_log_store(runlog: RunLog) -> None:
    """Prepares it once, and goes on for ever, as a loop of the process does."""
    said = False
    while not await _is_prepared(runlog, say=not said):
        said = True
        await asyncio.sleep(_RETRY_S)
    await asyncio.Event().wait()


async def _is_prepared(runlog: RunLog, *, say: bool) -> bool:
    try:
        await runlog.prepare()
    except UnavailableError as error:
        if say:
            _log.warning("the log store is away: %s", error, extra={"action": "log_store.away"})
        return False
    return True
