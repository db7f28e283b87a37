"""Users, groups and accounts that can be given rights."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

MAX_NAME: Final = 128
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}")
_GROUP: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,128}")
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,9}")


class SubjectKind(StrEnum):
    """What a subject is."""

    USER = "user"
    """A person, known here by a password or through a login provider."""
    GROUP = "group"
    """A group of users, of this etcron's own or as a login provider names it."""
    SERVICE = "service"
    """A service account: it has tokens and no password."""
    UID = "uid"
    """A system user on a manager's machine who calls through its Unix socket."""
    GID = "gid"
    """Every system user on a manager's machine with this group who calls through its Unix socket."""


_FORMS: Final = {
    SubjectKind.USER: _NAME, SubjectKind.SERVICE: _NAME, SubjectKind.GROUP: _GROUP,
    SubjectKind.UID: _NUMBER, SubjectKind.GID: _NUMBER,
}  # fmt: skip


@dataclass(frozen=True, slots=True, order=True)
class Subject:
    """One of them, written ``user:alice``, ``group:dba``, ``service:deploy``, ``uid:1000`` or ``gid:100``."""

    kind: SubjectKind
    name: str

    def __post_init__(self) -> None:
        """ValueError where none can have this name."""
        if not _FORMS[self.kind].fullmatch(self.name):
            raise ValueError(f"{self.name[:60]!r} is no name of a {self.kind}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``kind:name``; ValueError where it is none."""
        kind, colon, name = text.partition(":")
        if not colon or kind not in list(SubjectKind):
            raise ValueError(f"{text[:60]!r} is not <kind>:<name> with a kind of: {', '.join(SubjectKind)}")
        return cls(SubjectKind(kind), name)

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"
