"""``/api/v1/rules``: which events of which jobs go to which channels."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from common.access.rights import Role
from common.notices.rules import RULE, Rule
from manager.access.audited import annotate
from manager.access.needs import needs
from manager.api.channels import saved_answer
from manager.api.notice_bodies import ListQuery, RecordBody, etag, record_view
from manager.http.inputs import if_match
from manager.parts import PARTS, answer, caller, rights
from manager.use_cases.notice_records import NEW

_RULES: Final = "/api/v1/rules"
_RULE: Final = f"{_RULES}/{{name}}"
RULE_BODY: Final = RecordBody(RULE, Rule)


def add_routes(app: web.Application) -> None:
    """The calls on rules."""
    app.router.add_get(_RULES, list_rules)
    app.router.add_post(_RULES, add_rule)
    app.router.add_get(_RULE, show_rule)
    app.router.add_put(_RULE, put_rule)
    app.router.add_delete(_RULE, remove_rule)


@needs(Role.VIEWER, everywhere=True)
async def list_rules(request: web.Request) -> web.Response:
    """A page of rules, by name."""
    query = ListQuery.read(request)
    kept, more = await request.app[PARTS].rules.kept.page(query.cursor, query.limit)
    return answer({"items": [record_view(one, RULE) for one in kept], "nextCursor": kept[-1].name if more else None})


@needs(Role.VIEWER, everywhere=True)
async def show_rule(request: web.Request) -> web.Response:
    """One rule, with its ETag."""
    kept = await request.app[PARTS].rules.kept.get(request.match_info["name"])
    return answer(record_view(kept, RULE), headers=etag(kept))


@needs(Role.EDITOR, everywhere=True)
async def add_rule(request: web.Request) -> web.Response:
    """201 with the rule, and what to think of beside it; 409: there is one of this name."""
    name, rule = await RULE_BODY.read_named(request, request.app[PARTS].read_timeout_s)
    annotate(request, object=f"rule {name}")
    return await _saved(request, name, rule, NEW)


@needs(Role.EDITOR, everywhere=True)
async def put_rule(request: web.Request) -> web.Response:
    """Make the rule, or replace it; 412: it is not at the revision that was named."""
    rule = await RULE_BODY.read(request, request.app[PARTS].read_timeout_s)
    return await _saved(request, request.match_info["name"], rule, if_match(request))


async def _saved(request: web.Request, name: str, rule: Rule, revision: int | None) -> web.Response:
    parts = request.app[PARTS]
    await parts.watching.ready()
    saved = await parts.rules.save(name, rule, by=caller(request), rights=rights(request), if_match=revision)
    return saved_answer(saved, {"rule": record_view(saved.kept, RULE)})


@needs(Role.EDITOR, everywhere=True)
async def remove_rule(request: web.Request) -> web.Response:
    """It sends nothing more, not even about what it has reported before."""
    name = request.match_info["name"]
    await request.app[PARTS].rules.remove(
        name, by=caller(request), rights=rights(request), if_match=if_match(request)
    )  # fmt: skip
    return answer({"name": name, "message": f"rule {name} is removed"})
