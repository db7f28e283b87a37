"""Login through the provider: off to it, and back with a session. Whatever goes wrong is shown on the login page."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import quote, urlencode

from aiohttp import web

from common.access.audit_chain import Outcome
from common.access.credentials import SessionWay
from common.access.subjects import Subject, SubjectKind
from common.errors import EtcronError, LoginNeededError, NotFoundError
from common.protocol.access_keys import AccessKeys
from manager.access.audited import annotate
from manager.access.cookies import given_cookie
from manager.access.needs import anonymous
from manager.access.oidc.failures import OidcError, Why
from manager.access.sessions import Opened
from manager.api.login import OIDC, came_from
from manager.api.schemas import text
from manager.http.errors import RequestError
from manager.http.guards import ADDRESS
from manager.http.queries import Meaning, Query, single
from manager.parts import PARTS, Parts

if TYPE_CHECKING:
    from manager.access.oidc.login import OidcLogin  # what it needs is loaded where a provider is configured

_log = logging.getLogger(__name__)

_CALLBACK: Final = f"{OIDC}/callback"
_WITHIN_S: Final = 600
_LOGIN_PAGE: Final = "/login"


class BeginQuery(Query):
    back: Annotated[str | None, single(text(1000)), Meaning("The page of the console to go back to.")]


class CallbackQuery(Query):
    """As RFC 6749 and RFC 9207 have it; what else a provider adds is left alone."""

    code: Annotated[str | None, single(text(4096)), Meaning("Of the provider, good once.")]
    state: Annotated[str | None, single(text(100)), Meaning("As it was sent to the provider.")]
    iss: Annotated[str | None, single(text(500)), Meaning("The provider.")]
    error: Annotated[str | None, single(text(200)), Meaning("Why there is no code.")]


def add_routes(app: web.Application) -> None:
    """The calls of this file."""
    app.router.add_get(OIDC, begin_login)
    app.router.add_get(_CALLBACK, finish_login)


@anonymous
async def begin_login(request: web.Request) -> web.Response:
    """302 to the provider; the browser keeps a cookie for ten minutes that it has to come back with."""
    parts, query = request.app[PARTS], BeginQuery.read(request)
    login = _login(parts)
    try:
        begun = await login.begin(redirect_uri=_redirect_uri(request), back=query.back or "/")
    except OidcError as error:
        return _failed(request, error)
    response = _to(begun.url)
    # Lax: the provider's page leads back here, so a stricter one would not come along.
    response.set_cookie(
        _cookie(request), begun.cookie, path="/", max_age=_WITHIN_S, httponly=True, samesite="Lax",
        secure=parts.cookies.is_secure(request),
    )  # fmt: skip
    return response


@anonymous
async def finish_login(request: web.Request) -> web.Response:
    """302 to the console with a new session; to the login page, which says why, where there is none."""
    parts = request.app[PARTS]
    login = _login(parts)
    try:
        # Twice the same name: which one counts is not for us to guess.
        if any(len(request.query.getall(name)) > 1 for name in request.query):
            raise OidcError(Why.STALE, "the answer says something twice")
        tried = parts.logins.through_provider(request[ADDRESS])
        finished = await login.finish(_given(request), request.query, redirect_uri=_redirect_uri(request))
        opened = await _open(request, finished.person.name, sorted(finished.person.groups))
    except RequestError as error:
        response = _failed(request, OidcError(Why.TOO_MANY, str(error)))
    except EtcronError as error:
        response = _failed(request, error if isinstance(error, OidcError) else OidcError(Why.ETCRON, str(error)))
    else:
        tried.give_back()
        response = _to(f"{_LOGIN_PAGE}#{urlencode({'session': opened.second, 'back': finished.back}, quote_via=quote)}")
        annotate(request, who=opened.session.subject.name, session=opened.session.id, way=str(SessionWay.OIDC))
        parts.cookies.set(request, response, secret=opened.secret, device=None, for_s=opened.lasts_s)
    parts.cookies.forget(request, response, _cookie(request))
    return response


async def _open(request: web.Request, name: str, groups: list[str]) -> Opened:
    """A user of the provider needs no user here; one with a password here is somebody else."""
    parts, subject = request.app[PARTS], Subject(SubjectKind.USER, name)
    await parts.directory.ready(True)
    held = parts.directory.users.get(name)
    if held is not None and (held.record.password is not None or held.record.disabled):
        raise OidcError(Why.TAKEN, f"{name} is a user of this etcron, with a password or disabled")
    by = await came_from(request)
    key = AccessKeys(parts.config.key_prefix).user(name)
    return await parts.sessions.open(
        subject, way=SessionWay.OIDC, groups=groups, address=by.address, agent=by.agent, secure=by.secure,
        replaces=by.session, stands_on=[(key, 0 if held is None else held.changed_at)],
    )  # fmt: skip


def _login(parts: Parts) -> OidcLogin:
    if parts.oidc is None:
        raise NotFoundError("no login provider is configured (oidcIssuer)")
    return parts.oidc


def _failed(request: web.Request, error: OidcError) -> web.Response:
    extra = {"action": "login.failed", "caller": "", "address": request[ADDRESS]}
    _log.warning("a login through the provider failed: %s", error, extra=extra)
    annotate(request, outcome=Outcome.REFUSED, why=str(error.why))
    return _to(f"{_LOGIN_PAGE}?{urlencode({'problem': str(error.why)})}")


def _redirect_uri(request: web.Request) -> str:
    """Where the provider sends the browser back to: as configured, or where it has called us."""
    parts = request.app[PARTS]
    scheme = "https" if parts.cookies.is_secure(request) else "http"
    return parts.config.oidc_redirect_uri or f"{scheme}://{request.host}{_CALLBACK}"


def _cookie(request: web.Request) -> str:
    return f"{request.app[PARTS].cookies.session(request)}-oidc"


def _given(request: web.Request) -> str | None:
    try:
        return given_cookie(request, _cookie(request), longest=2000)
    except LoginNeededError:
        return None


def _to(place: str) -> web.Response:
    return web.Response(status=302, headers={"Location": place})
