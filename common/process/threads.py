"""Begins nothing before a thread can be started: grpc crashes the process (SIGSEGV) where it is made without one."""

from __future__ import annotations

import asyncio
import logging
from threading import Thread
from typing import Final

_log = logging.getLogger(__name__)

_AGAIN_S: Final = 0.5


async def can_start_threads(stop: asyncio.Event) -> bool:
    """True once a thread can be started, nearly always at once; False where a stop is asked for first."""
    is_said = False
    while not stop.is_set():
        try:
            trial = Thread(target=int, name="trial")
            trial.start()
        except RuntimeError as error:
            if not is_said:
                remedy = "it waits; raise the limit of processes (ulimit -u, or that of its container)"
                _log.warning("no thread can be started (%s): %s", error, remedy, extra={"action": "threads.short"})
            is_said = True
            await _stopped_within(stop, _AGAIN_S)
        else:
            trial.join()
            return True
    return False


async def _stopped_within(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        pass
