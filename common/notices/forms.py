"""How channels, rules and silences are read and written: one definition for calls, for files and for etcd.

What a user sent is read with every mistake at once. What lies in etcd may be a later version's: members that are not
known are passed over, and whatever else is wrong makes it no record at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final, Generic, Protocol, TypeVar
from urllib.parse import urlsplit

from common.errors import InvalidInputError, Problem
from common.jobs.kinds import Kind, Pattern, Schema, members_of, read_members, reader_of, written
from common.jobs.reading import check, shown, text, wrong
from common.protocol.values import MALFORMED, brief, instant, words

LONGEST_URL: Final = 2_000
_LABEL: Final = r"[A-Za-z0-9]+(-+[A-Za-z0-9]+)*"
_NUMBER: Final = r"[0-9]+|0[xX][0-9A-Fa-f]*"
_LOCAL: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"

ADDRESS: Final = Pattern(
    pattern=rf"{_LOCAL}@{_LABEL}(\.{_LABEL})*", form="an e-mail address such as ops@example.org", longest=254
)
SECRET: Final = Pattern(
    pattern=r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}",
    form="the name of a secret: of a file in the managers' secretsDirectory, without its folder", longest=128,
)  # fmt: skip
USER: Final = Pattern(pattern=r"[\x21-\x7e]{1,254}", form="a user's name, in ASCII without spaces", longest=254)


class HasProblems(Protocol):
    """What is wrong with a record as a whole."""

    def problems(self) -> list[Problem]: ...


T = TypeVar("T", bound=HasProblems)


@dataclass(frozen=True)
class Host(Kind):
    """The name or the address of a server."""

    type: str = "text"
    limits: str = "a host name such as `mail.example.org`, or an IP address"

    @property
    def schema(self) -> Schema:
        return {"type": "string", "maxLength": 253, "pattern": r"^[A-Za-z0-9.:-]+$"}

    def read(self, value: Any) -> str:
        needed = "a host name such as mail.example.org, or an IP address; the port stands in `port`"
        host = text(value, needed)
        if len(host) > 253 or not is_host(host):
            raise wrong(f"is {shown(host)}", f"needed: {needed}")
        return host


@dataclass(frozen=True)
class Url(Kind):
    """Where something is sent to by HTTP. No name or password is part of it."""

    type: str = "text"
    limits: str = f"`http` or `https`, with a host, up to {LONGEST_URL:,} characters"

    @property
    def schema(self) -> Schema:
        return {"type": "string", "maxLength": LONGEST_URL, "pattern": r"^[Hh][Tt][Tt][Pp][Ss]?://[!-~]+$"}

    def read(self, value: Any) -> str:
        needed = "a URL such as https://hooks.example.org/etcron"
        url = text(value, needed)
        if (fault := _url_fault(url)) is not None:
            raise wrong(fault, f"needed: {needed}")
        return url


def _url_fault(url: str) -> str | None:
    """Said without the URL where it may hold a secret."""
    if len(url) > LONGEST_URL:
        return f"is {len(url):,} characters long"
    if not re.fullmatch(r"[\x21-\x7e]+", url):
        return "has spaces, or characters that are not ASCII"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is no URL"
    if parts.scheme not in ("http", "https"):
        return f"has the scheme {shown(parts.scheme)}"
    if "@" in parts.netloc:
        return "has a user or a password in it"
    return None if host and is_host(host) else "has no host"


def is_host(text_: str) -> bool:
    """Whether it is the name of a host, or an IP address."""
    try:
        ip_address(text_)
    except ValueError:
        labels = text_.removesuffix(".").split(".")
        # A last label such as 1 or 0x7f makes it a number that stands for an IPv4 address, which programs read in ways
        # of their own.
        return all(re.fullmatch(_LABEL, one) for one in labels) and not re.fullmatch(_NUMBER, labels[-1])
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored(Generic[T]):
    """A record as it lies in etcd: with who made it, and when."""

    record: T
    created_ms: int = 0
    created_by: str = ""
    changed_ms: int = 0


class Form(Generic[T]):
    """Reads and writes records of one dataclass, whose fields have kinds."""

    def __init__(self, of: type[T], name: str) -> None:
        """``name``: for messages, e.g. ``channel``."""
        self._read, self.members, self._name = reader_of(of), members_of(of), name

    def read(self, document: Mapping[str, Any]) -> T:
        """What a user sent; InvalidInputError with every mistake at once."""
        made, problems = read_members(document, self._read, self.members, of=self._name)
        check(problems if made is None else [*problems, *made.problems()])
        assert made is not None, "what was read without a fault is there"
        return made

    def write(self, record: T) -> dict[str, Any]:
        """As a user would send it."""
        return {name: value for name, value in written(record, self.members).items() if value is not None}

    def to_json(self, stored: Stored[T]) -> bytes:
        """The value of its key; its name stands in the key."""
        document = self.write(stored.record) | {
            "createdMs": stored.created_ms, "createdBy": stored.created_by, "changedMs": stored.changed_ms,
        }  # fmt: skip
        return json.dumps(document, ensure_ascii=False).encode()

    def from_json(self, value: bytes) -> Stored[T]:
        """Read it back; ValueError where it is none."""
        try:
            document = json.loads(value)
            known = {name: document[name] for name in self.members if name in document}
            return Stored(
                record=self.read(known), created_ms=instant(document["createdMs"]),
                created_by=words(document["createdBy"]), changed_ms=instant(document["changedMs"]),
            )  # fmt: skip
        except (*MALFORMED, InvalidInputError) as error:
            raise ValueError(f"not a {self._name}: {brief(error)}") from None
