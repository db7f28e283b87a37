"""``GET /api/v1/openapi.json``: what this manager can be asked."""

from __future__ import annotations

from aiohttp import web

from manager.openapi import document
from manager.parts import answer


def add_routes(app: web.Application) -> None:
    """The call."""
    app.router.add_get("/api/v1/openapi.json", send_document)


async def send_document(request: web.Request) -> web.Response:
    """The OpenAPI document of this version."""
    return answer(document())
