"""Every error as JSON: the legacy API's envelope on its paths, elsewhere RFC 9457 problem documents.

Never a traceback. An error that nobody expected is logged once, with a reference that the answer carries too.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from importlib.resources import files
from typing import Final

from aiohttp import web

from common.errors import (
    ClockOffError,
    ConflictError,
    EtcdError,
    EtcronError,
    ForbiddenError,
    InvalidInputError,
    LoginNeededError,
    NotFoundError,
    OvertakenError,
    Problem,
    StaleError,
    UnavailableError,
)
from common.etcd.settle import UnsettledError, is_in_doubt, noting_done
from common.json_text import dumps
from common.protocol.edits import TooManyJobsError
from common.words.messages import Messages
from manager.watch.events import TooManyClientsError

_log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

STREAMING: Final = web.RequestKey("streaming", web.StreamResponse)
"""Set by who has sent the head of an answer already: a later error can only cut it off."""

MESSAGES: Final = Messages(
    {
        code: message["en"]
        for code, message in json.loads(
            (files("webroot") / "static/i18n/messages.json").read_text(encoding="utf-8")
        ).items()
    }
)
UNLISTED: Final = "unlisted"
"""The code of a text that is not in the table: another program has said it."""
_LEGACY_PATHS = ("/job/", "/worker/")
_CODES = {
    400: "bad-request", 403: "forbidden", 404: "no-such-path", 405: "method-not-allowed", 408: "request-timeout",
    413: "body-too-large", 415: "unsupported-media-type", 429: "too-many",
}  # fmt: skip
_REFUSALS: Final[tuple[tuple[type[EtcronError], int, str], ...]] = (
    (LoginNeededError, 401, "login-needed"),
    (ForbiddenError, 403, "forbidden"),
    (NotFoundError, 404, "not-found"),
    (StaleError, 412, "stale-revision"),
    (TooManyJobsError, 409, "too-many-jobs"),
    (ConflictError, 409, "conflict"),
    (TooManyClientsError, 503, "too-many-clients"),
    (ClockOffError, 503, "clock-off"),
    (OvertakenError, 503, "overtaken"),
    (UnavailableError, 503, "unavailable"),
    (EtcdError, 503, "unavailable"),
)
"""The first kind that an error is of counts."""
_REMEDIES = {
    404: "the calls are listed in docs/reference/calls.md",
    413: "a request body is at most 1 MiB",
}
_DOUBT: Final[Mapping[str, object]] = {"inDoubt": True}


class RequestError(EtcronError):
    """The request is not one that can be answered. Mend what the message names and send it again."""

    def __init__(
        self, status: int, message: str, *, code: str | None = None, retry_s: int | None = None, in_doubt: bool = False
    ) -> None:
        self.status = status
        self.retry_s = retry_s
        self.in_doubt = in_doubt
        """It may have been carried out all the same."""
        self.code = code or _CODES[status]
        super().__init__(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What went wrong, ready to be spelled."""

    status: int
    code: str
    """Stable: a client may rely on it."""
    detail: str
    problems: tuple[Problem, ...] = ()
    allow: str | None = None
    """For 405: the methods that there are."""
    retry_s: int | None = None
    """When it may be tried again."""
    members: Mapping[str, object] = field(default_factory=dict)
    """Further members of a problem document."""

    @property
    def errors(self) -> list[dict[str, object]]:
        """The problems as they are spelled."""
        return [
            {"field": one.field, "message": one.message, "remedy": one.remedy}
            | _said(one.message, "code", "params") | _said(one.remedy, "remedyCode", "remedyParams")
            for one in self.problems
        ]  # fmt: skip


def code_of(status: int) -> str:
    """The code of a failure that has none of its own."""
    return _CODES.get(status, "http-error")


