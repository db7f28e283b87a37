"""The one page, for people: the jobs with their last and next fires. Read-only; everything in it is escaped."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import jinja2
from aiohttp import web

from common.errors import EtcdError, UnavailableError
from common.version import VERSION
from manager.inputs import Fields
from manager.inventory import JobFilter, JobPage
from manager.parts import PARTS, Parts
from manager.views import healthy, job_view, plain_time

JOBS_A_PAGE: Final = 200


def add_routes(app: web.Application) -> None:
    """The page and its style sheet."""
    app.router.add_get("/", show_jobs)
    app.router.add_get("/static/{path:.+}", send_static)


def templates_in(folder: Path) -> jinja2.Environment:
    """The templates of a webroot: everything that they show is escaped, and a misspelt name is an error."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["plain_time"] = plain_time
    environment.filters["encodable"] = _encodable
    return environment


async def send_static(request: web.Request) -> web.StreamResponse:
    """A file below the webroot's ``static``, and nothing else (aiohttp's own answers 404 without our JSON)."""
    folder = request.app[PARTS].static
    try:
        path = (folder / request.match_info["path"]).resolve(strict=True)
    except (OSError, ValueError):
        raise web.HTTPNotFound from None
    if not path.is_relative_to(folder) or not path.is_file():
        raise web.HTTPNotFound
    return web.FileResponse(path)


async def show_jobs(request: web.Request) -> web.Response:
    """The jobs, by pages; where a server is away the page says so, and shows what there is."""
    parts = request.app[PARTS]
    cursor = Fields(request.query).text("cursor")
    problems, status = list(parts.notes), 200
    page, workers = JobPage(jobs=(), next_cursor=None), None
    try:
        page = await parts.inventory.page(JobFilter(), cursor=cursor, limit=JOBS_A_PAGE)
        workers = len(healthy(await parts.inventory.workers()))
    except (EtcdError, UnavailableError) as error:
        problems.append(str(error))
        status = 503
    last = await parts.history.last_results(page.jobs)
    if last is None:
        problems.append("The log store cannot be reached: last fires are not shown.")
    text = parts.templates.get_template("jobs.html").render(
        jobs=_rows(parts, page, last or {}),
        next_cursor=page.next_cursor,
        first=cursor is None,
        workers=workers,
        problems=problems,
        now_ms=parts.clock.wall_ms(),
        version=VERSION,
    )
    return web.Response(text=text, content_type="text/html", status=status)


def _rows(parts: Parts, page: JobPage, last: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    now_ms = parts.clock.wall_ms()
    return [{**job_view(stored, None, now_ms=now_ms), "last": _last(last.get(stored.name, {}))} for stored in page.jobs]


def _last(result: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "ms": result.get("rangeEndTime") or result.get("planTime"),
        "status": result.get("status", ""),
        "err": result.get("err", ""),
    }


def _encodable(text: str) -> str:
    """Names come from keys that somebody else may have written: what is no Unicode text is shown as `?`."""
    return text.encode(errors="replace").decode()
