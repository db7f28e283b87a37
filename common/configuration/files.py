"""The keys that name files or hold secrets: paths relative to where they are written, passwords never shown.

A kind that `lies_beside` gets the directory of the file that the value came from (or the working directory, for flags
and variables), so that a configuration can be moved together with its certificates.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from common.configuration.keys import Kind, Listed, UnfitError, path_of
from common.tls import TlsFiles

_NAMES = ("ca", "cert", "key", "serverName")


@dataclass(frozen=True, slots=True)
class File(Kind):
    """A file that is read; ``~`` is the user's home."""

    def accept(self, value: object) -> Path:
        if not isinstance(value, str) or not value or "\0" in value or "\n" in value:
            raise UnfitError("the path of a file, not what is in it")
        return path_of(value)

    def shown(self, value: object) -> object:
        """Nothing of a key that a user has put in place of its path."""
        return "***" if "\n" in str(value) else value

    def lies_beside(self, value: Path, directory: Path) -> Path:
        return (directory / value).absolute()


@dataclass(frozen=True, slots=True)
class Files(Listed):
    """Files and directories that are read, perhaps none. As text: separated by commas."""

    def accept(self, value: object) -> tuple[Path, ...]:
        if not isinstance(value, list | tuple):
            raise UnfitError('a list of files or directories, e.g. ["keys/"]')
        return tuple(File().accept(one) for one in value)

    def shown(self, value: object) -> object:
        """As of each."""
        return [File().shown(one) for one in value] if isinstance(value, list | tuple) else File().shown(value)

    def lies_beside(self, value: tuple[Path, ...], directory: Path) -> tuple[Path, ...]:
        return tuple(File().lies_beside(one, directory) for one in value)


@dataclass(frozen=True, slots=True)
class Tls(Kind):
    """What a client needs for TLS. As text: ``ca=ca.pem,cert=me.pem,key=me.key``."""

    def accept(self, value: object) -> TlsFiles:
        fits = isinstance(value, dict) and all(
            name in _NAMES and isinstance(text, str) and re.fullmatch(r"[^\0\n]+", text) for name, text in value.items()
        )
        if not isinstance(value, dict) or not fits or "ca" not in value:
            raise UnfitError('an object such as {"ca": "ca.pem", "cert": "me.pem", "key": "me.key"}; ca is needed, '
                             "serverName may be there too")  # fmt: skip
        paths = {name: File().accept(value[name]) for name in ("ca", "cert", "key") if name in value}
        return TlsFiles(**paths, server_name=value.get("serverName"))

    def read(self, text: str) -> TlsFiles:
        pairs = (part.partition("=") for part in text.split(",") if part.strip())
        return self.accept({name.strip(): value.strip() for name, _, value in pairs})

    def shown(self, value: object) -> object:
        """The paths; of what is none, nothing."""
        return value.to_json() if isinstance(value, TlsFiles) else value and "***"

    def lies_beside(self, value: TlsFiles, directory: Path) -> TlsFiles:
        ca, cert, key = (
            File().lies_beside(path, directory) if path is not None else None
            for path in (value.ca, value.cert, value.key)
        )
        assert ca is not None
        return TlsFiles(ca=ca, cert=cert, key=key, server_name=value.server_name)


@dataclass(frozen=True, slots=True)
class UserName(Kind):
    """A user's name, without the password."""

    def accept(self, value: object) -> str:
        if not isinstance(value, str) or not re.fullmatch(r"[^\0\n:]{1,255}", value):
            raise UnfitError("the name alone; the password goes into etcdPasswordFile (or etcdPassword)")
        return value

    def shown(self, value: object) -> object:
        """Without the password that a user has written after it."""
        name, colon, _ = str(value).partition(":")
        return f"{name}:***" if colon else value


@dataclass(frozen=True, slots=True)
class Password(Kind):
    """A password; there is no flag for it, because every user of a machine can read command lines."""

    def accept(self, value: object) -> str:
        if not isinstance(value, str) or not re.fullmatch(r"[^\0\n]+", value):
            raise UnfitError("a text")
        return value


@dataclass(frozen=True, slots=True)
class SecretUrl(Kind):
    """A URL that messages go to. It may be a secret: anyone who knows it can call it."""

    def accept(self, value: object) -> str:
        if not isinstance(value, str) or not re.fullmatch(
            r"https?://[A-Za-z0-9.:\[\]-]{1,255}(/[!-~]{0,1000})?", value
        ):
            raise UnfitError("https://HOST[/path]")
        return value

    def shown(self, value: object) -> object:
        """Its host alone."""
        return f"{'/'.join(str(value).split('/')[:3])}/***"


def password_in(path: Path) -> str:
    """The password that a file holds, without the line end after it. OSError, UnicodeDecodeError: it cannot be read."""
    return path.read_text(encoding="utf-8").rstrip("\r\n")
