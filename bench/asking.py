"""Questions to a manager, and how long their answers take."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import aiohttp

from bench.figures import WrongError

TIMES: Final = 30
_START_S: Final = 900
_LOOK_S: Final = 0.05


async def ask(http: aiohttp.ClientSession, path: str, **query: str) -> Any:
    """The answer's JSON; the session knows the manager. WrongError where it is none."""
    async with http.get(path, params=query) as answer:
        body = await answer.read()
        if answer.status != 200:
            raise WrongError(f"{path} {query}: {answer.status} {body[:300]!r}")
        return json.loads(body)


async def times_ms(question: Callable[[], Awaitable[Any]]) -> list[float]:
    """Of asking it again and again, one after the other, in ms."""
    took = []
    for _ in range(TIMES):
        began = time.perf_counter()
        await question()
        took.append((time.perf_counter() - began) * 1000)
    return took


async def until_listed(http: aiohttp.ClientSession, jobs: int) -> float:
    """Seconds from now until the manager knows so many jobs."""
    began = time.monotonic()
    while time.monotonic() < began + _START_S:
        try:
            async with http.get("/api/v1/jobs", params={"limit": "1"}) as answer:
                if answer.status == 200 and (await answer.json())["total"] == jobs:
                    return time.monotonic() - began
        except aiohttp.ClientConnectionError:
            pass
        await asyncio.sleep(_LOOK_S)
    raise WrongError(f"the manager does not list {jobs} jobs")
