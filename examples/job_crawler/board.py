"""A job board with real HTML pages for the crawler: it changes as time goes by, and is slow or broken now and then.

    GET /companies/{company}/jobs?page=1      a list of postings, ten a page
    GET /companies/{company}/jobs/{number}    one of them

What it shows follows from the time alone: a posting comes every STEP seconds and stays for LIFE of them.
"""

from __future__ import annotations

import asyncio
import hashlib
import html
import os
import time
from collections.abc import Callable
from typing import Final

from aiohttp import web

COMPANIES: Final = ("acme", "globex", "initech")
A_PAGE: Final = 10
LIFE: Final = 25
"""So many postings of a company are open."""
SLOW_S: Final = 3.0
_TITLES: Final = (
    "Python Developer", "Data Engineer", "Site Reliability Engineer", "Go Developer", "Frontend Developer",
    "Machine Learning Engineer", "Database Administrator", "Security Engineer",
)  # fmt: skip
_LEVELS: Final = ("Junior", "Senior", "Lead", "Staff")
_PLACES: Final = ("New York, USA", "Austin, USA", "Remote, USA", "Berlin, Germany", "Shanghai, China")
_PAGE: Final = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>
<body><header><h1>{title}</h1></header><main>{body}</main></body></html>"""


class Board:
    """The pages; ``faulty``: some answers are errors, some take seconds, some are cut short."""

    def __init__(self, *, step_s: float = 60, faulty: bool = True, now: Callable[[], float] = time.time) -> None:
        self._step_s = step_s
        self._faulty = faulty
        self._now = now
        self._answers = 0

    def app(self) -> web.Application:
        """To be served."""
        app = web.Application()
        app.router.add_get("/companies/{company}/jobs", self._list)
        app.router.add_get("/companies/{company}/jobs/{number}", self._posting)
        return app

    def open_numbers(self) -> range:
        """Of the postings that are open now, oldest first."""
        newest = int(self._now() / self._step_s)
        return range(newest - LIFE + 1, newest + 1)

    async def _list(self, request: web.Request) -> web.StreamResponse:
        company = _company(request)
        page = max(1, int(request.query.get("page", "1")[:6]))
        numbers = list(reversed(self.open_numbers()))
        shown = numbers[(page - 1) * A_PAGE : page * A_PAGE]
        items = "".join(
            f'<article class="posting" data-number="{number}"><h2><a href="/companies/{company}/jobs/{number}">'
            f'{_title(company, number)}</a></h2><p class="location">{_place(company, number)}</p></article>'
            for number in shown
        )
        if page * A_PAGE < len(numbers):
            items += f'<a rel="next" href="/companies/{company}/jobs?page={page + 1}">Next page</a>'
        return await self._answer(_PAGE.format(title=f"Jobs at {company}", body=items))

    async def _posting(self, request: web.Request) -> web.StreamResponse:
        company, number = _company(request), int(request.match_info["number"][:18])
        if number not in self.open_numbers():
            raise web.HTTPNotFound(text="this posting is closed")
        title, place = _title(company, number), _place(company, number)
        body = (
            f'<p class="location">{place}</p><section class="description"><p>{company} looks for a {title}.</p>'
            f"<p>You will work in {place}, with people who care. Number {number}.</p></section>"
        )
        return await self._answer(_PAGE.format(title=title, body=body))

    async def _answer(self, page: str) -> web.StreamResponse:
        """By turns, not by chance: so that a crawl which is tried again meets other weather."""
        self._answers += 1
        turn = self._answers % 200 if self._faulty else 0
        if turn in (11, 83):
            return web.Response(status=503, text="too many visitors, come back later")
        if turn in (7, 65):
            await asyncio.sleep(SLOW_S)
        if turn == 57:
            page = page[: len(page) // 2]
        return web.Response(text=page, content_type="text/html")


def _company(request: web.Request) -> str:
    company = request.match_info["company"]
    if company not in COMPANIES:
        raise web.HTTPNotFound(text=f"no company {html.escape(company[:50])}")
    return company


def _drawn(what: str, company: str, number: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{what}/{company}/{number}".encode()).digest()[:4])


def _title(company: str, number: int) -> str:
    drawn = _drawn("title", company, number)
    return f"{_LEVELS[drawn % len(_LEVELS)]} {_TITLES[drawn // len(_LEVELS) % len(_TITLES)]}"


def _place(company: str, number: int) -> str:
    return _PLACES[_drawn("place", company, number) % len(_PLACES)]


if __name__ == "__main__":
    web.run_app(
        Board(step_s=float(os.environ.get("BOARD_STEP_SECONDS", "3600"))).app(),
        host="127.0.0.1", port=int(os.environ.get("PORT", "8090")), print=None,
    )  # fmt: skip
