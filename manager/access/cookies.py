"""The cookies of a login: their names, what a request carries in them, and how they are set.

Over TLS the name begins with ``__Host-``: a browser takes such a cookie from this very host only, never without TLS.
Without TLS, a cookie goes to the programs on every port of the host, so its name has the port, and it opens nothing
without a second secret. Such a program may also set a cookie of our name for a longer path, beside which ours counts
no more: then the browser forgets all that it has sent by this name, and the next login is good.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

from aiohttp import web

from common.errors import LoginNeededError

LONGEST: Final = 200
STALE: Final = web.RequestKey("stale_cookie", str)
"""The name of a cookie whose session is over: the answer has the browser forget it."""
_DEVICE_S: Final = 365 * 86_400
_PATH: Final = re.compile(r"/[A-Za-z0-9/._~%-]{0,500}")
_DEEPEST: Final = 10


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
        """The name of the cookie by which a browser that has logged in before is known; it is no login."""
        return "__Host-etcron-device" if self.is_secure(request) else f"etcron_device_{_port(request)}"

    def set(self, request: web.Request, response: web.Response, *, secret: str, device: str | None, for_s: int) -> None:
        """The answer to a login."""
        name = self.session(request)
        if len(_given(request, name)) > 1:
            self._forget(response, name, (path for path in _paths(request) if path != "/"))
        self._set(request, response, name, secret, for_s)
        if device is not None:
            self._set(request, response, self.device(request), device, _DEVICE_S)

    def forget(self, request: web.Request, response: web.StreamResponse, name: str) -> None:
        """The browser deletes it; also of an answer whose head is nearly sent. Given twice, all of them."""
        self._forget(response, name, _paths(request) if len(_given(request, name)) > 1 else ("/",))

    def _forget(self, response: web.StreamResponse, name: str, paths: Iterable[str]) -> None:
        secure = "; Secure" if name.startswith("__Host-") else ""
        for path in paths:
            response.headers.add("Set-Cookie", f'{name}=""; Max-Age=0; Path={path}; HttpOnly; SameSite=Strict{secure}')

    def _set(self, request: web.Request, response: web.Response, name: str, value: str, for_s: int) -> None:
        response.set_cookie(
            name, value, path="/", max_age=for_s, httponly=True, samesite="Strict", secure=self.is_secure(request)
        )


def given_cookie(request: web.Request, name: str, *, longest: int = LONGEST) -> str | None:
    """A cookie's value; LoginNeededError where it is given twice, as a program on another port may have set one."""
    found = _given(request, name)
    if len(found) > 1:
        raise LoginNeededError(f"Cookie: {name} is given more than once, so another program has set one; log in again")
    if not found or not found[0]:
        return None
    return found[0][:longest]


def _given(request: web.Request, name: str) -> list[str]:
    return [
        value.strip().strip('"')
        for header in request.headers.getall("Cookie", ())
        for part in header.split(";")
        for key, _, value in [part.partition("=")]
        if key.strip() == name
    ]


def _paths(request: web.Request) -> list[str]:
    """Each path that a cookie which came with this request may have been set for."""
    parts = [part for part in request.rel_url.raw_path.split("/") if part][:_DEEPEST]
    above = ["/" + "/".join(parts[:count]) for count in range(len(parts) + 1)]
    return [path for path in dict.fromkeys([*above, *(f"{path}/" for path in above[1:])]) if _PATH.fullmatch(path)]


def _port(request: web.Request) -> int:
    name = None if request.transport is None else request.transport.get_extra_info("sockname")
    return int(name[1]) if isinstance(name, tuple) else 0
