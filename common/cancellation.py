"""A cancellation that nobody swallows.

`asyncio.TaskGroup` raises its children's errors and drops a cancellation that comes in the same turn of the loop (so in
Python 3.11); pymongo swallows one now and then. Whoever catches such errors and goes on would then never end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def heeding_cancellation() -> Iterator[None]:
    """Raises CancelledError at the end where the task was cancelled meanwhile, whatever else has happened."""
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