def failure_of(error: Exception) -> Failure:
    """The failure that an error stands for; an unexpected one is logged here."""
    match error:
        case RequestError():
            members = _DOUBT if error.in_doubt else {}
            return Failure(
                status=error.status, code=error.code, detail=str(error), retry_s=error.retry_s, members=members
            )
        case InvalidInputError():
            return Failure(status=400, code="invalid-input", detail=str(error), problems=error.problems)
        case web.HTTPException():
            return _of_http(error)
        case _:
            pass
    for kind, status, code in _REFUSALS:
        if isinstance(error, kind):
            members = _DOUBT if isinstance(error, UnsettledError) or is_in_doubt(error) else {}
            return Failure(status=status, code=code, detail=str(error), members=members)
    reference = uuid.uuid4().hex[:12]
    _log.error(
        "a request failed in a way that nobody expected", exc_info=error,
        extra={"action": "request.failed", "reference": reference},
    )  # fmt: skip
    detail = f"something went wrong in this manager; its log says what, under the reference {reference}"
    return Failure(status=500, code="internal-error", detail=detail)


def respond(request: web.BaseRequest, failure: Failure) -> web.Response:
    """The answer in the shape that belongs to the request's path."""
    if not request.path.startswith(_LEGACY_PATHS):
        return problem(failure)
    return _spelled(failure, {"errno": -1, "msg": failure.detail, "data": None}, "application/json")


def problem(failure: Failure) -> web.Response:
    """The answer as a problem document."""
    body: dict[str, object] = {
        "type": "about:blank",
        "title": HTTPStatus(failure.status).phrase,
        "status": failure.status,
        "code": failure.code,
        "detail": failure.detail,
    }
    if failure.problems:
        body["errors"] = failure.errors
    else:
        body |= _said(failure.detail, "detailCode", "params")
    body.update(failure.members)
    return _spelled(failure, body, "application/problem+json")


def _said(text: str, code: str, params: str) -> dict[str, object]:
    """The members that tell which message a text is."""
    said = MESSAGES.of(text)
    return {code: UNLISTED, params: {}} if said is None else {code: said.code, params: dict(said.params)}


def _spelled(failure: Failure, body: Mapping[str, object], kind: str) -> web.Response:
    headers = {} if failure.allow is None else {"Allow": failure.allow}
    if failure.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="etcron"'
    if failure.retry_s is not None:
        headers["Retry-After"] = str(failure.retry_s)
    return web.Response(status=failure.status, text=dumps(body), content_type=kind, headers=headers)


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Whatever a handler raises becomes an answer in JSON; a stream that has begun is cut off, never ended well."""
    try:
        return await handler(request)
    except Exception as error:
        if isinstance(error, web.HTTPException) and error.status < 400:
            raise
        started: web.StreamResponse | None = request.get(STREAMING)
        if started is not None and isinstance(error, ConnectionError):
            return started  # the client has gone
        failure = failure_of(error)
        if started is None:
            return respond(request, failure)
        extra = {"action": "stream.cut", "path": request.path}
        _log.warning("an answer was cut off: %s", failure.detail, extra=extra)
        if request.transport is not None:
            request.transport.abort()
        return started


@web.middleware
async def tell_what_was_done(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Where a call fails after etcd has carried out its write, the client reads that it may be done."""
    with noting_done() as noted:
        try:
            return await handler(request)
        except EtcronError as error:
            if not noted.done or isinstance(error, UnsettledError):
                raise
            message = f"what you asked for was carried out, or a part of it. Look before you repeat it. ({error})"
            raise UnsettledError(message) from error


def _of_http(error: web.HTTPException) -> Failure:
    phrase = HTTPStatus(error.status).phrase.lower()
    remedy = _REMEDIES.get(error.status, "see docs/reference/api.md")
    allow = None
    if isinstance(error, web.HTTPMethodNotAllowed):
        allow = ", ".join(sorted(error.allowed_methods))
        phrase, remedy = f"{error.method} is not possible here", f"use {allow}"
    return Failure(status=error.status, code=code_of(error.status), detail=f"{phrase}; {remedy}", allow=allow)
