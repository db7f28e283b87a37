"""The secret that all managers seal cursors with: the first that needs one makes it, and the others read it.

Pure: no clock, no I/O.
"""

from __future__ import annotations

from typing import Final

from common.protocol.compares import absent
from common.protocol.txn import Get, Put, Txn, TxnResult

SECRET_BYTES: Final = 32


def make(key: str, value: bytes) -> Txn:
    """This value (random bytes in hex) is there, where none was; refused, it reads the one that is.

    It may be sent again and again.
    """
    return Txn([absent(key)], [Put(key, value)], [Get(key)])


def read(result: TxnResult, value: bytes) -> bytes:
    """The secret that counts; one that is damaged is as good as another, as long as all read the same."""
    there = None if result.succeeded else result.one(0)
    text = value if there is None else there.value
    try:
        secret = bytes.fromhex(text.decode())
    except ValueError:
        secret = b""
    return secret if len(secret) == SECRET_BYTES else text.ljust(SECRET_BYTES, b"=")[:SECRET_BYTES]
