"""The spool keeps what it was given, in order, until it is acknowledged; and forgets it then."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import threading
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from common.protocol.run import RunRecord
from tests.support.records import readable, record, waiting_in
from worker.record.spool import Spool, SpoolError
from worker.record.spool_segments import frame


@pytest.fixture
async def spool(tmp_path: Path) -> AsyncIterator[Spool]:
    opened = Spool.open(tmp_path)
    yield opened
    await opened.close()


async def fill(spool: Spool, count: int, *, first: int = 0) -> list[RunRecord]:
    records = [record(number) for number in range(first, first + count)]
    await asyncio.gather(*map(spool.append, records))
    return records


async def test_records_are_read_in_the_order_of_their_positions(spool: Spool) -> None:
    records = await fill(spool, 10)
    assert await spool.read(4) == list(enumerate(records[:4], 1))
    assert await spool.read(100, after=4) == list(enumerate(records[4:], 5))
    assert (spool.pending, spool.last, spool.cursor) == (10, 10, 0)


async def test_a_record_is_kept_though_no_thread_can_be_started_any_more(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    records = await fill(spool, 2)
    assert await spool.read(2) == list(enumerate(records, 1))


async def test_reading_moves_nothing_and_acknowledging_does(spool: Spool) -> None:
    records = await fill(spool, 5)
    assert await spool.read(2) == await spool.read(2)
    await spool.acknowledge(2)
    assert await spool.read(1) == [(3, records[2])]
    assert spool.pending == 3
    await spool.acknowledge(5)
    assert await spool.read(1) == []


async def test_acknowledging_never_goes_back_nor_beyond_what_is_there(spool: Spool) -> None:
    await fill(spool, 3)
    await spool.acknowledge(2)
    await spool.acknowledge(1)
    assert spool.cursor == 2
    await spool.acknowledge(99)
    assert (spool.cursor, spool.pending) == (3, 0)
    await fill(spool, 1)
    assert [position for position, _ in await spool.read(9)] == [4]


@pytest.mark.parametrize("cache_bytes", [0, 700, 1 << 20], ids=["no cache", "small cache", "cache"])
async def test_the_next_process_finds_what_was_not_acknowledged(tmp_path: Path, cache_bytes: int) -> None:
    spool = Spool.open(tmp_path, cache_bytes=cache_bytes)
    records = await fill(spool, 10)
    await spool.acknowledge(4)
    assert await spool.read(99) == list(enumerate(records[4:], 5))
    await spool.close()
    again = Spool.open(tmp_path)
    assert await waiting_in(again) == records[4:]
    assert await again.read(99) == list(enumerate(records[4:], 5))
    assert await again.append(record(10)) == 11
    await again.close()


@pytest.mark.parametrize("in_memory", range(7))
async def test_from_wherever_it_is_read_nothing_is_passed_over(tmp_path: Path, in_memory: int) -> None:
    """The older ones lie on the disk alone, the newer ones in memory, too."""
    records = [record(number) for number in range(6)]
    each = len(frame(records[0]))
    spool = Spool.open(tmp_path, segment_bytes=3 * each, cache_bytes=in_memory * each)
    for one in records:
        await spool.append(one)
    assert spool.cached_bytes == in_memory * each
    whole = list(enumerate(records, 1))
    for limit in (99, 2):
        for after in (*range(6), *reversed(range(6))):
            page = await spool.read(limit, after=after)
            assert page == whole[after : after + len(page)]
            assert page
    await spool.close()


@pytest.mark.parametrize(
    "one",
    [
        record(1, output="nul \0, bell \x07, \N{ROCKET}, half a pair \udc80"),
        record(1, labels={"a\0": "b"}, max_rss=1 << 70),
        record(1, output="x" * (1 << 20), late=True, count=3, count_is_minimum=True, cpu_seconds=1e-9),
    ],
    ids=["odd text", "odd values", "1 MiB"],
)
async def test_any_record_reads_back_as_it_was(tmp_path: Path, one: RunRecord) -> None:
    spool = Spool.open(tmp_path, cache_bytes=0)
    await spool.append(one)
    assert await spool.read(1) == [(1, one)]
    await spool.close()


async def test_whole_segments_go_when_they_are_acknowledged(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path, segment_bytes=2000)
    for number in range(20):
        await spool.append(record(number))
    segments = sorted(tmp_path.glob("*.spool"))
    assert len(segments) > 3
    full = spool.size_bytes
    await spool.acknowledge(10)
    left = sorted(tmp_path.glob("*.spool"))
    assert left == segments[-len(left) :]
    assert spool.size_bytes == sum(path.stat().st_size for path in left) < full
    assert [position for position, _ in await spool.read(99)] == list(range(11, 21))
    await spool.acknowledge(20)
    assert len(list(tmp_path.glob("*.spool"))) == 1
    await spool.close()


async def test_a_segment_goes_with_the_last_of_its_records_and_not_before(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path, segment_bytes=2000, cache_bytes=0)
    for number in range(9):
        await spool.append(record(number))
    for position in range(1, 9):
        await spool.acknowledge(position)
        assert [one for one, _ in await spool.read(1)] == [position + 1]
    await spool.close()


async def test_what_arrives_together_is_shared_out_among_segments(tmp_path: Path) -> None:
    """A segment is read back as a whole."""
    spool = Spool.open(tmp_path, segment_bytes=5000)
    await fill(spool, 100)
    assert max(path.stat().st_size for path in tmp_path.glob("*.spool")) <= 2 * 5000
    await spool.close()


async def test_a_file_that_is_none_of_the_spools_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "copy of 1.spool").touch()
    spool = Spool.open(tmp_path)
    assert await fill(spool, 2) == await waiting_in(spool)
    await spool.close()


async def test_positions_go_on_after_everything_was_acknowledged_and_removed(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path)
    await fill(spool, 5)
    await spool.acknowledge(5)
    await spool.close()
    for path in tmp_path.glob("*.spool"):
        path.unlink()
    again = Spool.open(tmp_path)
    assert await again.append(record(6)) == 6
    assert [position for position, _ in await again.read(9)] == [6]
    await again.close()


@pytest.mark.parametrize("cursor", ["garbage", "", f"{9:020d} 00000000\n", f"{9:020d}"])
async def test_a_lost_cursor_means_that_all_is_read_again(tmp_path: Path, cursor: str) -> None:
    spool = Spool.open(tmp_path)
    records = await fill(spool, 3)
    await spool.acknowledge(2)
    await spool.close()
    (tmp_path / "cursor").write_text(cursor)
    assert await readable(tmp_path) == records


async def test_without_its_cursor_what_has_been_removed_does_not_seem_to_wait(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path, segment_bytes=1)
    await fill(spool, 5)
    await spool.acknowledge(3)
    await spool.close()
    (tmp_path / "cursor").unlink()
    again = Spool.open(tmp_path)
    assert (again.cursor, again.pending) == (3, 2)
    await again.close()


async def test_a_read_has_a_limit_in_bytes_but_gives_at_least_one(tmp_path: Path) -> None:
    for cache_bytes in (0, 1 << 24):
        spool = Spool.open(tmp_path / str(cache_bytes), cache_bytes=cache_bytes)
        for number in range(4):
            await spool.append(record(number, output="x" * 10_000))
        assert len(await spool.read(99, max_bytes=25_000)) == 2
        assert len(await spool.read(99, max_bytes=1)) == 1
        await spool.close()


async def test_an_append_that_nobody_waits_for_any_more_harms_no_other(spool: Spool) -> None:
    given_up, kept = asyncio.ensure_future(spool.append(record(1))), asyncio.ensure_future(spool.append(record(2)))
    await asyncio.sleep(0)
    given_up.cancel()
    assert await kept == 2
    assert [one.run_id for _, one in await spool.read(9)] == [record(1).run_id, record(2).run_id]


async def test_ten_thousand_records_stay_within_the_cache(tmp_path: Path) -> None:
    """A long absence of the log store costs disk, not memory."""
    spool = Spool.open(tmp_path, cache_bytes=100_000, segment_bytes=500_000)
    for start in range(0, 10_000, 500):
        await fill(spool, 500, first=start)
        assert spool.cached_bytes <= 100_000
    assert spool.pending == 10_000
    for start in itertools.count(0, 500):
        batch = await spool.read(500)
        if not batch:
            break
        assert [one.run_id for _, one in batch] == [record(start + offset).run_id for offset in range(500)]
        await spool.acknowledge(batch[-1][0])
    assert (spool.cursor, spool.cached_bytes) == (10_000, 0)
    await spool.close()


async def test_records_of_a_former_process_are_found_until_they_are_released(tmp_path: Path) -> None:
    """Whatever is delivered meanwhile: what becomes of their runs depends on it."""
    spool = Spool.open(tmp_path, segment_bytes=1000)
    records = [record(number, output="x" * 300) for number in range(12)]
    for one in (*records, record(3, output="again")):
        await spool.append(one)
    await spool.acknowledge(2)
    await spool.close()
    again = Spool.open(tmp_path, segment_bytes=1000)
    await again.append(record(99))
    await again.acknowledge(again.last)
    wanted = [str(record(number).run_id) for number in (3, 7, 99)]
    found = await again.find_former(wanted)
    assert {run_id: one.position for run_id, one in found.items()} == {wanted[0]: 13, wanted[1]: 8}
    assert {one.record.output for one in found.values()} == {""}
    assert await again.find_former([]) == {}
    assert again.pending == 0
    assert len(list(tmp_path.glob("*.spool"))) > 3
    await again.release_former()
    assert len(list(tmp_path.glob("*.spool"))) == 1
    await again.close()


async def test_a_process_that_ends_before_it_has_settled_its_runs_leaves_their_records_to_the_next(
    tmp_path: Path,
) -> None:
    """They were delivered: but the log store may be away when the next one wants to know."""
    spool = Spool.open(tmp_path)
    await spool.append(record(1))
    await spool.close()
    second = Spool.open(tmp_path)
    await second.append(record(2))
    await second.acknowledge(2)
    assert second.pending == 0
    await second.close()
    third = Spool.open(tmp_path)
    wanted = [str(record(number).run_id) for number in (1, 2)]
    assert list(await third.find_former(wanted)) == wanted
    await third.acknowledge(third.last)
    await third.release_former()
    await third.close()
    fourth = Spool.open(tmp_path)
    assert await fourth.find_former(wanted) == {}
    assert fourth.pending == 0
    await fourth.close()


async def test_each_is_told_once_in_order_also_what_comes_from_within(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path, segment_bytes=1)
    told: list[tuple[int, int | SpoolError]] = []

    def tell(number: int, outcome: int | SpoolError) -> None:
        told.append((number, outcome))
        if number < 7:
            spool.accept(record(number + 3), partial(tell, number + 3))

    for number in (1, 2, 3):
        spool.accept(record(number), partial(tell, number))
    await spool.close()
    assert told == [(number, number) for number in range(1, 10)]


async def test_what_comes_while_it_is_being_closed_is_kept_and_told(tmp_path: Path) -> None:
    spool, needed = Spool.open(tmp_path), {1}
    await spool.append(record(1), partial(needed.__contains__, 1))
    await spool.acknowledge(1)
    needed.clear()  # it is written down as delivered when the spool is closed
    closing = asyncio.create_task(spool.close())
    await asyncio.sleep(0)
    told: list[int | SpoolError] = []
    for number in (2, 3, 4):
        spool.accept(record(number), told.append)
    await closing
    assert told == [2, 3, 4]


async def test_what_comes_after_the_end_is_refused(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path)
    await spool.close()
    with pytest.raises(SpoolError, match="its worker stops"):
        await spool.append(record(1))
    with pytest.raises(SpoolError, match="its worker stops"):
        await spool.acknowledge(1)


async def test_what_is_delivered_and_still_needed_is_found_by_the_next_process(tmp_path: Path) -> None:
    """Etcd does not know yet that the run has ended: who begins next must not take it for lost."""
    spool, needed = Spool.open(tmp_path), {1, 2, 4}
    for number in (1, 2, 3, 4):
        await spool.append(record(number), partial(needed.__contains__, number))
    needed.remove(1)
    await spool.acknowledge(4)
    assert spool.pending == 0
    killed = tmp_path / "killed"
    shutil.copytree(tmp_path, killed)
    later = Spool.open(killed)
    wanted = [str(record(number).run_id) for number in (1, 2, 3, 4)]
    assert list(await later.find_former(wanted)) == wanted[1:]
    await later.close()
    needed.clear()
    await spool.close()
    again = Spool.open(tmp_path)
    assert await again.find_former(wanted) == {}
    await again.close()


async def test_what_is_needed_behind_one_that_stays_is_not_remembered_for_ever(tmp_path: Path) -> None:
    spool, needed = Spool.open(tmp_path), {0}
    await spool.append(record(0), lambda: True)
    for number in range(1, 6):
        needed.add(number)
        await asyncio.gather(*(spool.append(record(1), partial(needed.__contains__, number)) for _ in range(600)))
        needed.remove(number)
    assert len(spool._needed) <= 1601
    await spool.close()


async def test_what_is_still_needed_stays_needed_when_the_rest_is_forgotten(tmp_path: Path) -> None:
    spool, needed = Spool.open(tmp_path), {0, 1, 2}
    numbers = (0, 1, *([2] * 1200))
    await asyncio.gather(*(spool.append(record(one), partial(needed.__contains__, one)) for one in numbers))
    needed.remove(0)
    await spool.acknowledge(spool.last)
    await spool.close()
    again = Spool.open(tmp_path)
    wanted = str(record(1).run_id)
    assert list(await again.find_former([wanted])) == [wanted]
    await again.close()


async def test_what_is_needed_and_not_delivered_yet_takes_nothing_before_it_along(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path, segment_bytes=1)
    for number in (1, 2, 3, 4):
        await spool.append(record(number), partial({4}.__contains__, number))
    await spool.acknowledge(1)
    await spool.close()
    assert await readable(tmp_path) == [record(number) for number in (2, 3, 4)]


async def test_a_large_segment_goes_when_all_of_it_is_delivered(tmp_path: Path) -> None:
    """Else a small disk that is full of delivered records would stay so."""
    spool = Spool.open(tmp_path)
    await spool.append(record(1, output="x" * 300_000))
    await spool.acknowledge(1)
    assert (spool.size_bytes, list(tmp_path.glob("*.spool"))) == (0, [])
    assert await spool.append(record(2)) == 2
    await spool.close()
    again = Spool.open(tmp_path)
    assert (again.last, await waiting_in(again)) == (2, [record(2)])
    await again.close()


async def test_a_large_segment_stays_while_a_record_is_on_its_way_into_it(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path)
    await spool.append(record(1, output="x" * 300_000))
    coming = asyncio.create_task(spool.append(record(2)))
    await asyncio.sleep(0)
    await spool.acknowledge(1)
    assert await coming == 2
    await spool.close()
    assert await readable(tmp_path) == [record(2)]
