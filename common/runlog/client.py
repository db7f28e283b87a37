"""How the log store is asked: with a deadline, with one kind of error, in words that hold; what became of a batch."""

from __future__ import annotations

import asyncio
import re
import sys
import warnings
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl

import pymongo
from pymongo import AsyncMongoClient, ReplaceOne, UpdateOne
from pymongo.asynchronous import pool, topology
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import (
    BulkWriteError,
    ConnectionFailure,
    ExecutionTimeout,
    NetworkTimeout,
    PyMongoError,
    ServerSelectionTimeoutError,
    WriteConcernError,
)

from common.errors import ConfigError, Problem, UnavailableError
from common.etcd.settle import UnsettledError
from common.process.lifecycle import raising_cancellation
from common.runlog.documents import Rejection
from common.tls import file_fault


async def _wait(condition: asyncio.Condition, seconds: float | None) -> bool:
    """As pymongo's, which waits in a task of its own on Python 3.11: where its caller is cancelled as the time is over,
    that task takes the pool's lock and never frees it; then nothing is asked of the log store ever again."""
    try:
        async with asyncio.timeout(seconds):
            return await condition.wait()
    except TimeoutError:
        return False


if sys.version_info < (3, 12):
    for _module in (pool, topology):
        _module._async_cond_wait = _wait  # type: ignore[attr-defined]

