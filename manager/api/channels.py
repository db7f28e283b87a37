"""``/api/v1/channels``: the places that messages go to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from aiohttp import web

from common.access.rights import Role
from common.errors import UnavailableError
from common.notices.channels import CHANNEL, Channel
from common.notices.notice import trial_notice
from common.runlog.notices import ChannelCounts
from manager.access.audited import annotate
from manager.access.needs import needs
from manager.api.notice_bodies import ListQuery, RecordBody, etag, record_view
from manager.http.bodies import NOTHING
from manager.http.inputs import if_match
from manager.parts import PARTS, answer, caller, rights
from manager.use_cases.notice_records import NEW, Kept, SavedRecord

_CHANNELS: Final = "/api/v1/channels"
_CHANNEL: Final = f"{_CHANNELS}/{{name}}"
CHANNEL_BODY: Final = RecordBody(CHANNEL, Channel)


def add_routes(app: web.Application) -> None:
    """The calls on channels."""
    app.router.add_get(_CHANNELS, list_channels)
    app.router.add_post(_CHANNELS, add_channel)
    app.router.add_get(_CHANNEL, show_channel)
    app.router.add_put(_CHANNEL, put_channel)
    app.router.add_delete(_CHANNEL, remove_channel)
    app.router.add_post(f"{_CHANNEL}/test", test_channel)


@needs(Role.VIEWER, everywhere=True)
async def list_channels(request: web.Request) -> web.Response:
    """A page of channels, by name, each with what waits there."""
    parts, query = request.app[PARTS], ListQuery.read(request)
    kept, more = await parts.channels.kept.page(query.cursor, query.limit)
    counts = await _counts(request)
    items = [channel_view(request, one, counts) for one in kept]
    return answer({"items": items, "nextCursor": kept[-1].name if more else None})


@needs(Role.VIEWER, everywhere=True)
async def show_channel(request: web.Request) -> web.Response:
    """One channel, with its ETag."""
    kept = await request.app[PARTS].channels.kept.get(request.match_info["name"])
    return answer(channel_view(request, kept, await _counts(request)), headers=etag(kept))


@needs(Role.ADMIN, everywhere=True, guarded=True)
async def add_channel(request: web.Request) -> web.Response:
    """201 with the channel, and what to think of beside it; 409: there is one of this name."""
    name, channel = await CHANNEL_BODY.read_named(request, request.app[PARTS].read_timeout_s)
    annotate(request, object=f"channel {name}")
    return await _saved(request, name, channel, NEW)


@needs(Role.ADMIN, everywhere=True, guarded=True)
async def put_channel(request: web.Request) -> web.Response:
    """Make the channel, or replace it; 412: it is not at the revision that was named."""
    channel = await CHANNEL_BODY.read(request, request.app[PARTS].read_timeout_s)
    return await _saved(request, request.match_info["name"], channel, if_match(request))


async def _saved(request: web.Request, name: str, channel: Channel, revision: int | None) -> web.Response:
    parts = request.app[PARTS]
    await parts.watching.ready()
    saved = await parts.channels.save(name, channel, by=caller(request), if_match=revision)
    return saved_answer(saved, {"channel": channel_view(request, saved.kept)})


def saved_answer(saved: SavedRecord[Any], view: dict[str, Any]) -> web.Response:
    """What a save of a channel or a rule is answered."""
    status = 201 if saved.before is None else 200
    return answer(view | {"warnings": list(saved.warnings)}, status=status, headers=etag(saved.kept))


@needs(Role.ADMIN, everywhere=True, guarded=True)
async def remove_channel(request: web.Request) -> web.Response:
    """409: a rule or a job names it."""
    parts, name = request.app[PARTS], request.match_info["name"]
    await parts.watching.ready()
    await parts.channels.remove(name, by=caller(request), if_match=if_match(request))
    return answer({"name": name, "message": f"channel {name} is removed"})


@needs(Role.ADMIN, everywhere=True, guarded=True)
async def test_channel(request: web.Request) -> web.Response:
    """202 with the id of a notice that goes the way of all others; `GET notices/{id}` says what came of it."""
    parts = request.app[PARTS]
    await NOTHING.read(request, parts.read_timeout_s)
    name = (await parts.channels.kept.get(request.match_info["name"])).name
    notice = trial_notice(name, by=caller(request), now_ms=parts.clock.wall_ms())
    await parts.runlog.notices.put([notice])
    parts.sender.wake()
    return answer({"notice": notice.id}, status=202, headers={"Location": f"/api/v1/notices/{notice.id}"})


async def _counts(request: web.Request) -> Mapping[str, ChannelCounts] | None:
    """None: the log store is away, and the channels are shown all the same."""
    try:
        return await request.app[PARTS].alerts.by_channel()
    except UnavailableError:
        return None


def channel_view(
    request: web.Request, kept: Kept[Channel], counts: Mapping[str, ChannelCounts] | None = None
) -> dict[str, Any]:
    """A channel as calls show it. The path of a URL is often a secret: only administrators see it."""
    view = record_view(kept, CHANNEL)
    if "url" in view and not rights(request).has_everywhere(Role.ADMIN):
        parts = urlsplit(view["url"])
        view["url"] = f"{parts.scheme}://{parts.netloc}/…"
    if counts is None:
        return view | {"state": None}
    of_this = counts.get(kept.name, ChannelCounts())
    return view | {
        "state": {
            "waiting": of_this.waiting, "failed": of_this.failed, "lastError": of_this.last_error or None,
            "lastSentTime": of_this.last_sent_ms or None,
        }
    }  # fmt: skip
