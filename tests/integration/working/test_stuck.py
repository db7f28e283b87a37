"""Fires and requests that nobody takes, as the steward sees them. The clock moves only when told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from common.errors import EtcdRefusedError, UnavailableError
from common.etcd import Change, EtcdClient, KeyValue
from common.planning.placement import bucket_of
from common.stored.keys import RunId, decode_mark, encode_mark
from common.stored.member import Beat, Member
from common.stored.request import Origin, Request
from common.stored.run import RunRecord, Verdict, final_entry
from common.timings import Timings
from tests.support.working import SteppingClock, World
from worker.catalog import Catalog
from worker.kills import Kills
from worker.members import Beats, Members
from worker.requests.due_jobs import DueJobs
from worker.requests.lineup import Lineup
from worker.requests.request_queue import RequestQueue
from worker.settling.settlement import Settlement
from worker.stewarding.steward import Term
from worker.stewarding.stuck_fires import StuckFires
from worker.stewarding.stuck_requests import StuckRequests

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

SECOND, HOUR = "* * * * * * *", "0 0 * * * * *"
HEDGES_AND_SKEW_S = 1.25


class Queue:
    """The requests as the steward's own queue knows them."""

    def __init__(self) -> None:
        self.by_job: dict[str, Lineup] = {}
        self.due_jobs = DueJobs(self.by_job)

    def take(self, key: str, request: Request) -> None:
        self.by_job.setdefault(request.run_id.job, Lineup()).put(key, request)
        self.due_jobs.expect(request.run_id.job, request.not_before_ms)


class Office:
    """Both duties, on a catalog and members that the test fills."""

    def __init__(self, world: World, term: Term) -> None:
        self.world, self.term, self.keys = world, term, world.keys
        self.clock = SteppingClock()
        self.delivered: list[RunRecord] = []
        self.catalog = Catalog(self.keys, on_changed=lambda _name: None)
        self.members, self.beats = Members(self.keys, on_changed=lambda: None), Beats(self.keys)
        self.kills, self.queue = Kills(self.keys, on_kill=lambda _kill: None), Queue()
        shared: dict[str, Any] = {
            "keys": self.keys, "worker": "w1", "catalog": self.catalog, "members": self.members,
            "beats": self.beats, "settlement": cast(Settlement, self), "clock": self.clock,
        }  # fmt: skip
        self.fires = StuckFires(client=world.etcd, timings=Timings(), **shared)
        self.requests = StuckRequests(
            client=world.etcd, kills=self.kills, queue=cast(RequestQueue, self.queue), **shared
        )
        self.requests.begin()

    def deliver_final(self, record: RunRecord, revision: int) -> None:
        self.delivered.append(record)

    @property
    def now_ms(self) -> int:
        return self.clock.wall_ms()

    async def save(self, cron: str = HOUR, *, mark_ms: int, name: str = "job", **fields: Any) -> KeyValue:
        kv = await self.world.save(name, cron=cron, mark_ms=mark_ms, **fields)
        self.catalog.on_changes([Change(key=kv.key, old_mod=None, new=kv)])
        return kv

    def join(self, *names: str, free: int = 1) -> None:
        for name in names:
            member = Member(worker=name, session="a", instance="i", host="h", address="a", slots=1)
            key = self.keys.worker(name, "a")
            self.members.on_changes([Change(key=key, old_mod=None, new=_kv(key, member.to_json(), lease=10))])
            self.beats.by_process[name] = Beat(kind="worker", wall_ms=0, free_slots=free)

    async def look(self, after_s: float = 0) -> None:
        self.clock.advance(after_s)
        await self.fires.perform(self.term)

    async def mark(self, name: str = "job") -> int:
        kv = await self.world.etcd.get(self.keys.mark(name))
        assert kv is not None
        return decode_mark(kv.value)

    async def asked(self) -> list[RunId]:
        pages = self.world.etcd.read_prefix(self.keys.requests)
        return [self.keys.run_of(kv.key) async for page in pages for kv in page.kvs]

    async def see_requests(self) -> None:
        self.queue.by_job.clear()
        async for page in self.world.etcd.read_prefix(self.keys.requests):
            for kv in page.kvs:
                run_id = self.keys.run_of(kv.key)
                request = Request.from_json(kv.value, run_id=run_id, revision=kv.mod_revision)
                self.queue.take(kv.key, request)


