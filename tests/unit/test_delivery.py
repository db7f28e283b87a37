"""Delivery against a log store that does as told: what is batched, retried, cut short and set aside."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from common.clock import Clock, SystemClock
from common.errors import UnavailableError
from common.protocol.keys import RunId
from common.protocol.run import RunRecord, last_order
from common.runlog import Advance, Rejection, WriteResult
from common.runlog.last import advances_of, joined
from tests.support.background import running
from tests.support.fake_clock import FakeClock
from tests.support.records import NothingTold, record
from tests.support.waiting import wait_until
from worker.record.delivery import Delivery
from worker.record.spool import Spool
from worker.record.spool_segments import read_cursor

NEVER_MS = 3_600_000


class ToldStore:
    """Stores what it is given, unless told otherwise."""

    def __init__(self) -> None:
        self.batches: list[list[RunRecord]] = []
        self.last: dict[str, Advance] = {}
        """By job, all that was put."""
        self.open = asyncio.Event()
        self.open.set()
        self.asked = 0
        self.puts = 0
        self.away = False
        self.last_away = False
        self.fault: Exception | None = None
        """What nobody foresaw."""
        self.refuses_output: set[RunId] = set()
        self.refuses: set[RunId] = set()
        self.meanwhile: Callable[[int], Awaitable[None]] | None = None
        """What happens while the batch of this number (the first is 1) is written."""

    async def write(self, records: Sequence[RunRecord], *, advance_last: bool = True) -> WriteResult:
        self.asked += 1
        await self.open.wait()
        if self.away:
            raise UnavailableError("the log store is told to be away")
        if self.fault is not None:
            raise self.fault
        bad = [
            one for one in records if one.run_id in self.refuses or (one.output and one.run_id in self.refuses_output)
        ]
        self.batches.append([one for one in records if one not in bad])
        if self.meanwhile is not None:
            await self.meanwhile(len(self.batches))
        return WriteResult(rejected=tuple(Rejection(run_id=one.run_id, reason="told to") for one in bad))

    async def put_last(self, advances: Iterable[Advance]) -> None:
        if self.last_away:
            raise UnavailableError("the log store is told to be away")
        self.puts += 1
        self.last.update({one.job: joined(one, self.last.get(one.job, one)) for one in advances})

    @property
    def stored(self) -> list[RunRecord]:
        return [one for batch in self.batches for one in batch]

    @property
    def sizes(self) -> list[int]:
        return [len(batch) for batch in self.batches]


class Rig:
    """A spool, a store that does as told, and the delivery between them."""

    def __init__(self, directory: Path, store: ToldStore, *, commit_timeout_ms: int, clock: Clock) -> None:
        self.spool = Spool.open(directory)
        self.store = store
        self.delivered: list[RunId] = []
        self.fires_wait = False
        self.told = NothingTold()
        self.delivery = Delivery(
            self.spool, store, self.told, clock=clock, commit_timeout_ms=commit_timeout_ms,
            on_delivered=self.delivered.extend, is_pressed=lambda: self.fires_wait, jitter=lambda: 0.0,
        )  # fmt: skip

    async def append(self, *numbers: int) -> None:
        await asyncio.gather(*(self.spool.append(record(number)) for number in numbers))

    async def all_settled(self) -> None:
        await wait_until(lambda: self.spool.pending == 0, description="all records are delivered")


@pytest.fixture
def store() -> ToldStore:
    return ToldStore()


@asynccontextmanager
async def delivering(
    directory: Path, store: ToldStore, *, commit_timeout_ms: int = 20, clock: Clock | None = None
) -> AsyncIterator[Rig]:
    rig = Rig(directory, store, commit_timeout_ms=commit_timeout_ms, clock=clock or SystemClock())
    async with running(rig.delivery.run()):
        yield rig
    await rig.spool.close()


async def test_a_record_that_comes_alone_is_delivered_at_once_and_flush_waits_for_no_batch(
    tmp_path: Path, store: ToldStore
) -> None:
    async with delivering(tmp_path, store, commit_timeout_ms=NEVER_MS) as rig:
        assert await rig.delivery.flush(5)
        await rig.append(1)
        await rig.all_settled()
        assert rig.delivered == [record(1).run_id]
        assert store.last["backup"].result["runId"] == str(record(1).run_id)
        assert rig.delivery.state.delivered == 1
        await rig.append(2, 3)
        assert await rig.delivery.flush(5)
        assert store.stored == [record(1), record(2), record(3)]
        assert rig.spool.pending == 0
        assert rig.delivery.state.delivered == 3


async def test_records_that_keep_coming_wait_for_a_full_batch(tmp_path: Path, store: ToldStore) -> None:
    async with delivering(tmp_path, store, commit_timeout_ms=NEVER_MS) as rig:
        await rig.append(0)
        await rig.all_settled()
        await rig.append(*range(1, 60))
        await rig.append(*range(60, 101))
        await rig.all_settled()
        assert store.sizes == [1, 100]


async def test_a_batch_that_does_not_fill_waits_no_longer_than_the_timeout(tmp_path: Path, store: ToldStore) -> None:
    async with delivering(tmp_path, store, commit_timeout_ms=50) as rig:
        for number in range(3):
            await rig.append(number)
            await rig.all_settled()
        assert store.sizes == [1, 1, 1]


async def test_what_waits_while_fires_do_is_written_when_none_does_any_more(tmp_path: Path, store: ToldStore) -> None:
    clock = FakeClock()
    async with delivering(tmp_path, store, clock=clock) as rig:
        rig.fires_wait = True
        await rig.append(1)
        await rig.all_settled()
        await rig.append(2)
        clock.advance(1000)
        await asyncio.sleep(0.1)
        assert len(store.stored) == 1
        rig.fires_wait = False
        await rig.all_settled()


async def test_in_a_burst_batches_grow_and_the_last_results_wait(tmp_path: Path, store: ToldStore) -> None:
    async with delivering(tmp_path, store) as rig:
        store.open.clear()
        await rig.append(0)
        await rig.append(*range(1, 1201))
        store.open.set()
        await rig.all_settled()
        assert store.sizes == [1, 500, 500, 200]
        assert (store.puts, store.last["backup"].oldest) == (2, last_order(record(0)))
        assert store.last["backup"].result["runId"] == str(record(1200).run_id)
        assert rig.delivered == [record(number).run_id for number in range(1201)]


async def test_the_last_records_of_a_burst_do_not_wait_for_the_last_results_of_the_others(
    tmp_path: Path, store: ToldStore
) -> None:
    async with delivering(tmp_path, store, commit_timeout_ms=NEVER_MS) as rig:
        store.open.clear()
        await rig.append(0)
        await rig.append(*range(1, 1051))
        store.open.set()
        await wait_until(lambda: store.puts > 0, description="the last results are put")
        assert store.sizes == [1, 500, 500, 50]


async def test_an_outage_is_waited_out_and_visible(
    tmp_path: Path, store: ToldStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    store.away = True
    async with delivering(tmp_path, store) as rig:
        await rig.append(1, 2)
        await wait_until(lambda: not rig.delivery.state.healthy, description="the outage is seen")
        state = rig.delivery.state
        assert (state.waiting, state.last_error) == (2, "the log store is told to be away")
        await wait_until(lambda: store.asked >= 3, description="it is tried again")
        assert rig.delivery.state.away_since_ms == state.away_since_ms
        store.away = False
        await rig.all_settled()
        await wait_until(lambda: rig.delivery.state.healthy, description="the end of the outage is seen")
        assert store.stored == [record(1), record(2)]
        assert rig.delivery._failures == 0, "the pauses of the next one begin anew"
    actions = [entry.__dict__["action"] for entry in caplog.records]
    assert actions == ["log_store_away", "log_store_back"]


async def test_a_disk_that_does_not_take_the_last_cursor_is_tried_again(
    tmp_path: Path, store: ToldStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(directory: Path, position: int) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    async with delivering(tmp_path, store) as rig:
        with monkeypatch.context() as patch:
            patch.setattr("worker.record.spool.write_cursor", refuses)
            await rig.append(1)
            await wait_until(lambda: not rig.delivery.state.healthy, description="the fault is seen")
            assert await rig.delivery.flush(5), "all is delivered"
        await wait_until(lambda: rig.delivery.state.healthy, description="the end of the fault is seen")
        assert read_cursor(tmp_path) == 1
    assert store.stored == [record(1)]


class ClockOfASlowStore(SystemClock):
    """By this clock, each batch takes the log store a quarter of a minute."""

    def __init__(self, store: ToldStore) -> None:
        self._store = store

    def monotonic(self) -> float:
        return super().monotonic() + 15 * len(self._store.batches)


async def test_what_an_outage_has_left_comes_in_small_batches_with_rests_between(
    tmp_path: Path, store: ToldStore
) -> None:
    store.away = True
    async with delivering(tmp_path, store, clock=ClockOfASlowStore(store)) as rig:
        await rig.append(*range(450))
        await wait_until(lambda: not rig.delivery.state.healthy, description="the outage is seen")
        store.away = False
        await wait_until(lambda: len(rig.delivered) == 200, description="the first batch is delivered")
        assert rig.delivery.state.waiting == 450
        assert await rig.delivery.flush(1.5), "who is in a hurry does not rest"
        assert store.sizes == [200, 200, 50]
        store.open.clear()
        await rig.append(450)
        await rig.append(*range(451, 1051))
        store.open.set()
        await rig.all_settled()
        assert max(store.sizes[3:]) == 500, "it is over"


async def test_what_a_former_life_has_left_comes_in_small_batches_too(tmp_path: Path, store: ToldStore) -> None:
    spool = Spool.open(tmp_path)
    await asyncio.gather(*(spool.append(record(number)) for number in range(450)))
    await spool.close()
    async with delivering(tmp_path, store) as rig:
        await rig.all_settled()
    assert store.sizes == [200, 200, 50]


async def test_rests_wait_until_the_backlog_has_shrunk_where_records_keep_coming(
    tmp_path: Path, store: ToldStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than a quarter of what the store takes keeps coming: with a rest after each batch it would never end."""
    rests: list[int] = []

    async def rest(delivery: Delivery, took_seconds: float) -> None:
        rests.append(len(store.batches))

    monkeypatch.setattr(Delivery, "_rest", rest)
    store.away = True
    async with delivering(tmp_path, store) as rig:
        store.meanwhile = lambda batch: rig.append(*range(batch * 1000, batch * 1000 + 150))
        await rig.append(*range(1000))
        await wait_until(lambda: not rig.delivery.state.healthy, description="the outage is seen")
        store.away = False
        await wait_until(lambda: len(store.batches) >= 6, description="six batches are written")
        store.meanwhile = None
        await rig.all_settled()
        assert rests[:3] == [1, 3, 5]


