"""When a manager asks the log store for notices that wait."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from manager.notices.sender import Looks, Sender
from tests.support.background import running
from tests.support.fake_clock import FakeClock
from tests.support.waiting import wait_until


def test_looks_always_where_there_are_channels() -> None:
    looks = Looks()
    for second in range(3):
        assert looks.are_due(second, has_channels=True, is_woken=False)
        looks.found([], second)


def test_looks_seldom_where_there_are_none_and_nothing_waits() -> None:
    looks, seconds = Looks(), list[int]()
    for second in range(122):
        if looks.are_due(second, has_channels=False, is_woken=False):
            seconds.append(second)
            looks.found([], second)
    assert seconds == [0, 60, 120]


def test_goes_on_looking_while_notices_wait_for_channels_that_are_gone() -> None:
    looks = Looks()
    looks.found(["gone"], 0)
    assert looks.are_due(1, has_channels=False, is_woken=False)


def test_looks_when_it_is_woken_until_it_was_answered() -> None:
    looks = Looks()
    looks.found([], 0)
    assert not looks.are_due(1, has_channels=False, is_woken=False)
    assert looks.are_due(2, has_channels=False, is_woken=True)
    assert looks.are_due(3, has_channels=False, is_woken=False), "the log store was away"
    looks.found([], 3)
    assert not looks.are_due(4, has_channels=False, is_woken=False)


class Asked:
    """The notices of a log store in which none waits; how often it was asked."""

    times = 0

    async def prepare(self) -> None:
        pass

    async def channels_to_serve(self) -> list[str]:
        self.times += 1
        return []

    async def forget(self, now_ms: int) -> int:
        return 0


async def test_sender_without_channels_looks_when_it_is_woken_and_when_there_is_one() -> None:
    asked, records = Asked(), SimpleNamespace(has_channels=False)
    sender = Sender(
        cast(Any, None), cast(Any, None), cast(Any, SimpleNamespace(notices=asked)),
        cast(Any, SimpleNamespace(is_shown=True)), cast(Any, records), name="m1", renderer=cast(Any, None), ways={},
        is_clock_off=lambda: False, clock=FakeClock(),
    )  # fmt: skip
    async with running(sender.run()):
        await wait_until(lambda: asked.times == 1, description="it looks as it starts")
        sender.wake()
        await wait_until(lambda: asked.times == 2, description="it looks as it is woken")
        records.has_channels = True
        await wait_until(lambda: asked.times == 3, description="it looks as there is a channel")
