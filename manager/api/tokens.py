"""``/api/v1/tokens``: what lets programs in. Each is shown once, when it is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

from aiohttp import web

from common.access.callers import Via
from common.access.credentials import MAX_TOKEN_NAME, Token
from common.access.rights import Role
from common.access.subjects import Subject, SubjectKind
from common.errors import ForbiddenError, InvalidInputError, NotFoundError, Problem
from common.jobs.kinds import Choice, Number, Pattern, about
from manager.access.audited import annotate
from manager.access.guard import CALLER
from manager.access.needs import own
from manager.access.tokens import MOST_DAYS, USUAL_DAYS
from manager.api.login import administering, is_administering, own_subject
from manager.api.schemas import text
from manager.http.bodies import Body
from manager.http.queries import Meaning, Query, single
from manager.parts import PARTS, answer, caller

TOKENS: Final = "/api/v1/tokens"
_OWNS: Final = (SubjectKind.USER, SubjectKind.SERVICE)
_NAME: Final = Pattern(
    pattern=r"[A-Za-z0-9][A-Za-z0-9 ._@+/-]*", longest=MAX_TOKEN_NAME,
    form=f"1 to {MAX_TOKEN_NAME} letters, digits, blanks and . _ @ + / -, the first a letter or a digit",
)  # fmt: skip
_OWNER: Final = Pattern(
    pattern=r"(user|service):[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}", longest=140, form="user:NAME or service:NAME"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    name: Annotated[str, _NAME, about("name", "what it is for", "backup script")]
    days: Annotated[int, Number(low=1, high=MOST_DAYS, whole=True, unit="days"), about(
        "days", "how long it is good", 90)] = USUAL_DAYS  # fmt: skip
    role: Annotated[Role | None, Choice(Role), about(
        "role", "it may do no more than this; when left out, what its owner may", "viewer")] = None  # fmt: skip
    owner: Annotated[str | None, _OWNER, about(
        "owner", "a service account, for administrators; when left out, the caller", "service:ci")] = None  # fmt: skip


BODY: Final = Body(_Wish)


class TokensQuery(Query):
    owner: Annotated[str | None, single(text(140)), Meaning(
        "Another owner, `user:NAME` or `service:NAME`; for administrators."
    )]  # fmt: skip


def add_routes(app: web.Application) -> None:
    """The calls of this file."""
    app.router.add_get(TOKENS, list_tokens)
    app.router.add_post(TOKENS, make_token)
    app.router.add_delete(f"{TOKENS}/{{id}}", revoke_token)


@own
async def list_tokens(request: web.Request) -> web.Response:
    """One's own tokens, or those of another owner; never their secrets."""
    parts, asked = request.app[PARTS], TokensQuery.read(request)
    mine = own_subject(request)
    owner = mine if asked.owner is None else _owner(asked.owner)
    if owner != mine:
        administering(request)
    tokens = [] if owner is None else parts.tokens.of(owner)
    now_ms = parts.clock.wall_ms()
    items = [_token(token, now_ms) for token in tokens]
    return answer({"items": items, "nextCursor": None, "warnings": parts.watching.warnings})


@own
async def make_token(request: web.Request) -> web.Response:
    """A new one, whose text is in this answer and nowhere else. 409: its owner has too many."""
    parts, identity = request.app[PARTS], request[CALLER].identity
    wish = await BODY.read(request, parts.read_timeout_s)
    owner = own_subject(request) if wish.owner is None else _owner(wish.owner)
    if owner is None or owner.kind not in _OWNS:
        raise InvalidInputError([Problem(
            field="owner", message="is missing: a system user owns no tokens", remedy="name a service account",
        )])  # fmt: skip
    if owner != own_subject(request):
        administering(request)
        if owner.kind is not SubjectKind.SERVICE:
            raise ForbiddenError("a token of another user is made by that user alone; make one of a service account")
    elif identity is not None and identity.via is Via.TOKEN:
        raise ForbiddenError("a token makes no further token of its owner: log in to make one")
    made = await parts.tokens.make(owner, name=wish.name, days=wish.days, role=wish.role, by=caller(request))
    role = None if wish.role is None else str(wish.role)
    annotate(request, object=f"token {made.token.id}", owner=str(owner), name=wish.name, days=wish.days, role=role)
    return answer({**_token(made.token, made.token.created_ms), "token": made.text}, status=201)


@own
async def revoke_token(request: web.Request) -> web.Response:
    """It lets no caller in any more. 404: there is none with this id among those that the caller may revoke."""
    parts, identity = request.app[PARTS], request[CALLER].identity
    token = parts.tokens.get(request.match_info["id"])
    is_own = token.owner == own_subject(request)
    if is_own and identity is not None and identity.via is Via.TOKEN:
        is_own = identity.credential == token.id  # a token ends itself, and no other
    if not is_own and not is_administering(request):
        raise NotFoundError("there is no such token (any more)")
    annotate(request, owner=str(token.owner), name=token.name)
    await parts.tokens.revoke(token, by=caller(request))
    return answer({"id": token.id, "message": "the token is revoked"})


def _owner(given: str) -> Subject:
    try:
        owner = Subject.parse(given)
    except ValueError:
        owner = None
    if owner is None or owner.kind not in _OWNS:
        raise InvalidInputError(
            [Problem(field="owner", message="owns no tokens", remedy="give user:NAME or service:NAME")]
        )
    return owner


def _token(token: Token, now_ms: int) -> dict[str, Any]:
    return {
        "id": token.id, "name": token.name, "owner": str(token.owner), "role": token.role and str(token.role),
        "createdMs": token.created_ms, "createdBy": token.created_by, "expiresMs": token.expires_ms,
        "expired": now_ms >= token.expires_ms,
    }  # fmt: skip