async def test_the_spool_keeps_what_the_last_results_do_not_know_yet(tmp_path: Path, store: ToldStore) -> None:
    store.last_away = True
    async with delivering(tmp_path, store) as rig:
        await rig.append(1)
        await wait_until(lambda: not rig.delivery.state.healthy, description="the outage is seen")
        assert rig.delivered == [record(1).run_id]
        assert rig.spool.pending == 1
        store.last_away = False
        await rig.all_settled()
        assert store.last["backup"].result["runId"] == str(record(1).run_id)
        assert store.stored == [record(1)]


async def test_a_refused_record_is_stored_without_its_output(tmp_path: Path, store: ToldStore) -> None:
    store.refuses_output = {record(3).run_id}
    async with delivering(tmp_path, store, commit_timeout_ms=NEVER_MS) as rig:
        store.open.clear()
        await rig.append(1, 2, 3)
        store.open.set()
        assert await rig.delivery.flush(5)
        stored = {one.run_id: one for one in store.stored}
        assert stored[record(3).run_id] == record(3).without_output("output not stored: told to")
        assert stored[record(2).run_id] == record(2)
        assert set(rig.delivered) == {record(number).run_id for number in (1, 2, 3)}
        assert rig.delivery.state.set_aside == 0


async def test_a_record_that_is_refused_in_every_form_is_set_aside_and_said(
    tmp_path: Path, store: ToldStore, caplog: pytest.LogCaptureFixture
) -> None:
    store.refuses = {record(2).run_id}
    async with delivering(tmp_path, store) as rig:
        await rig.append(1, 2, 3)
        await rig.all_settled()
        assert set(rig.delivered) == {record(number).run_id for number in (1, 2, 3)}
        assert store.last["backup"].entries == advances_of([record(1), record(3)])[0].entries
        assert rig.delivery.state.set_aside == 1
        assert rig.told.added == rig.delivered  # also what it tells
    (line,) = (tmp_path / "rejected.jsonl").read_text().splitlines()
    assert json.loads(line)["record"]["_id"] == str(record(2).run_id)
    assert [entry.__dict__["action"] for entry in caplog.records] == ["record_set_aside"]


