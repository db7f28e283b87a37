"""The garbage collector leaves alone what was read at the start, and nothing before that."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import pytest

from common.process.runtime import collect_rarely, leave_alone_what_is_read
from tests.support.background import running
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """But for what is frozen: all that the other tests stand on is among it."""
    usual = gc.get_threshold()
    yield
    gc.set_threshold(*usual)


async def test_what_is_read_is_left_alone_once_it_is_read() -> None:
    has_read = asyncio.Event()
    frozen_before, usual = gc.get_freeze_count(), gc.get_threshold()
    async with running(leave_alone_what_is_read(has_read)):
        await asyncio.sleep(0)
        assert gc.get_freeze_count() == frozen_before
        assert gc.get_threshold()[2] > usual[2]
        read = [[number] for number in range(1000)]
        has_read.set()
        await wait_until(lambda: gc.get_freeze_count() >= frozen_before + len(read), description="it is left alone")
    assert gc.get_threshold() == usual


async def test_what_a_worker_sets_holds_again_once_it_has_read() -> None:
    collect_rarely()
    usual, has_read = gc.get_threshold(), asyncio.Event()
    has_read.set()
    async with running(leave_alone_what_is_read(has_read)):
        await wait_until(lambda: gc.get_threshold() == usual, description="it is as before")
    assert usual[0] > 700
