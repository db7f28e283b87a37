"""Threads: begins nothing before one can be started, and does in one what may block.

grpc crashes the process (SIGSEGV) where it is made without a thread. What may block (on a file, most likely: its mount
may not answer) is done beside the event loop and with a deadline.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from threading import Thread
from typing import Final, TypeVar, cast

from common.errors import UnavailableError

_log = logging.getLogger(__name__)

_AGAIN_S: Final = 0.5


async def can_start_threads(stop: asyncio.Event) -> bool:
    """True once a thread can be started, nearly always at once; False where a stop is asked for first."""
    is_logged = False
    while not stop.is_set():
        try:
            trial = Thread(target=int, name="trial")
            trial.start()
        except RuntimeError as error:
            if not is_logged:
                remedy = "it waits; raise the limit of processes (ulimit -u, or that of its container)"
                _log.warning("no thread can be started (%s): %s", error, remedy, extra={"action": "threads.short"})
            is_logged = True
            with suppress(TimeoutError):
                async with asyncio.timeout(_AGAIN_S):
                    await stop.wait()
        else:
            trial.join()
            return True
    return False


_T = TypeVar("_T")
_WITHIN_S: Final = 5.0
_MOST_AT_A_TIME: Final = 8
_MOST_OF_A_KIND: Final = 4
_going = threading.BoundedSemaphore(_MOST_AT_A_TIME)


class HungError(UnavailableError):
    """What was asked beside the event loop did not answer in time. See to the file, and to the mount it lies on."""


async def beside(
    work: Callable[[], _T], *, what: str, within_s: float = _WITHIN_S, places: threading.Semaphore = _going
) -> _T:
    """What the work returns or raises. HungError: it has not ended in time, or eight others have not, or there is no
    thread to be had.

    It is given a thread, which ends with it, whenever that is; no exit waits for that. ``places``: of its kind of work,
    where that must not take those of others; it keeps one until it has ended.
    """
    if not places.acquire(blocking=False):
        raise HungError(f"{what}: too much else hangs")
    future = Future[_T]()
    thread = threading.Thread(target=_carry_out, args=(work, future, places), name=f"beside: {what}", daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        places.release()
        raise HungError(f"{what}: no thread can be started ({error})") from None
    try:
        async with asyncio.timeout(within_s):
            return await asyncio.wrap_future(future)
    except TimeoutError:
        if future.done() and not future.cancelled():
            raise  # the work's own
        raise HungError(f"{what} does not answer within {within_s:g} s") from None


def _carry_out(work: Callable[[], _T], future: Future[_T], places: threading.Semaphore) -> None:
    result, failed = None, None
    try:
        result = work()
    except BaseException as error:
        failed = error
    places.release()
    if not future.set_running_or_notify_cancel():
        return  # the caller has given up waiting
    if failed is not None:
        future.set_exception(failed)
    else:
        future.set_result(cast(_T, result))


class Places:
    """Threads for one kind of work: a caller waits for a place, and what hangs keeps those of no other kind."""

    def __init__(self, *, within_s: float = _WITHIN_S) -> None:
        self._within_s = within_s
        self._turns = asyncio.Semaphore(_MOST_OF_A_KIND)
        self._places = threading.BoundedSemaphore(_MOST_OF_A_KIND)

    async def beside(self, work: Callable[[], _T], *, what: str) -> _T:
        """As `beside`."""
        async with self._turns:
            return await beside(work, what=what, within_s=self._within_s, places=self._places)
