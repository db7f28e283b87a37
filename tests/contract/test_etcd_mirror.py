"""The mirror: its consumer is in step with the prefix, whatever happens to the watch."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest

from common.clock import SystemClock
from common.etcd import Change, EtcdClient, Mirror, MirrorTimings, Page
from common.etcd.calls import Stream
from common.etcd.mirror import AT_ONCE
from common.protocol.txn import Delete, Get, Operation, Put, Txn
from tests.support.background import running
from tests.support.etcd_server import EtcdServer
from tests.support.fake_clock import FakeClock
from tests.support.proxy import Mode, Proxy
from tests.support.waiting import wait_until

pytestmark = pytest.mark.etcd

QUICK = MirrorTimings(progress_s=0.1, silence_s=0.6, grace_s=0.3)
PATIENT = MirrorTimings(progress_s=0.1, silence_s=30, grace_s=0.3)


class Copy:
    """A consumer that checks each change against what it was told before."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.mods: dict[str, int] = {}
        self.changes: list[Change] = []
        self.bad: set[str] = set()

    def take(self, changes: list[Change]) -> None:
        keys = [change.key for change in changes]
        assert len(set(keys)) == len(keys)
        for change in changes:
            if change.key in self.bad:
                raise ValueError(f"cannot read {change.key}")
            if change not in self.changes:  # told again after another one of its list was not taken
                assert change.old_mod == self.mods.get(change.key)
                self.changes.append(change)
            self._apply(change)

    def _apply(self, change: Change) -> None:
        if change.new is None:
            self.mods.pop(change.key, None)
            self.values.pop(change.key, None)
        else:
            self.mods[change.key] = change.new.mod_revision
            self.values[change.key] = change.new.value


def mirror_of(client: EtcdClient, prefix: str, copy: Copy, timings: MirrorTimings = PATIENT) -> Mirror:
    return Mirror(client, prefix, copy.take, clock=SystemClock(), timings=timings, page=100)


async def synced(mirror: Mirror) -> None:
    async with asyncio.timeout(60):
        await mirror.synced.wait()


async def test_tells_what_is_there_then_every_change(client: EtcdClient, prefix: str) -> None:
    await client.txn(Txn([], [Put(f"{prefix}{number:03}", b"old") for number in range(120)]))
    await client.txn(Txn([], [Put(f"{prefix}{number:03}", b"old") for number in range(120, 240)]))
    copy = Copy()
    mirror = mirror_of(client, prefix, copy)
    async with running(mirror.run()):
        await synced(mirror)
        assert len(copy.values) == len(mirror) == 240
        assert all(change.old_mod is None for change in copy.changes)

        await client.put(prefix + "000", b"new")
        await client.delete(prefix + "001")
        revision = await client.put(prefix + "new", b"new")
        await client.put("/elsewhere", b"")
        await wait_until(lambda: mirror.revision >= revision, description="the changes have arrived")
        assert copy.values[prefix + "000"] == b"new"
        assert prefix + "001" not in copy.values
        assert mirror.revision == mirror.newest_mod_revision == revision
        assert mirror.readings == 1


async def test_a_key_deleted_and_made_in_one_breath_ends_as_it_is(client: EtcdClient, prefix: str) -> None:
    copy = Copy()
    mirror = mirror_of(client, prefix, copy)
    async with running(mirror.run()):
        await synced(mirror)
        for number in range(50):
            await client.put(prefix + "a", f"{number}".encode())
            await client.delete(prefix + "a")
        await client.put(prefix + "a", b"last")
        await client.put(prefix + "b", b"")
        await wait_until(lambda: prefix + "b" in copy.values, description="everything has arrived")
        assert copy.values[prefix + "a"] == b"last"


async def test_a_batch_larger_than_an_answer_arrives_whole(client: EtcdClient, prefix: str) -> None:
    copy = Copy()
    mirror = mirror_of(client, prefix, copy)
    async with running(mirror.run()):
        await synced(mirror)
        puts: list[Operation] = [Put(f"{prefix}{number:03}", bytes(11_000)) for number in range(128)]
        for _ in range(3):  # more than a megabyte each: etcd sends each revision in fragments
            await client.txn(Txn([], puts))
        await client.txn(Txn([], [Delete(f"{prefix}{number:03}") for number in range(128)]))
        await client.put(prefix + "end", b"")
        await wait_until(lambda: prefix + "end" in copy.values, description="everything has arrived")
        assert list(copy.values) == [prefix + "end"]
        assert mirror.readings == 1


