"""From which address a call comes: that of the connection, or what a proxy of ours says of it."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection

from aiohttp import web
from aiohttp.typedefs import Middleware

from manager.calls.errors import Handler

ADDRESS = web.RequestKey("address", str)
UNKNOWN = "unknown"


def tell_address(proxies: Collection[str]) -> Middleware:
    """The middleware that says it; of a proxy's calls, the last address in ``X-Forwarded-For`` is the caller's."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        request[ADDRESS] = (request.remote in proxies and _forwarded(request)) or request.remote or UNKNOWN
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
