"""`etcron up --example`: what a manager does not take in time ends nothing of it."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from cli.processes.up import save_examples


@pytest.mark.parametrize(
    ("takes", "says"), [(0, "saved none; the"), (1, "saved hello; the"), (9, "saved hello, disk-")]
)
async def test_says_what_was_saved(takes: int, says: str) -> None:
    saved: list[str] = []
    is_asked = asyncio.Event()

    async def save(_: web.Request) -> web.Response:
        if len(saved) == takes:
            await is_asked.wait()  # it has too much to do
        saved.append("one")
        return web.Response()

    async def listed(_: web.Request) -> web.Response:
        return web.json_response({"data": []})

    app = web.Application()
    app.router.add_post("/job/save", save)
    app.router.add_get("/job/list", listed)
    limit = aiohttp.ClientTimeout(total=0.5)  # a time, not a deadline: it is what is met
    async with TestServer(app) as server, aiohttp.ClientSession(timeout=limit) as http:
        became = await save_examples(http, str(server.make_url("")).rstrip("/"))
        is_asked.set()
        assert became.startswith(says)
