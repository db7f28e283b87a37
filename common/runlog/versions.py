"""The former specs of jobs: a document each in the collection ``versions``, the newest ``KEPT`` of every job.

The ``_id`` sorts as "job, when it was replaced", so what a job has is a range of the one index that every collection
has. The spec is kept as JSON text: a job's field may have a name, or a number, that BSON does not take. The last spec
of a deleted job has ``deletedMs`` as well, by whose index the newest deletions are found.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Final

import pymongo
from pymongo import DeleteOne, IndexModel, ReplaceOne
from pymongo.asynchronous.collection import AsyncCollection

from common.protocol.saved_job import EditKind, JobVersion
from common.protocol.values import MALFORMED, brief
from common.runlog.client import Client, Document, asking, bulk
from common.runlog.documents import to_bson

_log = logging.getLogger(__name__)

_READ_SECONDS: Final = 5.0
_WRITE_SECONDS: Final = 30.0
KEPT: Final = 50
_DELETED: Final = "deletedMs"
_MOST_MS: Final = 1 << 53
"""Behind every deletion."""


class Versions:
    """The collection. Every call ends within its deadline, as UnavailableError where the store did not do it."""

    def __init__(self, client: Client, collection: AsyncCollection[Document]) -> None:
        self._client = client
        self._collection = collection

    async def prepare(self) -> None:
        """The index is there; workers have no rights on this collection."""
        async with asking(self._client, _READ_SECONDS):
            await self._collection.create_indexes([IndexModel([(_DELETED, pymongo.DESCENDING)])])

    async def put(self, versions: Sequence[JobVersion]) -> dict[int, str]:
        """Every version is stored, but for those that the store does not take: their places in the list, and why.

        Repeating it changes nothing. Of each job the oldest beyond ``KEPT`` go.
        """
        refused: dict[int, str] = {}
        places: list[int] = []
        replacements: list[ReplaceOne[Document]] = []
        async with asking(self._client, _WRITE_SECONDS):
            for place, version in enumerate(versions):
                try:
                    replacements.append(ReplaceOne({"_id": _id(version)}, to_bson(_document(version)), upsert=True))
                    places.append(place)
                except ValueError as error:
                    refused[place] = str(error)
            if replacements:
                _, faults = await bulk(self._collection, replacements)
                refused |= {places[index]: why for index, why in faults.refused.items()}
            for job in {versions[place].job for place in places}:
                stored = self._collection.find(_all_of(job), {"_id": 1}, sort=[("_id", -1)], skip=KEPT, limit=KEPT)
                old = [document["_id"] for document in await stored.to_list()]
                if old:
                    await self._collection.bulk_write([DeleteOne({"_id": one}) for one in old], ordered=False)
        return refused

    async def newest(self, job: str, *, limit: int = KEPT, deadline_seconds: float = _READ_SECONDS) -> list[JobVersion]:
        """The job's versions, newest first."""
        return await self._found(_all_of(job), "_id", limit, deadline_seconds)

    async def deleted(
        self, *, limit: int, until_ms: int = _MOST_MS, deadline_seconds: float = _READ_SECONDS
    ) -> list[JobVersion]:
        """The last specs of the jobs that were deleted last, up to then, newest first; some may be there again."""
        return await self._found({_DELETED: {"$gt": 0, "$lte": until_ms}}, _DELETED, limit, deadline_seconds)

    async def _found(self, selector: Document, by: str, limit: int, deadline_seconds: float) -> list[JobVersion]:
        async with asking(self._client, deadline_seconds):
            cursor = self._collection.find(selector, sort=[(by, -1)], limit=limit, batch_size=limit)
            return [version for document in await cursor.to_list() if (version := _read(document)) is not None]


def _of(job: str) -> str:
    # Prefixed: nx-27017 takes text that looks like a number or a date for one.
    return f"version/{job}/"


def _all_of(job: str) -> Document:
    return {"_id": {"$gt": _of(job), "$lt": f"{_of(job)}~"}}


def _id(version: JobVersion) -> str:
    return f"{_of(version.job)}{version.ended_ms:016d}/{version.revision:019d}"


def _document(version: JobVersion) -> Document:
    document = version.to_document()
    spec = json.dumps(document.pop("spec"), ensure_ascii=False)
    deleted = {_DELETED: version.ended_ms} if version.ended_with is EditKind.DELETE else {}
    return {
        "_id": _id(version), "jobName": version.job, "revision": version.revision, "specJson": spec, **document,
        **deleted,
    }  # fmt: skip


def _read(document: Document) -> JobVersion | None:
    """None where another program has written it: it harms no other, and is logged."""
    try:
        spec = json.loads(document["specJson"])
        return JobVersion.from_document(
            {**document, "spec": spec}, job=str(document["jobName"]), revision=int(document["revision"])
        )
    except MALFORMED as error:
        extra = {"action": "version.odd", "id": document["_id"]}
        _log.error("%s in the collection versions is none of a job: %s", document["_id"], brief(error), extra=extra)
        return None
