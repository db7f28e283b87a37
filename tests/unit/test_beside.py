"""Work that may block holds up neither the event loop nor anybody's exit, and more of it than ever hangs is refused."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from common.process.threads import HungError, beside
from tests.support.waiting import wait_until

FOR_EVER_S = 1000.0


class Never:
    """A file whose reader waits until it is told to go on."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "never"
        self.read = 0
        os.mkfifo(self.path)

    def look(self) -> str:
        try:
            return self.path.read_text()
        finally:
            self.read += 1

    def answer(self) -> None:
        with suppress(OSError), open(os.open(self.path, os.O_WRONLY | os.O_NONBLOCK), "w") as writer:
            writer.write("at last")


@pytest.fixture
def never(tmp_path: Path) -> Iterator[Never]:
    never = Never(tmp_path)
    yield never
    never.answer()


async def test_gives_what_the_work_returns_or_raises() -> None:
    assert await beside(lambda: 7, what="it") == 7
    with pytest.raises(FileNotFoundError):
        await beside(Path("/no/such/file").read_text, what="it")
    with pytest.raises(TimeoutError, match="the work's own"):
        await beside(_times_out, what="it")


def _times_out() -> None:
    raise TimeoutError("the work's own")


async def test_what_does_not_answer_is_given_up_and_the_loop_goes_on(never: Never) -> None:
    with pytest.raises(HungError, match=r"the file does not answer within 0\.05 s"):
        await beside(never.look, what="the file", within_s=0.05)
    never.answer()
    await wait_until(lambda: never.read == 1, description="its thread has ended")


async def test_more_than_eight_that_hang_are_refused_at_once(never: Never) -> None:
    hung = [asyncio.create_task(beside(never.look, what="it", within_s=FOR_EVER_S)) for _ in range(8)]
    await asyncio.sleep(0)
    with pytest.raises(HungError, match="too much else hangs"):
        await beside(lambda: 7, what="it")
    while not all(task.done() for task in hung):
        never.answer()
        await asyncio.sleep(0.01)
    assert await beside(lambda: 7, what="it") == 7


async def test_thread_that_cannot_be_started_keeps_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as short:
        short.setattr(threading.Thread, "start", refuse)
        for _ in range(20):
            with pytest.raises(HungError, match="no thread can be started"):
                await beside(int, what="nothing")
    assert await beside(int, what="nothing") == 0
