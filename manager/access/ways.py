"""The ways by which callers over the network are known: a token in a header, a session in a cookie.

    Authorization: Bearer etcron_<id>_<secret>       programs
    Cookie: __Host-etcron=<secret>                   browsers, over TLS
    Cookie: etcron_session_<port>=<secret>           browsers, without: a cookie without TLS reaches the programs on
    X-Etcron-Session: <second secret>                every port of that host, so a page sends a second secret along,
                                                     which it keeps where only pages of this manager can read it
    X-Etcron: 1                                      on what changes something by cookie: a form cannot send it

A credential that is given twice is refused: two readers of the request might not mean the same one.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Collection
from typing import Final

from aiohttp import web

from common.access.callers import Identity
from common.access.credentials import Session, digest_of, split_token
from common.errors import ForbiddenError, LoginNeededError
from manager.access.directory import Directory, Held
from manager.http.errors import RequestError
from manager.http.guards import READ_ONLY

SECURE_COOKIE: Final = "__Host-etcron"
SECOND: Final = "X-Etcron-Session"
OURS: Final = "X-Etcron"
SESSION: Final = web.RequestKey("session", Held[Session])
"""The session by which a call came."""
_EVENTS: Final = "/api/v1/events"
"""A browser sends no headers of a page's choice when it listens to events."""
_LONGEST: Final = 200


class TokenWay:
    """A token in the ``Authorization`` header."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    async def __call__(self, request: web.Request) -> Identity | None:
        given = request.headers.getall("Authorization", ())
        if not given:
            return None
        if len(given) > 1:
            raise RequestError(400, "Authorization: is given more than once; send it once")
        scheme, _, text = given[0].partition(" ")
        if scheme.casefold() != "bearer":
            return None
        parts = split_token(text.strip())
        if parts is None:
            raise LoginNeededError("Authorization: this is no token; they look like etcron_<id>_<secret>")
        await self._directory.ready()
        return self._directory.by_token(parts[0], digest_of(parts[1]))


class SessionWay:
    """A session in a cookie."""

    def __init__(
        self, directory: Directory, *, has_tls: bool, proxies: Collection[str], used: Callable[[Held[Session]], None]
    ) -> None:
        """``used``: told of each use, by which a session does not become idle."""
        self._directory = directory
        self._has_tls = has_tls
        self._proxies = proxies
        self._used = used

    async def __call__(self, request: web.Request) -> Identity | None:
        secret = given_cookie(request, self.cookie_name(request))
        if secret is None:
            return None
        is_change = request.method not in READ_ONLY
        await self._directory.ready()
        identity, held = self._directory.by_session(digest_of(secret))
        if not self.is_secure(request):
            _check_second(request, held.record)
        if is_change and request.headers.get(OURS) != "1":
            raise ForbiddenError(f"{OURS}: is missing; a page that changes something by a cookie sends {OURS}: 1")
        request[SESSION] = held
        if request.path != _EVENTS:
            self._used(held)
        return identity

    def is_secure(self, request: web.Request) -> bool:
        """Whether the caller's browser speaks TLS, with this manager or with a proxy of ours."""
        return self._has_tls or (
            request.remote in self._proxies and request.headers.getall("X-Forwarded-Proto", ()) == ["https"]
        )

    def cookie_name(self, request: web.Request) -> str:
        if self.is_secure(request):
            return SECURE_COOKIE
        return f"etcron_session_{_port(request)}"


def given_cookie(request: web.Request, name: str) -> str | None:
    """What a cookie says; LoginNeededError where it is given twice, as a program on another port may have set one."""
    found = [
        value.strip().strip('"')
        for header in request.headers.getall("Cookie", ())
        for part in header.split(";")
        for key, _, value in [part.partition("=")]
        if key.strip() == name
    ]
    if len(found) > 1:
        raise LoginNeededError(f"Cookie: {name} is given more than once; delete this site's cookies and log in again")
    if not found or not found[0]:
        return None
    return found[0][:_LONGEST]


def _check_second(request: web.Request, session: Session) -> None:
    if request.path == _EVENTS and request.method in READ_ONLY:
        return
    given = request.headers.getall(SECOND, ())
    if len(given) != 1 or not hmac.compare_digest(digest_of(given[0][:_LONGEST]), session.second):
        raise LoginNeededError(f"{SECOND}: the second secret of this session is missing or wrong; log in again")


def _port(request: web.Request) -> int:
    name = None if request.transport is None else request.transport.get_extra_info("sockname")
    return int(name[1]) if isinstance(name, tuple) else 0
