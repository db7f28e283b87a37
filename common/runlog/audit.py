"""The audit's entries: a document each in the collection ``audit``; inserted, and never changed or removed.

``_id``    ``audit/<chain>/<number>``: the order of the chains, so that verifying one is a range of ``_id``
``text``   the entry as it was hashed, ``hash`` its hash; what is shown is read from here
``key``    time, chain and number: the order of lists; with ``who``, ``action``, ``object`` and ``outcome`` in front of
           it, an index each

What stands beside the text only finds it. A document whose fields do not say what its text says was written by another
program: a list leaves it out and logs it, and verifying names it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pymongo
from pymongo import IndexModel
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import BulkWriteError

from common.access.audit_chain import MAX_SEQ, Entry, Outcome
from common.cursors import decode_cursor, encode_cursor, no_cursor
from common.errors import UnavailableError
from common.runlog.client import NO_FAULTS, Document, by_ids, faults_of

_log = logging.getLogger(__name__)

# Prefixed, as all texts that are looked for: nx-27017 takes what looks like a number or a date for one.
_PREFIX: Final = "audit/"
_BEHIND_ALL: Final = f"{_PREFIX}~"
_MS_DIGITS: Final = 16
_FOUND_BY: Final = ("object", "who", "action", "outcome")
"""The index of the first that is given is used: which of them names the fewest, most likely."""
_LOOKED_AT: Final = 2_000
"""Entries that one page looks at, at most; it may then have fewer than asked for, and a next page."""
_STEP: Final = 500
_NEWEST_FIRST: Final = [("key", pymongo.DESCENDING)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which entries are wanted; None: any."""

    who: str | None = None
    action: str | None = None
    object: str | None = None
    outcome: Outcome | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    """Before this instant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage:
    """Entries, newest first, each with its hash."""

    items: tuple[tuple[Entry, str], ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptEntry:
    """One as it lies in the log store, whatever has become of it there."""

    id: str
    text: str
    hash: str
    fits: bool
    """Whether what it is found by says what its text says."""

    @property
    def chain(self) -> str:
        """By the ``_id``."""
        return self.id.removeprefix(_PREFIX).rpartition("/")[0]


class AuditEntries:
    """The collection; to be used within `asking`, which bounds each call."""

    def __init__(self, collection: AsyncCollection[Document]) -> None:
        self._collection = collection

    async def prepare(self) -> None:
        """The indexes are there."""
        found_by = [IndexModel([(name, pymongo.ASCENDING), *_NEWEST_FIRST]) for name in _FOUND_BY]
        await self._collection.create_indexes([IndexModel(_NEWEST_FIRST), *found_by])

    async def insert(self, entries: Sequence[Entry]) -> list[int]:
        """Every entry is there; repeating it changes nothing. The numbers of those in whose place another one is."""
        documents = [document_of(entry) for entry in entries]
        faults = NO_FAULTS
        try:
            await self._collection.insert_many(documents, ordered=False)
        except BulkWriteError as error:
            faults = faults_of(error.details, len(documents))
        for place, why in faults.refused.items():
            raise UnavailableError(f"the log store refuses entry {entries[place].seq} of the audit: {why}")
        there = {entry_id(entries[place]): entries[place] for place in faults.duplicates}
        stored = {one["_id"]: one for one in await by_ids(self._collection, list(there), projection={"text": 1})}
        return sorted(entry.seq for one, entry in there.items() if stored.get(one, {}).get("text") != entry.text)

    async def page(self, wanted: AuditFilter, cursor: str | None, limit: int) -> AuditPage:
        """The newest entries below the cursor. InvalidInputError where it is none of this list."""
        below = _key(wanted.to_ms) if wanted.to_ms is not None else _BEHIND_ALL
        below = below if cursor is None else min(below, _key_in(cursor))
        lowest = _key(wanted.from_ms) if wanted.from_ms is not None else _PREFIX
        given = {name: _found(value) for name in _FOUND_BY if (value := getattr(wanted, name)) is not None}
        indexed = dict(list(given.items())[:1])
        items: list[tuple[Entry, str]] = []
        looked_at, step = 0, limit + 1 if len(given) <= 1 else max(limit + 1, _STEP)
        while looked_at < _LOOKED_AT:
            selector: Document = {name: {"$eq": value} for name, value in indexed.items()}
            selector["key"] = {"$gte": lowest, "$lt": below}
            cursor_of = self._collection.find(selector, sort=_NEWEST_FIRST, limit=step, batch_size=step)
            found = await cursor_of.to_list()
            for document in found:
                if len(items) == limit:
                    return AuditPage(items=tuple(items), next_cursor=encode_cursor(below))
                below = str(document["key"])
                if all(document.get(name) == value for name, value in given.items()) and (entry := _read(document)):
                    items.append((entry, document["hash"]))
            looked_at += len(found)
            if len(found) < step:
                return AuditPage(items=tuple(items), next_cursor=None)
        return AuditPage(items=tuple(items), next_cursor=encode_cursor(below))

    async def behind(self, last_id: str, limit: int) -> list[KeptEntry]:
        """Those that follow this ``_id`` ("": the first ones), chain by chain, each in its order."""
        selector = {"_id": {"$gt": last_id or _PREFIX, "$lt": _BEHIND_ALL}}
        found = self._collection.find(selector, sort=[("_id", pymongo.ASCENDING)], limit=limit, batch_size=limit)
        return [_kept(one) for one in await found.to_list()]


def entry_id(entry: Entry) -> str:
    """The ``_id``."""
    return f"{_PREFIX}{entry.chain}/{entry.seq:0{len(str(MAX_SEQ))}d}"


def document_of(entry: Entry) -> Document:
    """The entry as it lies there."""
    note = entry.note
    found_by = {name: _found(getattr(note, name)) for name in _FOUND_BY}
    key = f"{_key(note.ms)}{entry.chain}/{entry.seq:0{len(str(MAX_SEQ))}d}"
    return {"_id": entry_id(entry), "key": key, **found_by, "text": entry.text, "hash": entry.hash}


def _kept(document: Document) -> KeptEntry:
    return KeptEntry(
        id=str(document["_id"]), text=str(document.get("text")), hash=str(document.get("hash")),
        fits=_entry_of(document) is not None,
    )  # fmt: skip


def _key(ms: int) -> str:
    return f"{_PREFIX}{ms:0{_MS_DIGITS}d}/"


def _found(value: object) -> str:
    return f"={str(value).encode(errors='backslashreplace').decode()}".replace("\0", "\\0")


def _entry_of(document: Document) -> Entry | None:
    """None where its fields do not say what its text says."""
    try:
        entry = Entry.parse(str(document.get("text")))
    except ValueError:
        return None
    expected: dict[str, Any] = document_of(entry)
    return entry if all(document.get(name) == value for name, value in expected.items()) else None


def _read(document: Document) -> Entry | None:
    entry = _entry_of(document)
    if entry is None:
        extra = {"action": "audit.odd", "id": str(document["_id"])}
        _log.error("%s in the collection audit is no entry of ours; verify the audit", document["_id"], extra=extra)
    return entry


def _key_in(cursor: str) -> str:
    key = decode_cursor(cursor)
    number, slash, _ = key.removeprefix(_PREFIX).partition("/")
    if not (key.startswith(_PREFIX) and number.isdecimal() and len(number) == _MS_DIGITS and slash):
        raise no_cursor()
    return key
