"""What crashes and failing disks do to the spool: at most the record under way is missing, and it goes on."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from common.protocol.run import RunRecord
from tests.support.disks import failing_disk, full_disk
from tests.support.records import readable, record, waiting_in
from worker.record.spool import Spool, SpoolError
from worker.record.spool_segments import frame, write_cursor


async def spool_with(directory: Path, count: int) -> list[RunRecord]:
    spool = Spool.open(directory)
    records = [record(number, output=f"{number}: ünïcödé") for number in range(count)]
    for one in records:
        await spool.append(one)
    await spool.close()
    return records


@pytest.mark.parametrize(
    "damage", [b"\0" * 64, b"\xff" * 64, b"\0" * 8, b"\x05\0\0\0"], ids=["0", "ff", "short 0", "len"]
)
async def test_garbage_behind_the_last_record_is_cut_off(tmp_path: Path, damage: bytes) -> None:
    records = await spool_with(tmp_path, 2)
    (segment,) = tmp_path.glob("*.spool")
    size = segment.stat().st_size
    with segment.open("ab") as file:
        file.write(damage)
    with full_disk(1):
        assert await readable(tmp_path) == records, "though there is no room to set it aside"
    assert segment.stat().st_size == size


async def test_damage_in_the_middle_costs_one_segment_and_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spool = Spool.open(tmp_path, segment_bytes=1500)
    records = [record(number) for number in range(12)]
    for one in records:
        await spool.append(one)
    await spool.close()
    segments = sorted(tmp_path.glob("*.spool"))
    damaged, following = segments[1], segments[2]
    damaged.write_bytes(b"\0" * damaged.stat().st_size)
    lost = range(int(damaged.stem), int(following.stem))
    with caplog.at_level(logging.ERROR):
        found = await readable(tmp_path)
    assert found == [one for position, one in enumerate(records, 1) if position not in lost]
    assert {entry.__dict__["action"] for entry in caplog.records} == {"spool_unreadable"}


async def test_a_segment_that_somebody_removes_costs_its_records_and_no_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spool = Spool.open(tmp_path, segment_bytes=3000, cache_bytes=1000)
    records = [record(number) for number in range(20)]
    for one in records:
        await spool.append(one)
    _, removed, kept, _ = (int(path.stem) for path in sorted(tmp_path.glob("*.spool")))
    (tmp_path / f"{removed:020d}.spool").unlink()
    assert await waiting_in(spool) == [*records[: removed - 1], *records[kept - 1 :]]
    assert [r.message for r in caplog.records if getattr(r, "action", "") == "spool_unreadable"]
    await spool.close()


async def test_what_is_in_memory_survives_the_segment_that_somebody_empties(tmp_path: Path) -> None:
    records = [record(number) for number in range(5)]
    spool = Spool.open(tmp_path, cache_bytes=sum(len(frame(one)) for one in records[3:]))
    for one in records:
        await spool.append(one)
    (segment,) = tmp_path.glob("*.spool")
    os.truncate(segment, 0)
    assert await waiting_in(spool) == records[3:]
    await spool.close()


async def test_behind_a_damaged_end_that_was_delivered_the_next_record_gets_a_new_position(tmp_path: Path) -> None:
    await spool_with(tmp_path, 5)
    write_cursor(tmp_path, 3)
    (segment,) = tmp_path.glob("*.spool")
    os.truncate(segment, 100)
    spool = Spool.open(tmp_path)
    assert await spool.append(record(9)) == 4
    assert await waiting_in(spool) == [record(9)]
    await spool.close()
    assert await readable(tmp_path) == [record(9)]


async def test_a_spool_that_is_away_as_a_whole_is_not_passed_over(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path / "spool", segment_bytes=3000, cache_bytes=0)
    records = [record(number) for number in range(20)]
    for one in records:
        await spool.append(one)
    (tmp_path / "spool").rename(tmp_path / "away")
    with pytest.raises(SpoolError, match="No such file"):
        await waiting_in(spool)
    (tmp_path / "away").rename(tmp_path / "spool")
    assert await waiting_in(spool) == records
    await spool.close()


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: os.truncate(path, 0)], ids=["removed", "emptied"])
async def test_what_is_appended_after_the_newest_segment_was_harmed_survives(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    spool = Spool.open(tmp_path)
    for number in range(3):
        await spool.append(record(number))
    (segment,) = tmp_path.glob("*.spool")
    harm(segment)
    assert await spool.append(record(3)) == 4
    assert await waiting_in(spool) == [record(number) for number in range(4)], "they are in memory still"
    await spool.close()
    assert await readable(tmp_path) == [record(3)]


async def test_a_record_of_another_version_is_skipped_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool.open(tmp_path, cache_bytes=0)
    await spool.append(record(1))
    with monkeypatch.context() as patched:
        patched.setattr(RunRecord, "to_document", lambda self: {"_id": "from the future"})
        await spool.append(record(2))
    await spool.append(record(3))
    assert [position for position, _ in await spool.read(9)] == [1, 3]
    assert [entry.__dict__["position"] for entry in caplog.records] == [2]
    await spool.close()


async def test_a_full_disk_refuses_a_record_whole_and_takes_it_once_there_is_room(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path, cache_bytes=0)
    await spool.append(record(0))
    with full_disk(spool.size_bytes + 100):
        for _ in range(3):
            with pytest.raises(SpoolError):
                await spool.append(record(1))
        assert [one.run_id for _, one in await spool.read(9)] == [record(0).run_id]
    assert await spool.append(record(1)) == 2
    await spool.close()
    assert await readable(tmp_path) == [record(0), record(1)]


async def test_all_that_shared_the_failed_write_are_told(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path)
    with full_disk(100):
        results = await asyncio.gather(*(spool.append(record(number)) for number in range(5)), return_exceptions=True)
    assert [type(result) for result in results] == [SpoolError] * 5
    await spool.close()
    assert await readable(tmp_path) == []


async def test_of_a_write_that_fails_no_record_stays(tmp_path: Path) -> None:
    """Whoever wrote them was told that they are not there, and has put them elsewhere."""
    spool = Spool.open(tmp_path)
    await spool.append(record(0))
    with full_disk(3 * spool.size_bytes + 100):
        coming = [asyncio.create_task(spool.append(record(number))) for number in range(6)]
        await asyncio.wait(coming)
    assert await coming[0] == 2, "it was written by itself"
    assert {type(one.exception()) for one in coming[1:]} == {SpoolError}
    (segment,) = tmp_path.glob("*.spool")
    assert segment.stat().st_size == spool.size_bytes
    await spool.close()


async def test_a_segment_that_could_not_be_begun_hides_no_record(tmp_path: Path) -> None:
    """Its name would say that the records behind it begin there; a smaller one still fits into the one before."""
    small = [record(number) for number in range(8)]
    spool = Spool.open(tmp_path, segment_bytes=2500)
    await spool.append(small[0])
    with full_disk(2500), pytest.raises(SpoolError, match="full"):
        await spool.append(record(99, output="x" * 3000))
    assert len(list(tmp_path.glob("*.spool"))) == 1
    for one in small[1:]:
        await spool.append(one)
    await spool.close()
    (tmp_path / "00000000000000000002.spool").touch()  # as one that died in the middle of it has left it
    assert await readable(tmp_path) == small


async def test_a_segment_that_a_failing_disk_did_not_begin_hides_no_record(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path, segment_bytes=2500)
    await spool.append(record(0))
    with failing_disk("ftruncate"), pytest.raises(SpoolError, match="the disk fails"):
        await spool.append(record(99, output="x" * 3000))
    await spool.append(record(1))
    await spool.close()
    assert await readable(tmp_path) == [record(0), record(1)]


async def test_the_space_of_delivered_records_comes_back_on_a_disk_that_is_full(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path, segment_bytes=1500)
    for number in range(8):
        await spool.append(record(number))
    with failing_disk("pwrite", errno.ENOSPC), pytest.raises(SpoolError, match=r"disk is full.*make room"):
        await spool.acknowledge(8)
    assert len(list(tmp_path.glob("*.spool"))) == 1
    await spool.close()
    again = Spool.open(tmp_path)
    assert again.last == 8
    await again.close()


@pytest.mark.parametrize("call", ["fdatasync", "ftruncate", "write"])
async def test_a_failing_disk_leaves_nothing_half_done(tmp_path: Path, call: str) -> None:
    spool = Spool.open(tmp_path)
    await spool.append(record(0))
    with failing_disk(call), pytest.raises(SpoolError, match="the disk fails"):
        await spool.append(record(1))
    await spool.append(record(2))
    assert [one.run_id for _, one in await spool.read(9)] == [record(0).run_id, record(2).run_id]
    await spool.close()
    assert await readable(tmp_path) == [record(0), record(2)]


async def test_appends_that_wait_share_one_fsync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    real = os.fdatasync

    def count(descriptor: int) -> None:
        calls.append(descriptor)
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", count)
    spool = Spool.open(tmp_path)
    await asyncio.gather(*(spool.append(record(number)) for number in range(200)))
    assert len(calls) <= 3
    await spool.close()


async def test_a_new_segment_is_in_its_directory_for_good_before_the_first_append_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a file that is not, a power cut leaves nothing."""
    forced: list[str] = []
    for name in ("fsync", "fdatasync"):
        real = getattr(os, name)

        def force(descriptor: int, real: Callable[[int], None] = real) -> None:
            forced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
            real(descriptor)

        monkeypatch.setattr(os, name, force)
    spool = Spool.open(tmp_path)
    await spool.append(record(0))
    (segment,) = tmp_path.glob("*.spool")
    assert forced == [str(segment), str(tmp_path)]
    await spool.append(record(1))
    assert forced[2:] == [str(segment)]
    await spool.try_out()
    assert forced[3:] == [str(tmp_path / "trial")]
    await spool.close()