def _kv(key: str, value: bytes, *, lease: int = 0) -> KeyValue:
    return KeyValue(key=key, value=value, create_revision=1, mod_revision=1, version=1, lease=lease)


@pytest.fixture
def office(world: World, term: Term) -> Office:
    return Office(world, term)


def last_hour(office: Office) -> int:
    return office.now_ms // 3_600_000 * 3_600_000


async def at_full_hour(office: Office, after_s: float = 0) -> int:
    """The clock stands so long after a full hour; that hour."""
    hour_ms = last_hour(office) + 3_600_000
    office.clock.advance((hour_ms - office.now_ms) / 1000 + after_s)
    return hour_ms


async def test_a_fire_undecided_for_5_s_is_offered_where_a_third_worker_is_free(office: Office) -> None:
    hour_ms = await at_full_hour(office, 3)
    await office.save(mark_ms=hour_ms - 1000)
    office.join("w1", "w2", "w3")
    office.fires.begin()
    await office.look()
    assert await office.asked() == []
    await office.look(2.5)
    assert await office.asked() == [RunId.planned("job", hour_ms)]
    assert await office.mark() == hour_ms


@pytest.mark.parametrize("names", [("w1", "w2"), ("w1", "w2", "w3")])
async def test_it_is_not_offered_where_only_the_first_two_are_free(office: Office, names: tuple[str, ...]) -> None:
    hour_ms = await at_full_hour(office, 6)
    await office.save(mark_ms=hour_ms - 1000)
    office.join(*names)
    third = office.members.placement.order(bucket_of("job", str(hour_ms)))[2:]
    office.join(*third, free=0)
    office.fires.begin()
    await office.look()
    assert await office.asked() == []
    assert await office.mark() == hour_ms - 1000
    office.join("w4", "w5", "w6")
    await office.look(5.1)
    assert len(await office.asked()) == 1


async def test_a_held_lock_decides_by_the_overlap_policy(office: Office) -> None:
    hour_ms = await at_full_hour(office, 6)
    await office.save(mark_ms=hour_ms - 1000)
    await office.world.etcd.put(office.keys.lock("job"), b"job@7#1")
    office.fires.begin()
    await office.look()
    (record,) = office.delivered
    assert (record.status, record.reason) == (Verdict.SKIPPED, "overlap: job@7#1 was going")
    assert await office.mark() == hour_ms


@pytest.mark.parametrize("overlap", ["queue", "replace"])
async def test_a_held_lock_is_waited_for_where_one_fire_is_kept_until_its_window_is_over(
    office: Office, overlap: str
) -> None:
    hour_ms = await at_full_hour(office, 6)
    await office.save(mark_ms=hour_ms - 3_600_001, overlap=overlap, misfire={"policy": "skip", "windowSeconds": 600})
    await office.world.etcd.put(office.keys.lock("job"), b"job@7#1")
    office.join("w1", "w2", "w3", "w4")
    office.fires.begin()
    await office.look()
    await office.look(300)
    await office.look(294)
    assert (office.delivered, await office.asked()) == ([], [])
    await office.look(6)
    (record,) = office.delivered
    assert (record.status, record.reason, record.count) == (Verdict.MISSED, "late: job@7#1 was going", 2)
    assert await office.mark() == hour_ms


@pytest.mark.parametrize("overlap", ["queue", "replace"])
async def test_of_those_that_waited_only_the_newest_is_offered(office: Office, overlap: str) -> None:
    hour_ms = await at_full_hour(office, 6)
    await office.save("*/10 * * * * * *", mark_ms=hour_ms - 30_001, overlap=overlap)
    office.join("w1", "w2", "w3", "w4")
    office.fires.begin()
    await office.look()
    assert await office.asked() == [RunId.planned("job", hour_ms)]
    (record,) = office.delivered
    reason = f"overlap: {overlap} kept a newer fire"
    assert (record.status, record.reason, record.count) == (Verdict.SKIPPED, reason, 3)
    await office.see_requests()
    (request,) = office.queue.by_job["job"].values()
    assert request.expires_ms == hour_ms + 3_600_000
    assert await office.mark() == hour_ms


async def test_where_a_newer_one_is_due_the_first_two_in_rank_have_their_time(office: Office) -> None:
    await office.save(SECOND, mark_ms=office.now_ms - 8000, overlap="queue")
    office.join("w1", "w2", "w3", "w4")
    office.fires.begin()
    await office.look()
    assert (office.delivered, await office.asked()) == ([], [])


