"""``/api/v1/bindings``: who has which role on what."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec
from aiohttp import web

from common.access.fields import SelectorField
from common.access.rights import Binding, Grant, Role
from common.access.selectors import EVERYTHING, Selector
from common.access.subjects import Subject
from common.access.words import binding_words
from common.errors import Problem
from common.jobs.kinds import Choice, about
from manager.access.audited import annotate
from manager.access.needs import needs
from manager.api.access_fields import RunAs, SubjectField
from manager.http.bodies import Body
from manager.http.queries import Meaning, Query, single
from manager.parts import PARTS, answer, caller
from manager.use_cases.records import Damaged

_BINDINGS: Final = "/api/v1/bindings"


@dataclass(frozen=True, slots=True, kw_only=True)
class _NewBinding:
    subject: Annotated[Subject, SubjectField(), about("subject", "who", "group:billing")]
    role: Annotated[Role, Choice(Role), about("role", "what they may do", "editor")]
    labels: Annotated[Selector, SelectorField(), about(
        "labels", "of the jobs and runs that it reaches", {"team": ["billing"]})]  # fmt: skip
    run_as: Annotated[frozenset[str] | None, RunAs(), about(
        "runAs", "system users that jobs saved by it may run as", ["billing"])] = frozenset()  # fmt: skip
    workers: Annotated[Selector | None, SelectorField(), about(
        "workers", "of workers that such jobs may choose; needed from editor on", {"zone": ["eu"]})] = None  # fmt: skip


def _saves(body: _NewBinding) -> Iterable[Problem]:
    """A role that saves jobs says which workers they may choose: nothing is given by leaving it out."""
    if body.role.covers(Role.EDITOR) and body.workers is None:
        remedy = '"all", or labels with lists of values such as {"zone": ["eu"]}'
        yield Problem(field="workers", message=f"is missing, and role {body.role} saves jobs", remedy=remedy)


NEW_BINDING: Final = Body(_NewBinding, also=_saves)


class ListQuery(Query):
    subject: Annotated[str | None, single({"type": "string", "maxLength": 140}), Meaning(
        "Of this user, group or account alone, e.g. `group:dba`.")]  # fmt: skip


def add_routes(app: web.Application) -> None:
    """The calls on bindings."""
    app.router.add_get(_BINDINGS, list_bindings)
    app.router.add_post(_BINDINGS, add_binding)
    app.router.add_delete(f"{_BINDINGS}/{{id}}", remove_binding)


@needs(Role.ADMIN, everywhere=True, guarded=True)
async def list_bindings(request: web.Request) -> web.Response:
    """All of them, by subject; there are at most 2,000, so there is one page."""
    records, query = request.app[PARTS].access_records, ListQuery.read(request)
    items = []
    async for page in records.etcd.read_prefix(records.keys.bindings):
        items += [binding_view(records.binding_of(kv), kv.value) for kv in page.kvs]
    wanted = [one for one in items if query.subject in (None, one.get("subject"))]
    wanted.sort(key=lambda one: (one.get("subject", ""), one["id"]))
    return answer({"items": wanted, "nextCursor": None})


@needs(Role.ADMIN, everywhere=True, guarded=True)
async def add_binding(request: web.Request) -> web.Response:
    """201 with the binding, and what to think of beside it; 409: there is the same one."""
    parts = request.app[PARTS]
    body = await NEW_BINDING.read(request, parts.read_timeout_s)
    grant = Grant(role=body.role, labels=body.labels, run_as=body.run_as, workers=body.workers or EVERYTHING)
    annotate(request, object=f"binding of {body.subject}", binding=binding_words(grant))
    binding, value, warnings = await parts.bindings.add(body.subject, grant, by=caller(request))
    annotate(request, object=f"binding {binding.id}", subject=str(body.subject))
    return answer(binding_view(binding, value) | {"warnings": warnings}, status=201)


@needs(Role.ADMIN, everywhere=True, guarded=True)
async def remove_binding(request: web.Request) -> web.Response:
    """409: it makes the last administrator who can log in."""
    binding_id = request.match_info["id"]
    removed = await request.app[PARTS].bindings.remove(binding_id, by=caller(request))
    if removed is not None:
        annotate(request, subject=str(removed.subject), binding=binding_words(removed.grant))
    return answer({"id": binding_id, "message": f"binding {binding_id} is removed"})


def binding_view(binding: Binding | Damaged, value: bytes) -> dict[str, Any]:
    """A binding as calls show it, also in words."""
    if isinstance(binding, Damaged):
        return {"id": binding.name, "problem": binding.problem}
    stored = msgspec.json.decode(value)
    made = {name: stored.get(name) for name in ("createdMs", "createdBy")}
    return {"id": binding.id, **binding.to_document(), **made, "words": binding_words(binding.grant)}
