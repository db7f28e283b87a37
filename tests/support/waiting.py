"""Waiting for a situation instead of sleeping."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable

_LOOK_EVERY_S = 0.01


async def wait_until(
    predicate: Callable[[], bool | Awaitable[bool]], *, description: str, timeout: float = 10.0
) -> None:
    """Returns as soon as the predicate holds; AssertionError with the description when it does not in time.

    The predicate may be a coroutine function; it is asked every 10 ms.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    while True:
        answer = predicate()
        if await answer if inspect.isawaitable(answer) else answer:
            return
        if loop.time() >= deadline:
            raise AssertionError(f"after {timeout:g} s still not: {description}")
        await asyncio.sleep(_LOOK_EVERY_S)
