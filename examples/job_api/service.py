"""A job API with deduplication, on top of etcron: created, running, success, failed.

    POST /v1/jobs {"object_id": 1}  -> {"job_id": 1}      the same job for five minutes, whoever asks and how often
    GET  /v1/jobs/1                 -> {"id": 1, "object_id": 1, "status": "running", ...}

etcron does what a queue, a database and workers did: the request is accepted in one transaction and survives the death
of every process, exactly one worker claims it, ``JOB_TIMEOUT`` ends it, and a worker that dies has it run again. What
this service keeps is a table from its short numbers to etcron's run ids.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import aiohttp
from aiohttp import web

ETCRON: Final = web.AppKey("etcron", aiohttp.ClientSession)
NUMBERS: Final = web.AppKey("numbers", sqlite3.Connection)
JOB: Final = "object-jobs"
SAME_JOB_S: Final = 300
DEFAULT_COMMAND: Final = 'echo "working on object $OBJECT_ID"; sleep 1'
_STATUS: Final = {"created": "created", "claimed": "created", "running": "running", "ended": "running"}


def job_document(environ: Mapping[str, str]) -> dict[str, Any]:
    """The etcron job behind every request: never fires by itself, runs as often as it is asked to, side by side."""
    return {
        "command": environ.get("JOB_COMMAND", DEFAULT_COMMAND),
        "cronExpr": "@yearly",
        "enabled": False,
        "overlap": "allow",
        "onWorkerLost": "rerun",
        "timeoutSeconds": float(environ.get("JOB_TIMEOUT", "60")),
        "workers": {"pool": "objects"},
    }


async def create(request: web.Request) -> web.Response:
    """Ask etcron for a run, at most one in five minutes for the same object."""
    try:
        document = await request.json()
        object_id = document["object_id"]
    except (ValueError, KeyError, TypeError):
        return _error(400, 'object_id: is missing; send JSON such as {"object_id": 1}')
    if isinstance(object_id, bool) or not isinstance(object_id, int) or not 0 <= object_id < 1 << 63:
        return _error(400, f"object_id: is {str(object_id)[:40]!r}; send a whole number")
    wanted = {"env": {"OBJECT_ID": str(object_id)}, "dedupeKey": str(object_id), "dedupeSeconds": SAME_JOB_S}
    async with request.app[ETCRON].post(f"/api/v1/jobs/{JOB}/run", json=wanted) as answer:
        accepted = await answer.json()
        if answer.status not in (200, 202):
            return _error(answer.status, accepted.get("detail", "etcron refused it"))
    number = _number(request.app[NUMBERS], accepted["runId"], object_id)
    return web.json_response({"job_id": number}, status=200 if accepted["deduplicated"] else 201)


async def show(request: web.Request) -> web.Response:
    """The job's whole life so far."""
    number = request.match_info["number"]
    found = request.app[NUMBERS].execute(
        "SELECT run, object_id FROM jobs WHERE id = ?", (int(number[:18]),)
    ).fetchone()  # fmt: skip
    if found is None:
        return _error(404, f"there is no job {number[:18]}")
    run, object_id = found
    document = await _last_attempt(request.app[ETCRON], run)
    if document is None:
        return _error(503, "etcron does not answer; try again")
    status = _STATUS.get(document["state"]) or ("success" if document["status"] == "success" else "failed")
    return web.json_response({
        "id": int(number), "object_id": object_id, "status": status, "created_at": document.get("createTime"),
        "start_time": document.get("claimTime"), "end_time": document.get("endTime"),
        "message": document.get("err", "") if status == "failed" else "",
    })  # fmt: skip


async def _last_attempt(etcron: aiohttp.ClientSession, run: str) -> dict[str, Any] | None:
    """The run; where it was lost with its worker and is run again: that attempt."""
    last = None
    name, _, attempt = run.rpartition("#")
    for number in range(int(attempt), int(attempt) + 10):
        async with etcron.get(f"/api/v1/runs/{quote(f'{name}#{number}', safe='')}") as answer:
            if answer.status != 200:
                return last
            last = await answer.json()
        if last.get("status") != "lost":
            return last
    return last


def _number(numbers: sqlite3.Connection, run: str, object_id: int) -> int:
    """The short number of a run; the same one whenever it is asked for."""
    with numbers:
        numbers.execute("INSERT OR IGNORE INTO jobs (run, object_id) VALUES (?, ?)", (run, object_id))
    return int(numbers.execute("SELECT id FROM jobs WHERE run = ?", (run,)).fetchone()[0])


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": message}, status=status)


def create_app(server: str, database: Path, environ: Mapping[str, str]) -> web.Application:
    """The service in front of an etcron manager; ``database`` is the file of its numbers."""

    async def connected(app: web.Application) -> AsyncIterator[None]:
        with closing(sqlite3.connect(database)) as numbers:
            numbers.execute("CREATE TABLE IF NOT EXISTS jobs (id INTEGER PRIMARY KEY, run TEXT UNIQUE, object_id INT)")
            async with aiohttp.ClientSession(server, timeout=aiohttp.ClientTimeout(total=10)) as session:
                async with session.put(f"/api/v1/jobs/{JOB}", json=job_document(environ)) as answer:
                    answer.raise_for_status()
                app[ETCRON], app[NUMBERS] = session, numbers
                yield

    app = web.Application(client_max_size=65_536)
    app.cleanup_ctx.append(connected)
    app.router.add_post("/v1/jobs", create)
    app.router.add_get("/v1/jobs/{number:[0-9]+}", show)
    return app


if __name__ == "__main__":
    web.run_app(
        create_app(
            os.environ.get("ETCRON_SERVER", "http://127.0.0.1:8070"), Path(os.environ.get("DATABASE", "jobs.sqlite")),
            os.environ,
        ),
        host="127.0.0.1", port=int(os.environ.get("PORT", "3000")),
    )  # fmt: skip
