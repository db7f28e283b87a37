"""What nobody needs any more goes; what watchers have missed is found. The clock moves only when told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from common.clock import SystemClock
from common.etcd import Change, Mirror, MirrorTimings
from common.protocol.keys import Keys, RunId, Watched, encode_mark
from common.protocol.request import Origin, Request
from common.protocol.txn import Delete, Operation, Put
from tests.support.background import running
from tests.support.meeting import Meeting
from tests.support.waiting import wait_until
from tests.support.working import SteppingClock, World
from worker.catalog import Catalog
from worker.kills import Kills
from worker.lead.leader import Term
from worker.lead.sweeping import COMPARE_EVERY_S, MARK_KEPT_MS, Sweeping
from worker.members import Members
from worker.sentinels import Sentinels

pytestmark = pytest.mark.etcd


class Office:
    """The duty, with mirrors that run."""

    def __init__(self, world: World, term: Term) -> None:
        self.world, self.term, self.keys, self.clock = world, term, world.keys, SteppingClock()
        self.catalog = Catalog(self.keys, on_changed=lambda _name: None)
        self.kills = Kills(self.keys, on_kill=lambda _kill: None)
        self.members = Members(self.keys, "w1", on_changed=lambda: None)
        self.deaf = False
        self.mirrors = {
            Watched.JOBS: self.mirror(self.keys.jobs, self.catalog),
            Watched.KILLS: self.mirror(self.keys.kills, self.kills),
        }
        self.duty = Sweeping(
            client=world.etcd, keys=self.keys, catalog=self.catalog, kills=self.kills, members=self.members,
            mirrors=self.mirrors, ttl_s=2, compaction_minutes=1, clock=self.clock,
        )  # fmt: skip
        self.duty.begin()

    def mirror(self, prefix: str, reader: Catalog | Kills) -> Mirror:
        timings = MirrorTimings(progress_s=0.05, silence_s=3, grace_s=0.1)
        return Mirror(self.world.etcd, prefix, reader.on_changes, clock=SystemClock(), timings=timings)

    async def sweep(self, after_s: float = 0.0) -> None:
        self.clock.advance(after_s)
        await self.duty.perform(self.term)


@pytest.fixture
async def office(world: World, term: Term, meeting: Meeting) -> AsyncIterator[Office]:
    office = Office(replace(world, etcd=meeting), term)
    async with running(*(mirror.run() for mirror in office.mirrors.values())):
        for mirror in office.mirrors.values():
            await mirror.synced.wait()
        yield office


async def test_kills_go_when_their_run_is_settled(office: Office, world: World) -> None:
    run = await world.open_run()
    open_run, asked, settled = world.keys.run_of(run.key), RunId.planned("job", 6), RunId.planned("job", 7)
    await world.etcd.put(world.keys.request(asked), b"{}")
    link = Request(
        run_id=RunId.planned("chained", 8), origin=Origin.CHAIN, job_create_revision=1, plan_ms=8, dispatch_ms=8,
        not_before_ms=8,
    )  # fmt: skip
    await world.etcd.put(link.key(world.keys), link.to_json())
    unread = RunId.planned("of-a-later-version", 9)
    await world.etcd.put(world.keys.chain(unread.job), b"{}")
    for run_id in (open_run, asked, settled, link.run_id, RunId.planned("chained", 7), unread):
        await world.kill(run_id)
    await wait_until(lambda: len(office.kills.by_run) == 6, description="the kills are seen")
    before = await world.etcd.get(world.keys.seen(Watched.KILLS))
    await office.sweep()
    after = await world.etcd.get(world.keys.seen(Watched.KILLS))
    assert before is not None
    assert after is not None
    assert after.version == before.version + 2
    assert await world.has(world.keys.kill(open_run))
    assert await world.has(world.keys.kill(asked))
    assert await world.has(world.keys.kill(link.run_id))
    assert await world.has(world.keys.kill(unread))
    assert not await world.has(world.keys.kill(settled))
    assert not await world.has(world.keys.kill(RunId.planned("chained", 7)))


async def test_locks_of_no_run_are_freed_after_a_second_look(office: Office, world: World) -> None:
    run = await world.open_run()
    orphans = {"a": b"a@5#1", "b": b"\xff garbage", "c": str(world.keys.run_of(run.key)).encode()}
    for name, value in orphans.items():
        await world.etcd.put(world.keys.lock(name), value)
    again = await world.open_run(name="again")
    await world.etcd.delete(world.keys.lock("again"))
    await world.etcd.put(world.keys.lock("again"), str(world.keys.run_of(again.key)).encode())
    await office.sweep()
    assert await world.etcd.count(world.keys.locks) == 5
    await office.sweep(31)
    assert await world.has(world.keys.lock("job"))
    assert await world.etcd.count(world.keys.locks) == 1


async def test_detached_sessions_go_after_two_ttls(office: Office, world: World) -> None:
    for tail in ("w1/77", "w1/not-hex", "garbage"):
        key = world.keys.workers + tail
        await world.etcd.put(key, b"\xff")
        office.members.on_changes([Change(key=key, old_mod=None, new=await world.etcd.get(key))])
    lease = await world.etcd.lease_grant(60)
    attached = world.keys.worker("w1", f"{lease.id:x}")
    await world.etcd.put(attached, b"garbage", lease.id)
    office.members.on_changes([Change(key=attached, old_mod=None, new=await world.etcd.get(attached))])
    await office.sweep()
    await office.sweep(3.5)
    assert await world.has(world.keys.workers + "w1/77")
    await office.sweep(1)
    assert not await world.has(world.keys.workers + "w1/77")
    assert not await world.has(world.keys.workers + "w1/not-hex")
    assert not await world.has(world.keys.workers + "garbage")
    assert await world.has(attached)


async def test_marks_of_deleted_jobs_go_after_a_day(office: Office, world: World) -> None:
    now_ms = office.clock.wall_ms()
    await world.save("there", mark_ms=now_ms - 2 * MARK_KEPT_MS)
    await wait_until(lambda: "there" in office.catalog.jobs, description="the job is seen")
    await world.etcd.put(world.keys.mark("old"), encode_mark(now_ms - MARK_KEPT_MS - 1000))
    await world.etcd.put(world.keys.mark("young"), encode_mark(now_ms - MARK_KEPT_MS + 3_600_000))
    await world.etcd.put(world.keys.mark("garbage"), b"garbage")
    await office.sweep()
    assert await world.has(world.keys.mark("old"))
    await office.sweep(COMPARE_EVERY_S + 1)
    assert not await world.has(world.keys.mark("old"))
    assert await world.has(world.keys.mark("young"))
    assert await world.has(world.keys.mark("there"))


async def test_marks_of_workers_own_sequences_go_with_the_job_or_the_worker(office: Office, world: World) -> None:
    now_ms = office.clock.wall_ms()
    await world.save("there", mark_ms=now_ms, broadcast=True)
    await wait_until(lambda: "there" in office.catalog.jobs, description="the job is seen")
    lease = await world.etcd.lease_grant(60)
    session = world.keys.worker("live", f"{lease.id:x}")
    await world.etcd.put(session, b"{}", lease.id)
    old = encode_mark(now_ms - MARK_KEPT_MS - 1000)
    for sequence in ("there~live", "there~away", "gone~live", "gone~away"):
        await world.etcd.put(world.keys.mark(sequence), old)
    await world.etcd.put(world.keys.mark("there~young"), encode_mark(now_ms - MARK_KEPT_MS + 3_600_000))
    await office.sweep(COMPARE_EVERY_S + 1)
    left = [kv.key async for page in world.etcd.read_prefix(world.keys.marks) for kv in page.kvs]
    assert left == [world.keys.mark(name) for name in ("there", "there~live", "there~young")], "live in etcd's eyes"


async def test_a_count_that_does_not_match_twice_puts_the_sentinel(office: Office, world: World) -> None:
    mirror = office.mirrors[Watched.JOBS]
    await world.save()
    await wait_until(lambda: len(mirror) == 1, description="the job is seen")
    before = await world.etcd.get(world.keys.seen(Watched.JOBS))
    mirror._delivered["ghost"] = 1
    readings = mirror.readings
    await office.sweep()
    assert mirror.readings == readings
    await office.sweep(31)
    await wait_until(lambda: mirror.readings > readings, description="it reads again")
    assert len(mirror) == 1
    after = await world.etcd.get(world.keys.seen(Watched.JOBS))
    assert before is not None
    assert after is not None
    assert after.mod_revision > before.mod_revision


async def test_a_full_comparison_finds_what_a_watch_has_lost_and_puts_the_sentinel(
    office: Office, world: World
) -> None:
    mirror, seen = office.mirrors[Watched.JOBS], world.keys.seen(Watched.JOBS)
    await world.save()
    await wait_until(lambda: len(mirror) == 1, description="the job is seen")
    before = await world.etcd.get(seen)
    assert before is not None
    mirror._delivered[world.keys.job("job")] -= 1  # as if the watch had lost the newest change, and nobody the key
    readings = mirror.readings
    await office.sweep(60)
    assert mirror.readings == readings, "the count matches"
    await office.sweep(COMPARE_EVERY_S)
    await wait_until(lambda: mirror.readings > readings, description="it is compared in full")
    assert mirror.misses == 1
    for _ in range(2):
        await office.sweep(31)
        after = await world.etcd.get(seen)
        assert after is not None
        assert after.version == before.version + 1, "once"


async def test_a_full_comparison_that_finds_nothing_writes_nothing(office: Office, world: World) -> None:
    mirror, seen = office.mirrors[Watched.JOBS], world.keys.seen(Watched.JOBS)
    await world.save()
    await wait_until(lambda: len(mirror) == 1, description="the job is seen")
    before, readings = await world.etcd.get(seen), mirror.readings
    await office.sweep(COMPARE_EVERY_S + 1)
    await wait_until(lambda: mirror.readings > readings, description="it is compared in full")
    await office.sweep(31)
    assert await world.etcd.get(seen) == before


async def test_etcd_is_compacted_and_watchers_survive_it(office: Office, world: World) -> None:
    await world.save()
    await office.sweep()
    old = await world.etcd.get(world.keys.job("job"))
    await world.save(command="another")
    await office.sweep(61)
    assert old is not None
    await office.sweep(61)
    with pytest.raises(Exception, match="compacted"):
        await world.etcd.get(world.keys.job("job"), revision=old.mod_revision)
    await world.save("later")
    await wait_until(lambda: "later" in office.catalog.jobs, description="the watch goes on")


async def test_one_step_that_fails_holds_up_no_other(
    office: Office, world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(term: Term) -> None:
        raise RuntimeError("nobody foresaw this")

    fail.__name__ = "_sweep_kills"
    monkeypatch.setattr(office.duty, "_sweep_kills", fail)
    await world.etcd.put(world.keys.lock("a"), b"a@5#1")
    await office.sweep()
    await office.sweep(31)
    assert not await world.has(world.keys.lock("a"))
    assert len([one for one in caplog.records if getattr(one, "action", "") == "sweeping.set_aside"]) == 1


async def test_a_watch_that_died_silently_is_found_by_the_sentinel(office: Office, world: World) -> None:
    sentinels = Sentinels(world.etcd, world.keys, office.mirrors)
    await world.save()
    mirror = office.mirrors[Watched.JOBS]
    await wait_until(lambda: "job" in office.catalog.jobs, description="the job is seen")
    take = mirror._take

    async def lose(events: object) -> None:
        pass

    mirror._take = lose  # type: ignore[method-assign]
    await world.save("missed")
    await sentinels.look()
    await wait_until(lambda: "missed" in office.catalog.jobs, description="it is found")
    mirror._take = take  # type: ignore[method-assign]


async def test_sentinels_leave_a_watch_alone_that_has_missed_nothing(office: Office, world: World) -> None:
    sentinels = Sentinels(world.etcd, world.keys, office.mirrors)
    mirror = office.mirrors[Watched.JOBS]
    await world.save()
    await wait_until(lambda: "job" in office.catalog.jobs, description="the job is seen")
    readings = mirror.readings
    for _ in range(3):
        await sentinels.look()
    assert mirror.readings == readings


# What happens between a look and the write that follows from it

SETTLED = RunId.planned("job", 7)


def meanwhile(what: str, keys: Keys) -> list[Operation]:
    """What somebody else does."""
    kill, lock, session = keys.kill(SETTLED), keys.lock("job"), keys.workers + "w1/77"
    match what:
        case "another steward":
            return [Delete(keys.steward)]
        case "run":
            return [Put(keys.run(SETTLED), b"a run")]
        case "request":
            return [Put(keys.request(SETTLED), b"a request")]
        case "killed anew":
            return [Delete(kill), Put(kill, b"another kill")]
        case "claimed":
            return [Delete(lock), Put(lock, b"another run")]
        case "attached":
            return [Put(session, b"another session")]
        case "saved":
            return [Put(keys.job("job"), b"a spec")]
        case "moved":
            return [Put(keys.mark("job"), b"another mark")]
        case _:
            assert what == "back"
            return [Put(keys.worker("away", "77"), b"a session")]


async def sweeps_nothing(office: Office, meeting: Meeting, what: str, *, after_s: float) -> None:
    await meeting.writes_nothing(
        office.world.place.prefix, lambda: office.sweep(after_s), after=[meanwhile(what, office.keys)]
    )


@pytest.mark.parametrize("what", ["another steward", "run", "request", "killed anew"])
async def test_a_kill_goes_only_if_all_is_as_it_was_when_looked_at(
    office: Office, world: World, meeting: Meeting, what: str
) -> None:
    await world.kill(SETTLED)
    await wait_until(lambda: len(office.kills.by_run) == 1, description="the kill is seen")
    await sweeps_nothing(office, meeting, what, after_s=0)


@pytest.mark.parametrize("what", ["another steward", "claimed"])
async def test_a_lock_is_freed_only_if_all_is_as_it_was_when_looked_at(
    office: Office, world: World, meeting: Meeting, what: str
) -> None:
    await world.etcd.put(world.keys.lock("job"), b"job@5#1")
    await office.sweep()
    await sweeps_nothing(office, meeting, what, after_s=31)


@pytest.mark.parametrize("what", ["another steward", "attached"])
async def test_a_session_goes_only_if_all_is_as_it_was_when_looked_at(
    office: Office, world: World, meeting: Meeting, what: str
) -> None:
    key = world.keys.workers + "w1/77"
    await world.etcd.put(key, b"detached")
    office.members.on_changes([Change(key=key, old_mod=None, new=await world.etcd.get(key))])
    await office.sweep()
    await sweeps_nothing(office, meeting, what, after_s=4.5)


@pytest.mark.parametrize("what", ["another steward", "saved", "moved"])
async def test_a_mark_of_no_job_goes_only_if_all_is_as_it_was_when_looked_at(
    office: Office, world: World, meeting: Meeting, what: str
) -> None:
    await world.etcd.put(world.keys.mark("job"), encode_mark(office.clock.wall_ms() - MARK_KEPT_MS - 1000))
    await sweeps_nothing(office, meeting, what, after_s=COMPARE_EVERY_S + 1)


async def test_a_mark_of_a_worker_that_is_back_meanwhile_stays(office: Office, world: World, meeting: Meeting) -> None:
    now_ms = office.clock.wall_ms()
    await world.save("there", mark_ms=now_ms, broadcast=True)
    await wait_until(lambda: "there" in office.catalog.jobs, description="the job is seen")
    await world.etcd.put(world.keys.mark("there~away"), encode_mark(now_ms - MARK_KEPT_MS - 1000))
    await sweeps_nothing(office, meeting, "back", after_s=COMPARE_EVERY_S + 1)
