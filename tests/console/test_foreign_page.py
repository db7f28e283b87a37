"""A page of another site, in the user's own browser, changes nothing here."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer
from playwright.async_api import expect

from tests.console.console import Console
from tests.support.cluster import Cluster


@pytest_asyncio.fixture(loop_scope="session")
async def foreign_site(cluster: Cluster, name: str) -> AsyncIterator[str]:
    """Another site, whose page saves a job here as soon as somebody presses its button."""
    job = json.dumps({"name": name, "command": "true", "cronExpr": "@yearly"}).replace('"', "&quot;")
    page = f"""<form method="post" action="http://127.0.0.1:{cluster.ports[0]}/job/save">
        <input name="job" value="{job}"><button>You have won</button></form>"""

    async def show(request: web.Request) -> web.Response:
        return web.Response(text=page, content_type="text/html")

    app = web.Application()
    app.router.add_get("/", show)
    async with TestServer(app) as server:
        yield str(server.make_url("/"))


async def test_form_on_a_foreign_page_is_refused(
    console: Console, cluster: Cluster, foreign_site: str, name: str
) -> None:
    page = await console.open(foreign_site, watched=False)
    async with page.expect_response("**/job/save") as answering:
        await page.get_by_role("button").click()
    answer = await answering.value
    assert answer.status == 403
    assert "may not change anything here" in (await answer.json())["msg"]
    assert name not in {job["name"] for job in (await cluster.get("/job/list"))["data"]}
    await console.shoot(page, "foreign-page")
    await page.goto(f"{console.base}/jobs")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
