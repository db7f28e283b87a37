"""Keys under ``jobs/`` that no job can be called by, put there with another tool. They are listed, and can be deleted.

Such a key may have any bytes for a name: with spaces, slashes, or none that are UTF-8 (those stand in the text as
Python's ``surrogateescape`` has them). Nothing but the key itself is touched: a name with a ``~`` would be that of a
worker's own sequence of another job, and its mark that one's.
"""

from __future__ import annotations

from common.errors import InvalidInputError
from common.jobs.reader import check_name
from common.protocol.edits import Edit, Stored, remove_odd
from common.protocol.keys import Keys


def is_odd(name: str) -> bool:
    """Whether no job can have this name."""
    try:
        check_name(name)
    except InvalidInputError:
        return True
    return False


def check_encodable(name: str) -> None:
    """InvalidInputError where the text stands for no bytes at all, so that no key can have it for a name."""
    try:
        name.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        check_name(name)


def plan_removal(keys: Keys, before: Stored, *, now_ms: int, by: str) -> Edit:
    """The edit that deletes the key, which never was a job. InvalidInputError: there is no such key."""
    if before.job is None:
        check_name(before.name)
    return remove_odd(keys, before, now_ms=now_ms, by=by)
