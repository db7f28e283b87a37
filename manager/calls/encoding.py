"""Whether an answer is packed: in gzip, where the client takes that, else as it is (RFC 9110, 12.5.3)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

_GZIP: Final = ("gzip", "x-gzip", "*")
"""Its names; the first that the client has named counts."""


def takes_gzip(request: web.BaseRequest) -> bool:
    """Whether the client names gzip among what it accepts, and prefers an answer as it is no more."""
    weights: dict[str, float] = {}
    for one in ",".join(request.headers.getall("Accept-Encoding", [])).lower().split(","):
        coding, _, parameters = one.partition(";")
        weights[coding.strip()] = _weight(parameters)
    gzip = next((weights[name] for name in _GZIP if name in weights), 0.0)
    return gzip > 0 and gzip >= weights.get("identity", 0.0)


@web.middleware
async def choose_coding(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Of answers that are worth packing: aiohttp, left to itself, packs also for who refuses that (``q=0``)."""
    response = await handler(request)
    if response.compression:
        response.enable_compression(web.ContentCoding.gzip if takes_gzip(request) else web.ContentCoding.identity)
    return response


def _weight(parameters: str) -> float:
    """1 where there is none, 0 where it is none."""
    name, _, value = parameters.partition("=")
    if name.strip() != "q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0
