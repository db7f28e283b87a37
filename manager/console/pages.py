"""The console's pages: shells with the words of the reader's language. The data browsers get from ``/api/v1``."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Final

import jinja2
from aiohttp import web
from yarl import URL

from common.access.callers import AuthMode
from common.jobs.kinds import Schema
from common.jobs.schema import job_schema
from common.json_text import dumps
from common.verdicts import OF_JOBS, Verdict
from common.version import VERSION
from manager.access.needs import anonymous
from manager.console.assets import BUILD_COMMAND, Asset, Assets
from manager.http.server import takes_gzip
from manager.parts import PARTS

LANGUAGES: Final[Mapping[str, str]] = {"en": "English", "zh-CN": "简体中文"}
"""By their tags, each in its own words; the first one is for everybody else."""
COOKIE: Final = "etcron_language"


class Texts:
    """All catalogs of a webroot, read once."""

    def __init__(self, static: Path) -> None:
        self._catalogs = _catalogs(static)

    def of(self, language: str) -> Callable[[str], str]:
        """What looks a text up by its key; KeyError where the catalog lacks it."""
        return self._catalogs[language].__getitem__


@cache
def _catalogs(static: Path) -> Mapping[str, dict[str, str]]:
    return {
        language: json.loads((static / "i18n" / f"{language}.json").read_text(encoding="utf-8"))
        for language in LANGUAGES
    }


def language_for(chosen: str | None, accepted: str) -> str:
    """The user's choice; else the first language of the ``Accept-Language`` header that we have; else English."""
    if chosen is not None and chosen in LANGUAGES:
        return chosen
    for wish in accepted.split(","):
        primary = wish.split(";")[0].strip().split("-")[0].casefold()
        for language in LANGUAGES:
            if language.split("-")[0] == primary:
                return language
    return next(iter(LANGUAGES))


