"""How many connections, and behind a proxy how many calls, one address may have at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from aiohttp import web
from aiohttp.typedefs import Middleware

from manager.calls.callers import ADDRESS
from manager.calls.errors import Failure, Handler, RequestError

_RETRY_S = 5


class Crowd:
    """Counts who is there, by address."""

    def __init__(self, most: int, *, but: Collection[str] = ()) -> None:
        """``but``: addresses of which there may be any number."""
        self._most = most
        self._but = frozenset(but)
        self._there = Counter[str]()

    def enter(self, address: str) -> bool:
        """Whether there is room for one more, who is there from now on."""
        if self._there[address] >= self._most and address not in self._but:
            return False
        self._there[address] += 1
        return True

    def leave(self, address: str) -> None:
        self._there[address] -= 1
        if not self._there[address]:
            del self._there[address]

    def too_many(self, address: str) -> Failure:
        """Why there is no room."""
        detail = f"{address} has {self._most:,} connections, and may have no more (connectionsPerAddress); close some"
        return Failure(status=429, code="too-many", detail=detail, retry_s=_RETRY_S)


def going_at_once(most: int) -> Middleware:
    """The middleware that counts calls: behind a proxy, one connection tells nothing of who is behind it."""
    crowd = Crowd(most)

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        address = request[ADDRESS]
        if not crowd.enter(address):
            failure = crowd.too_many(address)
            raise RequestError(failure.status, failure.detail, code=failure.code, retry_s=failure.retry_s)
        try:
            return await handler(request)
        finally:
            crowd.leave(address)

    return middleware
