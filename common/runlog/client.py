"""How the log store is asked: with a deadline, with one kind of error, and in words that hold no password."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import pymongo
from pymongo import AsyncMongoClient, ReplaceOne
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import BulkWriteError, PyMongoError

from common.errors import InvalidInputError, Problem, UnavailableError
from common.runlog.results import NO_FAULTS, WriteFaults, faults_of

Document: TypeAlias = dict[str, Any]
Client: TypeAlias = AsyncMongoClient[Document]

_IDS_A_QUERY = 1000


def open_client(uri: str, connect_timeout_ms: int) -> Client:
    try:
        return AsyncMongoClient(
            uri,
            appname="etcron",
            connectTimeoutMS=connect_timeout_ms,
            serverSelectionTimeoutMS=connect_timeout_ms,
        )
    except (PyMongoError, ValueError):
        # Neither the URI nor pymongo's words about it: a password may stand in both.
        remedy = "write mongodb://[user:password@]host[:port], the user and password percent-encoded"
        problem = Problem(field="mongodbUri", message="is not a MongoDB URI", remedy=remedy)
        raise InvalidInputError([problem]) from None


@asynccontextmanager
async def asking(client: Client, seconds: float) -> AsyncIterator[None]:
    """All that is asked of the store within ends in time, and fails as UnavailableError.

    Where no server is known, at most the connect timeout is spent on finding one: under a deadline pymongo would go on
    looking until its end.
    """
    try:
        with pymongo.timeout(seconds):
            with pymongo.timeout(client.options.server_selection_timeout):
                await client.is_primary
            yield
    except PyMongoError as error:
        raise UnavailableError(f"the log store did not answer as needed: {_brief(error)}") from error


def _brief(error: PyMongoError) -> str:
    """The error in a line; pymongo appends the whole topology, and a batch's error its documents."""
    text = str(error).partition(", Timeout: ")[0].partition(", full error: ")[0]
    return f"{type(error).__name__}: {text[:200]}"


async def bulk(
    collection: AsyncCollection[Document], operations: Sequence[ReplaceOne[Document]]
) -> tuple[int, WriteFaults]:
    """How many documents were found by their selectors, and the faults."""
    try:
        result = await collection.bulk_write(operations, ordered=False)
    except BulkWriteError as error:
        return int(error.details["nMatched"]), faults_of(error.details, len(operations))
    return result.matched_count, NO_FAULTS


async def by_ids(
    collection: AsyncCollection[Document], ids: Sequence[str], *, projection: Mapping[str, int]
) -> list[Document]:
    found: list[Document] = []
    for start in range(0, len(ids), _IDS_A_QUERY):
        cursor = collection.find({"_id": {"$in": ids[start : start + _IDS_A_QUERY]}}, projection)
        found += await cursor.to_list()
    return found