DUPLICATE_KEY = 11000
_FAULT_OF_THE_DOCUMENT = frozenset({2, 9, 14, 15, 22, 52, 53, 55, 56, 57, 121, 171, 10334, 17280, 17419, 17420})
"""BadValue, FailedToParse, TypeMismatch, Overflow, InvalidBSON, DocumentValidationFailure, BSONObjectTooLarge, etc."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """What became of a batch. Every record that is not in ``rejected`` is safely in the log store."""

    inserted: int = 0
    already_there: int = 0
    """Delivered before; nothing was changed."""
    late: int = 0
    """Replaced a ``lost`` verdict that the run had been given meanwhile."""
    rejected: tuple[Rejection, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFaults:
    """The positions in a batch that were not written, by what is to be done about them."""

    duplicates: tuple[int, ...] = ()
    refused: Mapping[int, str]


NO_FAULTS = WriteFaults(refused={})


def faults_of(details: Mapping[str, Any], count: int) -> WriteFaults:
    """Sort the errors of an unordered batch of ``count``; UnavailableError where the store, not a record, is at fault.

    An error code that does not name its culprit (nx-27017 has one for everything, a full disk included) is the
    record's own only if the store has taken a later one of the same batch.
    """
    if details.get("writeConcernErrors"):
        raise UnavailableError(f"the log store did not confirm the write: {_text(details['writeConcernErrors'][0])}")
    errors = {int(error["index"]): error for error in details["writeErrors"]}
    last_taken = max((index for index in range(count) if index not in errors), default=-1)
    duplicates = tuple(index for index, error in errors.items() if error.get("code") == DUPLICATE_KEY)
    refused = {index: error for index, error in errors.items() if error.get("code") != DUPLICATE_KEY}
    for index, error in refused.items():
        if error.get("code") not in _FAULT_OF_THE_DOCUMENT and index > last_taken:
            raise UnavailableError(f"the log store takes no writes: {_text(error)}")
    return WriteFaults(duplicates=duplicates, refused={index: _text(error) for index, error in refused.items()})


def _text(error: Mapping[str, Any]) -> str:
    return f"{str(error.get('errmsg', ''))[:200]} (code {error.get('code')})"


Document: TypeAlias = dict[str, Any]
Client: TypeAlias = AsyncMongoClient[Document]

_IDS_A_QUERY = 1000
_STUMBLES: Final = {
    # What pymongo 4.20 says where its wait for a server is over in the moment in which it is woken.
    "un-acquired lock": "no server was found in time",
    # What asyncio says, which looks up each address in a thread, where the machine is out of processes.
    "can't start new thread": "no thread could be started to look up its address",
}
_KINDS: Final[tuple[tuple[type[PyMongoError], str], ...]] = (
    (ServerSelectionTimeoutError, "it cannot be reached"),
    (NetworkTimeout, "no answer in time"),
    (ExecutionTimeout, "no answer in time"),
    (ConnectionFailure, "the connection broke"),
    (WriteConcernError, "it did not confirm the write"),
)
"""The first kind that an error is of counts; of another one its text says it all."""
_IN_DOUBT: Final = (NetworkTimeout, ExecutionTimeout, ConnectionFailure, WriteConcernError)
_EXCEEDED_TIME_LIMIT: Final = 262
_ORNAMENTS: Final = (
    (re.compile(r" \(configured timeouts: [^)]*\)"), ""),
    (re.compile(r"\[Errno -?[0-9]+\] "), ""),
    (re.compile(r"Connect call failed \([^)]*\)"), "connection refused"),
)
_TLS_FILES = ("tlscafile", "tlscertificatekeyfile", "tlscrlfile")


def open_client(uri: str, connect_timeout_ms: int, password: str | None = None) -> Client:
    """A client that has not connected yet. ConfigError: the URI, or a file that it names, is no good."""
    if problems := [*_tls_faults(uri)]:
        raise ConfigError(problems)
    given: dict[str, Any] = {} if password is None else {"password": password}
    try:
        with warnings.catch_warnings():
            # pymongo goes on without an option that it does not understand: not with one for TLS.
            warnings.filterwarnings("error", r"(?is).*(tls|ssl)", UserWarning)
            return AsyncMongoClient(
                uri,
                appname="etcron",
                connectTimeoutMS=connect_timeout_ms,
                serverSelectionTimeoutMS=connect_timeout_ms,
                # A document of another writer that cannot be read does not hide the others.
                datetime_conversion="DATETIME_AUTO",
                unicode_decode_error_handler="replace",
                **given,
            )
    except UserWarning:
        message = "has an option for TLS that is none, or a value that it does not take"
        remedy = "write tls=true, tlsCAFile=FILE, tlsCertificateKeyFile=FILE"
        raise ConfigError([Problem(field="mongodbUri", message=message, remedy=remedy)]) from None
    except OSError as error:  # ssl.SSLError is one
        remedy = "give PEM files: tlsCAFile, and tlsCertificateKeyFile with certificate and key in one"
        message = f"its TLS options do not work ({getattr(error, 'reason', None) or error.strerror})"
        raise ConfigError([Problem(field="mongodbUri", message=message, remedy=remedy)]) from None
    except (PyMongoError, ValueError):
        # Neither the URI nor pymongo's words about it: a password may stand in both.
        remedy = "write mongodb://[user:password@]host[:port], the user and password percent-encoded"
        problem = Problem(field="mongodbUri", message="is not a MongoDB URI", remedy=remedy)
        raise ConfigError([problem]) from None


def _tls_faults(uri: str) -> Iterator[Problem]:
    """The files for TLS that a URI names and that cannot be read; pymongo would not say which."""
    options = parse_qsl(uri.partition("?")[2], keep_blank_values=True)
    for name, value in options:
        if name.lower() in _TLS_FILES and (fault := file_fault(Path(value))):
            yield Problem(field=f"mongodbUri, {name}", message=fault, remedy="name a PEM file that this user can read")


@asynccontextmanager
async def asking(client: Client, seconds: float, *, writes: bool = False) -> AsyncIterator[None]:
    """All that is asked of the store within ends in time, and fails as UnavailableError.

    ``writes``: for a user, who hears by UnsettledError where the store may have done it all the same.

    Where no server is known, at most the connect timeout is spent on finding one: under a deadline pymongo would go on
    looking until its end.
    """
    try:
        with raising_cancellation(), pymongo.timeout(seconds):
            with pymongo.timeout(client.options.server_selection_timeout):
                await client.is_primary
            yield
    except PyMongoError as error:
        is_doubt = isinstance(error, _IN_DOUBT) or getattr(error, "code", None) == _EXCEEDED_TIME_LIMIT
        if writes and is_doubt and not isinstance(error, ServerSelectionTimeoutError):
            message = f"it may or may not have been done: the log store gave no answer ({_brief(error)})"
            raise UnsettledError(f"{message}. Look before you repeat it.") from error
        raise UnavailableError(f"the log store did not answer as needed: {_brief(error)}") from error
    except RuntimeError as error:
        why = next((why for said, why in _STUMBLES.items() if said in str(error)), None)
        if why is None:
            raise
        raise UnavailableError(f"the log store did not answer as needed: {why}") from error


def _brief(error: PyMongoError) -> str:
    """The error in a line, in plain words; pymongo appends the whole topology, and a batch's error its documents."""
    text = str(error).partition(", Timeout: ")[0].partition(", full error: ")[0]
    for said, plain in _ORNAMENTS:
        text = said.sub(plain, text)
    what = next((what for kind, what in _KINDS if isinstance(error, kind)), "")
    return (f"{what}: {text[:200]}" if what and text else what or text[:200]).strip() or "it gave no reason"


async def bulk(
    collection: AsyncCollection[Document], operations: Sequence[ReplaceOne[Document] | UpdateOne]
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
