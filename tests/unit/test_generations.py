"""The file of the highest generations: a line that was cut short loses only itself."""

from __future__ import annotations

import asyncio
import errno
from contextlib import suppress
from pathlib import Path

import pytest

from common.process.disk import Disk
from tests.support.waiting import wait_until
from worker.generations import Generations, _append


async def written(generations: Generations, path: Path, last: str) -> None:
    """Runs until the file ends in this line."""
    disk = Disk()
    task = asyncio.create_task(generations.run(disk))
    try:
        await wait_until(lambda: path.read_text().endswith(last), description="it is written")
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        disk.close()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.generations._WRITE_EVERY_S", 0.01)


async def test_torn_last_line_loses_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "generations"
    path.write_text("1600 first\n1700 jo")
    generations = Generations.open(path)
    generations.note("other", 1800)
    await written(generations, path, "1800 other\n")
    again = Generations.open(path)
    assert [again.of(name) for name in ("first", "jo", "other")] == [1600, 0, 1800]


async def test_write_that_failed_in_the_middle_and_is_tried_again_keeps_every_generation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "generations"
    path.write_text("1600 first\n")

    def fills_up(path: Path, text: str) -> None:
        monkeypatch.setattr("worker.generations._append", _append)
        with path.open("a") as file:
            file.write(text[:-4])
        raise OSError(errno.ENOSPC, "No space left on device")

    generations = Generations.open(path)
    generations.note("job", 1700)
    generations.note("other", 1800)
    monkeypatch.setattr("worker.generations._append", fills_up)
    await written(generations, path, "1800 other\n")
    assert "1800 ot \n" in path.read_text()
    again = Generations.open(path)
    assert [again.of(name) for name in ("first", "job", "ot", "other")] == [1600, 1700, 0, 1800]