async def test_the_cursor_is_on_the_disk_for_good_before_the_last_segment_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power cut leaves neither, and positions that records of the log store name are used once more."""
    done: list[str] = []
    unlink, fdatasync = Path.unlink, os.fdatasync

    def remove(path: Path, missing_ok: bool = False) -> None:
        done.append(f"removed {path.name}")
        unlink(path, missing_ok)

    def force(descriptor: int) -> None:
        done.append(f"forced {Path(os.readlink(f'/proc/self/fd/{descriptor}')).name}")
        fdatasync(descriptor)

    spool = Spool.open(tmp_path)
    await spool.append(record(0, output="x" * 300_000))
    (segment,) = tmp_path.glob("*.spool")
    with monkeypatch.context() as told:
        told.setattr(Path, "unlink", remove)
        told.setattr(os, "fdatasync", force)
        await spool.acknowledge(1)
    assert done == ["forced cursor", f"removed {segment.name}"]
    await spool.close()


async def test_the_last_segment_stays_while_the_cursor_cannot_be_forced_to_the_disk(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path, segment_bytes=400_000)
    for number in range(2):
        await spool.append(record(number, output="x" * 300_000))
    _, last = sorted(tmp_path.glob("*.spool"))
    with failing_disk("fdatasync"):
        for _ in range(2):
            with pytest.raises(SpoolError, match="the disk fails"):
                await spool.acknowledge(2)
    assert [*tmp_path.glob("*.spool")] == [last], "the room of the others is given back"
    await spool.acknowledge(2)
    assert [*tmp_path.glob("*.spool")] == []
    assert await spool.append(record(3)) == 3
    await spool.close()


_APPEND_UNTIL_KILLED = """
import asyncio, sys
from pathlib import Path
from tests.support.records import record, waiting_in
from worker.record.spool import Spool

async def main():
    spool = Spool.open(Path(sys.argv[1]), segment_bytes=20_000)
    for number in range(1_000_000):
        await spool.append(record(number))
        print(number, flush=True)

asyncio.run(main())
"""


async def test_what_was_appended_survives_kill_9(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _APPEND_UNTIL_KILLED, str(tmp_path), stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert process.stdout is not None
    told = [int(await process.stdout.readline()) for _ in range(100)]
    process.kill()
    told += [int(line) for line in (await process.stdout.read()).split(b"\n") if line]
    await process.wait()
    found = await readable(tmp_path)
    assert found[: len(told)] == [record(number) for number in range(len(told))]
    assert len(found) - len(told) <= 1


def test_a_directory_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SpoolError, match="cannot be opened"):
        Spool.open(tmp_path / "file")