async def left_unreadable(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A former life has left a record that this one cannot read."""
    spool = Spool.open(directory)
    with monkeypatch.context() as patched:
        patched.setattr(RunRecord, "to_document", lambda self: {"_id": "from the future"})
        await spool.append(record(1))
    await spool.close()


async def test_a_record_in_the_spool_that_cannot_be_read_stops_no_other(
    tmp_path: Path, store: ToldStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await left_unreadable(tmp_path, monkeypatch)
    async with delivering(tmp_path, store) as rig:
        await rig.all_settled()
        await rig.append(2)
        await rig.all_settled()
        assert store.stored == [record(2)]


async def test_what_comes_while_unreadable_records_are_passed_over_is_delivered(
    tmp_path: Path, store: ToldStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await left_unreadable(tmp_path, monkeypatch)
    store.open.clear()
    async with delivering(tmp_path, store) as rig:
        await wait_until(lambda: store.asked > 0, description="it has found nothing to write")
        await rig.append(2)
        store.open.set()
        await rig.all_settled()
        assert store.stored == [record(2)]


async def test_an_error_that_nobody_foresaw_is_told_once_and_ends_no_delivery(
    tmp_path: Path, store: ToldStore, caplog: pytest.LogCaptureFixture
) -> None:
    store.fault = TypeError("a document of another version")
    async with delivering(tmp_path, store) as rig:
        await rig.append(1)
        await wait_until(lambda: store.asked > 2, description="it tries again and again")
        assert rig.delivery.state.last_error == "a document of another version"
        store.fault = None
        await rig.all_settled()
        assert store.stored == [record(1)]
        await wait_until(lambda: rig.delivery.state.healthy, description="it says that all is well again")
    [said] = [one for one in caplog.records if getattr(one, "action", "") == "delivery.failed"]
    assert said.exc_info


async def test_what_the_last_process_left_is_delivered(tmp_path: Path, store: ToldStore) -> None:
    spool = Spool.open(tmp_path)
    for number in range(3):
        await spool.append(record(number))
    await spool.acknowledge(1)
    await spool.close()
    async with delivering(tmp_path, store) as rig:
        await rig.all_settled()
        assert store.stored == [record(1), record(2)]


async def test_flush_gives_up_at_its_deadline(tmp_path: Path, store: ToldStore) -> None:
    store.away = True
    async with delivering(tmp_path, store) as rig:
        await rig.append(1)
        assert not await rig.delivery.flush(0.05)
        assert rig.delivery.state.waiting == 1


async def test_nothing_more_is_written_while_too_much_waits_to_be_told(tmp_path: Path, store: ToldStore) -> None:
    async with delivering(tmp_path, store) as rig:
        await rig.append(0)
        await rig.all_settled()
        rig.told.is_full = True
        await rig.append(*range(1, 5))
        assert not await rig.delivery.flush(0.2)
        assert store.sizes == [1]
        rig.told.is_full = False
        await rig.all_settled()
    assert sum(store.sizes) == 5
