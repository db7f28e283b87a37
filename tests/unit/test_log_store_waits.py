"""What waits for a connection to the log store, and is cancelled as its time is over, leaves the pool to others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pymongo.asynchronous import pool, topology
from pymongo.lock import _async_create_condition, _async_create_lock

import common.runlog  # noqa: F401 - it mends pymongo
from tests.support.waiting import wait_until


@pytest.mark.parametrize("module", [pool, topology])
async def test_lock_is_free_after_a_wait_that_is_cancelled_as_its_time_is_over(module: Any) -> None:
    lock: Any = _async_create_lock()
    condition: Any = _async_create_condition(lock)

    async def wait() -> None:
        async with condition:
            await module._async_cond_wait(condition, 0.5)

    waiting = asyncio.create_task(wait())
    while not condition._waiters:  # noqa: ASYNC110 - not every 10 ms: by then its time may be over
        await asyncio.sleep(0)
    await lock.acquire()
    await wait_until(lambda: lock._waiters, description="its time is over, and it wants the lock back")
    waiting.cancel()
    lock.release()
    [ended] = await asyncio.gather(waiting, return_exceptions=True)
    assert isinstance(ended, asyncio.CancelledError)
    assert not lock.locked()