async def test_closed_fires_that_nobody_has_decided_are_recorded(office: Office) -> None:
    hour_ms = await at_full_hour(office, 6)
    mark_ms = hour_ms - 3 * 3_600_000 - 1
    await office.save(mark_ms=mark_ms, calendar={"include": ["1999-12-31"]}, misfire={"policy": "all"})
    await office.world.etcd.put(office.keys.lock("job"), b"job@7#1")
    office.fires.begin()
    await office.look()
    (record,) = office.delivered
    assert (record.status, record.reason, record.count) == (Verdict.SKIPPED, "calendar", 4)
    assert await office.mark() == hour_ms


async def test_5_s_are_counted_from_the_dispatch_time(office: Office) -> None:
    hour_ms = await at_full_hour(office)
    await office.save(mark_ms=hour_ms - 1, jitterSeconds=900, misfire={"policy": "skip"})
    delay_s = (office.catalog.jobs["job"].dispatch_ms(hour_ms) - hour_ms) / 1000
    assert delay_s > 7
    office.join("w1", "w2", "w3", "w4")
    office.fires.begin()
    await office.look(6)
    await office.look(delay_s - 2)
    assert await office.asked() == []
    await office.look(1.5)
    assert await office.asked() == [RunId.planned("job", hour_ms)]
    await office.see_requests()
    (request,) = office.queue.by_job["job"].values()
    assert request.expires_ms == hour_ms + round(delay_s * 1000) + 60_000


async def test_with_jitter_what_stays_undecided_is_looked_at_every_5_s_as_well(office: Office) -> None:
    hour_ms = await at_full_hour(office)
    await office.save(mark_ms=hour_ms - 1, jitterSeconds=3000, misfire={"policy": "skip"})
    office.clock.advance((office.catalog.jobs["job"].dispatch_ms(hour_ms) - hour_ms) / 1000 + 6)
    office.join("w1", "w2", "w3", "w4", free=0)
    office.fires.begin()
    await office.look()
    assert await office.asked() == []
    office.join("w1", "w2", "w3", "w4")
    await office.look(5.5)
    assert await office.asked() == [RunId.planned("job", hour_ms)]


