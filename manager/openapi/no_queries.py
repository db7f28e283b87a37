"""A call for which the document has no query parameter takes none: what is misspelt, or meant for another, is said.

Calls that have some look at them themselves, so that every mistake is in one answer.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

from manager.calls.errors import Handler
from manager.calls.inputs import Fields
from manager.openapi.operations import OPERATIONS

_WITHOUT: Final = frozenset(
    (one.method, one.path) for one in OPERATIONS if not any(each["in"] == "query" for each in one.parameters)
)
_SAME_AS: Final = {"head": "get"}


@web.middleware
async def take_none_where_there_are_none(request: web.Request, handler: Handler) -> web.StreamResponse:
    """InvalidInputError for a query parameter of such a call."""
    method, resource = request.method.lower(), request.match_info.route.resource
    if request.query and resource is not None and (_SAME_AS.get(method, method), resource.canonical) in _WITHOUT:
        Fields(request.query, known=()).check()
    return await handler(request)
