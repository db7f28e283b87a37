"""Whether etcd's JSON gateway lets strangers in: which answers settle that, and which are asked for again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from manager.cluster.gateways import Gateways


@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_an_answer_that_says_not_now_settles_nothing(status: int) -> None:
    """So it is while etcd has no leader, as where all of a site is started at once."""
    statuses: Iterator[int] = iter((status, 200))

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=next(statuses))

    app = web.Application()
    app.router.add_post("/v3/kv/range", answer)
    async with TestServer(app) as server:
        gateways = Gateways([str(server.make_url(""))])
        await gateways.look()
        assert gateways.faults == []
        await gateways.look()
        assert len(gateways.open) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404])
async def test_a_gateway_that_is_closed_is_asked_once(status: int) -> None:
    asked = 0

    async def answer(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return web.Response(status=status)

    app = web.Application()
    app.router.add_post("/v3/kv/range", answer)
    async with TestServer(app) as server:
        gateways = Gateways([str(server.make_url(""))])
        await gateways.look()
        await gateways.look()
    assert (asked, gateways.open) == (1, ())