async def test_what_etcd_refused_to_write_is_looked_at_again(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    hour_ms = await at_full_hour(office, 6)
    await office.save(mark_ms=hour_ms - 1000)
    office.join("w1", "w2", "w3")
    office.fires.begin()

    async def offer(*_: object) -> None:
        raise EtcdRefusedError("etcdserver: too many requests")

    with monkeypatch.context() as patch:
        patch.setattr(office.fires._undecided_fires, "_offer", offer)
        await office.look()
    await office.look(5.5)
    assert await office.asked() == [RunId.planned("job", hour_ms)]


async def test_skip_is_given_up_after_the_grace_and_not_before(office: Office) -> None:
    hour_ms = await at_full_hour(office, 60 + HEDGES_AND_SKEW_S - 1)
    await office.save(mark_ms=hour_ms - 1000, misfire={"policy": "skip", "graceSeconds": 60})
    office.fires.begin()
    await office.look()
    assert office.delivered == []
    await office.look(5.1)
    (record,) = office.delivered
    assert (record.status, record.reason, record.plan_ms) == (Verdict.MISSED, "no eligible worker", hour_ms)
    assert await office.mark() == hour_ms


@pytest.mark.parametrize("policy", ["latest", "all"])
async def test_latest_and_all_are_given_up_only_when_the_newest_is_out_of_its_window(
    office: Office, policy: str
) -> None:
    hour_ms = await at_full_hour(office, 900)
    await office.save(mark_ms=hour_ms - 3 * 3_600_000, misfire={"policy": policy, "windowSeconds": 1200})
    office.join("w1", "w2")
    office.fires.begin()
    await office.look()
    assert office.delivered == []
    await office.look(295)
    assert office.delivered == []
    await office.look(10)
    (record,) = office.delivered
    assert (record.status, record.reason, record.count) == (Verdict.MISSED, "late", 3)
    assert await office.mark() == hour_ms


async def test_a_job_without_a_readable_mark_gets_one(office: Office) -> None:
    await office.save(SECOND, mark_ms=office.now_ms)
    await office.save(SECOND, mark_ms=office.now_ms, name="other")
    await office.world.etcd.delete(office.keys.mark("job"))
    await office.world.etcd.put(office.keys.mark("other"), b"garbage")
    office.fires.begin()
    await office.look()
    assert abs(await office.mark() - office.now_ms) < 2000
    assert abs(await office.mark("other") - office.now_ms) < 2000


async def test_a_mark_from_before_the_anchor_is_moved_there_and_no_fire_is_lost(office: Office) -> None:
    hour_ms = await at_full_hour(office, 6)
    await office.save(mark_ms=hour_ms - 1000)
    await office.world.etcd.put(office.keys.mark("job"), encode_mark(hour_ms - 9_000_000))
    office.join("w1", "w2", "w3")
    office.fires.begin()
    await office.look()
    assert await office.mark() == hour_ms - 1000
    await office.look(5.1)
    assert await office.asked() == [RunId.planned("job", hour_ms)]


async def test_a_run_key_that_stands_in_the_way_is_passed_over(office: Office) -> None:
    hour_ms = await at_full_hour(office, 1800)
    await office.save(mark_ms=hour_ms - 3_600_001, misfire={"policy": "skip", "graceSeconds": 60})
    await office.world.etcd.put(office.keys.run(RunId.planned("job", hour_ms - 3_600_000)), b"garbage")
    office.fires.begin()
    await office.look()
    assert await office.mark() == hour_ms
    assert [one.plan_ms for one in office.delivered] == [hour_ms]


async def test_what_was_to_be_looked_at_is_not_forgotten_when_etcd_is_away(office: Office) -> None:
    hour_ms = await at_full_hour(office, 6)
    await office.save(mark_ms=hour_ms - 1000)
    office.join("w1", "w2", "w3")
    office.fires.begin()
    there, office.fires._client = office.fires._client, EtcdClient(["127.0.0.1:1"], timeout=0.2)
    with pytest.raises(UnavailableError):
        await office.look()
    await office.fires._client.close()
    office.fires._client = there
    await office.look()
    assert len(await office.asked()) == 1


async def test_one_jobs_error_is_its_own_and_is_said_once(
    office: Office, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    hour_ms = await at_full_hour(office, 6)
    await office.save("0 0 0-23 * * * *", mark_ms=hour_ms - 1000, name="bad")
    await office.save(mark_ms=hour_ms - 1000)
    office.join("w1", "w2", "w3")
    bad = office.catalog.jobs["bad"].schedule
    usual = type(bad).last_before_ms

    def last_before_ms(self: object, ms: int) -> int | None:
        if self is bad:
            raise RuntimeError("nobody foresaw this")
        return usual(self, ms)  # type: ignore[arg-type]

    monkeypatch.setattr(type(bad), "last_before_ms", last_before_ms)
    office.fires.begin()
    await office.look()
    await office.look(6)
    assert await office.asked() == [RunId.planned("job", hour_ms)]
    assert caplog.text.count("nobody foresaw this\n") <= 2


async def test_a_mark_far_ahead_is_said_once(office: Office, caplog: pytest.LogCaptureFixture) -> None:
    await office.save(SECOND, mark_ms=office.now_ms)
    await office.world.etcd.put(office.keys.mark("job"), encode_mark(office.now_ms + 10 * 86_400_000))
    office.fires.begin()
    for _ in range(3):
        await office.look(6)
    assert caplog.text.count("more than a day ahead") == 1


async def test_nothing_is_kept_when_the_term_is_over(office: Office) -> None:
    await office.save(mark_ms=office.now_ms)
    office.fires.begin()
    office.fires.end()
    office.fires.job_changed("job")
    assert office.fires._checks == []


async def test_of_a_job_saved_again_and_again_only_the_newest_check_stays(office: Office) -> None:
    await office.save(mark_ms=office.now_ms)
    office.fires.begin()
    for _ in range(2500):
        office.fires.job_changed("job")
    office.catalog.jobs.clear()
    await office.save(mark_ms=office.now_ms)
    office.fires.job_changed("job")
    assert len(office.fires._checks) < 2000


# Requests


async def test_one_claimable_but_unclaimed_for_5_s_is_put_again(office: Office) -> None:
    job = await office.save(mark_ms=office.now_ms)
    run_id = await office.world.ask(job, office.now_ms)
    before = await office.world.etcd.get(office.keys.request(run_id))
    assert before is not None
    await office.see_requests()
    office.clock.advance(6)
    await office.requests.perform(office.term)
    office.join("w1")
    await office.requests.perform(office.term)
    office.clock.advance(6)
    await office.requests.perform(office.term)
    after = await office.world.etcd.get(office.keys.request(run_id))
    assert after is not None
    assert after.mod_revision > before.mod_revision
    assert after.create_revision == before.create_revision


async def test_one_for_which_nobody_has_a_slot_is_left_as_it_is(office: Office) -> None:
    job = await office.save(mark_ms=office.now_ms)
    run_id = await office.world.ask(job, office.now_ms)
    await office.see_requests()
    office.join("w1", free=0)
    for _ in range(3):
        office.clock.advance(6)
        await office.requests.perform(office.term)
    kv = await office.world.etcd.get(office.keys.request(run_id))
    assert kv is not None
    assert kv.version == 1


async def test_a_job_that_this_worker_has_not_seen_yet_is_not_taken_for_deleted(office: Office) -> None:
    job = await office.world.save()
    run_id = await office.world.ask(job, office.now_ms)
    await office.see_requests()
    await office.requests.perform(office.term)
    assert await office.asked() == [run_id]
    assert office.delivered == []


async def test_a_job_that_cannot_be_read_keeps_its_requests_until_they_expire(office: Office) -> None:
    job = await office.save(mark_ms=office.now_ms)
    await office.world.ask(job, office.now_ms, expires_ms=office.now_ms + 10_000)
    await office.see_requests()
    office.catalog.on_changes([Change(key=job.key, old_mod=1, new=_kv(job.key, b"garbage"))])
    await office.requests.perform(office.term)
    assert office.delivered == []
    office.clock.advance(11)
    await office.requests.perform(office.term)
    assert [one.status for one in office.delivered] == [Verdict.MISSED]


async def test_requests_that_go_while_it_looks_do_no_harm(office: Office) -> None:
    job = await office.save(mark_ms=office.now_ms)
    for number in range(3):
        await office.world.ask(job, office.now_ms + number, expires_ms=office.now_ms - 1)
    await office.see_requests()
    deliver = office.deliver_final

    def vanish(record: RunRecord, revision: int) -> None:
        office.queue.by_job.clear()
        deliver(record, revision)

    office.deliver_final = vanish  # type: ignore[method-assign]
    await office.requests.perform(office.term)
    assert len(office.delivered) == 3


@pytest.mark.parametrize("is_killed", [False, True])
async def test_one_that_is_not_due_yet_is_looked_at_in_its_turn_and_at_once_where_a_kill_waits(
    world: World, term: Term, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    monkeypatch.setattr("worker.stewarding.stuck_requests._IN_A_TURN", 1)
    office = Office(world, term)  # looks at one in each turn, the newest first
    jobs = [await office.save(mark_ms=office.now_ms, name=name) for name in ("job", "other")]
    later_ms = office.now_ms + 3_600_000
    for job, name in zip(jobs, ("job", "other"), strict=True):
        run_id = await office.world.ask(job, office.now_ms, name=name)
        request = Request(
            run_id=run_id, origin=Origin.OFFERED, job_create_revision=job.create_revision, plan_ms=office.now_ms,
            dispatch_ms=later_ms, not_before_ms=later_ms,
        )  # fmt: skip
        revision = await world.etcd.put(office.keys.request(run_id), request.to_json())
        office.queue.take(office.keys.request(run_id), replace(request, revision=revision))
    killed = next(iter(office.queue.by_job["job"].values())).run_id
    if is_killed:
        await office.world.kill(killed)
        kv = await office.world.etcd.get(office.keys.kill(killed))
        assert kv is not None
        office.kills.take(kv)
    await office.world.etcd.delete(jobs[0].key)
    office.catalog.on_changes([Change(key=jobs[0].key, old_mod=1, new=None)])
    await office.requests.perform(office.term)
    assert [one.reason for one in office.delivered] == ["before start"] * is_killed
    await office.requests.perform(office.term)
    assert [one.reason for one in office.delivered][:1] == (["before start"] if is_killed else ["deleted"])


async def test_a_request_whose_run_has_been_decided_otherwise_is_no_second_record(office: Office) -> None:
    job = await office.save(mark_ms=office.now_ms)
    run_id = await office.world.ask(job, office.now_ms, expires_ms=office.now_ms - 1)
    record = RunRecord(run_id=run_id, status=Verdict.SKIPPED)
    await office.world.etcd.put(office.keys.run(run_id), final_entry(record).to_json())
    await office.see_requests()
    await office.requests.perform(office.term)
    assert office.delivered == []
