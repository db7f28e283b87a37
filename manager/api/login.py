"""Login, logout, who the caller is, their sessions and their password."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from aiohttp import web

from common.access.callers import AuthMode, Caller, Via
from common.access.credentials import LoginSession
from common.access.rights import OWNER, Role
from common.access.subjects import MAX_NAME, Subject, SubjectKind
from common.errors import ForbiddenError, InvalidInputError, LoginNeededError, NotFoundError, Problem
from common.jobs.kinds import Kind, Schema, about
from common.jobs.reading import check_unicode, wrong
from manager.access.audited import annotate
from manager.access.cookies import given_cookie
from manager.access.directory import Versioned
from manager.access.guard import CALLER
from manager.access.logins import From
from manager.access.needs import anonymous, known, own
from manager.access.passwords import LONGEST, SHORTEST
from manager.access.recovery import recovery_shown
from manager.access.sessions import Opened
from manager.access.ways import SESSION, CookieWay
from manager.api.schemas import text
from manager.http.bodies import Body
from manager.http.guards import ADDRESS
from manager.http.queries import Meaning, Query, single
from manager.parts import PARTS, Parts, answer, caller

LOGIN: Final = "/api/v1/login"
OIDC: Final = f"{LOGIN}/oidc"
SESSIONS: Final = "/api/v1/sessions"
_MOST_GIVEN: Final = 1024
_VISIBLE_ROLES: Final = tuple(Role)


@dataclass(frozen=True)
class Given(Kind):
    """A name or a secret as a user typed it; no message repeats it."""

    what: str
    least: int = 1
    most: int = _MOST_GIVEN
    secret: bool = True
    type: str = "text"

    @property
    def limits(self) -> str:
        return f"{self.least:,} to {self.most:,} characters"

    @property
    def schema(self) -> Schema:
        schema: Schema = {"type": "string", "minLength": self.least, "maxLength": self.most}
        return schema | ({"writeOnly": True} if self.secret else {})

    def read(self, value: Any) -> str:
        if not isinstance(value, str) or not 0 < len(value) <= _MOST_GIVEN:
            raise wrong("is missing, or too long", f"give {self.what}")
        check_unicode(value)
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Login:
    name: Annotated[str, Given(what="the user's name", most=MAX_NAME, secret=False), about(
        "name", "the user", "alice")]  # fmt: skip
    password: Annotated[str, Given(what="the password"), about("password", "as it was set", "correct horse battery")]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Link:
    secret: Annotated[str, Given(what="what the link has after its #"), about("secret", "of the one-time link", "5f0c")]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Password:
    old: Annotated[str, Given(what="the password as it is now"), about("old", "as it is now", "correct horse battery")]
    new: Annotated[str, Given(what="another password", least=SHORTEST, most=LONGEST), about(
        "new", "as it is to be", "staple horse correct")]  # fmt: skip


LOGIN_BODY: Final = Body(_Login)
LINK_BODY: Final = Body(_Link)
PASSWORD_BODY: Final = Body(_Password)


class SessionsQuery(Query):
    user: Annotated[str | None, single(text(MAX_NAME)), Meaning(
        "Another user; for administrators."
    )]  # fmt: skip


def add_routes(app: web.Application) -> None:
    """The calls of this file."""
    app.router.add_get(LOGIN, show_login)
    app.router.add_post(LOGIN, log_in)
    app.router.add_post(f"{LOGIN}/link", log_in_by_link)
    app.router.add_post("/api/v1/logout", log_out)
    app.router.add_get("/api/v1/whoami", who_am_i)
    app.router.add_post("/api/v1/password", change_password)
    app.router.add_get(SESSIONS, list_sessions)
    app.router.add_delete(f"{SESSIONS}/{{id}}", end_session)


@anonymous
async def show_login(request: web.Request) -> web.Response:
    """What a login page has to offer."""
    parts = request.app[PARTS]
    return answer(
        {"auth": str(parts.access.mode), "password": parts.logins.takes_passwords, "oidc": provider_shown(parts)}
    )


@anonymous
async def log_in(request: web.Request) -> web.Response:
    """A new session, in a cookie. 401: the name or the password is wrong; 429: too many have been."""
    parts = request.app[PARTS]
    given = await LOGIN_BODY.read(request, parts.read_timeout_s)
    if given.name in parts.directory.users:  # any other may be a password
        annotate(request, who=given.name)
    opened, device = await parts.logins.by_password(given.name, given.password, await came_from(request))
    return logged_in(request, opened, device=device)


@anonymous
async def log_in_by_link(request: web.Request) -> web.Response:
    """The session that a one-time link is for. 401: it was used, or it is too old."""
    parts = request.app[PARTS]
    given = await LINK_BODY.read(request, parts.read_timeout_s)
    opened, reason = await parts.logins.by_link(given.secret, await came_from(request))
    annotate(request, reason=reason, role=None if opened.session.role is None else str(opened.session.role))
    return logged_in(request, opened)


@own
async def log_out(request: web.Request) -> web.Response:
    """The session is over, and the browser forgets it."""
    parts, held = request.app[PARTS], request.get(SESSION)
    if held is None:
        raise ForbiddenError("there is no session to leave: a token is revoked among the tokens")
    await parts.sessions.end(held, by=caller(request))
    response = answer({"message": "you are logged out"})
    parts.cookies.forget(request, response, parts.cookies.session(request))
    return response


@known
async def who_am_i(request: web.Request) -> web.Response:
    """Who calls, and what they may do."""
    return answer(whoami(request, request[CALLER]))


@own
async def change_password(request: web.Request) -> web.Response:
    """The caller's password is another one; their other sessions are over, and this one has new secrets."""
    parts, held = request.app[PARTS], request.get(SESSION)
    if held is None:
        raise ForbiddenError("log in with your password to change it: a token may not")
    given = await PASSWORD_BODY.read(request, parts.read_timeout_s)
    by = await came_from(request)
    opened = await parts.logins.change_password(held.record.subject, given.old, given.new, by)
    return logged_in(request, opened)


