"""Who may call, from where, and how long: no foreign page through a user's browser, no request that never ends.

* **Host** has to be ours, on every path but the two for probes. A page whose name was rebound to this machine's
  address (DNS rebinding) would otherwise be of the same origin as we are. Addresses as such cannot be rebound, so they
  are ours.
* **Origin** of whatever changes something, and of who listens to events, has to be the host that was called. Browsers
  send it with every such request; other clients send none.
* What these and ``Sec-Fetch-Site`` say is not believed where they are given twice.
* The address that a call comes from is that of the connection, or what a proxy of ours says of it; of the Unix
  socket, its system user (``uid 1000``).
* No body is inflated: a few kilobytes of it could be gigabytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Middleware

from manager.http.errors import Handler, RequestError
from manager.http.peers import other_end

ADDRESS = web.RequestKey("address", str)
UNKNOWN = "unknown"


def tell_address(proxies: Collection[str]) -> Middleware:
    """The middleware that says it; of a proxy's calls, the last address in ``X-Forwarded-For`` is the caller's."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        remote = str(other_end(request).peer or request.remote or UNKNOWN)
        request[ADDRESS] = (remote in proxies and _forwarded(request)) or remote
        return await handler(request)

    return middleware


def _forwarded(request: web.Request) -> str | None:
    last = ",".join(request.headers.getall("X-Forwarded-For", ())).rpartition(",")[2].strip()
    try:
        ip = ipaddress.ip_address(last)
    except ValueError:
        return None
    # A proxy that listens for both kinds on one socket has all of IPv4 within one /64: each is its own caller.
    return str(ip if ip.version == 4 else ip.ipv4_mapped or ip)


MAX_BODY_BYTES: Final = 1024 * 1024
KNOWS_US: Final = web.RequestKey("knows_us", bool)
"""Whether it names this manager: a page of a rebound name does not."""
DEADLINE: Final = web.RequestKey("deadline", asyncio.Timeout)

READ_ONLY: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_PROBES = frozenset({"/livez", "/readyz"})
_STREAMS = frozenset({"/api/v1/events"})
_GIVEN_ONCE = ("Host", "Origin", "Sec-Fetch-Site")
_OUR_SITES = frozenset({"same-origin", "none"})
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_SERVER = "etcron"


class Hosts:
    """The names by which this manager may be called."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = {"localhost", *(name.strip("[]").casefold() for name in names)}

    def has(self, host: str) -> bool:
        """Whether a ``Host`` header (name or address, perhaps with a port) is one of ours."""
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            return False
        if name is None:
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in self._names or name.endswith(".localhost")
        return True


def guard(hosts: Hosts) -> Middleware:
    """The middleware that turns foreign callers away with 403, and what no caller should send with 400 and 415."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        for name in _GIVEN_ONCE:
            if len(request.headers.getall(name, ())) > 1:
                raise RequestError(400, f"{name}: is given more than once; send it once")
        foreign = [host for host in request.headers.getall("Host", []) if not hosts.has(host)]
        request[KNOWS_US] = not foreign
        if foreign and (request.path not in _PROBES or "verbose" in request.query):
            message = f"Host: {foreign[0][:100]!r} is not a name of this manager"
            remedy = "call it by its address, or add the name to allowedHosts"
            raise RequestError(403, f"{message}; {remedy}", code="foreign-host")
        if request.method not in READ_ONLY or request.path in _STREAMS or "follow" in request.query:
            _check_origin(request)
        for encoding in request.headers.getall("Content-Encoding", ()):
            if encoding.strip().casefold() != "identity":
                raise RequestError(415, f"Content-Encoding: is {encoding[:60]!a}; send the body as it is, without it")
        return await handler(request)

    return middleware


def time_limit(seconds: float) -> Middleware:
    """The middleware that ends a request which takes too long; who streams moves ``request[DEADLINE]`` along."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            async with asyncio.timeout(seconds) as deadline:
                request[DEADLINE] = deadline
                return await handler(request)
        except TimeoutError as error:
            message = f"there was no answer within {seconds:g} s"
            if in_doubt := request.method not in READ_ONLY:
                message += "; it may or may not have been carried out: look before you repeat it"
            raise RequestError(503, message, code="timeout", in_doubt=in_doubt) from error

    return middleware


def cut_who_takes_nothing(seconds: float) -> Callable[[web.Request, web.StreamResponse], Awaitable[None]]:
    """What has the kernel end a connection that takes nothing of an answer for so long: it holds up to all of it."""

    async def watch(request: web.Request, response: web.StreamResponse) -> None:
        connection = None if request.transport is None else request.transport.get_extra_info("socket")
        if connection is None:
            return
        with contextlib.suppress(OSError):  # it has gone already
            # By what is taken, not by the clock alone: a slow line may carry 8 MiB of output for minutes.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(seconds * 1000))

    return watch


def add_headers(response: web.StreamResponse, path: str) -> None:
    """The headers that every answer carries; nothing of ours is framed, sniffed, cached or told to other sites."""
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers["Server"] = _SERVER
    response.headers.setdefault("Cache-Control", "no-cache" if path.startswith("/static/") else "no-store")


def _check_origin(request: web.Request) -> None:
    site = request.headers.get("Sec-Fetch-Site", "none").casefold()
    origin = request.headers.get("Origin")
    try:
        parts = urlsplit((origin or "").casefold())
        authority = parts.netloc if parts.scheme in ("http", "https") and parts.netloc else None
    except ValueError:
        authority = None  # it is no address
    if site in _OUR_SITES and (origin is None or authority == request.headers.get("Host", "").casefold()):
        return
    what = "listen" if request.method in READ_ONLY else "change anything"
    message = f"Origin: a page of {(origin or site)[:100]!r} may not {what} here"
    raise RequestError(403, f"{message}; use this manager's own console", code="foreign-origin")
