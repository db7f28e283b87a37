"""The ways by which callers over the network are known: a token in a header, a session in a cookie.

    Authorization: Bearer etcron_<id>_<secret>       programs
    Cookie: __Host-etcron=<secret>                   browsers, over TLS
    Cookie: etcron_session_<port>=<secret>           browsers, without: a cookie without TLS reaches the programs on
    X-Etcron-Session: <second secret>                every port of that host, so a page sends a second secret along,
                                                     which it keeps where only pages of this manager can read it;
                                                     a session opened without TLS needs it over TLS, too
    X-Etcron: 1                                      on what changes something by cookie: a form cannot send it
    X-Etcron-Unattended: 1                           on what a page asks by itself while nobody touches it: no use of
                                                     the session, which is over once it is idle

A credential that is given twice is refused: two readers of the request might not mean the same one.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Final

from aiohttp import web

from common.access.callers import AuthMode, Identity
from common.access.credentials import TOKEN_PREFIX, LoginSession, digest_of, split_token
from common.errors import ForbiddenError, LoginNeededError
from manager.access.cookies import LONGEST, STALE, Cookies, given_cookie
from manager.access.directory import Directory, Versioned
from manager.http.errors import RequestError
from manager.http.guards import READ_ONLY

SECOND: Final = "X-Etcron-Session"
OURS: Final = "X-Etcron"
UNATTENDED: Final = "X-Etcron-Unattended"
SESSION: Final = web.RequestKey("session", Versioned[LoginSession])
"""The session by which a call came."""
_EVENTS: Final = "/api/v1/events"
"""A browser sends no headers of a page's choice when it listens to events."""


class TokenWay:
    """A token in the ``Authorization`` header."""

    def __init__(self, directory: Directory, mode: AuthMode) -> None:
        self._directory = directory
        self._mode = mode

    async def __call__(self, request: web.Request) -> Identity | None:
        given = request.headers.getall("Authorization", ())
        if not given:
            return None
        if len(given) > 1:
            raise RequestError(400, "Authorization: is given more than once; send it once")
        scheme, _, text = given[0].partition(" ")
        if scheme.casefold() != "bearer":
            return None
        text = text.strip()
        if self._mode is not AuthMode.REQUIRED and not text.startswith(TOKEN_PREFIX):
            return None  # another program's, which a proxy passes on
        parts = split_token(text)
        if parts is None:
            raise LoginNeededError("Authorization: this is no token; they look like etcron_<id>_<secret>")
        await self._directory.ready()
        await self._directory.wait_for_token(parts[0])
        return self._directory.by_token(parts[0], digest_of(parts[1]))


class CookieWay:
    """A session in a cookie."""

    def __init__(
        self, directory: Directory, cookies: Cookies, *, used: Callable[[Versioned[LoginSession]], None]
    ) -> None:
        """``used``: called with each use, by which a session does not become idle."""
        self._directory = directory
        self._cookies = cookies
        self._used = used

    async def __call__(self, request: web.Request) -> Identity | None:
        try:
            held = await self.held(request)
        except LoginNeededError:
            request[STALE] = self._cookies.session(request)
            raise
        if held is None:
            return None
        identity = self._directory.by_session(held.digest)[0]
        if not (held.record.secure and self._cookies.is_secure(request)):
            _check_second(request, held.record)
        if request.method not in READ_ONLY and request.headers.get(OURS) != "1":
            raise ForbiddenError(f"{OURS}: is missing; a page that changes something by a cookie sends {OURS}: 1")
        request[SESSION] = held
        is_by_itself = request.path == _EVENTS or request.headers.get(UNATTENDED) == "1"
        if not is_by_itself or request.method not in READ_ONLY:
            self._used(held)
        return identity

    async def held(self, request: web.Request) -> Versioned[LoginSession] | None:
        """The session of the cookie, which by itself is no login; None: there is no cookie. LoginNeededError."""
        secret = given_cookie(request, self._cookies.session(request))
        if secret is None:
            return None
        await self._directory.ready()
        digest = digest_of(secret)
        await self._directory.wait_for_session(digest)
        return self._directory.by_session(digest)[1]


def _check_second(request: web.Request, session: LoginSession) -> None:
    if request.path == _EVENTS and request.method in READ_ONLY:
        return
    given = request.headers.getall(SECOND, ())
    if len(given) != 1 or not hmac.compare_digest(digest_of(given[0][:LONGEST]), session.second):
        raise LoginNeededError(f"{SECOND}: the second secret of this session is missing or wrong; log in again")
