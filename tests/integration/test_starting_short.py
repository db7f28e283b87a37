"""What a start looks for is looked for until the machine has a descriptor for it."""

from __future__ import annotations

import asyncio
import errno
from functools import partial
from pathlib import Path

import pytest

from tests.support.descriptors import no_descriptor_left
from tests.support.records import record
from tests.support.waiting import wait_until
from worker.commands.leftovers import find_leftovers
from worker.commands.shortage import once_possible
from worker.spooling.spool import Spool


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


async def test_what_fails_for_another_reason_fails() -> None:
    async def look() -> None:
        raise PermissionError(errno.EACCES, "no")

    with pytest.raises(PermissionError):
        await once_possible(look, what="anything")


def _actions(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.__dict__["action"] for one in caplog.records if "action" in one.__dict__]
