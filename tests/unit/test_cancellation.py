"""A cancellation that comes together with an error is heeded."""

from __future__ import annotations

import asyncio
import logging

import pytest

from common.process.lifecycle import Stop, raising_cancellation, run_loops, until_all, until_first
from tests.support.waiting import wait_until


async def fails_when(event: asyncio.Event) -> None:
    await event.wait()
    raise OSError("away")


async def goes_on_after_errors(event: asyncio.Event, rounds: list[int]) -> None:
    """What a mirror does: whatever happens to the watch, it reads again."""
    while True:
        rounds.append(len(rounds))
        try:
            await until_first(fails_when(event), asyncio.sleep(3600))
        except OSError:
            event.clear()


async def test_cancellation_in_the_turn_of_an_error_ends_the_loop() -> None:
    event, rounds = asyncio.Event(), list[int]()
    task = asyncio.create_task(goes_on_after_errors(event, rounds))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    event.set()
    await asyncio.sleep(0)
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=60)
    assert done == {task}
    assert task.cancelled()


async def test_loop_goes_on_after_an_error_without_a_cancellation() -> None:
    event, rounds = asyncio.Event(), list[int]()
    task = asyncio.create_task(goes_on_after_errors(event, rounds))
    for wanted in range(1, 4):
        await wait_until(lambda wanted=wanted: len(rounds) == wanted, description="another round")  # type: ignore[misc]
        event.set()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_first_error_ends_the_others_and_is_raised() -> None:
    ended: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("waits")

    event = asyncio.Event()
    event.set()
    with pytest.raises(OSError, match="away"):
        await until_all(waits(), fails_when(event))
    assert ended == ["waits"]


async def test_all_are_waited_for() -> None:
    ended: list[int] = []

    async def ends(number: int) -> None:
        ended.append(number)

    await until_all(*(ends(number) for number in range(3)))
    await until_all()
    assert ended == [0, 1, 2]


async def test_error_without_cancellation_is_raised_as_it_is() -> None:
    with pytest.raises(OSError, match="away"), raising_cancellation():
        raise OSError("away")


async def test_loop_that_outlives_its_cancellation_is_named_and_cancelled_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("common.process.lifecycle._CANCEL_AGAIN_S", 0.02)
    swallowed: list[int] = []

    async def stubborn() -> None:
        while len(swallowed) < 2:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                swallowed.append(1)

    stop = Stop()
    asyncio.get_running_loop().call_soon(stop.request, "test")
    with caplog.at_level(logging.ERROR):
        await run_loops(stop, {"stubborn": stubborn})
    assert len(swallowed) == 2
    assert "the loop 'stubborn' has outlived its cancellation" in caplog.text