async def test_goes_on_after_a_restart_and_tells_what_changed_meanwhile(
    own_etcd: EtcdServer, own_client: EtcdClient
) -> None:
    for key in ("stays", "changes", "goes"):
        await own_client.put("/p/" + key, b"old")
    copy = Copy()
    async with Proxy(own_etcd.endpoint) as proxy, EtcdClient([proxy.endpoint], clock=SystemClock()) as behind:
        mirror = mirror_of(behind, "/p/", copy)
        async with running(mirror.run()):
            await synced(mirror)
            proxy.set(Mode.RESET)
            await own_etcd.restart()
            await wait_until(lambda: put(own_client, "/p/changes"), description="etcd is back")
            await own_client.delete("/p/goes")
            await own_client.put("/p/comes", b"new")
            copy.changes.clear()
            proxy.set(Mode.PASS)
            await wait_until(lambda: len(copy.changes) >= 3, description="all that has changed is told")
            assert sorted(change.key for change in copy.changes) == ["/p/changes", "/p/comes", "/p/goes"]
            await own_client.put("/p/watched", b"")
            await wait_until(lambda: "/p/watched" in copy.values, description="it watches again")
            assert mirror.readings == 1, "what is known already is not read once more"


async def test_an_etcd_that_was_restored_from_a_backup_is_followed_from_there(
    own_etcd: EtcdServer, own_client: EtcdClient, tmp_path: Path
) -> None:
    await own_client.put("/p/stays", b"old")
    await own_client.put("/p/changes", b"old")
    await own_etcd.stop()
    shutil.copytree(own_etcd.data_dir, tmp_path / "backup")
    await own_etcd.start()
    copy = Copy()
    mirror = mirror_of(own_client, "/p/", copy)
    async with running(mirror.run()):
        await synced(mirror)
        for key in ("changes", "comes", *(f"more-{number}" for number in range(20))):
            await own_client.put("/p/" + key, b"new")
        await wait_until(lambda: len(copy.values) == 23, description="all is told")
        earlier, misses = mirror.revision, mirror.misses
        await own_etcd.kill()
        shutil.rmtree(own_etcd.data_dir)
        shutil.copytree(tmp_path / "backup", own_etcd.data_dir)
        await own_etcd.start()
        await wait_until(lambda: mirror.readings > 1, description="it has read again")
        assert copy.values == {"/p/stays": b"old", "/p/changes": b"old"}
        sentinel = await own_client.put("/p/watched", b"")
        assert sentinel < earlier
        await wait_until(lambda: "/p/watched" in copy.values, description="it watches from there")
        assert (mirror.revision, mirror.newest_mod_revision, mirror.misses) == (sentinel, sentinel, misses)


async def test_an_etcd_that_was_restored_and_is_ahead_again_is_read_again(
    own_etcd: EtcdServer, own_client: EtcdClient, tmp_path: Path
) -> None:
    await own_client.put("/p/changes", b"old")
    await own_etcd.stop()
    shutil.copytree(own_etcd.data_dir, tmp_path / "backup")
    await own_etcd.start()
    copy = Copy()
    async with Proxy(own_etcd.endpoint) as proxy, EtcdClient([proxy.endpoint], clock=SystemClock()) as behind:
        mirror = mirror_of(behind, "/p/", copy)
        async with running(mirror.run()):
            await synced(mirror)
            await own_client.put("/p/changes", b"new")
            await wait_until(lambda: copy.values == {"/p/changes": b"new"}, description="it is told")
            proxy.set(Mode.RESET)
            await own_etcd.kill()
            shutil.rmtree(own_etcd.data_dir)
            shutil.copytree(tmp_path / "backup", own_etcd.data_dir)
            await own_etcd.start()
            await wait_until(lambda: put(own_client, "/elsewhere"), description="etcd is back")
            while await own_client.put("/elsewhere", b"") <= mirror.revision:
                pass
            proxy.set(Mode.PASS)
            await wait_until(lambda: copy.values == {"/p/changes": b"old"}, description="it has read again")