def language_of(request: web.Request) -> str:
    """The language of whoever asks: English where the request says nothing of it."""
    return language_for(request.cookies.get(COOKIE), request.headers.get("Accept-Language", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One shell: where it is, its template, its scripts' folder (each has a ``page.js``), its place in the menu."""

    path: str
    name: str
    scripts: str
    menu: str = ""
    charts: bool = False
    """Whether it draws charts: what these need is loaded with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """What pages are made of, read once the application starts."""

    assets: Assets
    texts: Texts


PAGES: Final = (
    Page(path="/", name="overview", scripts="overview", menu="overview", charts=True),
    Page(path="/jobs", name="jobs", scripts="jobs", menu="jobs"),
    Page(path="/new", name="new", scripts="form", menu="jobs"),
    Page(path="/crontab", name="crontab", scripts="crontab", menu="jobs"),
    Page(path="/jobs/{name}", name="job", scripts="job", menu="jobs", charts=True),
    Page(path="/jobs/{name}/edit", name="edit", scripts="form", menu="jobs"),
    Page(path="/runs", name="runs", scripts="runs", menu="runs"),
    Page(path="/runs/{id}", name="run", scripts="run", menu="jobs"),
    Page(path="/timeline", name="timeline", scripts="timeline", menu="timeline", charts=True),
    Page(path="/workers", name="workers", scripts="workers", menu="workers"),
    Page(path="/workers/{name}", name="worker", scripts="worker", menu="workers", charts=True),
    Page(path="/alerts", name="alerts", scripts="alerts", menu="alerts"),
    Page(path="/notifications", name="notifications", scripts="notifications", menu="alerts"),
    Page(path="/system", name="system", scripts="system", menu="system"),
    Page(path="/login", name="login", scripts="login"),
    Page(path="/account", name="account", scripts="account"),
    Page(path="/access", name="access", scripts="access", menu="access"),
    Page(path="/audit", name="audit", scripts="audit", menu="audit"),
)
VERDICTS: Final = dumps({one: asdict(one.traits) for one in Verdict})
"""By which scripts know verdicts: `data-verdicts` of each page."""
_ADMIN_PAGES: Final = ("access", "audit")
_FILTERS_OF_JOBS: Final = frozenset(("q", "state", "label", "cursor", "search"))
"""What a link to the list of jobs asks for; links of former versions have it at ``/``."""
_NOT_PAGES: Final = ("/api/", "/job/", "/worker/", "/static/")
"""What programs ask for, by whose paths nobody looks for a page."""


_CONSOLE: Final = web.AppKey("console", Console)


def add_routes(app: web.Application) -> None:
    """The pages and their files."""
    for page in PAGES:
        app.router.add_get(page.path, _shell(page))
    app.router.add_get("/static/{path:.+}", send_static)


def prepare(app: web.Application) -> None:
    """The pages and the console's texts are read when the application starts, once PARTS is there."""
    app.on_startup.append(_read_console)


@cache
def _job_schema(default_timezone: str) -> Schema:
    """What the form, the definition and the comparison of versions are drawn from."""
    schema = job_schema()
    schema["properties"]["timezone"]["default"] = default_timezone
    return schema


def templates_in(folder: Path) -> jinja2.Environment:
    """The templates of a webroot: everything that they show is escaped, and a misspelt name is an error."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.policies["json.dumps_kwargs"] = {}  # not sorted: the form shows the fields in the order of the definition
    return made


@anonymous
async def send_static(request: web.Request) -> web.Response:
    """A file below the webroot's ``static``, and nothing else; in gzip where the browser takes it."""
    asset = request.app[_CONSOLE].assets.find(request.match_info["path"])
    if asset is None:
        raise web.HTTPNotFound
    known = request.if_none_match
    if known is not None and any(tag.value == asset.etag for tag in known):
        response = web.Response(status=304)
    else:
        response = _whole(asset, gzip=takes_gzip(request))
    response.etag = asset.etag
    response.headers["Cache-Control"] = asset.cache_control
    response.headers["Vary"] = "Accept-Encoding"
    return response


@web.middleware
async def missing_page(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Who looks for a page that there is not gets one with the way to the console; programs get their JSON."""
    try:
        return await handler(request)
    except web.HTTPNotFound:
        if request.path.startswith(_NOT_PAGES) or "text/html" not in request.headers.get("Accept", ""):
            raise
        console, language = request.app[_CONSOLE], language_of(request)
        text = request.app[PARTS].templates.get_template("missing.html").render(
            lang=language, t=console.texts.of(language), assets=console.assets, asset=console.assets.url,
            path=request.path[:300],
        )  # fmt: skip
        return web.Response(text=text, content_type="text/html", status=404)


def _whole(asset: Asset, *, gzip: bool) -> web.Response:
    if not gzip or asset.packed is None:
        return web.Response(body=asset.content, content_type=asset.content_type, charset="utf-8")
    headers = {"Content-Encoding": "gzip"}
    return web.Response(body=asset.packed, content_type=asset.content_type, charset="utf-8", headers=headers)


def _shell(page: Page) -> Callable[[web.Request], Awaitable[web.Response]]:
    @anonymous  # it holds no data
    async def show(request: web.Request) -> web.Response:
        if page.path == "/" and not _FILTERS_OF_JOBS.isdisjoint(request.query):
            raise web.HTTPFound(URL(f"/jobs?{request.rel_url.raw_query_string}", encoded=True))
        console = request.app[_CONSOLE]
        language = language_of(request)
        parts = request.app[PARTS]
        # Whoever asks for a shell is not known; where a login is asked for, notes are for those who administer etcron.
        notes = () if parts.access.mode is AuthMode.REQUIRED else parts.notes
        common = {"notes": notes, "lang": language, "t": console.texts.of(language), "version": VERSION}
        if not console.assets.built:
            text = parts.templates.get_template("unbuilt.html").render(**common, command=BUILD_COMMAND)
            return web.Response(text=text, content_type="text/html", status=503)
        text = parts.templates.get_template(f"{page.name}.html").render(
            **common,
            page=page,
            menu=[one.name for one in PAGES if one.name == one.menu],
            admin_pages=_ADMIN_PAGES,
            assets=console.assets,
            asset=console.assets.url,
            languages=LANGUAGES,
            verdicts=VERDICTS,
            events=OF_JOBS,
            target=request.match_info.get("name") or request.match_info.get("id") or "",
            schema=_job_schema(parts.config.default_timezone) if page.scripts in ("form", "job", "audit") else None,
        )
        response = web.Response(text=text, content_type="text/html")
        response.enable_compression()  # where the browser takes it: a shell is a third of its size then
        return response

    return show


async def _read_console(app: web.Application) -> None:
    static = app[PARTS].static
    app[_CONSOLE] = Console(assets=Assets(static), texts=Texts(static))
