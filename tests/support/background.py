"""Loops that run while a test looks at them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def running(*loops: Coroutine[Any, Any, object]) -> AsyncIterator[list[asyncio.Task[object]]]:
    """The loops run inside the block, and are cancelled at its end; one that raises fails the test."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(loop) for loop in loops]
        try:
            yield tasks
        finally:
            for task in tasks:
                task.cancel()
