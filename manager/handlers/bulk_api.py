"""``POST /api/v1/jobs/bulk``: one action on many jobs; each has its own result, and one that fails stops no other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any, Final

from aiohttp import web

from common.errors import EtcronError, InvalidInputError, Problem
from common.jobs.reading import shown
from manager.calls.inputs import read_members, reason_in
from manager.handlers.jobs_api import kill_message
from manager.parts import PARTS, Parts, answer, caller

MAX_NAMES: Final = 500
_AT_ONCE: Final = 16


class Action(StrEnum):
    """What can be done to many jobs at once."""

    PAUSE = "pause"
    RESUME = "resume"
    DELETE = "delete"
    KILL = "kill"


def add_routes(app: web.Application) -> None:
    """The call."""
    app.router.add_post("/api/v1/jobs/bulk", act_on_jobs)


async def act_on_jobs(request: web.Request) -> web.Response:
    """The results in the order of the names; a name that is given twice is acted on once."""
    parts = request.app[PARTS]
    document = await read_members(request, parts.read_timeout_s, known=("action", "names", "reason"))
    action, names, reason = _read(document)
    act = _acting(parts, action, by=caller(request), reason=reason)
    limit = asyncio.Semaphore(_AT_ONCE)
    newest = 0

    async def one(name: str) -> dict[str, Any]:
        nonlocal newest
        async with limit:
            try:
                message, revision = await act(name)
            except EtcronError as error:
                return {"name": name, "ok": False, "message": str(error)}
        newest = max(newest, revision)
        return {"name": name, "ok": True, "message": message}

    results = await asyncio.gather(*map(one, names))
    if newest:
        await parts.watching.has_reached(newest)
    return answer({"results": results})


def _acting(
    parts: Parts, action: Action, *, by: str, reason: str | None
) -> Callable[[str], Awaitable[tuple[str, int]]]:
    """What to do with each name: it answers in words, and with the revision of its write (0: none)."""

    async def act(name: str) -> tuple[str, int]:
        match action:
            case Action.PAUSE:
                paused = await parts.service.pause(name, by=by, reason=reason)
                message = "; ".join(("paused", *paused.warnings))
                return (message if paused.changed else "was paused already"), paused.revision
            case Action.RESUME:
                resumed = await parts.service.resume(name, by=by)
                return ("resumed" if resumed.changed else "was not paused"), resumed.revision
            case Action.DELETE:
                deleted = await parts.service.delete(name, by=by)
                message = "; ".join(("deleted", *deleted.warnings))
                return (message if deleted.changed else f"there was no job {name}"), deleted.revision
            case Action.KILL:
                killed = await parts.kills.of_job(name, by=by, reason=reason)
                return kill_message(name, [str(run) for run in killed]), 0

    return act


def _read(document: dict[str, Any]) -> tuple[Action, list[str], str | None]:
    problems = []
    action, names = document.get("action"), document.get("names")
    if action not in list(Action):
        remedy = f"one of: {', '.join(Action)}"
        problems.append(Problem(field="action", message=f"is {shown(action)}", remedy=remedy))
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        problems.append(Problem(field="names", message="is not a list of names", remedy='e.g. ["backup","report"]'))
    elif not 1 <= len(names) <= MAX_NAMES:
        problems.append(Problem(field="names", message=f"has {len(names):,} names", remedy=f"1 to {MAX_NAMES} of them"))
    reason = reason_in(document, problems)
    if problems or not isinstance(names, list):
        raise InvalidInputError(problems)
    return Action(str(action)), list(dict.fromkeys(names)), reason
