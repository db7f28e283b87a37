"""Why a login through the provider did not succeed."""

from __future__ import annotations

from enum import StrEnum

from common.errors import EtcronError


class Why(StrEnum):
    """A code each; the login page has words for them."""

    AWAY = "provider-away"
    REFUSED = "provider-refused"
    STALE = "login-stale"
    """This browser has begun no such login, too long ago, or has finished it already."""
    UNFIT = "token-unfit"
    NAME = "name-unfit"
    TAKEN = "name-taken"
    """A local user who has a password, or is disabled, has the name."""
    GROUPS = "too-many-groups"
    TOO_MANY = "too-many-logins"
    """Too many from this address have failed."""
    ETCRON = "etcron-away"
    """The provider let the user in, and no session could be made."""


class OidcError(EtcronError):
    """The login through the provider did not succeed. Try again, or log in by password."""

    def __init__(self, why: Why, message: str) -> None:
        self.why = why
        super().__init__(message)