async def test_a_compaction_beyond_the_last_event_costs_a_reading_but_where_a_sentinel_has_matched_since(
    own_etcd: EtcdServer, own_client: EtcdClient
) -> None:
    copies = [Copy(), Copy()]
    async with Proxy(own_etcd.endpoint) as proxy, EtcdClient([proxy.endpoint], clock=SystemClock()) as behind:
        one, other = (mirror_of(behind, "/p/", copy) for copy in copies)
        async with running(one.run()), running(other.run()):
            await synced(one)
            await synced(other)
            await own_client.txn(Txn([], [Put("/p/a", b""), Put("/seen", b"")]))
            await wait_until(lambda: all("/p/a" in copy.values for copy in copies), description="both are told")
            for _ in range(3):
                await own_client.put("/elsewhere", b"")
            answer = await own_client.txn(Txn((), [Get("/seen")]))
            sentinel = answer.one(0)
            assert sentinel is not None
            assert not one.missed(sentinel.mod_revision, answer.revision)
            await own_client.compact(answer.revision)
            proxy.set(Mode.RESET)
            await own_client.delete("/p/a")
            proxy.set(Mode.PASS)
            await wait_until(lambda: not any(copy.values for copy in copies), description="both are told again")
            assert (one.readings, other.readings) == (1, 2)


async def test_a_watch_that_is_opened_again_tells_nothing_twice(client: EtcdClient, prefix: str) -> None:
    copy = Copy()
    mirror = mirror_of(client, prefix, copy)
    async with running(mirror.run()):
        await synced(mirror)
        await client.put(prefix + "a", b"1")
        await client.delete(prefix + "a")
        await client.put(prefix + "a", b"2")
        await wait_until(lambda: copy.values == {prefix + "a": b"2"}, description="it is told")
    before = len(copy.changes)
    mirror._delivered_up_to -= 3  # as if it had been interrupted before it had noted how far it was
    async with running(mirror.run()):
        await client.put(prefix + "b", b"")
        await wait_until(lambda: prefix + "b" in copy.values, description="it watches again")
    assert [change.key for change in copy.changes[before:]] == [prefix + "b"]
    assert mirror.readings == 1


async def put(client: EtcdClient, key: str) -> bool:
    try:
        await client.put(key, b"new")
    except Exception:
        return False
    return True


async def test_compaction_while_disconnected_costs_only_a_reading(own_etcd: EtcdServer, own_client: EtcdClient) -> None:
    await own_client.put("/p/a", b"old")
    copy = Copy()
    async with Proxy(own_etcd.endpoint) as proxy, EtcdClient([proxy.endpoint], clock=SystemClock()) as behind:
        mirror = mirror_of(behind, "/p/", copy)
        async with running(mirror.run()):
            await synced(mirror)
            proxy.set(Mode.RESET)
            await own_client.delete("/p/a")
            await own_client.compact(await own_client.put("/p/b", b"new"))
            proxy.set(Mode.PASS)
            await wait_until(lambda: copy.values == {"/p/b": b"new"}, description="it is in step")


async def test_a_watch_from_a_compacted_revision_is_cancelled_and_read_again(
    own_client: EtcdClient, caplog: pytest.LogCaptureFixture
) -> None:
    copy = Copy()
    mirror = mirror_of(own_client, "/p/", copy)
    opening = own_client.watch_stream

    async def compact_then_open() -> object:
        if not copy.changes:  # between the revision that it is to begin at and the watch
            await own_client.put("/p/a", b"1")
            await own_client.put("/p/a", b"2")
            await own_client.compact(await own_client.put("/p/a", b"3"))
        return await opening()

    own_client.watch_stream = compact_then_open  # type: ignore[assignment,method-assign]
    with caplog.at_level(logging.WARNING):
        async with running(mirror.run()):
            await wait_until(lambda: bool(caplog.records) and mirror.synced.is_set(), description="it has read again")
            await wait_until(lambda: copy.values == {"/p/a": b"3"}, description="it is in step")
    [record] = [record for record in caplog.records if getattr(record, "action", "") == "mirror.interrupted"]
    assert "compacted" in record.getMessage()


async def test_a_watch_that_goes_silent_is_given_up(shared_etcd: EtcdServer, client: EtcdClient, prefix: str) -> None:
    copy = Copy()
    async with (
        Proxy(shared_etcd.endpoint) as silent,
        Proxy(shared_etcd.endpoint) as other,
        EtcdClient([silent.endpoint, other.endpoint], timeout=1, clock=SystemClock()) as behind,
    ):
        mirror = mirror_of(behind, prefix, copy, QUICK)
        async with running(mirror.run()):
            await synced(mirror)
            silent.set(Mode.ONE_WAY)
            await client.put(prefix + "a", b"")
            silent_since = SystemClock().monotonic()
            await wait_until(lambda: prefix + "a" in copy.values, description="it is in step by another member")
            assert mirror.last_alive > silent_since


