"""Fires that nobody takes, as the steward sees them. The clock moves only when told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from common.errors import EtcdRefusedError, UnavailableError
from common.etcd import EtcdClient
from common.instants import iso
from common.protocol.keys import Keys, RunId, encode_mark
from common.protocol.placement import bucket_of
from common.protocol.txn import Delete, Operation, Put
from common.verdicts import Verdict
from tests.support.meeting import Meeting
from tests.support.stewarding import SECOND, Office
from tests.support.working import World
from worker.lead.leader import Term

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

HEDGES_AND_SKEW_S = 1.25


@pytest.fixture
def office(world: World, term: Term, meeting: Meeting) -> Office:
    return Office(replace(world, etcd=meeting), term)


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
    assert await office.world.has(office.keys.run(record.run_id)), "also should this steward die now"
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
    hour_ms, delay_s = 0, 0.0
    while delay_s < 7:  # what the jitter makes of an hour is left to chance
        hour_ms = await at_full_hour(office)
        await office.save(mark_ms=hour_ms - 1, jitterSeconds=900, misfire={"policy": "skip"})
        delay_s = (office.catalog.jobs["job"].dispatch_ms(hour_ms) - hour_ms) / 1000
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
    office.join("w1")
    office.fires.begin()
    await office.look()
    assert office.delivered == []
    await office.look(5.1)
    (record,) = office.delivered
    assert (record.status, record.plan_ms) == (Verdict.MISSED, hour_ms)
    assert await office.mark() == hour_ms


async def test_while_its_machine_is_gone_a_job_records_what_can_never_run_in_ever_longer_ranges(
    office: Office,
) -> None:
    office.join("w1", "w2")
    office.join("w3", host="w3")
    office.remember("w3", host="w3")
    start_ms = office.now_ms
    await office.save(SECOND, mark_ms=start_ms, workers={"host": "w3"}, misfire={"policy": "latest", "graceSeconds": 5})
    await office.save(SECOND, mark_ms=start_ms, name="other", broadcast=True, workers={"host": "w3"})
    office.fires.begin()
    office.leave("w3")
    gone = iso(office.now_ms)[11:16]
    spans = list[int]()
    for _ in range(240):
        await office.look(5)
        assert office.now_ms - await office.mark() > 5000, "what may still run waits"
        if len(office.delivered) > len(spans):
            record = office.delivered[-1]
            assert (record.status, record.reason) == (
                Verdict.MISSED,
                f"no worker: w3 (host=w3) has been gone since {gone} UTC",
            )
            assert record.count is not None
            spans.append(record.count)
            assert office.now_ms - start_ms >= 60_000
    assert [span // 60 for span in spans] == [1, 1, 2, 4, 8]
    assert sum(spans) == await office.mark() // 1000 - start_ms // 1000, "each fire once"
    office.join("w3", host="w3")
    before = await office.mark()
    await office.look(5)
    assert await office.mark() == before, "it makes up for the newest itself"


async def test_a_job_too_big_for_every_worker_is_missed_for_want_of_one(office: Office) -> None:
    office.join("w1", "w2")
    await office.save(SECOND, mark_ms=office.now_ms, slots=3, misfire={"policy": "skip", "graceSeconds": 1})
    office.fires.begin()
    await office.look(10)
    await office.look(70)
    (record,) = office.delivered
    reason = "no worker: it takes 3 slots, and no worker that fits has more than 1"
    assert (record.status, record.reason) == (Verdict.MISSED, reason)


async def test_a_restart_of_less_than_a_minute_records_nothing(office: Office) -> None:
    office.join("w1")
    await office.save(SECOND, mark_ms=office.now_ms, workers={"host": "w3"}, misfire={"graceSeconds": 1})
    office.fires.begin()
    for _ in range(4):
        office.join("w3", host="w3")
        await office.look(5)
        office.leave("w3")
        for _ in range(10):
            await office.look(5)
    assert office.delivered == []


@pytest.mark.parametrize(("after_s", "reason"), [(20, "late: job@7#1 was going"), (90, "no worker: w3 (host=w3)")])
async def test_while_its_lock_is_held_a_worker_is_said_to_have_gone_only_once_that_is_a_minute_ago(
    office: Office, after_s: float, reason: str
) -> None:
    office.join("w1")
    office.join("w3", host="w3")
    office.remember("w3", host="w3")
    misfire = {"policy": "skip", "graceSeconds": 1}
    await office.save(SECOND, mark_ms=office.now_ms, workers={"host": "w3"}, misfire=misfire)
    await office.world.etcd.put(office.keys.lock("job"), b"job@7#1")
    office.fires.begin()
    office.leave("w3")
    await office.look(after_s)
    (missed,) = office.delivered
    assert missed.status is Verdict.MISSED
    assert (missed.reason or "").startswith(reason)


async def test_one_that_left_a_moment_ago_is_not_away_since_long_ago(office: Office) -> None:
    office.join("w1")
    office.remember("w3", host="w3")
    office.clock.advance(600)
    await office.save(SECOND, mark_ms=office.now_ms - 600_000, workers={"host": "w3"}, misfire={"graceSeconds": 1})
    office.fires.begin()
    await office.look()
    await office.look(55)
    office.join("w3", host="w3")
    office.leave("w3")
    await office.look(58)
    assert office.delivered == []
    await office.look(6)
    assert len(office.delivered) == 1


async def test_one_that_takes_none_again_does_so_since_now_and_not_since_the_last_time(office: Office) -> None:
    """Else what passes would be told in ranges as long as the time between: hours later, or a day."""
    office.join("w1")
    await office.save(SECOND, mark_ms=office.now_ms, workers={"host": "w3"}, misfire={"graceSeconds": 1})
    office.fires.begin()
    office.join("w3", not_accepting="drained by me", host="w3")
    await office.look(6)
    office.join("w3", host="w3")
    for _ in range(120):  # an hour in which it takes each
        office.clock.advance(30)
        await office.take_all()
        await office.look()
    office.join("w3", not_accepting="drained by me", host="w3")
    for _ in range(30):
        await office.look(5)
    assert len(office.delivered) >= 1
    assert office.delivered[0].reason == "no worker: no worker that fits takes fires: w3: drained by me"


@pytest.mark.parametrize("overlap", ["queue", "replace"])
async def test_one_that_is_kept_supersedes_the_others_also_while_nobody_could_take_it(
    office: Office, overlap: str
) -> None:
    office.join("w1")
    await office.save(SECOND, mark_ms=office.now_ms, workers={"host": "w3"}, overlap=overlap)
    office.fires.begin()
    for _ in range(26):
        await office.look(5)
    (record,) = office.delivered
    assert (record.status, record.reason) == (Verdict.SKIPPED, f"overlap: {overlap} kept a newer fire")


async def test_of_many_jobs_that_nobody_can_take_fifty_are_recorded_a_second(office: Office) -> None:
    office.join("w1")
    for number in range(60):
        await office.save(SECOND, mark_ms=office.now_ms, name=f"job{number}", workers={"host": "w3"})
    office.fires.begin()
    await office.look(61)
    await office.look(70)
    assert len(office.delivered) == 50
    await office.look(5.1)
    assert len(office.delivered) == 60


async def test_what_is_given_up_once_workers_take_fires_again_says_why_they_took_none(office: Office) -> None:
    hour_ms = await at_full_hour(office, -1)
    await office.save(mark_ms=hour_ms - 1000, misfire={"policy": "skip", "graceSeconds": 60})
    office.fires.begin()
    office.absences.begins()
    office.join("w1", not_accepting="drained by me")
    office.clock.advance(60 + HEDGES_AND_SKEW_S)
    office.join("w1")
    await office.look(1.1)
    (record,) = office.delivered
    assert (record.status, record.reason) == (Verdict.MISSED, "late: no worker took it: w1: drained by me")


async def test_what_is_given_up_while_no_worker_shows_a_free_slot_says_so(office: Office) -> None:
    hour_ms = await at_full_hour(office, 60 + HEDGES_AND_SKEW_S - 1)
    await office.save(mark_ms=hour_ms - 1000, misfire={"policy": "skip", "graceSeconds": 60})
    office.join("w1", "w2", free=0)
    office.fires.begin()
    await office.look(5.1)
    (record,) = office.delivered
    assert (record.status, record.reason) == (Verdict.MISSED, "late: no worker had a free slot")


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
    office.join("w1")
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


# What happens between a look and the write that follows from it


async def writes_nothing_after(office: Office, meeting: Meeting, *steps: list[Operation]) -> None:
    office.fires.begin()
    await meeting.writes_nothing(office.world.place.prefix, office.look, after=steps)
    assert office.delivered == []


def meanwhile(what: str, keys: Keys, hour_ms: int) -> Operation:
    """What somebody else does."""
    match what:
        case "another steward":
            return Delete(keys.steward)
        case "edited":
            return Put(keys.job("job"), b"another spec")
        case "decided":
            return Put(keys.mark("job"), encode_mark(hour_ms - 2))
        case "freed":
            return Delete(keys.lock("job"))
        case "locked":
            return Put(keys.lock("job"), b"job@7#1")
        case "asked for":
            return Put(keys.request(RunId.planned("job", hour_ms)), b"a request")
        case "run":
            return Put(keys.run(RunId.planned("job", hour_ms)), b"a run")
        case _:
            assert what == "recorded"
            return Put(keys.run(RunId.planned("job", hour_ms - 30_000)), b"a record")


@pytest.mark.parametrize("what", ["another steward", "edited", "decided", "freed"])
async def test_a_fire_is_skipped_only_if_all_is_as_it_was_when_looked_at(
    office: Office, meeting: Meeting, what: str
) -> None:
    hour_ms = await at_full_hour(office, 6)
    await office.save(mark_ms=hour_ms - 1000)
    await meeting.put(office.keys.lock("job"), b"job@7#1")
    await writes_nothing_after(office, meeting, [meanwhile(what, office.keys, hour_ms)])


@pytest.mark.parametrize("what", ["another steward", "edited", "decided", "asked for", "run", "locked", "recorded"])
async def test_a_fire_is_offered_only_if_all_is_as_it_was_when_looked_at(
    office: Office, meeting: Meeting, what: str
) -> None:
    hour_ms = await at_full_hour(office, 6)
    await office.save("*/10 * * * * * *", mark_ms=hour_ms - 30_001, overlap="queue")
    office.join("w1", "w2", "w3", "w4")
    await writes_nothing_after(office, meeting, [meanwhile(what, office.keys, hour_ms)])


@pytest.mark.parametrize("what", ["another steward", "edited", "decided"])
@pytest.mark.parametrize("mark", [None, b"garbage"])
async def test_a_mark_is_given_only_if_all_is_as_it_was_when_looked_at(
    office: Office, meeting: Meeting, mark: bytes | None, what: str
) -> None:
    hour_ms = await at_full_hour(office, 6)
    await office.save(mark_ms=hour_ms)
    key = office.keys.mark("job")
    await (meeting.delete(key) if mark is None else meeting.put(key, mark))
    await writes_nothing_after(office, meeting, [meanwhile(what, office.keys, hour_ms)])


@pytest.mark.parametrize("what", ["another steward", "edited", "decided", "gone"])
async def test_a_run_key_in_the_way_is_passed_over_only_if_all_is_as_it_was_when_found(
    office: Office, meeting: Meeting, what: str
) -> None:
    hour_ms = await at_full_hour(office, 6)
    await office.save(mark_ms=hour_ms - 1000)
    await meeting.put(office.keys.lock("job"), b"job@7#1")
    in_the_way = office.keys.run(RunId.planned("job", hour_ms))
    then = Delete(in_the_way) if what == "gone" else meanwhile(what, office.keys, hour_ms)
    await writes_nothing_after(office, meeting, [Put(in_the_way, b"a run")], [then])
