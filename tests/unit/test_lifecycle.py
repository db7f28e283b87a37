"""How a process ends: its status, and what is said of its errors."""

from __future__ import annotations

import asyncio
import logging
import os
import signal

import pytest

from common.errors import ConflictError
from common.lifecycle import Stop, run, run_loops


async def _fails() -> None:
    raise ValueError("bad")


async def _conflicts() -> None:
    raise ConflictError("taken")


def test_an_orderly_end_has_status_0() -> None:
    async def main(stop: Stop) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.requested.wait()

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


def test_an_error_that_the_caller_reports_is_raised_out_of_its_group(caplog: pytest.LogCaptureFixture) -> None:
    async def main(stop: Stop) -> None:
        await run_loops(stop, {"dying": _conflicts})

    with pytest.raises(ConflictError, match="taken"):
        run(main, passed_on=(ConflictError,))

    assert caplog.records == []
