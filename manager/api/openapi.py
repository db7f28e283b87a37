"""The OpenAPI 3.1 description of ``/api/v1``, put together once, served at ``/api/v1/openapi.json``.

A call for which it has no query parameter takes none: what is misspelt, or meant for another call, is refused.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from aiohttp import web

from common.version import VERSION
from manager.access.needs import known
from manager.api.operations import OPERATIONS, Operation
from manager.api.schemas import COMPONENTS, IDEMPOTENCY_KEY, ref
from manager.http.errors import Handler
from manager.http.idempotency import SECRET
from manager.http.queries import Query
from manager.parts import answer

__all__ = ["document"]


_REFUSALS = {
    400: "The request is not valid: each field that was wrong is named, with its remedy.",
    401: "Nobody knows who calls: a login, or another one, is needed.",
    403: "A foreign Host or Origin; or the caller may not do this.",
    404: "There is none.",
    408: "The body did not arrive in time.",
    409: "It conflicts with what others do.",
    412: "The job is not at the revision that was named.",
    413: "The body is beyond 1 MiB.",
    415: "The body is no `application/json`.",
    422: "This Idempotency-Key came with another request before.",
    429: "Too many of them; `Retry-After` says when it may be tried again.",
    503: "etcd or the log store did not answer, or the call took too long (`timeout`); or it changed each time before "
    "the edit: then nothing was done.",
}
_ANY = (400, 401, 403, 503)
_WITH_BODY = (408, 413, 415)
_DESCRIPTION = """
JSON in and out; times are milliseconds since the epoch. Errors are RFC 9457 problem documents with a stable `code`.
Lists page by cursor. A job's ETag is its revision. The legacy API (`/job/save`, `/job/list`, ...) is described in
docs/reference/api.md.
"""


@cache
def document() -> dict[str, Any]:
    """The OpenAPI document of this version; not to be changed."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "etcron", "version": VERSION, "description": _DESCRIPTION.strip()},
        "paths": paths,
        "components": {"schemas": COMPONENTS},
    }


def _operation(operation: Operation) -> dict[str, Any]:
    parameters = list(operation.parameters)
    refuses = [*_ANY, *operation.refuses]
    described: dict[str, Any] = {"tags": [operation.tag], "summary": operation.summary}
    if operation.takes is not None:
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": operation.takes}}}
        refuses += _WITH_BODY
    if operation.method == "post" and operation.path not in SECRET:
        parameters.append(IDEMPOTENCY_KEY)
        refuses += (409, 422)
    described["parameters"] = parameters
    headers = {"headers": dict(operation.headers)} if operation.headers else {}
    described["responses"] = responses = {}
    for status, schema in operation.answers.items():
        content = {operation.media_type: {} if schema is None else {"schema": schema}}
        content |= {one: {} for one in operation.also}
        responses[str(status)] = {"description": "Done.", "content": content, **headers}
    for status in sorted(set(refuses)):
        problem = {"application/problem+json": {"schema": ref("Problem")}}
        responses[str(status)] = {"description": _REFUSALS[status], "content": problem}
    return described


def add_routes(app: web.Application) -> None:
    """The call."""
    app.router.add_get("/api/v1/openapi.json", send_document)


@known
async def send_document(request: web.Request) -> web.Response:
    """The OpenAPI document of this version."""
    return answer(document())


_WITHOUT: Final = frozenset(
    (one.method, one.path) for one in OPERATIONS if not any(each["in"] == "query" for each in one.parameters)
)
_SAME_AS: Final = {"head": "get"}


@web.middleware
async def take_none_where_there_are_none(request: web.Request, handler: Handler) -> web.StreamResponse:
    """InvalidInputError for a query parameter of such a call."""
    method, resource = request.method.lower(), request.match_info.route.resource
    if request.query and resource is not None and (_SAME_AS.get(method, method), resource.canonical) in _WITHOUT:
        Query.read(request)
    return await handler(request)
