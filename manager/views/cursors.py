"""Cursors that name what a caller may not know of, sealed: only managers can open them.

A filtered page ends at the last record that was looked at, which may be one that the caller may not see, and a cursor
says which one that is. So it is encrypted with a key that all managers share: each goes on where another stopped.
"""

from __future__ import annotations

import base64
import binascii
import os
import secrets
from typing import Final

from common.errors import EtcdError, UnavailableError
from common.etcd import EtcdClient
from common.protocol import cursor_key

_SEALED: Final = b"s"
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_PADDED_TO: Final = 128
"""So that the length tells nothing of a name."""


class SealedCursors:
    """Seals cursors, and opens them; the key is read, or made, when it is first needed."""

    def __init__(self, etcd: EtcdClient, key: str) -> None:
        """``key``: where the secret lies in etcd."""
        self._etcd = etcd
        self._key = key
        self._secret: bytes | None = None

    async def sealed(self, cursor: str) -> str:
        """The cursor as its caller gets it. UnavailableError: the key cannot be read."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        text, nonce = cursor.encode(), os.urandom(_NONCE_BYTES)
        text += b" " * (-len(text) % _PADDED_TO)
        sealed = _SEALED + nonce + AESGCM(await self._read_secret()).encrypt(nonce, text, None)
        return base64.urlsafe_b64encode(sealed).decode().rstrip("=")

    async def opened(self, text: str) -> str:
        """The cursor in it; any other text as it is."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        try:
            raw = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, UnicodeError):
            return text
        if raw[:1] != _SEALED or len(raw) <= 1 + _NONCE_BYTES + _TAG_BYTES:
            return text
        nonce, sealed = raw[1 : 1 + _NONCE_BYTES], raw[1 + _NONCE_BYTES :]
        try:
            return AESGCM(await self._read_secret()).decrypt(nonce, sealed, None).decode().rstrip(" ")
        except InvalidTag:
            return text

    async def _read_secret(self) -> bytes:
        if self._secret is None:
            made = secrets.token_hex(cursor_key.SECRET_BYTES).encode()
            try:
                self._secret = cursor_key.read(await self._etcd.txn(cursor_key.make(self._key, made)), made)
            except EtcdError as error:
                raise UnavailableError(f"the page cannot be read on: etcd does not answer ({error})") from error
        return self._secret
