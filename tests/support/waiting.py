"""Waiting for a situation instead of sleeping."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable

PATIENCE_S = 60.0
"""After so long there is a fault: no promise, for two cores that have fifty things to do are slow with each."""

_LOOK_AT_MOST_EVERY_S = 0.01
_LOOK_AT_LEAST_EVERY_S = 0.2
_LOOK_AT_LAST_EVERY_S = 1.0
_TIMES_AS_LONG = 9


async def wait_until(
    predicate: Callable[[], bool | Awaitable[bool]],
    *,
    description: str,
    timeout: float = PATIENCE_S,
    at_most_every_s: float = _LOOK_AT_MOST_EVERY_S,
) -> None:
    """Returns as soon as the predicate holds; AssertionError with the description when it does not in time.

    The predicate may be a coroutine function. It is asked every 10 ms, and after half a second more and more seldom,
    down to every 200 ms: asking is work, too, and there is more than one test at a time. Where asking takes long it is
    asked more seldom still: a tenth of the time may go by with it, and a second may go by without it.
    ``at_most_every_s``: seldom from the start.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    deadline = began + timeout
    while True:
        asked = loop.time()
        answer = predicate()
        if await answer if inspect.isawaitable(answer) else answer:
            return
        if loop.time() >= deadline:
            raise AssertionError(f"after {timeout:g} s still not: {description}")
        now = loop.time()
        usual = min((now - began) / 50, _LOOK_AT_LEAST_EVERY_S)
        await asyncio.sleep(max(at_most_every_s, usual, min((now - asked) * _TIMES_AS_LONG, _LOOK_AT_LAST_EVERY_S)))
