"""A cancellation that nobody swallows.

`asyncio.TaskGroup` (of Python 3.11) raises its children's errors and drops a cancellation that comes in the same turn
of the loop; pymongo swallows one now and then. Whoever catches such errors and goes on would then never end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any


async def until_first(*works: Coroutine[Any, Any, None]) -> None:
    """Runs them side by side until the first one ends or fails, then ends the others; raises what it raised.

    For a caller that catches the error and goes on: its own cancellation is raised whatever else has happened.
    """
    await _side_by_side(works, asyncio.FIRST_COMPLETED)


async def until_all(*works: Coroutine[Any, Any, None]) -> None:
    """Runs them side by side until all have ended, or the first one fails; then likewise."""
    await _side_by_side(works, asyncio.FIRST_EXCEPTION)


async def _side_by_side(works: tuple[Coroutine[Any, Any, None], ...], until: str) -> None:
    tasks = [asyncio.ensure_future(work) for work in works]
    if not tasks:
        return
    try:
        done, _ = await asyncio.wait(tasks, return_when=until)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in done:
        task.result()


@contextmanager
def heeding_cancellation() -> Iterator[None]:
    """Raises CancelledError at the end where the task was cancelled meanwhile, whatever else has happened.

    Not around a TaskGroup: that one counts a cancellation of its own.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    try:
        yield
    except Exception as error:
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError from error
        raise
    if task is not None and task.cancelling() > before:
        raise asyncio.CancelledError
