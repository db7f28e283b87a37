"""Ed25519 keys, as PEM files: OpenSSL and others read and write the same.

A key is called by the first 16 hex digits of the SHA-256 of its public bytes. ``cryptography`` is loaded with the first
key, so that a program without any starts as fast as before.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_DIGITS: Final = 16
_LONGEST: Final = 16_384
"""Bytes of a file that may be a key."""
PUBLIC_SUFFIX: Final = ".pub"


class KeyFileError(ValueError):
    """The file holds no key that could be used. The text says which file, and what would help."""


class Signer:
    """A private key."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.key = name_of(private.public_key())

    def sign(self, message: bytes) -> bytes:
        """64 bytes, the same for the same message."""
        return self._private.sign(message)

    @property
    def public(self) -> Ed25519PublicKey:
        return self._private.public_key()

    @classmethod
    def load(cls, path: Path) -> Self:
        """KeyFileError, OSError: it holds no private key, or others than its owner may read it."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise KeyFileError(f"{path} can be read by others than its owner: chmod 600 {path}")
        private = _loaded(path, lambda pem: load_pem_private_key(pem, password=None), "private")
        if not isinstance(private, Ed25519PrivateKey):
            raise KeyFileError(f"{path} holds no Ed25519 key: make one with `etcron signing keygen`")
        return cls(private)


class PublicKeys:
    """The keys whose signatures are believed, by name."""

    def __init__(self, keys: Mapping[str, Ed25519PublicKey]) -> None:
        self._keys = dict(keys)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def names(self) -> list[str]:
        return sorted(self._keys)

    def knows(self, key: str) -> bool:
        return key in self._keys

    def verifies(self, key: str, message: bytes, signature: bytes) -> bool:
        """Whether this key has signed this message."""
        from cryptography.exceptions import InvalidSignature

        if (public := self._keys.get(key)) is None:
            return False
        try:
            public.verify(signature, message)
        except InvalidSignature:
            return False
        return True

    def with_own(self, signer: Signer) -> PublicKeys:
        """These and that of a private key."""
        return PublicKeys({**self._keys, signer.key: signer.public})

    @classmethod
    def load(cls, paths: Iterable[Path]) -> PublicKeys:
        """From files, and from each ``*.pub`` of a directory. KeyFileError, OSError: one holds no public key."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        keys = {}
        for path in _files(paths):
            public = _loaded(path, load_pem_public_key, "public")
            if not isinstance(public, Ed25519PublicKey):
                raise KeyFileError(f"{path} holds no Ed25519 key: make one with `etcron signing keygen`")
            keys[name_of(public)] = public
        return cls(keys)


def make_pair(path: Path) -> Signer:
    """A new private key in this file (0600), and its public one beside it, in ``<path>.pub``.

    FileExistsError: one of them is there; nothing is written over.
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    signer = Signer(Ed25519PrivateKey.generate())
    private = signer._private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = signer.public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    beside = public_path(path)
    if beside.exists():
        raise FileExistsError(f"{beside} is there already")
    _write_new(path, private, 0o600)
    _write_new(beside, public, 0o644)
    return signer


def public_path(path: Path) -> Path:
    """Where the public key of a private one lies."""
    return path.with_name(path.name + PUBLIC_SUFFIX)


def name_of(public: Ed25519PublicKey) -> str:
    """What the key is called in signatures."""
    return hashlib.sha256(public.public_bytes_raw()).hexdigest()[:_DIGITS]


def _files(paths: Iterable[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        inside = sorted(path.glob(f"*{PUBLIC_SUFFIX}")) if path.is_dir() else [path]
        if not inside:
            raise KeyFileError(f"{path} has no file that ends in {PUBLIC_SUFFIX}")
        found += inside
    return found


def _loaded(path: Path, load: Callable[[bytes], object], what: str) -> object:
    with path.open("rb") as file:
        pem = file.read(_LONGEST)
    try:
        return load(pem)
    except (ValueError, TypeError) as error:  # also one with a passphrase; OpenSSL's words may hold parts of the file
        raise KeyFileError(f"{path} does not hold a {what} key in PEM, without a passphrase") from error


def _write_new(path: Path, content: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)
        file.write(content)
