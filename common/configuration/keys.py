"""What a key of the configuration may hold: its kind, its limits, and how its text is read.

A kind takes a value as JSON gives it (`accept`) or a text as an environment variable or a flag gives it (`read`), and
answers with the value as the programs use it. What does not fit raises `UnfitError`, whose text completes "give ...".
"""

from __future__ import annotations

import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, Final

from common.schedules.zones import zone_names

MAX_SOCKET_PATH: Final = 107
"""Bytes that the kernel takes of one."""


class UnfitError(ValueError):
    """The value does not fit; the text says what would."""


class Kind(ABC):
    """What a key may hold."""

    __slots__ = ()

    @abstractmethod
    def accept(self, value: object) -> object:
        """The value as the programs use it, from a JSON value; raises UnfitError."""

    def read(self, text: str) -> object:
        """The same from a text."""
        return self.accept(text)

    def shown(self, value: object) -> object:
        """The value, right or wrong, as JSON for people: without what must not be shown."""
        return value

    def lies_beside(self, value: Any, directory: Path) -> object:
        """The value with every relative path in it made absolute from there."""
        return value


class Listed(Kind):
    """Several of a kind. As text: separated by commas."""

    __slots__ = ()

    def read(self, text: str) -> object:
        return self.accept([part.strip() for part in text.split(",") if part.strip()])


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key: its name as in the file, what it may hold, and one line about it."""

    name: str
    kind: Kind
    help: str
    secret: bool = False
    """May hold a password: shown and logged only through `redact_uri`."""
    flagless: bool = False
    """There is no flag for it: command lines can be read by every user of the machine."""
    legacy: bool = False
    """The legacy system had it: in the other program's file it is noted, not refused."""

    @property
    def flag(self) -> str:
        """E.g. ``--api-port`` for ``apiPort``."""
        return "--" + re.sub(r"(?<!^)(?=[A-Z])", "-", self.name).lower()

    @property
    def variable(self) -> str:
        """E.g. ``ETCRON_CONFIG_APIPORT`` for ``apiPort``."""
        return "ETCRON_CONFIG_" + self.name.upper()


def setting(
    name: str, kind: Kind, help: str, default: object = None, *, default_factory: Any = None,  # noqa: A002 - as Key has it
    secret: bool = False, flagless: bool = False, legacy: bool = False,
) -> Any:  # fmt: skip
    """The dataclass field of a key (typed Any, as dataclasses.field itself is for a checker)."""
    key = Key(name=name, kind=kind, help=help, secret=secret, flagless=flagless, legacy=legacy)
    if default_factory is not None:
        return field(default_factory=default_factory, metadata={"key": key}, repr=not secret)
    return field(default=default, metadata={"key": key}, repr=not secret)


