"""Users and service accounts, as they are stored.

A user is a person who logs in with a password, or through a login provider; a service account has tokens alone. What
either may do stands in bindings. Reading is strict: a record that is not one of ours is no login.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Annotated, Final, Self, TypeVar

import msgspec

from common.access.subjects import Subject, SubjectKind

MOST_GROUPS: Final = 100
"""Of one user."""
MAX_DESCRIPTION: Final = 500
_LAST_MS: Final = 253_402_300_799_999  # of the year 9999
_LONGEST_HASH: Final = 500
_LONGEST_BY: Final = 400
_NOT_SEEN: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
"""Categories of characters that are not seen, or turn the direction of text."""
_BLANK: Final = re.compile(
    r"[^\S ]|[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Others that are not seen: blanks that are no space, and what Unicode has no glyph for."""

_T = TypeVar("_T")
_Ms = Annotated[int, msgspec.Meta(ge=0, le=_LAST_MS)]
_By = Annotated[str, msgspec.Meta(max_length=_LONGEST_BY)]


class _StoredUser(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    password: Annotated[str, msgspec.Meta(min_length=1, max_length=_LONGEST_HASH)] | None
    groups: Annotated[list[str], msgspec.Meta(max_length=MOST_GROUPS)]
    disabled: bool
    created_ms: _Ms
    created_by: _By
    changed_ms: _Ms


class _StoredService(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    disabled: bool
    description: Annotated[str, msgspec.Meta(max_length=MAX_DESCRIPTION)]
    created_ms: _Ms
    created_by: _By


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A person."""

    name: str
    password: str | None = field(repr=False)
    """Its argon2 hash; None: no password lets them in."""
    groups: tuple[str, ...] = ()
    """Sorted, each once."""
    disabled: bool = False
    """Neither a login nor a session nor a token of theirs is good."""
    created_ms: int
    created_by: str
    changed_ms: int

    def __post_init__(self) -> None:
        """ValueError where no user can have this name, or these groups."""
        _ = self.subjects
        if len(self.groups) > MOST_GROUPS:
            raise ValueError(f"has more than {MOST_GROUPS} groups")
        object.__setattr__(self, "groups", tuple(sorted(set(self.groups))))

    @property
    def subject(self) -> Subject:
        return Subject(SubjectKind.USER, self.name)

    @property
    def subjects(self) -> frozenset[Subject]:
        """The user and their groups: what their bindings may be of."""
        return frozenset({self.subject, *(Subject(SubjectKind.GROUP, group) for group in self.groups)})

    def disabled_at(self, now_ms: int) -> User:
        return replace(self, disabled=True, changed_ms=now_ms)

    def to_json(self) -> bytes:
        """The value of the user's key; the name stands in the key."""
        return msgspec.json.encode(_StoredUser(
            password=self.password, groups=list(self.groups), disabled=self.disabled, created_ms=self.created_ms,
            created_by=self.created_by, changed_ms=self.changed_ms,
        ))  # fmt: skip

    @classmethod
    def from_json(cls, value: bytes, *, name: str) -> Self:
        """Read a user; ValueError where it is none."""
        stored = _decoded(value, _StoredUser)
        return cls(
            name=name, password=stored.password, groups=tuple(stored.groups), disabled=stored.disabled,
            created_ms=stored.created_ms, created_by=stored.created_by, changed_ms=stored.changed_ms,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A service account: a program that calls with tokens."""

    name: str
    disabled: bool = False
    """No token of it is good."""
    description: str = ""
    created_ms: int
    created_by: str

    def __post_init__(self) -> None:
        """ValueError where none can have this name."""
        _ = self.subject

    @property
    def subject(self) -> Subject:
        return Subject(SubjectKind.SERVICE, self.name)

    def to_json(self) -> bytes:
        """The value of the account's key; the name stands in the key."""
        return msgspec.json.encode(_StoredService(
            disabled=self.disabled, description=self.description, created_ms=self.created_ms,
            created_by=self.created_by,
        ))  # fmt: skip

    @classmethod
    def from_json(cls, value: bytes, *, name: str) -> Self:
        """Read a service account; ValueError where it is none."""
        stored = _decoded(value, _StoredService)
        return cls(
            name=name, disabled=stored.disabled, description=stored.description, created_ms=stored.created_ms,
            created_by=stored.created_by,
        )  # fmt: skip


def misleading(names: Iterable[str]) -> list[str]:
    """Those that would look like another one where they are shown; a new name of them is refused."""
    return [name for name in names if name != name.strip() or not name or any(map(_misleads, name))]


def _misleads(char: str) -> bool:
    return unicodedata.category(char) in _NOT_SEEN or _BLANK.fullmatch(char) is not None


def _decoded(value: bytes, of: type[_T]) -> _T:
    try:
        return msgspec.json.decode(value, type=of)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ValueError(f"not an account: {error!s:.200}") from error
