"""``/api/v1/notices``: what is told on which channel, and what came of it."""

from __future__ import annotations

from typing import Annotated, Any, Final

from aiohttp import web

from common.access.rights import Role
from common.errors import ConflictError, NotFoundError
from common.notices.notice import Notice, NoticeState
from manager.access.needs import needs
from manager.api.schemas import text
from manager.http.bodies import NOTHING
from manager.http.queries import Cursor, Limit, Meaning, Query, single, word
from manager.parts import PARTS, answer

_NOTICES: Final = "/api/v1/notices"
_NOTICE: Final = f"{_NOTICES}/{{id}}"


class ListQuery(Query):
    state: Annotated[NoticeState | None, word(NoticeState), Meaning("Of this state alone.")]
    channel: Annotated[str | None, single(text(128)), Meaning("To this channel alone.")]
    cursor: Cursor
    limit: Limit


def add_routes(app: web.Application) -> None:
    """The calls on notices."""
    app.router.add_get(_NOTICES, list_notices)
    app.router.add_get(_NOTICE, show_notice)
    app.router.add_post(f"{_NOTICE}/resend", resend_notice)


@needs(Role.VIEWER, everywhere=True)
async def list_notices(request: web.Request) -> web.Response:
    """A page of notices, the newest first."""
    parts, query = request.app[PARTS], ListQuery.read(request)
    page = await parts.runlog.notices.page(
        state=query.state, channel=query.channel, cursor=query.cursor, limit=query.limit
    )  # fmt: skip
    return answer({"items": [notice_view(one) for one in page.items], "nextCursor": page.next_cursor})


@needs(Role.VIEWER, everywhere=True)
async def show_notice(request: web.Request) -> web.Response:
    """One notice."""
    return answer(notice_view(await _found(request)))


@needs(Role.ADMIN, everywhere=True)
async def resend_notice(request: web.Request) -> web.Response:
    """202: one that was sent or has failed is sent again; 409: it still waits, or is on its way."""
    parts = request.app[PARTS]
    await NOTHING.read(request, parts.read_timeout_s)
    notice = await _found(request)
    if not await parts.runlog.notices.send_again(notice.id):
        raise ConflictError(f"notice {notice.id} has not been sent, and has not failed, so far: it is on its way")
    parts.sender.wake()
    return answer({"notice": notice.id}, status=202)


async def _found(request: web.Request) -> Notice:
    notice_id = request.match_info["id"]
    notice = await request.app[PARTS].runlog.notices.get(notice_id)
    if notice is None:
        raise NotFoundError(f"there is no notice {notice_id[:64]}: it never was, or is older than 30 days")
    return notice


def notice_view(notice: Notice) -> dict[str, Any]:
    """A notice as calls show it."""
    return {
        "id": notice.id, "channel": notice.channel, "state": str(notice.state), "kind": str(notice.kind),
        "createdTime": notice.created_ms, "dueTime": notice.due_ms or notice.created_ms, "sentTime": notice.sent_ms,
        "tries": notice.tries, "total": notice.total,
        "groups": [{"kind": str(one.kind), "count": one.count, "worker": one.worker} for one in notice.groups],
        "events": [one.event.to_document() for one in notice.told], "error": notice.error or None,
        "message": notice.message or None,
    }  # fmt: skip
