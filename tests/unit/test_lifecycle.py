"""How a process ends: its status, and what is said of its errors."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading

import pytest

from common.errors import ConflictError
from common.process.lifecycle import Stop, all_ended, run, run_loops

pytestmark = pytest.mark.usefixtures("signals")


async def _fails() -> None:
    raise ValueError("bad")


async def _conflicts() -> None:
    raise ConflictError("taken")


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_none_goes_on_when_whoever_waits_for_all_is_told_of_an_error(is_cancelled: bool) -> None:
    ended, may_end = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        try:
            await may_end.wait()
        finally:
            await asyncio.sleep(0)
            ended.set()

    waiting = asyncio.ensure_future(all_ended([_fails(), slow(), _conflicts()]))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not waiting.done()
    if is_cancelled:
        waiting.cancel()
    may_end.set()
    with pytest.raises(asyncio.CancelledError if is_cancelled else ValueError):
        await waiting
    assert ended.is_set()


async def test_all_that_ended_are_told_in_order() -> None:
    async def after(turns: int) -> int:
        for _ in range(turns):
            await asyncio.sleep(0)
        return turns

    assert await all_ended(after(turns) for turns in (3, 1, 2)) == [3, 1, 2]


def test_an_orderly_end_has_status_0() -> None:
    async def main(stop: Stop) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.requested.wait()

    assert run(main) == 0


@pytest.mark.parametrize("is_ignored", [True, False])
def test_a_hangup_stops_a_process_unless_it_was_started_to_ignore_it(is_ignored: bool) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN if is_ignored else signal.SIG_DFL)

    async def main(stop: Stop) -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.requested.wait()
        assert stop.hurry.is_set() is not is_ignored

    assert run(main) == 0


class Threads:
    """Those of a machine that is out of processes, until so many were asked for; asked often enough, the user stops."""

    def __init__(self, short_for: int, *, stop_at: int = -1) -> None:
        self.asked, self._short_for, self._stop_at = 0, short_for, stop_at
        self._start = threading.Thread.start

    def start(self, thread: threading.Thread) -> None:
        self.asked += 1
        if self.asked == self._stop_at:
            os.kill(os.getpid(), signal.SIGTERM)
        if self.asked <= self._short_for:
            raise RuntimeError("can't start new thread")
        self._start(thread)


def test_a_process_begins_once_a_thread_can_be_started(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("common.process.threads._AGAIN_S", 0.01)
    threads, begun = Threads(short_for=3), []

    async def main(_stop: Stop) -> None:
        begun.append(threads.asked)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(threading.Thread, "start", lambda thread: threads.start(thread))
        assert run(main) == 0
    assert begun == [4]
    assert [record.__dict__["action"] for record in caplog.records] == ["threads.short"]


def test_a_process_that_waits_for_a_thread_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = Threads(short_for=1000, stop_at=2)

    async def main(_stop: Stop) -> None:
        pytest.fail("nothing begins")

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr("common.process.threads._AGAIN_S", 0.01)
        meanwhile.setattr(threading.Thread, "start", lambda thread: threads.start(thread))
        assert run(main) == 0


def test_a_second_signal_asks_to_hurry() -> None:
    async def main(stop: Stop) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await stop.requested.wait()
        assert not stop.hurry.is_set()
        os.kill(os.getpid(), signal.SIGINT)
        await stop.hurry.wait()

    assert run(main) == 0


def test_a_loop_that_dies_is_logged_once_and_has_status_1(caplog: pytest.LogCaptureFixture) -> None:
    async def main(stop: Stop) -> None:
        await run_loops(stop, {"dying": _fails, "waiting": lambda: asyncio.sleep(1000)})

    assert run(main) == 1

    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.__dict__["action"] == "process_failed"
    assert "in the loop 'dying'" in caplog.text


def test_a_loop_whose_wait_is_cancelled_by_a_library_is_not_lost_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    async def waits() -> None:
        waited_for = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(waited_for.cancel)
        await waited_for

    async def main(stop: Stop) -> None:
        asyncio.get_running_loop().call_later(2, stop.request, "it goes on without the loop")
        await run_loops(stop, {"cancelled": waits, "waiting": lambda: asyncio.sleep(1000)})

    assert run(main) == 1

    assert "the loop 'cancelled' was cancelled although nobody asked it to end" in caplog.text


def test_an_error_that_the_caller_reports_is_raised_out_of_its_group(caplog: pytest.LogCaptureFixture) -> None:
    async def main(stop: Stop) -> None:
        await run_loops(stop, {"dying": _conflicts})

    with pytest.raises(ConflictError, match="taken"):
        run(main, passed_on=(ConflictError,))

    assert caplog.records == []


def test_what_a_process_starts_gains_no_privileges_either() -> None:
    code = (
        "import subprocess; from common.process.lifecycle import gain_no_privileges; gain_no_privileges();"
        "subprocess.run(['grep', 'NoNewPrivs', '/proc/self/status'], check=True)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["NoNewPrivs:", "1"]
