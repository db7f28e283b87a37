"""What records tell, until the notifier has made notices of it: a document for each batch that tells anything.

The writer of records adds a document before it lets go of them. Its ``_id`` is made once, and kept however often
it is sent: so it is there once. A batch that is written again by a later life of its writer adds another one; its
events are the same ones, by their orders and kinds. The notifier reads in the order of ``_id``, and deletes.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import pymongo
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import BulkWriteError, OperationFailure

from common.errors import ForbiddenError
from common.notices.events import Event
from common.runlog.client import Client, Document, asking, faults_of
from common.runlog.documents import storable, to_bson

_log = logging.getLogger(__name__)

_READ_SECONDS: Final = 5.0
_WRITE_SECONDS: Final = 30.0
_MOST_EVENTS: Final = 500
_A_BATCH: Final = 20
_MOST_CHARACTERS: Final = 1_000_000
"""Of the labels of a document's events: they alone have no small limit of their own."""
_UNAUTHORIZED: Final = 13
_PREFIX: Final = "outbox/"
"""nx-27017 takes text that looks like a number or a date for one."""
_WRITER: Final = secrets.token_hex(6)
_numbers: Final = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxDocument:
    """What one batch of records tells."""

    id: str
    events: tuple[Event, ...]

    @property
    def made_ms(self) -> int:
        """When it was written, by its writer's clock; 0: its id is none of ours."""
        digits = self.id.removeprefix(_PREFIX).partition("/")[0]
        return int(digits) if digits.isascii() and digits.isdigit() else 0


def outbox_documents(events: Iterable[Event], now_ms: int) -> list[OutboxDocument]:
    """The documents of these events, each with an id of its own: made once, and sent until they are there."""
    return [
        OutboxDocument(id=f"{_PREFIX}{now_ms:016d}/{_WRITER}/{next(_numbers):09d}", events=tuple(some))
        for some in _parts(events)
    ]


def _parts(events: Iterable[Event]) -> Iterator[list[Event]]:
    some: list[Event] = []
    characters = 0
    for event in events:
        own = sum(len(label) + len(value) for label, value in event.labels.items())
        if some and (len(some) == _MOST_EVENTS or characters + own > _MOST_CHARACTERS):
            yield some
            some, characters = [], 0
        some.append(event)
        characters += own
    if some:
        yield some


class Outbox:
    """The collection. Every call ends within its deadline, as UnavailableError where the store did not do it."""

    def __init__(self, client: Client, collection: AsyncCollection[Document]) -> None:
        self._client = client
        self._collection = collection

    async def put(self, documents: Sequence[OutboxDocument], *, deadline_seconds: float = _WRITE_SECONDS) -> None:
        """Notices are made of these, some time; one that is there already stays as it is. ForbiddenError: this user
        may not.
        """
        async with asking(self._client, deadline_seconds):
            sent = [
                to_bson(storable({"_id": one.id, "events": [event.to_document() for event in one.events]}))
                for one in documents
            ]
            try:
                await self._collection.insert_many(sent, ordered=False)
            except OperationFailure as error:
                if error.code == _UNAUTHORIZED:
                    raise ForbiddenError(
                        "the log store lets this user not write the collection `outbox`: give it that right"
                    ) from error
                if not isinstance(error, BulkWriteError):
                    raise
                for place, why in faults_of(error.details, len(sent)).refused.items():
                    extra = {"action": "outbox.refused", "id": documents[place].id, "why": why}
                    _log.error("the log store does not take what is to be told: %s", why, extra=extra)

    async def read(
        self, limit: int, *, most_events: int = _MOST_EVENTS, deadline_seconds: float = _READ_SECONDS
    ) -> list[OutboxDocument]:
        """What notices are to be made of, oldest first: so many documents at most, and none behind that with which
        there are so many events.

        What in them is no event, or one of a later version, is left out and logged.
        """
        documents: list[OutboxDocument] = []
        async with asking(self._client, deadline_seconds):
            found = self._collection.find({}, sort=[("_id", pymongo.ASCENDING)], limit=limit, batch_size=_A_BATCH)
            async for document in found:
                documents.append(_read(document))
                most_events -= len(documents[-1].events)
                if most_events <= 0:
                    break
        return documents

    async def delete(self, ids: Sequence[str], *, deadline_seconds: float = _WRITE_SECONDS) -> None:
        """Notices have been made of these; it may be repeated."""
        async with asking(self._client, deadline_seconds):
            if ids:
                await self._collection.delete_many({"_id": {"$in": list(ids)}})


def _read(document: Document) -> OutboxDocument:
    events = []
    written: Any = document.get("events")
    for one in written if isinstance(written, list) else [written]:
        try:
            events.append(Event.from_document(one))
        except (ValueError, TypeError) as error:
            extra = {"action": "outbox.odd", "id": str(document["_id"])}
            _log.error("%s in the collection outbox has what is no event: %s", document["_id"], error, extra=extra)
    return OutboxDocument(id=str(document["_id"]), events=tuple(events))
