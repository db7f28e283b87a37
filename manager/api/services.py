"""``/api/v1/services``: service accounts, for programs that call with tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

from aiohttp import web

from common.access.accounts import MAX_DESCRIPTION, Service
from common.access.rights import Role
from common.jobs.kinds import AnyText, Truth, about
from manager.access.audited import annotate
from manager.access.needs import needs
from manager.api.access_fields import NAME
from manager.api.users import page_by_name, removed_view
from manager.http.bodies import Body
from manager.parts import PARTS, answer, caller
from manager.use_cases.records import Damaged

_SERVICES: Final = "/api/v1/services"


@dataclass(frozen=True, slots=True, kw_only=True)
class _NewService:
    name: Annotated[str, NAME, about("name", "its name", "deploy")]
    description: Annotated[str, AnyText(longest=MAX_DESCRIPTION), about(
        "description", "what it is for, and who looks after it", "the pipeline of team billing")] = ""  # fmt: skip


NEW_SERVICE: Final = Body(_NewService)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChangedService:
    disabled: Annotated[bool, Truth(), about("disabled", "no token of it is good", True)]


CHANGED_SERVICE: Final = Body(_ChangedService)


def add_routes(app: web.Application) -> None:
    """The calls on service accounts."""
    app.router.add_get(_SERVICES, list_services)
    app.router.add_post(_SERVICES, add_service)
    app.router.add_patch(f"{_SERVICES}/{{name}}", change_service)
    app.router.add_delete(f"{_SERVICES}/{{name}}", remove_service)


@needs(Role.ADMIN, everywhere=True, guarded=True)
async def list_services(request: web.Request) -> web.Response:
    """A page of service accounts, by name."""
    records = request.app[PARTS].access_records
    return await page_by_name(request, records.keys.services, lambda kv: service_view(records.read(kv, Service)))


@needs(Role.ADMIN, everywhere=True, guarded=True)
async def add_service(request: web.Request) -> web.Response:
    """201 with the account; 409: there is one of this name. It may do nothing until it is bound."""
    parts = request.app[PARTS]
    body = await NEW_SERVICE.read(request, parts.read_timeout_s)
    annotate(request, object=f"service {body.name}")
    service = await parts.accounts.add_service(body.name, description=body.description, by=caller(request))
    return answer(service_view(service), status=201)


@needs(Role.ADMIN, everywhere=True, guarded=True)
async def change_service(request: web.Request) -> web.Response:
    """Disabled or not; its tokens and bindings stay, and count again once it is enabled."""
    parts, name = request.app[PARTS], request.match_info["name"]
    body = await CHANGED_SERVICE.read(request, parts.read_timeout_s)
    annotate(request, disabled=body.disabled)
    return answer(service_view(await parts.accounts.change_service(name, disabled=body.disabled, by=caller(request))))


@needs(Role.ADMIN, everywhere=True, guarded=True)
async def remove_service(request: web.Request) -> web.Response:
    """With its tokens and bindings."""
    name = request.match_info["name"]
    swept = await request.app[PARTS].accounts.remove_service(name, by=caller(request))
    annotate(request, tokens=swept.tokens, bindings=swept.bindings)
    return answer(removed_view(name, swept))


def service_view(service: Service | Damaged) -> dict[str, Any]:
    """A service account as calls show it."""
    if isinstance(service, Damaged):
        return {"name": service.name, "problem": service.problem}
    return {
        "name": service.name, "description": service.description, "disabled": service.disabled,
        "createdMs": service.created_ms, "createdBy": service.created_by,
    }  # fmt: skip
