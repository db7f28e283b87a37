"""A cancellation that comes together with an error is heeded."""

from __future__ import annotations

import asyncio
import logging

import pytest

from common.cancellation import heeding_cancellation
from common.lifecycle import Stop, run_loops


async def fails_when(event: asyncio.Event) -> None:
    await event.wait()
    raise OSError("away")


async def goes_on_after_errors(event: asyncio.Event, rounds: list[int]) -> None:
    """What a mirror does: whatever happens to the watch, it reads again."""
    while True:
        rounds.append(len(rounds))
        try:
            with heeding_cancellation():
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(fails_when(event))
        except* OSError:
            await asyncio.sleep(0)


async def test_cancellation_in_the_turn_of_an_error_ends_the_loop() -> None:
    event, rounds = asyncio.Event(), list[int]()
    task = asyncio.create_task(goes_on_after_errors(event, rounds))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    event.set()
    await asyncio.sleep(0)
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=5)
    assert done == {task}
    assert task.cancelled()


async def test_error_without_cancellation_is_raised_as_it_is() -> None:
    with pytest.raises(OSError, match="away"), heeding_cancellation():
        raise OSError("away")


async def test_loop_that_outlives_its_cancellation_is_named_and_cancelled_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("common.lifecycle._CANCEL_AGAIN_S", 0.02)
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
