"""Cursors: where the next page of a list begins, as a text that callers give back unchanged.

Pure: standard library and its neighbours.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

from common.errors import InvalidInputError, Problem

IS_NONE: Final = "is not a cursor of this list"
REMEDY: Final = "give the nextCursor of the page before, unchanged, or leave it out"


def encode_cursor(place: str) -> str:
    """A text of letters, digits, ``-`` and ``_`` alone; the same for every manager."""
    return base64.urlsafe_b64encode(place.encode(errors="surrogateescape")).decode().rstrip("=")


def decode_cursor(cursor: str, *, errors: str = "strict") -> str:
    """The place that was encoded; "" where this is none. ``errors``: of bytes that are no UTF-8, as keys of etcd may
    have them."""
    try:
        raw = base64.b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        return raw.decode(errors=errors)
    except (binascii.Error, UnicodeError):
        return ""


def no_cursor() -> InvalidInputError:
    """To be raised: the caller has given another text than the list's own."""
    return InvalidInputError([Problem(field="cursor", message=IS_NONE, remedy=REMEDY)])
