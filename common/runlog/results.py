"""What became of a batch of writes: which documents were there already, which the store refuses, or that it is away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from common.errors import UnavailableError
from common.runlog.documents import Rejection

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
