"""Credentials: tokens, sessions and one-time links, as they lie in etcd.

Of a secret only its SHA-256 is kept: it has 256 bits, so it is not found by trying. A token is written
``etcron_<id>_<secret>``; the key of a session and of a link is the digest of its secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final, Self

from common.access.rights import Role
from common.access.subjects import Subject, SubjectKind

SECRET_BYTES: Final = 32
ID_BYTES: Final = 6
MAX_TOKEN_NAME: Final = 80
MAX_AGENT: Final = 200
MAX_GROUPS: Final = 200
TOKEN_PREFIX: Final = "etcron_"
_TOKEN: Final = re.compile(r"etcron_([0-9a-f]{12})_([0-9a-f]{64})")
_ID: Final = re.compile(r"[0-9a-f]{12}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_LAST_MS: Final = 253_402_300_799_999
_MALFORMED: Final = (LookupError, TypeError, AttributeError, ValueError, RecursionError)


class SessionWay(StrEnum):
    """How a user logged in."""

    PASSWORD = "password"
    OIDC = "oidc"
    LINK = "link"


def digest_of(secret: str) -> str:
    """What is kept of a secret."""
    return sha256(secret.encode(errors="replace")).hexdigest()


def spell_token(token_id: str, secret: str) -> str:
    """The text that a client sends."""
    return f"{TOKEN_PREFIX}{token_id}_{secret}"


def split_token(text: str) -> tuple[str, str] | None:
    """The id and the secret in the text of a token; None: it is none."""
    match = _TOKEN.fullmatch(text)
    return None if match is None else (match[1], match[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """Lets a program in, as its owner or as less."""

    id: str
    digest: str = field(repr=False)
    owner: Subject
    """A user or a service account."""
    name: str
    role: Role | None
    """It may do no more than this role; None: what its owner may."""
    created_ms: int
    expires_ms: int
    created_by: str

    def to_json(self) -> bytes:
        """The value of its key."""
        return _spelled({
            "hash": self.digest, "owner": str(self.owner), "name": self.name,
            "role": None if self.role is None else str(self.role), "createdMs": self.created_ms,
            "expiresMs": self.expires_ms, "createdBy": self.created_by,
        })  # fmt: skip

    @classmethod
    def from_json(cls, value: bytes, *, id: str) -> Self:  # noqa: A002 - it is its name
        """Read one; ValueError where it is none. What is left out grants nothing."""
        try:
            document = json.loads(value)
            owner, role = Subject.parse(document["owner"]), document["role"]
            if owner.kind not in (SubjectKind.USER, SubjectKind.SERVICE):
                raise ValueError(f"{owner} owns no tokens")
            return cls(
                id=_like(_ID, id), digest=_like(_DIGEST, document["hash"]), owner=owner,
                name=_text(document["name"], MAX_TOKEN_NAME), role=None if role is None else Role(role),
                created_ms=_instant(document["createdMs"]), expires_ms=_instant(document["expiresMs"]),
                created_by=_text(document.get("createdBy", ""), MAX_AGENT),
            )  # fmt: skip
        except _MALFORMED as error:
            raise ValueError(f"not a token: {_why(error)}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginSession:
    """Lets a browser, or a command line that logged in, in."""

    id: str
    """For lists and for revoking it; it is no secret."""
    second: str = field(repr=False)
    """The digest of the second secret, which a page sends as a header where its cookie reaches other programs too."""
    subject: Subject
    """A user, or the system user whose one-time link it was."""
    groups: tuple[str, ...] = ()
    """As a login provider named them; those of a user of this etcron's own stand at the user."""
    way: SessionWay
    role: Role | None = None
    """Given by a one-time link for the last resort: this role on everything, whatever the bindings give."""
    proof: str | None = field(default=None, repr=False)
    """The digest of the password's hash by which it was opened: with another password it is over."""
    created_ms: int
    expires_ms: int
    """Its end, however much it is used."""
    address: str
    agent: str
    secure: bool = False
    """Opened over TLS, so that its cookie reaches no other program: it needs no second secret there."""

    def to_json(self) -> bytes:
        """The value of its key."""
        return _spelled({
            "id": self.id, "second": self.second, "subject": str(self.subject), "groups": list(self.groups),
            "way": str(self.way), "role": None if self.role is None else str(self.role),
            "proof": self.proof, "createdMs": self.created_ms, "expiresMs": self.expires_ms, "address": self.address,
            "agent": self.agent, **({"secure": True} if self.secure else {}),
        })  # fmt: skip

    @classmethod
    def from_json(cls, value: bytes) -> Self:
        """Read one; ValueError where it is none. What is left out grants nothing."""
        try:
            document = json.loads(value)
            role, proof = document["role"], document["proof"]
            return cls(
                id=_like(_ID, document["id"]), second=_like(_DIGEST, document["second"]),
                subject=Subject.parse(document["subject"]), groups=_groups(document["groups"]),
                way=SessionWay(document["way"]), role=None if role is None else Role(role),
                proof=None if proof is None else _like(_DIGEST, proof),
                created_ms=_instant(document["createdMs"]), expires_ms=_instant(document["expiresMs"]),
                address=_text(document["address"], MAX_AGENT), agent=_text(document["agent"], MAX_AGENT),
                secure=document.get("secure") is True,
            )  # fmt: skip
        except _MALFORMED as error:
            raise ValueError(f"not a session: {_why(error)}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Lets a user log in once, without a password: at the first start, and as the last resort."""

    subject: Subject
    role: Role | None = None
    """As of the session that it becomes."""
    reason: str
    created_ms: int
    session_ms: int
    """How long that session may last."""

    def to_json(self) -> bytes:
        """The value of its key."""
        return _spelled({
            "subject": str(self.subject), "role": None if self.role is None else str(self.role),
            "reason": self.reason, "createdMs": self.created_ms, "sessionMs": self.session_ms,
        })  # fmt: skip

    @classmethod
    def from_json(cls, value: bytes) -> Self:
        """Read one; ValueError where it is none."""
        try:
            document = json.loads(value)
            role = document["role"]
            return cls(
                subject=Subject.parse(document["subject"]), role=None if role is None else Role(role),
                reason=_text(document["reason"], MAX_AGENT), created_ms=_instant(document["createdMs"]),
                session_ms=_instant(document["sessionMs"]),
            )  # fmt: skip
        except _MALFORMED as error:
            raise ValueError(f"not a one-time link: {_why(error)}") from None


def _spelled(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _like(form: re.Pattern[str], value: object) -> str:
    if not isinstance(value, str) or not form.fullmatch(value):
        raise ValueError("an id or a digest is not of its form")  # never the value: it is a secret's
    return value


def _text(value: object, longest: int) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is none")
    return value[:longest].encode("utf-8", "replace").decode()


def _groups(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > MAX_GROUPS:
        raise ValueError(f"groups are no list of at most {MAX_GROUPS}")
    return tuple(Subject(SubjectKind.GROUP, name).name for name in value)


def _instant(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LAST_MS:
        raise ValueError("a time is none")
    return value


def _why(error: Exception) -> str:
    """Without what was read, in which there may be a digest."""
    return f"it has no {error.args[0]!s:.40}" if isinstance(error, KeyError) else f"{error!s:.200}"
