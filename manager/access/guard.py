"""The guard: identifies the caller, and refuses one without the rights. Every call passes it.

    a credential -> a way (session, token, socket, ...) -> whose it is -> bindings -> rights -> what the call needs

The ways are asked in turn; the first that knows its credential in a request decides. A credential that is wrong ends
the call: it never falls back to another way, by which the same caller might pass as another.

What a caller may do with the one job or run that a call is about is not known here: handlers and use cases look at the
labels of each object that they touch (``Rights`` of `common.access.rights`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from aiohttp import web
from aiohttp.typedefs import Middleware

from common.access.callers import AuthMode, Caller, Identity, Via
from common.access.rights import OWNER, Rights
from common.errors import ForbiddenError, LoginNeededError
from manager.access.needs import Need, need_of
from manager.http.errors import Handler
from manager.http.guards import ADDRESS, READ_ONLY
from manager.http.inputs import LOOK_AGAIN, LookAgain

_log = logging.getLogger(__name__)

CALLER: Final = web.RequestKey("caller", Caller)
NO_RIGHTS: Final = Rights()


class Way(Protocol):
    """One way of being known."""

    async def __call__(self, request: web.Request) -> Identity | None:
        """Whose credential the request carries; None: it carries none of this kind.

        LoginNeededError: it carries one that is not valid (any more).
        """


class Standing(Protocol):
    """What is known of a known caller."""

    def rights_of(self, identity: Identity) -> Rights:
        """What their bindings give them."""

    def is_known(self, identity: Identity) -> bool:
        """Whether the credential by which they came is still good."""

    async def ready(self, changes: bool = False) -> None:
        """Return where it is new enough to read, or to change something, by it; UnavailableError."""


class _Current(Rights):
    """A caller's rights at each moment that they are asked for: a change that waits for its turn, or one of hundreds in
    a call, is not made by what was taken away since the call came.
    """

    __slots__ = ("_identity", "_standing")

    _identity: Identity
    _standing: Standing

    def __init__(self, identity: Identity, standing: Standing) -> None:
        object.__setattr__(self, "_identity", identity)
        object.__setattr__(self, "_standing", standing)

    def __getattr__(self, name: str) -> Any:
        """Each field: none of them is set here."""
        standing = self._standing
        now = standing.rights_of(self._identity) if standing.is_known(self._identity) else NO_RIGHTS
        return getattr(now, name)


class Access:
    """Finds the caller of a request, and what they may do."""

    def __init__(self, mode: AuthMode, ways: Sequence[Way], standing: Standing) -> None:
        self.mode = mode
        self.ways = tuple(ways)
        self._standing = standing

    async def caller(self, request: web.Request) -> Caller:
        """The caller. LoginNeededError: a credential came, and is not valid."""
        identity = await self._identity(request)
        own = NO_RIGHTS if identity is None else self._standing.rights_of(identity)
        name = _address_name(request) if identity is None else identity.name
        rights = own if self.mode is AuthMode.REQUIRED else OWNER
        if identity is not None and rights is own and request.method not in READ_ONLY:
            rights = _Current(identity, self._standing)
        return Caller(name=name, identity=identity, own_rights=own, rights=rights)

    async def _identity(self, request: web.Request) -> Identity | None:
        for way in self.ways:
            if (identity := await way(request)) is not None:
                if identity.via is not Via.OWNER:
                    await self._standing.ready(request.method not in READ_ONLY)
                return identity
        return None


def access_guard(access_of: Callable[[web.Request], Access]) -> Middleware:
    """The middleware: 401 for an unknown caller, 403 for one without the rights."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.match_info.http_exception is not None:
            return await handler(request)  # there is no such call, which is no secret
        need = need_of(request.match_info.handler)
        if need is None:
            raise ForbiddenError(
                f"{request.method} {request.path[:200]} is open to nobody: it does not say what it needs"
            )
        if need.anonymous:
            return await handler(request)
        access = access_of(request)

        async def look() -> None:
            caller = request[CALLER] = await access.caller(request)
            check_need(need, caller, access.mode)

        await look()
        request[LOOK_AGAIN] = LookAgain(look)  # a body may keep a call waiting for longer than the right to it lasts
        if access.mode is AuthMode.WARN:
            _note_refusal(request, need, request[CALLER])
        return await handler(request)

    return middleware


def credential_of(request: web.Request) -> str:
    """Whose call it is, as one text: distinct from those of all others. Empty: the caller is unknown."""
    caller = request.get(CALLER)
    if caller is None or caller.identity is None:
        return ""
    identity = caller.identity
    token = identity.credential if identity.via is Via.TOKEN else ""  # it may be narrower than its owner
    return f"{identity.subject or identity.name}\0{token}"


def check_need(need: Need, caller: Caller, mode: AuthMode) -> None:
    """Return where the caller may make such a call at all; LoginNeededError, ForbiddenError."""
    is_guarded = need.guarded or mode is AuthMode.REQUIRED
    if is_guarded and caller.identity is None:
        raise LoginNeededError
    if need.role is None:
        return
    rights = caller.own_rights if is_guarded else caller.rights
    if not (rights.has_everywhere(need.role) if need.everywhere else rights.has(need.role)):
        where = " on everything" if need.everywhere else ""
        raise ForbiddenError(
            f"{caller.name} may not do this: it needs the role {need.role}{where}; ask an administrator of etcron"
        )


def _note_refusal(request: web.Request, need: Need, caller: Caller) -> None:
    """``auth: warn`` lets every caller in, and logs those whom ``required`` would refuse."""
    try:
        check_need(need, Caller(
            name=caller.name, identity=caller.identity, rights=caller.own_rights, own_rights=caller.own_rights
        ), AuthMode.REQUIRED)  # fmt: skip
    except (LoginNeededError, ForbiddenError) as error:
        extra = {
            "action": "access.would_refuse", "caller": caller.name, "method": request.method,
            "path": request.path[:200], "address": request[ADDRESS],
        }  # fmt: skip
        _log.warning("auth: required would refuse this call: %s", error, extra=extra)


def is_browser(request: web.Request) -> bool:
    """Whether a page sends the call, by its headers."""
    return "Sec-Fetch-Site" in request.headers or "Origin" in request.headers


def _address_name(request: web.Request) -> str:
    return f"{'console' if is_browser(request) else 'api'} {request[ADDRESS]}"
