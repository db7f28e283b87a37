"""The pages and the API of the crawler: register, tasks, statistics.

GET  /                          statistics, with charts            GET /register   what do you look for?
POST /api/v1/register           {"name", "email", "company", "words", "location"}  -> {"id"}
GET  /api/v1/tasks?status=&company=&limit=                         the newest crawls
GET  /api/v1/tasks/{id}                                            one of them
PATCH /api/v1/tasks/{id}        {"status": "running|success|error", "message"}
GET  /api/v1/task_stats         crawls by company and by hour, users, postings, mails
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import jinja2
from aiohttp import web
from board import COMPANIES
from store import STATES, Store

STORE: Final = web.AppKey("store", Store)
MOST_TASKS: Final = 500
_FOLDER: Final = Path(__file__).parent / "templates"
_TEXTS: Final = {"name": (1, 100), "email": (3, 200), "company": (0, 100), "words": (0, 200), "location": (0, 100)}
_IS_ADDRESS: Final = re.compile(r"[^@\s<>,;:\"]+@[^@\s<>,;:\"]+\.[^@\s<>,;:\"]+", re.ASCII).fullmatch
_TEMPLATES: Final = jinja2.Environment(
    loader=jinja2.FileSystemLoader(_FOLDER), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
)


class InvalidError(Exception):
    """What was sent is not valid: field by field, what is wrong and what helps."""

    def __init__(self, errors: dict[str, str]) -> None:
        super().__init__(str(errors))
        self.errors = errors


async def register(request: web.Request) -> web.Response:
    """Somebody wants mails."""
    sent = await _object(request)
    errors: dict[str, str] = {}
    values: dict[str, str] = {}
    for field, (least, most) in _TEXTS.items():
        value = sent.get(field, "")
        if not isinstance(value, str) or not least <= len(value.strip()) <= most or not value.strip().isprintable():
            errors[field] = f"write a text of {least} to {most} characters, in one line"
        else:
            values[field] = value.strip()
    if "email" not in errors and not _IS_ADDRESS(values["email"]):
        errors["email"] = "write an e-mail address, e.g. ada@example.com"
    if "company" not in errors and values["company"] not in ("", *COMPANIES):
        errors["company"] = f"choose one of {', '.join(COMPANIES)}, or leave it empty for all"
    if unknown := [field for field in sent if field not in _TEXTS]:
        errors[str(unknown[0])[:50]] = f"is not known; there are {', '.join(_TEXTS)}"
    if errors:
        raise InvalidError(errors)
    return web.json_response({"id": request.app[STORE].register(**values)}, status=201)


async def tasks(request: web.Request) -> web.Response:
    """The newest crawls."""
    query, errors = request.query, {}
    limit = query.get("limit", "50")
    if not limit.isdecimal() or not 1 <= int(limit[:6]) <= MOST_TASKS:
        errors["limit"] = f"write a number from 1 to {MOST_TASKS}"
    if query.get("status", "") not in ("", *STATES):
        errors["status"] = f"choose one of {', '.join(STATES)}"
    if errors:
        raise InvalidError(errors)
    found = request.app[STORE].tasks(status=query.get("status", ""), company=query.get("company", ""), limit=int(limit))
    return web.json_response({"items": found})


async def task(request: web.Request) -> web.Response:
    """One crawl."""
    found = request.app[STORE].task(request.match_info["id"])
    if found is None:
        return web.json_response({"errors": {"id": "there is no such task"}}, status=404)
    return web.json_response(found)


async def change_task(request: web.Request) -> web.Response:
    """A person, or another program, says what became of a crawl."""
    sent = await _object(request)
    status, message = sent.get("status"), sent.get("message", "")
    errors: dict[str, str] = {}
    if status not in STATES:
        errors["status"] = f"choose one of {', '.join(STATES)}"
    if not isinstance(message, str) or len(message) > 500:
        errors["message"] = "write a text of at most 500 characters"
    if errors:
        raise InvalidError(errors)
    number = request.match_info["id"]
    if not request.app[STORE].change_task(number, status=str(status), message=message):
        return web.json_response({"errors": {"id": "there is no such task"}}, status=404)
    return web.json_response(request.app[STORE].task(number))


async def task_stats(request: web.Request) -> web.Response:
    """What the charts show."""
    return web.json_response(request.app[STORE].statistics())


async def statistics_page(request: web.Request) -> web.Response:
    """The charts, and the newest crawls."""
    store = request.app[STORE]
    return _page("statistics.html", statistics=store.statistics(), tasks=store.tasks(limit=20))


async def register_page(_: web.Request) -> web.Response:
    """The form."""
    return _page("register.html", companies=COMPANIES)


def _page(name: str, **values: Any) -> web.Response:
    body = _TEMPLATES.get_template(name).render(clock=_clock, **values)
    return web.Response(text=body, content_type="text/html")


def _clock(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%m-%d %H:%M")


async def _object(request: web.Request) -> dict[str, Any]:
    try:
        sent = await request.json()
    except ValueError:
        sent = None
    if request.content_type != "application/json" or not isinstance(sent, dict):
        raise InvalidError({"body": "send a JSON object, with Content-Type: application/json"})
    return sent


@web.middleware
async def _errors(request: web.Request, handler: Any) -> web.StreamResponse:
    try:
        answer: web.StreamResponse = await handler(request)
    except InvalidError as error:
        return web.json_response({"errors": error.errors}, status=400)
    return answer


def create_app(database: Path) -> web.Application:
    """To be served; ``database``: the file of `store.py`."""

    async def opened(app: web.Application) -> AsyncIterator[None]:
        app[STORE] = Store(database)
        yield
        app[STORE].close()

    app = web.Application(middlewares=[_errors], client_max_size=65_536)
    app.cleanup_ctx.append(opened)
    app.router.add_get("/", statistics_page)
    app.router.add_get("/register", register_page)
    app.router.add_post("/api/v1/register", register)
    app.router.add_get("/api/v1/tasks", tasks)
    app.router.add_get("/api/v1/tasks/{id:.+}", task)
    app.router.add_patch("/api/v1/tasks/{id:.+}", change_task)
    app.router.add_get("/api/v1/task_stats", task_stats)
    return app


if __name__ == "__main__":
    web.run_app(
        create_app(Path(os.environ["CRAWLER_DATABASE"])),
        host="127.0.0.1", port=int(os.environ.get("PORT", "8091")), print=None,
    )  # fmt: skip
