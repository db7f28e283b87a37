"""The documents of the log store: a record as it is kept, encoded once, and the last result of a job.

Next to the fields of the legacy API a document carries one of ours, ``pageKey``: plan time and run id in one string
that sorts as "plan time, then run id". Pages sort and cut by that one field, so every page is one range of one index;
and an index on it needs no ``_id`` part, which nx-27017 cannot make.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import bson
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument
from msgspec import Struct
from msgspec.structs import replace

from common.protocol.keys import RunId
from common.protocol.run import RunRecord, plan_key

PAGE_KEY = "pageKey"
ORDER = "order"
WRITTEN_BY = "writtenBy"
"""In records of a former version; nothing reads it any more."""
MAX_DOCUMENT_BYTES = 16 * 1024 * 1024 - 4096
"""MongoDB's limit of 16 MiB, less what a mark of being late may add."""

_KEPT_IN_LAST = ("status", "planTime", "scheduleTime", "startTime", "endTime", "rangeEndTime", "exitCode", "signal",
                 "worker", "host", "attempt", "trigger", "late", "count", "countIsMinimum", "revision")  # fmt: skip
_TEXTS_IN_LAST = ("reason", "err")
_TEXT_LIMIT = 500


class Rejection(Struct, frozen=True, kw_only=True):
    """A record that the log store does not take as it is, and why."""

    run_id: RunId
    reason: str


class Encoded(Struct, frozen=True, kw_only=True):
    """A record with its document, ready to be sent."""

    record: RunRecord
    document: RawBSONDocument


def plan_ms_of(key: str) -> int:
    """The plan time that a page key says."""
    return int(key.partition("/")[0])


def page_key(record: RunRecord) -> str:
    """What pages sort by; unique. It never looks like a date, which nx-27017 would compare as one."""
    return f"{plan_key(record.plan_ms)}/{record.run_id}"


def encode(record: RunRecord) -> Encoded | Rejection:
    """The document as it goes over the wire, or why no MongoDB takes it (size, lone surrogates, NUL in a key)."""
    try:
        document = to_bson({**record.to_document(), PAGE_KEY: page_key(record)})
    except (ValueError, TypeError) as error:
        return Rejection(run_id=record.run_id, reason=str(error))
    return Encoded(record=record, document=document)


def to_bson(document: Mapping[str, Any]) -> RawBSONDocument:
    """The document as it goes over the wire; ValueError with the reason where no MongoDB takes it."""
    try:
        data = bson.encode(document)
    except (BSONError, OverflowError, ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"not encodable: {type(error).__name__}: {str(error)[:200]}") from error
    if len(data) > MAX_DOCUMENT_BYTES:
        raise ValueError(f"too large: {len(data)} of {MAX_DOCUMENT_BYTES} bytes")
    return RawBSONDocument(data)


def storable(value: Any) -> Any:
    """The same without what UTF-8 has no bytes for: no text keeps a notice from being sent."""
    match value:
        case str():
            return value.encode(errors="replace").decode()
        case dict():
            return {storable(name).replace("\0", ""): storable(one) for name, one in value.items()}
        case list() | tuple():
            return [storable(one) for one in value]
        case _:
            return value


def encode_late(record: RunRecord) -> Encoded | Rejection:
    """The same for a record that replaces its run's ``lost``: it says that it came late."""
    return encode(replace(record, late=True))


def tidy(document: Mapping[str, Any]) -> dict[str, Any]:
    """A document as it is shown: without our own fields, its id a string (the legacy system's are ObjectIds)."""
    shown = {name: value for name, value in document.items() if name not in (PAGE_KEY, ORDER, WRITTEN_BY)}
    if "_id" in shown:
        shown["_id"] = str(shown["_id"])
    return shown


def last_id(job: str) -> str:
    """The ``_id`` of a job's last result. Prefixed: nx-27017 takes ``_id`` "007" and "7" for one number."""
    return f"job/{job}"


def last_document(record: RunRecord) -> dict[str, Any]:
    """A record as a list of jobs shows it: without output, texts cut at 500 characters."""
    document = record.to_document()
    last = {"jobName": document["jobName"], "runId": document["_id"]}
    for name in _KEPT_IN_LAST:
        if name in document:
            last[name] = document[name]
    if record.labels:
        last["labels"] = dict(record.labels)
    for name in _TEXTS_IN_LAST:
        if text := document.get(name):
            last[name] = text[:_TEXT_LIMIT]
    return last