@own
async def list_sessions(request: web.Request) -> web.Response:
    """One's own sessions, or those of another user; without their secrets."""
    parts, asked = request.app[PARTS], SessionsQuery.read(request)
    of = own_subject(request) if asked.user is None else _user(asked.user)
    if of != own_subject(request):
        administering(request)
    current = request.get(SESSION)
    items = [_session(held, current) for held in parts.sessions.of(of)] if of is not None else []
    return answer({"items": items, "nextCursor": None, "warnings": parts.watching.warnings})


@own
async def end_session(request: web.Request) -> web.Response:
    """It is over at once, everywhere. 404: there is none with this id among those that the caller may end."""
    parts = request.app[PARTS]
    held = parts.sessions.get(request.match_info["id"])
    identity = request[CALLER].identity
    comes_by_token = identity is not None and identity.via is Via.TOKEN
    is_own = held.record.subject == own_subject(request) and not comes_by_token
    if not is_own and not is_administering(request):
        raise NotFoundError("there is no such session (any more)")
    annotate(request, user=str(held.record.subject))
    await parts.sessions.end(held, by=caller(request))
    return answer({"id": held.record.id, "message": "the session is over"})


# What several calls share


def logged_in(request: web.Request, opened: Opened, *, device: str | None = None) -> web.Response:
    """The answer to a login: the caller, the second secret, and the cookies."""
    parts = request.app[PARTS]
    identity = parts.directory.identity_of(opened.session)
    annotate(request, who=identity.name, session=opened.session.id, way=str(opened.session.way))
    rights = parts.directory.rights_of(identity)
    known_now = Caller(
        name=identity.name, identity=identity, own_rights=rights,
        rights=rights if parts.access.mode is AuthMode.REQUIRED else OWNER,
    )  # fmt: skip
    response = answer({"caller": whoami(request, known_now), "csrf": opened.second})
    parts.cookies.set(request, response, secret=opened.secret, device=device, for_s=opened.lasts_s)
    return response


def whoami(request: web.Request, who: Caller) -> dict[str, Any]:
    """A caller, as they are told who they are."""
    parts, identity = request.app[PARTS], who.identity
    subjects = frozenset() if identity is None else identity.subjects
    held = {grant.role for grant in who.rights.grants}
    is_owner = any(grant in who.rights.grants for grant in OWNER.grants)
    return {
        "name": who.name,
        "user": None if identity is None or identity.subject is None else str(identity.subject),
        "via": str(Via.NOBODY if identity is None else identity.via),
        "subjects": sorted(map(str, subjects)),
        "roles": ["owner"] if is_owner else [str(role) for role in reversed(_VISIBLE_ROLES) if role in held],
        "bindings": [{"id": one.id, **one.to_document()} for one in parts.directory.bindings_of(subjects)],
        "auth": str(parts.access.mode),
        "recovery": recovery_shown(parts.directory, now_ms=parts.clock.wall_ms()),
    }


def own_subject(request: web.Request) -> Subject | None:
    """Who calls, beside their groups."""
    identity = request[CALLER].identity
    return None if identity is None else identity.subject


def is_administering(request: web.Request) -> bool:
    """Whether the caller is an administrator of everything, by bindings of their own."""
    return request[CALLER].own_rights.has_everywhere(Role.ADMIN)


def administering(request: web.Request) -> None:
    """ForbiddenError where the caller is none."""
    if not is_administering(request):
        raise ForbiddenError("this needs the role admin on everything; ask an administrator of etcron")


def provider_shown(parts: Parts) -> dict[str, str] | None:
    """What the login page offers of the login provider; None: there is none."""
    issuer = parts.config.oidc_issuer
    if issuer is None:
        return None
    return {"name": parts.config.oidc_label or urlsplit(issuer).netloc, "url": OIDC}


async def came_from(request: web.Request) -> From:
    """Where a login comes from."""
    cookies = request.app[PARTS].cookies
    device: str | None = None
    with suppress(LoginNeededError):  # it is there twice, and says nothing
        device = given_cookie(request, cookies.device(request))
    session: Versioned[LoginSession] | None = request.get(SESSION)
    if session is None:
        way = next((one for one in request.app[PARTS].access.ways if isinstance(one, CookieWay)), None)
        try:
            session = None if way is None else await way.held(request)
        except LoginNeededError:
            session = None
    agent = request.headers.get("User-Agent", "").encode(errors="replace").decode()
    return From(
        address=request[ADDRESS], agent=agent, secure=cookies.is_secure(request), device=device, session=session
    )


def _user(name: str) -> Subject:
    try:
        return Subject(SubjectKind.USER, name)
    except ValueError:
        raise InvalidInputError(
            [Problem(field="user", message="is no name of a user", remedy="give it as the list of users has it")]
        ) from None


def _session(held: Versioned[LoginSession], current: Versioned[LoginSession] | None) -> dict[str, Any]:
    session = held.record
    return {
        "id": session.id, "user": str(session.subject), "way": str(session.way), "createdMs": session.created_ms,
        "expiresMs": session.expires_ms, "address": session.address, "agent": session.agent,
        "current": current is not None and current.record.id == session.id,
    }  # fmt: skip
