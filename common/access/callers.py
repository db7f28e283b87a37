"""The caller, the way by which they are known, and whether they have to be."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from common.access.rights import Rights
from common.access.subjects import Subject, SubjectKind


class AuthMode(StrEnum):
    """Whether callers have to be known."""

    OFF = "off"
    WARN = "warn"
    """As `off`; the log lists the calls that `required` would refuse."""
    REQUIRED = "required"


class Via(StrEnum):
    """By which way a caller is known."""

    NOBODY = "nobody"
    """By none: no credential came, and the configuration lets such callers in."""
    SESSION = "session"
    TOKEN = "token"
    SOCKET = "socket"
    """The Unix socket: the kernel names the system user."""
    OWNER = "owner"
    """The system user as whom this manager runs calls, through the Unix socket or over loopback; or root does, through
    the socket."""
    PROXY = "proxy"
    """A trusted proxy names the user in a header."""


_GROUPS: Final = (SubjectKind.GROUP, SubjectKind.GID)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The caller, as their credential identifies them."""

    name: str
    """As records, logs and the audit name them, e.g. ``alice`` or ``alice (token ci)``."""
    subjects: frozenset[Subject]
    """What their bindings may be of: the user, their groups, a service account, a system user."""
    via: Via
    credential: str | None = None
    """The id of the session or token: it can be revoked."""

    @property
    def subject(self) -> Subject | None:
        """The caller without their groups."""
        return next((one for one in self.subjects if one.kind not in _GROUPS), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The caller, and what they may do."""

    name: str
    """What a change that they make is recorded under."""
    rights: Rights
    """On jobs, runs and workers."""
    own_rights: Rights
    """By their bindings, for what is guarded even where no login is required: users, bindings, tokens, audit."""
    identity: Identity | None = None
    """None: the caller is unknown."""
