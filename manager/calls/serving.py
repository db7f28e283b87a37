"""The HTTP server below the application: nothing that a client sends is inflated, and all answers are alike.

What is no HTTP never reaches the application: the library answers it, in its own words, if nobody else does.
"""

from __future__ import annotations

from http import HTTPStatus

from aiohttp import web

from manager.calls.errors import Failure, code_of, failure_of, respond
from manager.calls.guards import add_headers


class Runner(web.AppRunner):
    """Serves an application by our own connections."""

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            try:
                return await made.request_handler(request)
            except web.HTTPException as error:  # of the library, before any middleware
                if error.status < 400:
                    raise
                return respond(request, failure_of(error))

        return _Server(handle, request_factory=made.request_factory, **self._kwargs)


class _Server(web.Server):
    def __call__(self) -> web.RequestHandler:
        # Inflated, a body of a few kilobytes takes gigabytes before any of our limits is looked at.
        return _Connection(self, loop=self._loop, auto_decompress=False, **self._kwargs)


class _Connection(web.RequestHandler):
    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """As the library's, which logs it; but a problem document, without the library's words and its version."""
        super().handle_error(request, status, exc, message)
        words = HTTPStatus(status).phrase.lower()
        remedy = (
            "send HTTP/1.1, with a head of at most 8 KiB a line" if status == 400 else "the manager's log says more"
        )
        response = respond(request, Failure(status=status, code=code_of(status), detail=f"{words}; {remedy}"))
        add_headers(response, request.path)
        response.force_close()
        return response
