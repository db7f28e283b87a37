"""What a manager knows of runs that are ending, where etcd does not answer."""

from __future__ import annotations

import asyncio
from typing import cast

from common.errors import UnavailableError
from manager.views.ending import EndingRunsView
from manager.views.inventory import Inventory
from tests.support.fake_clock import FakeClock


class Away:
    """Says only after a while that etcd is away."""

    def __init__(self) -> None:
        self.asked = 0

    async def beats(self) -> dict[str, bytes]:
        self.asked += 1
        await asyncio.sleep(0)
        raise UnavailableError("etcd is away")


async def test_of_many_requests_one_waits_for_an_etcd_that_is_away() -> None:
    away, clock = Away(), FakeClock()
    ending = EndingRunsView(cast(Inventory, away), oldest_ms=lambda: 60_000, clock=clock)
    assert await asyncio.gather(*(ending.all() for _ in range(6))) == [{}] * 6
    assert away.asked == 1
    clock.advance(3_000)
    await ending.all()
    assert away.asked == 2, "later it is tried again"
