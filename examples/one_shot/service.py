"""Schedule a command for one moment, and read its phases: the one-shot scheduler, in a hundred lines on top of etcron.

    POST /schedule {"command": "echo hi", "scheduled_at": "2026-12-24T18:00:00+01:00"}  -> {"task_id", ...}
    GET  /status?task_id=...  -> {"picked_at", "started_at", "completed_at", "failed_at", ...}

A task is an etcron job with the trigger ``at``; etcron does the rest: exactly one worker picks it, it survives the
death of every process, and its output can be read in the console. The service keeps nothing: run as many as you like.
"""

from __future__ import annotations

import os
import secrets
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

import aiohttp
from aiohttp import web

ETCRON: Final = web.AppKey("etcron", aiohttp.ClientSession)
LABEL: Final = "example"
MAX_BODY: Final = 65_536
_SUCCEEDED: Final = "success"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class BadRequestError(Exception):
    """The request is not valid: which field, and what to send instead."""


async def schedule(request: web.Request) -> web.Response:
    """Save a job that fires once."""
    try:
        command, at_ms = _task(await request.json())
    except ValueError:  # also: not JSON
        return _error(400, "body: send JSON with command and scheduled_at")
    except BadRequestError as error:
        return _error(400, str(error))
    task = f"task-{secrets.token_hex(8)}"
    job = {
        "command": command, "at": _iso(at_ms), "labels": {LABEL: "one-shot"},
        "misfire": {"policy": "latest", "windowSeconds": 86_400},  # nobody there at that moment: run it within a day
    }  # fmt: skip
    async with request.app[ETCRON].put(f"/api/v1/jobs/{task}", json=job, headers={"If-None-Match": "*"}) as answer:
        document = await answer.json()
        if answer.status != 201:
            return _error(answer.status, document.get("detail", "etcron refused it"))
    return web.json_response({"task_id": task, "command": command, "scheduled_at": _iso(at_ms)}, status=201)


async def status(request: web.Request) -> web.Response:
    """The phases that the task has reached; null for those that it has not."""
    task = request.query.get("task_id", "")
    etcron = request.app[ETCRON]
    async with etcron.get(f"/api/v1/jobs/{quote(task, safe='')}/versions") as answer:
        known = await answer.json()
        if answer.status != 200:
            return _error(answer.status, f"task_id: there is no task {task[:100]!r}")
    revision = known["items"][0]["revision"]
    async with etcron.get(f"/api/v1/jobs/{task}/versions/{revision}") as answer:
        spec = (await answer.json())["spec"]
    at_ms = _to_ms(spec["at"])
    async with etcron.get(f"/api/v1/jobs/{task}/fires", params={"from": str(at_ms), "to": str(at_ms)}) as answer:
        fires = (await answer.json())["items"] if answer.status == 200 else []
    return web.json_response(
        {"task_id": task, "command": spec["command"], "scheduled_at": spec["at"], **_phases(fires)}
    )


def _phases(fires: list[dict[str, Any]]) -> dict[str, Any]:
    fire = fires[0] if fires else {}
    ended = _iso(fire.get("endTime"))
    going = fire.get("verdict") in ("planned", "waiting", "claimed", "running", None)
    return {
        "picked_at": _iso(fire.get("claimTime")),
        "started_at": _iso(fire.get("startTime")),
        "completed_at": ended if fire.get("verdict") == _SUCCEEDED else None,
        "failed_at": None if going or fire.get("verdict") == _SUCCEEDED else ended,
        "verdict": fire.get("verdict"),
        "reason": fire.get("reason"),
    }


def _task(document: Any) -> tuple[str, int]:
    if not isinstance(document, dict):
        raise BadRequestError("body: is no JSON object")
    command, at = document.get("command"), document.get("scheduled_at")
    if not isinstance(command, str) or not command.strip():
        raise BadRequestError("command: is missing; send a command line for the shell")
    if not isinstance(at, str):
        raise BadRequestError("scheduled_at: is missing; send ISO 8601, e.g. 2026-12-24T18:00:00+01:00")
    try:
        return command, _to_ms(at)
    except ValueError as error:
        raise BadRequestError(f"scheduled_at: {at[:60]!r} is no ISO 8601 time with an offset") from error


def _to_ms(text: str) -> int:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("no offset")
    return -((_EPOCH - moment) // timedelta(milliseconds=1))  # rounded up: never before its time


def _iso(ms: int | None) -> str | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": message}, status=status)


def create_app(server: str) -> web.Application:
    """The service in front of an etcron manager."""

    async def connected(app: web.Application) -> Any:
        async with aiohttp.ClientSession(server, timeout=aiohttp.ClientTimeout(total=10)) as session:
            app[ETCRON] = session
            yield

    app = web.Application(client_max_size=MAX_BODY)
    app.cleanup_ctx.append(connected)
    app.router.add_post("/schedule", schedule)
    app.router.add_get("/status", status)
    return app


if __name__ == "__main__":
    web.run_app(
        create_app(os.environ.get("ETCRON_SERVER", "http://127.0.0.1:8070")),
        host="127.0.0.1", port=int(os.environ.get("PORT", "8081")),
    )  # fmt: skip
