"""Waits until the log store holds so many records; asked directly, so that neither etcd nor a manager is disturbed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from pymongo import AsyncMongoClient
from pymongo.asynchronous.collection import AsyncCollection

from bench.figures import WrongError

_DATABASE: Final = "cron"
_LOOK_S: Final = 0.05


@asynccontextmanager
async def log_of(uri: str) -> AsyncIterator[AsyncCollection[dict[str, Any]]]:
    """The collection of records."""
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(uri)
    try:
        yield client.get_database(_DATABASE).get_collection("log")
    finally:
        await client.close()


async def until_recorded(uri: str, records: int, deadline_s: float) -> str:
    """The job whose run ended last, once there are so many; WrongError where there are not by that Unix time."""
    async with log_of(uri) as log:
        while (there := await log.estimated_document_count()) < records:  # a count of all would be half of the work
            if time.time() > deadline_s:
                raise WrongError(f"only {there} of {records} records can be read by now")
            await asyncio.sleep(_LOOK_S)
        newest = await log.find_one(sort=[("endTime", -1)])
        assert newest is not None
        return str(newest["jobName"])
