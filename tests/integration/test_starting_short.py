"""What a start looks for is looked for until the machine has a descriptor, or a thread, for it."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Thread

import pytest

from common.clock import SystemClock
from tests.support.descriptors import no_descriptor_left
from tests.support.records import record
from tests.support.waiting import wait_until
from worker.machine.marked import find_leftovers
from worker.record.spool import Spool
from worker.run.leftovers import end_leftovers, look_for_leftovers
from worker.run.shortage import once_possible


async def test_leftovers_and_the_spool_are_looked_through_once_there_is_a_descriptor(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept, spool = record(1), Spool.open(tmp_path)
    await spool.append(kept)
    await spool.close()
    spool = Spool.open(tmp_path)
    await asyncio.to_thread(lambda: None)  # the thread that looks is there, as in a worker that has begun
    with no_descriptor_left():
        looks = asyncio.gather(
            once_possible(partial(asyncio.to_thread, find_leftovers, "i-nobody"), what="leftovers"),
            once_possible(lambda: spool.find_former({str(kept.run_id)}), what="records"),
        )
        await wait_until(lambda: _actions(caplog).count("start.short") == 2, description="both look in vain")
        assert not looks.done()
    left, found = await looks
    assert left == []
    assert list(found) == [str(kept.run_id)]
    await spool.close()


@pytest.fixture
def left() -> Iterator[subprocess.Popen[bytes]]:
    """A process that an earlier worker of this instance has left."""
    environment = {**os.environ, "ETCRON_INSTANCE": "short", "ETCRON_RUN_ID": "job@1"}
    process = subprocess.Popen(("sleep", "300"), env=environment, start_new_session=True)
    yield process
    process.kill()
    process.wait()


async def test_what_an_earlier_worker_left_is_ended_once_there_is_a_thread(
    left: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Root has always one: so here, too, no process is short of any."""
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(Thread, "start", _no_thread)
        looks = asyncio.gather(
            once_possible(partial(look_for_leftovers, "i-nobody"), what="leftovers"),
            end_leftovers("short", 0.1, SystemClock()),
        )
        await wait_until(lambda: _actions(caplog).count("start.short") == 2, description="both look in vain")
        assert (looks.done(), left.poll()) == (False, None)
    assert [*await looks] == [[], []]
    assert left.wait() != 0


def _no_thread(_thread: Thread) -> None:
    raise RuntimeError("can't start new thread")


async def test_what_fails_for_another_reason_fails() -> None:
    async def look() -> None:
        raise PermissionError(errno.EACCES, "no")

    with pytest.raises(PermissionError):
        await once_possible(look, what="anything")


def _actions(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.__dict__["action"] for one in caplog.records if "action" in one.__dict__]