@dataclass(frozen=True, slots=True)
class WholeNumber(Kind):
    """A whole number within limits."""

    least: int
    most: int

    def accept(self, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not self.least <= value <= self.most:
            raise UnfitError(f"a whole number from {self.least} to {self.most}")
        return value

    def read(self, text: str) -> int:
        return self.accept(int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else None)


@dataclass(frozen=True, slots=True)
class NumberOrAuto(Kind):
    """A whole number from 1 to a limit; ``auto``: what suits this machine."""

    most: int
    auto: Callable[[], int]

    def accept(self, value: object) -> int:
        if value == "auto":
            return self.auto()
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= self.most:
            raise UnfitError(f'a whole number from 1 to {self.most}, or "auto"')
        return value

    def read(self, text: str) -> int:
        return self.accept(int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else text.lower())


@dataclass(frozen=True, slots=True)
class Truth(Kind):
    """true or false."""

    def accept(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise UnfitError("true or false")
        return value

    def read(self, text: str) -> bool:
        return self.accept({"true": True, "false": False}.get(text.lower()))


@dataclass(frozen=True, slots=True)
class Text(Kind):
    """A text that matches a pattern; `needed` says it in words."""

    needed: str
    pattern: str = r"[^\0\n]+"

    def accept(self, value: object) -> str:
        if not isinstance(value, str) or not re.fullmatch(self.pattern, value):
            raise UnfitError(self.needed)
        return value


@dataclass(frozen=True, slots=True)
class TimeZone(Kind):
    """An IANA time zone, as a job's."""

    def accept(self, value: object) -> str:
        if not isinstance(value, str) or value not in zone_names():
            raise UnfitError("an IANA time zone, e.g. Europe/Berlin")
        return value


@dataclass(frozen=True, slots=True)
class OneOf(Kind):
    """One of a few words."""

    words: tuple[str, ...]

    def accept(self, value: object) -> str:
        if not isinstance(value, str) or value not in self.words:
            raise UnfitError("one of " + ", ".join(self.words))
        return value

    def read(self, text: str) -> str:
        return self.accept(text.lower())


@dataclass(frozen=True, slots=True)
class Words(Kind):
    """A word of an enum."""

    of: type[StrEnum]

    def accept(self, value: object) -> StrEnum:
        if not isinstance(value, str) or value not in list(self.of):
            raise UnfitError("one of " + ", ".join(self.of))
        return self.of(value)

    def read(self, text: str) -> StrEnum:
        return self.accept(text.lower())


_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?", re.ASCII)
_ENDPOINT = re.compile(r"(?:http://|(https://))?((?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5})/?")


@dataclass(frozen=True, slots=True)
class Endpoints(Listed):
    """At least one ``host:port``, or ``https://host:port`` each; ``http://`` is taken off. As text: with commas."""

    def accept(self, value: object) -> tuple[str, ...]:
        if "@" in str(value):
            raise UnfitError("each endpoint without user and password: these are etcdUser and etcdPasswordFile")
        if not isinstance(value, list | tuple) or not value:
            raise UnfitError('a list of "host:port", at least one')
        endpoints = []
        for item in value:
            match = _ENDPOINT.fullmatch(item) if isinstance(item, str) else None
            if match is None or not 1 <= int(match[2].rsplit(":", 1)[1]) <= 65535:
                raise UnfitError('a list of "host:port", e.g. ["127.0.0.1:2379"], or of "https://host:port"')
            endpoints.append((match[1] or "") + match[2])
        if len({endpoint.startswith("https://") for endpoint in endpoints}) > 1:
            raise UnfitError("all of them with https://, or none: some with TLS and some without is no protection")
        return tuple(endpoints)

    def shown(self, value: object) -> object:
        """Without a user and a password, which none may have: whatever stands before an ``@`` goes."""
        if isinstance(value, list | tuple):
            return [self.shown(item) for item in value]
        _, at, host = value.rpartition("@") if isinstance(value, str) else ("", "", "")
        return f"***@{host}" if at else value


@dataclass(frozen=True, slots=True)
class Names(Listed):
    """Host names, perhaps none. As text: separated by commas."""

    def accept(self, value: object) -> tuple[str, ...]:
        if not isinstance(value, list | tuple) or not all(
            isinstance(name, str) and _HOST_NAME.fullmatch(name) for name in value
        ):
            raise UnfitError('a list of host names without port, e.g. ["cron.example.org"]')
        return tuple(name.casefold() for name in value)


@dataclass(frozen=True, slots=True)
class IpList(Listed):
    """IP addresses or networks, perhaps none; `needed` says in words what `parse` takes."""

    parse: Callable[[str], object]
    needed: str

    def accept(self, value: object) -> tuple[str, ...]:
        try:
            if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
                return tuple(str(self.parse(one)) for one in value)
        except ValueError:
            pass
        raise UnfitError(self.needed)


ADDRESSES: Final = IpList(ip_address, 'a list of addresses, e.g. ["10.0.0.7"]')
NETWORKS: Final = IpList(
    ip_network, 'a list of networks, e.g. ["10.20.0.0/16", "fd00:1::/32"], without bits behind the prefix'
)


@dataclass(frozen=True, slots=True)
class Pairs(Kind):
    """Names with texts. As text: ``zone=eu,gpu=a100``."""

    def accept(self, value: object) -> dict[str, str]:
        if not isinstance(value, dict) or not all(
            isinstance(name, str) and name and isinstance(text, str) for name, text in value.items()
        ):
            raise UnfitError('an object of texts, e.g. {"zone": "eu"}')
        return dict(value)

    def read(self, text: str) -> dict[str, str]:
        parts = [part for part in text.split(",") if part.strip()]
        if not all("=" in part for part in parts):
            raise UnfitError("name=text pairs, separated by commas, e.g. zone=eu,gpu=a100")
        pairs = (part.split("=", 1) for part in parts)
        return self.accept({name.strip(): value.strip() for name, value in pairs})


def path_of(text: str) -> Path:
    """``~`` is the user's home, ``~name`` that of another one."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise UnfitError("a path whose user is one of this machine") from None


@dataclass(frozen=True, slots=True)
class Directory(Kind):
    """A directory, made absolute from the working directory; ``~`` is the user's home."""

    def accept(self, value: object) -> Path:
        if not isinstance(value, str) or not value or "\0" in value:
            raise UnfitError("the path of a directory")
        return path_of(value).absolute()


@dataclass(frozen=True, slots=True)
class SocketPath(Kind):
    """Where a Unix socket is to be, made absolute from the working directory; ``~`` is the user's home."""

    def accept(self, value: object) -> Path:
        path = path_of(value).absolute() if isinstance(value, str) and value and "\0" not in value else None
        if path is None or len(os.fsencode(path)) > MAX_SOCKET_PATH:
            raise UnfitError(f"the path of a Unix socket, of at most {MAX_SOCKET_PATH} bytes")
        return path


def redact_uri(uri: str) -> str:
    """The URI without its password: whatever stands between the first colon after ``//`` and the last ``@``.

    Passwords and tokens among the parameters go too. Greedy on purpose: a password that should have been escaped
    (with ``@`` or ``/`` in it) must not be shown because the URI is wrong.
    """
    before, at, host = uri.rpartition("@")
    shown = re.sub(r"//([^:/@]*):.*", r"//\1:***", before, flags=re.DOTALL) + at + host
    return re.sub(r"([?&;][^=&;]*)=([^&;]*)", _redact_parameter, shown)


def _redact_parameter(parameter: re.Match[str]) -> str:
    secret = re.search("password|token|secret", parameter[0], re.IGNORECASE)
    return f"{parameter[1]}=***" if secret else parameter[0]


def show(key: Key, value: object) -> str:
    """The value as JSON for people, without secrets."""
    value = key.kind.shown(value)
    if key.secret and value is not None:
        value = redact_uri(value) if isinstance(value, str) and "://" in value else "***"
    return json.dumps(value, ensure_ascii=False, default=str)
