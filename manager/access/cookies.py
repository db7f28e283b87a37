"""The cookies of a login: their names, what a request says in them, and how they are set.

Over TLS the name begins with ``__Host-``: a browser takes such a cookie from this very host only, never without TLS.
Without TLS, a cookie goes to the programs on every port of the host, so its name has the port, and it lets nobody in
without a second secret.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from aiohttp import web

from common.errors import LoginNeededError

LONGEST: Final = 200
STALE: Final = web.RequestKey("stale_cookie", str)
"""The name of a cookie whose session is over: the answer has the browser forget it."""
_DEVICE_S: Final = 365 * 86_400


class Cookies:
    """Of one manager."""

    def __init__(self, *, has_tls: bool, proxies: Collection[str]) -> None:
        self._has_tls = has_tls
        self._proxies = proxies

    def is_secure(self, request: web.Request) -> bool:
        """Whether the caller's browser speaks TLS, with this manager or with a proxy of ours."""
        return self._has_tls or (
            request.remote in self._proxies and request.headers.getall("X-Forwarded-Proto", ()) == ["https"]
        )

    def session(self, request: web.Request) -> str:
        """The name of the session's cookie."""
        return "__Host-etcron" if self.is_secure(request) else f"etcron_session_{_port(request)}"

    def device(self, request: web.Request) -> str:
        """The name of the cookie by which a browser that has logged in before is known; it lets nobody in."""
        return "__Host-etcron-device" if self.is_secure(request) else f"etcron_device_{_port(request)}"

    def set(self, request: web.Request, response: web.Response, *, secret: str, device: str | None, for_s: int) -> None:
        """The answer to a login."""
        self._set(request, response, self.session(request), secret, for_s)
        if device is not None:
            self._set(request, response, self.device(request), device, _DEVICE_S)

    def forget(self, response: web.StreamResponse, name: str) -> None:
        """The browser deletes it; also of an answer whose head is nearly sent."""
        secure = "; Secure" if name.startswith("__Host-") else ""
        response.headers.add("Set-Cookie", f'{name}=""; Max-Age=0; Path=/; HttpOnly; SameSite=Strict{secure}')

    def _set(self, request: web.Request, response: web.Response, name: str, value: str, for_s: int) -> None:
        response.set_cookie(
            name, value, path="/", max_age=for_s, httponly=True, samesite="Strict", secure=self.is_secure(request)
        )


def given_cookie(request: web.Request, name: str, *, longest: int = LONGEST) -> str | None:
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
    return found[0][:longest]


def _port(request: web.Request) -> int:
    name = None if request.transport is None else request.transport.get_extra_info("sockname")
    return int(name[1]) if isinstance(name, tuple) else 0
