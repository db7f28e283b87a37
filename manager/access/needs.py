"""What each call needs, declared at its handler; a handler without a declaration is not reached at all.

@anonymous                             for every caller: probes, the login, the console's empty pages
@known                                 for a known caller, also without any binding
@own                                   the same, for the caller's own sessions and tokens
@needs(Role.VIEWER)                    for a caller with this role on something; the handler checks each object
@needs(Role.ADMIN, everywhere=True)    for a caller with this role on everything
@needs(..., guarded=True)              the same also where no login is required, so that no caller becomes an
                                       administrator before it is
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from aiohttp import web

from common.access.rights import Role

H = TypeVar("H", bound=Callable[..., Any])

_ATTRIBUTE: Final = "__need__"


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a caller has to be for a call."""

    anonymous: bool = False
    role: Role | None = None
    """None: known, and no more."""
    everywhere: bool = False
    guarded: bool = False

    def __str__(self) -> str:
        if self.anonymous:
            return "nothing"
        role = "known" if self.role is None else str(self.role)
        return f"{role}{' everywhere' if self.everywhere else ''}{', guarded' if self.guarded else ''}"


def declare(need: Need) -> Callable[[H], H]:
    """A decorator: the handler needs this."""

    def decorate(handler: H) -> H:
        setattr(handler, _ATTRIBUTE, need)
        return handler

    return decorate


anonymous: Final = declare(Need(anonymous=True))
known: Final = declare(Need())
own: Final = declare(Need(guarded=True))


def needs(role: Role, *, everywhere: bool = False, guarded: bool = False) -> Callable[[H], H]:
    """A decorator: the handler needs this role."""
    return declare(Need(role=role, everywhere=everywhere, guarded=guarded))


def need_of(handler: object) -> Need | None:
    """What a handler declares; None: nothing."""
    need = getattr(handler, _ATTRIBUTE, None)
    return need if isinstance(need, Need) else None


def inventory(app: web.Application) -> dict[tuple[str, str], Need | None]:
    """Every call of an application, (method, path), with what it needs."""
    found: dict[tuple[str, str], Need | None] = {}
    for route in app.router.routes():
        if route.method != "HEAD" and route.resource is not None:
            found[route.method, route.resource.canonical] = need_of(route.handler)
    return found
