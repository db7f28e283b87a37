"""``/api/v1/users``: the people who log in here, their groups and passwords."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from aiohttp import web

from common.access.accounts import User
from common.access.rights import Role
from common.errors import InvalidInputError, NotFoundError, Problem
from common.jobs.kinds import Truth, about
from common.protocol.txn import KeyValue
from manager.access.audited import annotate
from manager.access.needs import needs
from manager.api.access_fields import GROUPS, NAME, Secret
from manager.api.bindings import binding_view
from manager.http.bodies import Body
from manager.http.inputs import if_match
from manager.http.queries import Meaning, Query, single, whole
from manager.parts import PARTS, Parts, answer, caller
from manager.use_cases.access_records import Swept
from manager.use_cases.accounts import UserChange
from manager.use_cases.records import Damaged

_USERS: Final = "/api/v1/users"
_USER: Final = f"{_USERS}/{{name}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _NewUser:
    name: Annotated[str, NAME, about("name", "what they log in as", "alice")]
    password: Annotated[str | None, Secret(), about(
        "password", "left out: only a login provider lets them in", "three words in a row")] = None  # fmt: skip
    groups: Annotated[tuple[str, ...], GROUPS, about("groups", "whose rights they have too", ["dba"])] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChangedUser:
    password: Annotated[str | None, Secret(), about(
        "password", "a new one; all their sessions end", "three words in a row")] = None  # fmt: skip
    groups: Annotated[tuple[str, ...] | None, GROUPS, about(
        "groups", "in place of those they have", ["dba", "ops"])] = None  # fmt: skip
    disabled: Annotated[bool | None, Truth(), about(
        "disabled", "no login, session or token of theirs is good", True)] = None  # fmt: skip


NEW_USER: Final = Body(_NewUser)
CHANGED_USER: Final = Body(_ChangedUser)


class ListQuery(Query):
    cursor: Annotated[str | None, single({"type": "string", "maxLength": 128}), Meaning(
        "`nextCursor` of the page before, unchanged.")]  # fmt: skip
    limit: Annotated[int, whole(1, 500, 500), Meaning("Items of a page, at most.")]


def add_routes(app: web.Application) -> None:
    """The calls on users."""
    app.router.add_get(_USERS, list_users)
    app.router.add_post(_USERS, add_user)
    app.router.add_get(_USER, show_user)
    app.router.add_patch(_USER, change_user)
    app.router.add_delete(_USER, remove_user)


@needs(Role.ADMIN, everywhere=True, guarded=True)
async def list_users(request: web.Request) -> web.Response:
    """A page of users, by name."""
    records = request.app[PARTS].access_records
    return await page_by_name(request, records.keys.users, lambda kv: _kept_view(kv, records.read(kv, User)))


async def page_by_name(request: web.Request, prefix: str, view: Callable[[KeyValue], dict[str, Any]]) -> web.Response:
    """A page of the accounts under a prefix."""
    query = ListQuery.read(request)
    kvs, more = await request.app[PARTS].access_records.page(prefix, query.cursor, query.limit)
    items = [view(kv) for kv in kvs]
    return answer({"items": items, "nextCursor": items[-1]["name"] if more else None})


@needs(Role.ADMIN, everywhere=True, guarded=True)
async def add_user(request: web.Request) -> web.Response:
    """201 with the user; 409: there is one of this name."""
    parts = request.app[PARTS]
    body = await NEW_USER.read(request, parts.read_timeout_s)
    annotate(request, object=f"user {body.name}", groups=list(body.groups))
    kept = await _hash(parts, body.password)
    user = await parts.accounts.add_user(body.name, password=kept, groups=body.groups, by=caller(request))
    return answer(user_view(user), status=201, headers={"Location": f"{_USERS}/{user.name}"})


@needs(Role.ADMIN, everywhere=True, guarded=True)
async def show_user(request: web.Request) -> web.Response:
    """A user with their ETag and bindings, those of their groups too, and how many sessions and tokens they have."""
    records, name = request.app[PARTS].access_records, request.match_info["name"]
    found = await records.user(name)
    if found is None:
        raise NotFoundError(f"there is no user {name[:128]}")
    (kv, user), view = found, _kept_view(*found)
    if isinstance(user, User):
        bindings = (await records.bindings()).of(user.subjects)
        _, tokens = await records.tokens_of(user.subject)
        view |= {
            "bindings": [binding_view(records.binding_of(held.kv), held.kv.value) for held in bindings],
            "sessions": len(await records.sessions_of(name)), "tokens": len(tokens),
        }  # fmt: skip
    return answer(view, headers={"ETag": f'"{kv.mod_revision}"'})


@needs(Role.ADMIN, everywhere=True, guarded=True)
async def change_user(request: web.Request) -> web.Response:
    """Groups, a new password, disabled or not; a new password and `disabled` end every session of theirs.

    412: they are not at the revision that was named.
    """
    parts, name, revision = request.app[PARTS], request.match_info["name"], if_match(request)
    body = await CHANGED_USER.read(request, parts.read_timeout_s)
    if body == _ChangedUser():
        remedy = "name password, groups or disabled"
        raise InvalidInputError([Problem(field="body", message="changes nothing", remedy=remedy)])
    groups = None if body.groups is None else list(body.groups)
    annotate(request, groups=groups, disabled=body.disabled, password=None if body.password is None else "a new one")
    if await parts.access_records.user(name) is None:
        raise NotFoundError(f"there is no user {name[:128]}")
    change = UserChange(password=await _hash(parts, body.password), groups=body.groups, disabled=body.disabled)
    user, ended = await parts.accounts.change_user(name, change, by=caller(request), if_match=revision)
    return answer(user_view(user) | {"sessionsEnded": ended})


@needs(Role.ADMIN, everywhere=True, guarded=True)
async def remove_user(request: web.Request) -> web.Response:
    """With their sessions, tokens and bindings; 409: the last administrator."""
    name = request.match_info["name"]
    swept = await request.app[PARTS].accounts.remove_user(name, by=caller(request))
    annotate(request, sessions=swept.sessions, tokens=swept.tokens, bindings=swept.bindings)
    return answer(removed_view(name, swept))


async def _hash(parts: Parts, password: str | None) -> str | None:
    if password is None:
        return None
    if (problem := await parts.passwords.problem(password, field="password")) is not None:
        raise InvalidInputError([problem])
    return await parts.passwords.hash(password)


def _kept_view(kv: KeyValue, user: User | Damaged) -> dict[str, Any]:
    return user_view(user) | {"revision": kv.mod_revision}


def user_view(user: User | Damaged) -> dict[str, Any]:
    """A user as calls show them, without the hash."""
    if isinstance(user, Damaged):
        return {"name": user.name, "problem": user.problem}
    return {
        "name": user.name, "groups": list(user.groups), "disabled": user.disabled,
        "hasPassword": user.password is not None, "createdMs": user.created_ms, "createdBy": user.created_by,
        "changedMs": user.changed_ms,
    }  # fmt: skip


def removed_view(name: str, swept: Swept) -> Mapping[str, Any]:
    """What has gone."""
    counts = {"sessions": swept.sessions, "tokens": swept.tokens, "bindings": swept.bindings}
    removed = ", ".join(f"{count} {what if count != 1 else what[:-1]}" for what, count in counts.items() if count)
    return {"name": name, **counts, "message": f"{name} is removed" + (f", with {removed}" if removed else "")}
