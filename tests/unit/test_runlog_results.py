"""Whose fault it is that a document was not written: the document's, or the store's."""

from __future__ import annotations

from typing import Any

import pytest

from common.errors import UnavailableError
from common.runlog.client import faults_of

VAGUE = 8


def failed(*errors: tuple[int, int], **details: Any) -> dict[str, Any]:
    return {"writeErrors": [{"index": index, "code": code, "errmsg": "no"} for index, code in errors], **details}


def test_duplicates_and_refused_documents_are_told_apart() -> None:
    faults = faults_of(failed((0, 11000), (2, 121), (3, 11000)), 4)
    assert faults.duplicates == (0, 3)
    assert faults.refused == {2: "no (code 121)"}


def test_a_vague_error_is_the_documents_own_where_a_later_one_was_taken() -> None:
    assert faults_of(failed((0, VAGUE), (1, 11000)), 3).refused == {0: "no (code 8)"}
    assert faults_of(failed((1, VAGUE)), 3).refused == {1: "no (code 8)"}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_vague_error_is_the_stores_where_nothing_was_taken_afterwards(count: int) -> None:
    """A full disk: it took the first, and none since."""
    with pytest.raises(UnavailableError, match="takes no writes"):
        faults_of(failed(*((index, VAGUE) for index in range(count - 1, count))), count)


def test_that_a_later_one_is_there_already_does_not_say_that_the_store_takes_any() -> None:
    with pytest.raises(UnavailableError):
        faults_of(failed((0, VAGUE), (1, 11000)), 2)


def test_a_write_that_was_not_confirmed_by_a_majority_is_none() -> None:
    with pytest.raises(UnavailableError, match="did not confirm"):
        faults_of(failed((0, 11000), writeConcernErrors=[{"code": 64, "errmsg": "timed out"}]), 2)
