"""What runs print while a user looks: chunks in a database of their own, beside that of the log.

``_id``     ``tail/<run>/<offset>``: the order of the bytes, so that reading on is a range of ``_id``
``bytes``   how many of the output it stands for; ``text``: what they say
``ms``      when it was written, by its worker's clock

The worker writes them, at most one a second and run, and deletes them when the run ends; the steward deletes what is
left after an hour. A chunk is sent again, as it was, until it is stored. Nothing depends on any of them: no write waits
for a disk or a second server, and they lie where they hold up no record (nx-27017 has one writer a database).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pymongo
from pymongo import ReplaceOne
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase

from common.protocol.keys import RunId
from common.runlog.client import Client, Document, asking, bulk

_SECONDS: Final = 2.0
_PREFIX: Final = "tail/"
_DIGITS: Final = 16
_A_BATCH: Final = 8
_LARGEST: Final = 131_072
"""Bytes of one chunk; workers send half as many at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Some bytes of a run's output."""

    run: str
    start: int
    """How many bytes were printed before."""
    size: int
    """How many bytes it is; 0: it says only that the worker has begun to send."""
    text: str

    @property
    def end(self) -> int:
        return self.start + self.size

    @property
    def id(self) -> str:
        return _id(self.run, self.start)


class TailStore:
    """The collection; each call ends within two seconds, as UnavailableError where the store did not do it."""

    def __init__(self, client: Client, database: AsyncDatabase[Document]) -> None:
        self._client = client
        self._chunks: AsyncCollection[Document] = database.get_collection("chunks")

    async def put(self, chunks: Sequence[Chunk], now_ms: int) -> None:
        """They are there; may be repeated."""
        documents = [
            {"_id": one.id, "run": one.run, "start": one.start, "bytes": one.size, "text": one.text, "ms": now_ms}
            for one in chunks
        ]
        async with asking(self._client, _SECONDS):
            await bulk(self._chunks, [ReplaceOne({"_id": one["_id"]}, one, upsert=True) for one in documents])

    async def read(self, run: RunId, start: int, *, limit: int = _A_BATCH) -> list[Chunk]:
        """Those that begin there or behind, in their order, so many at most; what is none of ours is left out."""
        found = self._chunks.find(
            {"_id": {"$gte": _id(str(run), start), "$lt": f"{_PREFIX}{run}/:"}}, sort=[("_id", pymongo.ASCENDING)],
            limit=limit, batch_size=limit,
        )  # fmt: skip
        async with asking(self._client, _SECONDS):
            documents = await found.to_list()
        return [chunk for chunk in map(_read, documents) if chunk is not None]

    async def delete(self, ids: Sequence[str]) -> None:
        """They are gone; may be repeated."""
        async with asking(self._client, _SECONDS):
            await self._chunks.delete_many({"_id": {"$in": list(ids)}})

    async def forget(self, before_ms: int) -> None:
        """What was written before is gone."""
        async with asking(self._client, _SECONDS):
            await self._chunks.delete_many({"ms": {"$lt": before_ms}})


def _id(run: str, start: int) -> str:
    return f"{_PREFIX}{run}/{start:0{_DIGITS}d}"


def _read(document: Document) -> Chunk | None:
    start, size, text = document.get("start"), document.get("bytes"), document.get("text")
    if not (isinstance(start, int) and isinstance(size, int) and isinstance(text, str)) or min(start, size) < 0:
        return None
    if not len(text) <= size <= _LARGEST:  # a byte is one character at most; readers count the bytes
        return None
    return Chunk(run=str(document.get("run")), start=start, size=size, text=text)
