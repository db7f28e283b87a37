"""The URL that is called as long as notices are made, so that a service elsewhere can tell that they are not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from manager.notices.lifelines import Heartbeat
from tests.support.background import running
from tests.support.managing import Place, managing
from tests.support.waiting import wait_until


@dataclass
class Watcher:
    """The service elsewhere."""

    url: str = ""
    calls: int = 0
    status: int = 200
    hangs: bool = False

    async def called(self, request: web.Request) -> web.Response:
        assert (request.method, request.path) == ("GET", "/secret-path")
        self.calls += 1
        if self.hangs:
            await asyncio.Event().wait()
        return web.Response(status=self.status)

    async def once_more(self) -> None:
        before = self.calls
        await wait_until(lambda: self.calls > before, description="the URL is called")


@pytest.fixture
async def watcher() -> AsyncIterator[Watcher]:
    watcher, app = Watcher(), web.Application()
    app.router.add_route("*", "/{tail:.*}", watcher.called)
    async with TestServer(app) as server:
        watcher.url = str(server.make_url("/secret-path"))
        yield watcher


async def test_manager_that_is_the_notifier_calls_as_soon_as_it_is(place: Place, watcher: Watcher) -> None:
    async with managing(place, loops=True, heartbeatUrl=watcher.url):
        await watcher.once_more()


async def test_call_that_fails_or_hangs_is_made_again_and_logged_once(
    watcher: Watcher, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(Heartbeat(watcher.url, is_well=lambda: True, every_s=0.01, within_s=1.0).run()):
        for watcher.status, watcher.hangs in ((500, False), (200, True)):
            await watcher.once_more()
            await watcher.once_more()
        failures = [one.getMessage() for one in caplog.records if getattr(one, "action", "") == "heartbeat.failed"]
        assert failures == ["heartbeatUrl does not answer as needed: HTTP 500"]
        watcher.status, watcher.hangs = 200, False
        await watcher.once_more()
    assert "secret-path" not in caplog.text


async def test_call_that_is_sent_elsewhere_has_not_arrived(watcher: Watcher, caplog: pytest.LogCaptureFixture) -> None:
    watcher.status = 302
    async with running(Heartbeat(watcher.url, is_well=lambda: True, every_s=0.01).run()):
        await watcher.once_more()
        await watcher.once_more()
    (said,) = [one.getMessage() for one in caplog.records if getattr(one, "action", "") == "heartbeat.failed"]
    assert said.endswith("HTTP 302 (redirects are not followed: give the URL that it leads to)")


async def test_nobody_is_told_that_all_is_well_where_it_is_not(watcher: Watcher) -> None:
    is_well, looked = True, 0

    def look() -> bool:
        nonlocal looked
        looked += 1
        return is_well

    async with running(Heartbeat(watcher.url, is_well=look, every_s=0.01).run()):
        await watcher.once_more()
        is_well = False
        looked = 0
        await wait_until(lambda: looked > 1, description="it has seen that it is not well")
        calls, looked = watcher.calls, 0
        await wait_until(lambda: looked > 2, description="it looks again")
        assert watcher.calls == calls
        is_well = True
        await watcher.once_more()