async def test_a_quiet_prefix_is_no_silence(client: EtcdClient, prefix: str) -> None:
    copy = Copy()
    mirror = mirror_of(client, prefix, copy, QUICK)
    async with running(mirror.run()):
        await synced(mirror)
        started = mirror.last_alive
        await wait_until(lambda: mirror.last_alive > started + 1.0, description="signs of life for a second")
        assert mirror.readings == 1


class _Silent:
    """A stream that takes what it is asked, and never answers."""

    def __init__(self) -> None:
        self.asked = 0

    async def write(self, message: Any) -> None:
        self.asked += 1


async def test_only_a_watch_that_has_told_nothing_since_the_look_before_is_asked_for_a_sign_of_life(
    client: EtcdClient, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, stream, looks = FakeClock(), _Silent(), 0

    def look() -> bool:
        nonlocal looks
        looks += 1
        return False

    mirror = Mirror(client, prefix, Copy().take, clock=clock, timings=MirrorTimings(progress_s=0.01))
    monkeypatch.setattr(mirror, "_overdue", look)  # asked for at each look
    async with running(mirror._look_after(cast(Stream, stream))):
        await wait_until(lambda: stream.asked >= 3, description="it is asked at each look while nothing comes")
        mirror.last_alive = clock.monotonic() + 1
        asked, looked = stream.asked, looks
        await wait_until(lambda: looks > looked + 3, description="it looks on")
        assert stream.asked == asked


async def test_a_watch_is_given_up_for_silence_only_when_two_questions_have_no_answer(
    client: EtcdClient, prefix: str
) -> None:
    clock, stream = FakeClock(), _Silent()
    mirror = Mirror(client, prefix, Copy().take, clock=clock, timings=MirrorTimings(progress_s=0.01))
    mirror.last_alive = clock.monotonic() - 60
    with pytest.raises(Exception, match="silent for"):
        await mirror._look_after(cast(Stream, stream))
    assert stream.asked == 2


async def test_an_answer_that_comes_while_it_is_still_being_asked_is_one(client: EtcdClient, prefix: str) -> None:
    clock = FakeClock()
    mirror = Mirror(client, prefix, Copy().take, clock=clock, timings=MirrorTimings(progress_s=0.01))

    class Slow(_Silent):
        async def write(self, message: Any) -> None:
            await super().write(message)
            clock.advance(1_000)
            if self.asked <= 3:
                mirror.last_alive = clock.monotonic()
                clock.advance(1_000)
            else:
                clock.advance(30_000)

    stream = Slow()
    with pytest.raises(Exception, match="silent for"):
        await mirror._look_after(cast(Stream, stream))
    assert stream.asked == 3 + 2


async def test_a_resync_finds_nothing_where_nothing_was_missed(client: EtcdClient, prefix: str) -> None:
    await client.put(prefix + "a", b"")
    copy = Copy()
    mirror = mirror_of(client, prefix, copy)
    async with running(mirror.run()):
        await synced(mirror)
        mirror.resync("a test wants it")
        await wait_until(lambda: mirror.readings == 2, description="it has read again")
        assert len(copy.changes) == 1


async def test_a_sentinel_that_has_arrived_is_not_missed(client: EtcdClient, prefix: str) -> None:
    copy = Copy()
    mirror = mirror_of(client, prefix, copy)
    async with running(mirror.run()):
        await synced(mirror)
        result = await client.txn(Txn([], [Put(prefix + "a", b""), Put("/seen" + prefix, b"")]))
        await wait_until(lambda: mirror.revision >= result.revision, description="the write has arrived")
        assert not mirror.missed(result.revision)


async def test_a_sentinel_of_a_write_that_never_arrives_makes_it_read_again(client: EtcdClient, prefix: str) -> None:
    copy = Copy()
    mirror = mirror_of(client, prefix, copy)
    async with running(mirror.run()):
        await synced(mirror)
        sentinel = await client.put("/seen" + prefix, b"")  # without the write that it speaks of
        assert not mirror.missed(sentinel)  # it could still be on its way
        await wait_until(lambda: mirror.readings == 2, description="it has read again by itself")
        assert not mirror.missed(sentinel)


async def test_a_change_that_is_not_taken_harms_no_other(client: EtcdClient, prefix: str) -> None:
    await client.txn(Txn([], [Put(prefix + key, b"") for key in ("a", "bad", "z")]))
    copy = Copy()
    copy.bad.add(prefix + "bad")
    failed: list[tuple[str, str]] = []
    mirror = Mirror(
        client,
        prefix,
        copy.take,
        clock=SystemClock(),
        on_error=lambda change, error: failed.append((change.key, str(error))),
        timings=PATIENT,
    )
    async with running(mirror.run()):
        await synced(mirror)
        assert sorted(copy.values) == [prefix + "a", prefix + "z"]
        await client.put(prefix + "later", b"")
        await wait_until(lambda: prefix + "later" in copy.values, description="it goes on")
    assert failed == [(prefix + "bad", f"cannot read {prefix}bad")]


async def test_many_changes_are_told_some_at_a_time_and_others_have_their_turn_in_between(
    client: EtcdClient, prefix: str
) -> None:
    """At most what one transaction may write more than `AT_ONCE`; a transaction is told whole."""
    lists: list[list[Change]] = []
    turns = 0

    async def other_work() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def fill() -> None:
        for start in range(0, 3000, 100):
            await client.txn(Txn([], [Put(f"{prefix}{number:04}", b"") for number in range(start, start + 100)]))

    await fill()
    mirror = Mirror(client, prefix, lists.append, clock=SystemClock(), timings=PATIENT)
    async with running(mirror.run()):
        await synced(mirror)
        assert sum(map(len, lists)) == 3000
        assert max(map(len, lists)) <= AT_ONCE
        lists.clear()
        async with running(other_work()):
            await fill()
            await wait_until(lambda: sum(map(len, lists)) == 3000, description="everything has arrived")
        assert turns >= len(lists) >= 30
        assert all(len(one) == 100 for one in lists), "a transaction is told whole, and not with many others"


async def test_what_was_not_told_before_an_interruption_is_told_after_it(client: EtcdClient, prefix: str) -> None:
    """Cancelled in the middle of a page, it has not taken the rest of the page for told."""
    await client.txn(Txn([], [Put(f"{prefix}{number:03}", b"") for number in range(120)]))
    copy = Copy()
    reading: asyncio.Task[None] | None = None

    def take(changes: list[Change]) -> None:
        copy.take(changes)
        if reading is not None:
            reading.cancel()

    mirror = Mirror(client, prefix, take, clock=SystemClock(), timings=PATIENT)
    reading = asyncio.create_task(mirror.run())
    await asyncio.gather(reading, return_exceptions=True)
    assert len(copy.values) == AT_ONCE
    reading = None
    async with running(mirror.run()):
        await synced(mirror)
        assert len(copy.changes) == len(copy.values) == 120


class Slow(EtcdClient):
    """Has something done between the pages of a reading."""

    between: Callable[[], Awaitable[None]]

    async def read_prefix(self, prefix: str, **settings: Any) -> AsyncIterator[Page]:
        async for page in super().read_prefix(prefix, **settings):
            yield page
            await self.between()


async def test_a_reading_that_takes_longer_than_etcd_keeps_revisions_arrives(
    own_etcd: EtcdServer, own_client: EtcdClient
) -> None:
    """After each page a key that has been read is changed, one goes, one comes, and all but the newest is compacted."""
    for number in range(40):
        await own_client.put(f"p/{number:03}", b"old")
    pages = count()

    async def between() -> None:
        turn = next(pages)
        await own_client.put("p/000", b"turn %d" % turn)
        await own_client.delete(f"p/{39 - turn:03}")
        revision = await own_client.put(f"p/{turn:03}x", b"new")
        await own_client.compact(revision)

    async with Slow([own_etcd.endpoint]) as slow:
        slow.between = between
        copy = Copy()
        mirror = Mirror(slow, "p/", copy.take, clock=SystemClock(), timings=PATIENT, page=5)
        async with running(mirror.run()):
            await synced(mirror)
            there = {kv.key: kv.value async for page in own_client.read_prefix("p/") for kv in page.kvs}
            await wait_until(lambda: copy.values == there, description="the copy is as etcd")
            assert (mirror.readings, mirror.misses) == (1, 0)
            await own_client.put("p/999", b"after")
            await wait_until(lambda: copy.values.get("p/999") == b"after", description="it goes on watching")
            assert mirror.readings == 1
