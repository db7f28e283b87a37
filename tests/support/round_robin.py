"""What stands in front of several managers and knows nothing of them: request after request goes to the next one.

Also the requests of one page, and of one connection: nothing is sticky. Answers are passed on as they come, so that an
event stream is live.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

_OF_ONE_HOP = {"connection", "keep-alive", "transfer-encoding", "upgrade", "te", "trailer"}


class RoundRobin:
    """Forwards to `targets`, URLs without a path; made by `round_robin`."""

    def __init__(self, targets: Sequence[str], http: aiohttp.ClientSession) -> None:
        self._http = http
        self._next = itertools.cycle(targets)
        self.url = ""
        self.answered: Counter[str] = Counter()
        """How many requests each target has answered."""
        self.answers: list[tuple[str, str, int]] = []
        """Method, path and status of all answers."""
        self._outdated: dict[str, list[tuple[int, bytes]]] = {}
        self._has_changed = False

    async def outdate(self, path: str, *, times: int, **query: str) -> None:
        """After the next change what is answered now is answered so many times more, whatever the query then.

        As by a manager that has not heard of the change yet, and is not out of touch either.
        """
        plain = {"Accept-Encoding": "identity"}
        async with self._http.get(next(self._next) + path, params=query, headers=plain) as answer:
            self._outdated[path] = [(answer.status, await answer.read())] * times
        self._has_changed = False

    async def forward(self, request: web.Request) -> web.StreamResponse:
        self._has_changed |= request.method not in ("GET", "HEAD")
        if request.method == "GET" and self._has_changed and self._outdated.get(request.path):
            status, body = self._outdated[request.path].pop()
            self.answers.append((request.method, request.path, status))
            return web.Response(status=status, body=body, content_type="application/json")
        target = next(self._next)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _OF_ONE_HOP}
        body = await request.read()
        sent = self._http.request(
            request.method, target + request.raw_path, headers=headers, data=body or None, allow_redirects=False
        )
        try:
            async with sent as answer:
                self.answered[target] += 1
                self.answers.append((request.method, request.path, answer.status))
                return await _pass_on(answer, request)
        except aiohttp.ClientConnectionError:
            return web.Response(status=502, text=f"{target} cannot be reached")


async def _pass_on(answer: aiohttp.ClientResponse, request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, reason=answer.reason)
    for name, value in answer.headers.items():
        if name.lower() not in _OF_ONE_HOP:
            response.headers.add(name, value)
    await response.prepare(request)
    async for chunk in answer.content.iter_any():
        await response.write(chunk)
    await response.write_eof()
    return response


@asynccontextmanager
async def round_robin(targets: Sequence[str]) -> AsyncIterator[RoundRobin]:
    """A running proxy; its `url` is where browsers call it."""
    plain = aiohttp.ClientSession(auto_decompress=False, timeout=aiohttp.ClientTimeout(total=None))
    async with plain as http:
        proxy = RoundRobin(targets, http)
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", proxy.forward)
        async with TestServer(app, handler_cancellation=True) as server:
            proxy.url = str(server.make_url("/")).rstrip("/")
            yield proxy
