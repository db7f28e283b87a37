"""Where users, bindings, tokens and sessions lie in etcd: the one place that spells these keys, and reads them back.

They lie beside the jobs, not below them, so that etcd can keep them from the workers. Pure: no clock, no I/O. The
table of keys, with who writes each, is in ``docs/internals/protocol.md``.
"""

from __future__ import annotations

from typing import Final

_BESIDE: Final = "-auth/"


class AccessKeys:
    """Spells every key under one prefix, and takes them apart again."""

    __slots__ = ("audit", "bindings", "cursors", "links", "notes", "prefix", "services", "sessions", "tokens", "users")

    def __init__(self, prefix: str = "/etcron") -> None:
        """``prefix``: that of the jobs."""
        self.prefix = prefix.rstrip("/") + _BESIDE
        self.users = self.prefix + "users/"
        self.services = self.prefix + "services/"
        self.bindings = self.prefix + "bindings/"
        self.tokens = self.prefix + "tokens/"
        self.sessions = self.prefix + "sessions/"
        self.links = self.prefix + "links/"
        self.audit = self.prefix + "audit/"
        self.notes = self.prefix + "notes/"
        """Of `etcron admin`, which has no audit of its own; a manager takes them into its."""
        self.cursors = self.prefix + "cursors"
        """The secret that managers seal cursors with."""

    def user(self, name: str) -> str:
        return self.users + name

    def service(self, name: str) -> str:
        return self.services + name

    def binding(self, binding_id: str) -> str:
        return self.bindings + binding_id

    def token(self, token_id: str) -> str:
        return self.tokens + token_id

    def session(self, digest: str) -> str:
        """``digest``: the SHA-256 of its secret, in hex."""
        return self.sessions + digest

    def link(self, digest: str) -> str:
        """A login link that works once; ``digest``: the SHA-256 of its secret, in hex."""
        return self.links + digest

    def audit_head(self, manager: str) -> str:
        """The last entry of a manager's audit chain."""
        return self.audit + manager

    def note(self, note_id: str) -> str:
        return self.notes + note_id

    def name_of(self, key: str) -> str:
        """What follows the kind in any of these keys: a user's name, a binding's id, a digest."""
        return key[len(self.prefix) :].partition("/")[2]
