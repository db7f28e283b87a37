"""The notifier, from what records tell to the notices that wait: what is told, once, whoever dies meanwhile."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pymongo.monitoring
import pytest
from pymongo.errors import BulkWriteError
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from common.clock import SystemClock
from common.errors import UnavailableError
from common.etcd import Election
from common.jobs.reader import parse_job
from common.notices.alerts import Alert
from common.notices.channels import CHANNEL
from common.notices.events import Event, events_of
from common.notices.forms import Stored
from common.notices.notice import Notice
from common.notices.rules import RULE
from common.notices.silences import SILENCE
from common.protocol.keys import RunId
from common.protocol.roster import Left, RosterEntry
from common.protocol.run import EntryState, RunEntry, RunRecord, Trigger
from common.protocol.saved_job import SavedJob
from common.protocol.txn import GetPrefix, Txn
from common.runlog.alerts import BUCKETS, Alerts, Bucket, bucket_of, ended_alerts, open_alerts
from common.runlog.outbox import OutboxDocument, outbox_documents
from common.verdicts import EventKind, Verdict
from manager.notices.lifelines import LogStoreAway
from manager.notices.notifier import SHUT_OUT
from manager.notices.system_events import _LOOKS
from tests.support.background import running
from tests.support.clocks import OffClock
from tests.support.etcd_server import free_port
from tests.support.log_store import LogStoreServer
from tests.support.managing import Managed, Place, managing
from tests.support.notices import receiving
from tests.support.records import record
from tests.support.waiting import wait_until

NOW = SystemClock().wall_ms()
"""Older notices are forgotten."""
_SECOND, _MINUTE, _HOUR = 1000, 60_000, 3_600_000


@dataclass
class Telling:
    """A manager whose notifier runs, but for its senders, and its clock."""

    manager: Managed
    clock: OffClock

    async def rule(self, name: str, **fields: Any) -> None:
        value = RULE.to_json(Stored(record=RULE.read({"to": ["ops"], **fields})))
        await self.manager.etcd.put(self.manager.keys.rule(name), value)
        notices = self.manager.parts.watching.notices
        await wait_until(lambda: name in notices.rules, description=f"rule {name} is known")

    async def job(self, name: str, **fields: Any) -> None:
        document = {"name": name, "command": "x", "cronExpr": "@yearly", **fields}
        saved = SavedJob(spec=parse_job(document), anchor_ms=NOW - _HOUR, saved_ms=NOW - _HOUR)
        await self.manager.etcd.put(self.manager.keys.job(name), saved.to_json())
        catalog = self.manager.parts.watching.catalog
        await wait_until(lambda: name in catalog, description=f"job {name} is known")

    async def happens(self, *records: RunRecord) -> None:
        """As a worker delivers: the records, then what they tell."""
        await self.manager.write(records)
        events = [event for one in records for event in events_of(one, tuple(EventKind))]
        await self.manager.runlog.outbox.put(outbox_documents(events, NOW))

    async def notices(self) -> list[Notice]:
        """All of them, oldest first."""
        page = await self.manager.runlog.notices.page(limit=500)
        assert page.next_cursor is None
        return list(reversed(page.items))

    async def said(self) -> list[str]:
        return [f"{one.channel}: {one.kind} {told.event.kind}" for one in await self.notices() for told in one.told]

    async def says(self, *expected: str) -> None:
        """All that it has told comes to be this."""

        async def is_said() -> bool:
            return sorted(await self.said()) == sorted(expected)

        try:
            await wait_until(is_said, description="")
        except AssertionError:
            assert sorted(await self.said()) == sorted(expected)

    async def has_taken_all(self) -> None:
        """All that is in the outbox is told, and what alerts there are is written down."""

        async def is_empty() -> bool:
            return not await self.manager.runlog.outbox.read(1)

        await wait_until(is_empty, description="the outbox is empty")

    async def open(self) -> list[Alert]:
        return open_alerts(await self.manager.runlog.alerts.read())


@asynccontextmanager
async def telling(place: Place, *, clock: OffClock | None = None, **flags: Any) -> AsyncIterator[Telling]:
    clock = clock or OffClock()
    async with managing(place, clock=clock, **flags) as manager:
        await manager.parts.runlog.prepare()
        await manager.parts.runlog.notices.prepare()
        async with running(manager.parts.presence.run(), manager.parts.notifier.run()):
            yield Telling(manager, clock)


@pytest.fixture
async def here(place: Place) -> AsyncIterator[Telling]:
    async with telling(place) as one:
        await one.rule("all", labels="all")
        yield one


def _failed(job: str, number: int = 0, **changes: Any) -> RunRecord:
    return record(
        job=job, status=Verdict.FAILED, plan_ms=NOW - _HOUR + number * _SECOND, err="exit status 3", **changes
    )


def _succeeded(job: str, number: int) -> RunRecord:
    return record(job=job, plan_ms=NOW - _HOUR + number * _SECOND)


async def test_problem_its_end_and_what_is_listed_of_them(here: Telling) -> None:
    await here.job("report", notify=[{"to": "owner", "on": ["failed"]}])
    await here.happens(_failed("report"))
    await here.says("ops: problem failed", "owner: problem failed")
    await here.has_taken_all()
    (alert,) = await here.open()
    assert (alert.event.job, alert.event.run, alert.count) == ("report", f"report@{NOW - _HOUR}#1", 1)
    assert set(alert.told) == {"ops", "owner"}
    await here.happens(_failed("report", 1))
    await here.manager.write([_succeeded("report", 2)])  # which tells nothing
    await here.says("ops: problem failed", "owner: problem failed", "ops: recovered recovered")
    await here.has_taken_all()
    assert await here.open() == []
    (ended,) = ended_alerts(await here.manager.runlog.alerts.read())
    assert (ended.event.job, ended.count, ended.id) == ("report", 2, alert.id)


async def test_job_that_is_deleted_while_it_fails_has_no_alert_any_more(here: Telling) -> None:
    await here.job("report")
    await here.happens(_failed("report"))
    await here.says("ops: problem failed")
    await here.manager.etcd.delete(here.manager.keys.job("report"))

    async def has_none() -> bool:
        return not await here.open()

    await wait_until(has_none, description="no alert is open")
    await here.says("ops: problem failed")


async def test_silence_holds_back_and_its_end_tells(here: Telling) -> None:
    await here.job("report")
    silence = {"labels": "all", "fromMs": NOW - _HOUR, "untilMs": NOW + _HOUR}
    key = here.manager.keys.silence("0" * 12)
    await here.manager.etcd.put(key, SILENCE.to_json(Stored(record=SILENCE.read(silence))))
    known = here.manager.parts.watching.notices.silences
    await wait_until(lambda: bool(known), description="the silence is known")
    await here.happens(_failed("report"))
    await here.has_taken_all()
    assert await here.said() == []
    await here.manager.etcd.delete(key)
    await here.says("ops: problem failed")


async def test_run_that_goes_on_for_too_long_is_told_once_whoever_tells_it(place: Place) -> None:
    async with telling(place) as first:
        await first.rule("all", labels="all")
        await first.job("long", warnAfterSeconds=60)
        run = RunId.planned("long", NOW - _HOUR)
        entry = RunEntry(
            state=EntryState.OPEN, worker="w1", session="1", instance="i", plan_ms=NOW - _HOUR, revision=1,
            dispatch_ms=NOW - _HOUR, claim_ms=NOW - _HOUR, trigger=Trigger.SCHEDULE,
        )  # fmt: skip
        await first.manager.etcd.put(first.manager.keys.run(run), entry.to_json())
        await first.says("ops: problem slow")
        await first.has_taken_all()
    async with telling(place) as second:
        await second.job("other")
        await second.happens(_failed("other"))
        await second.says("ops: problem slow", "ops: problem failed")
        await second.has_taken_all()
        await second.says("ops: problem slow", "ops: problem failed")


async def test_job_without_a_success_is_silent_and_the_time_without_a_notifier_does_not_count(place: Place) -> None:
    async with telling(place) as first:
        await first.rule("all", labels="all")
        await first.job("backup", silentAfterSeconds=2 * 3600)
        await first.manager.write([record(job="backup", plan_ms=NOW)])

        async def is_written_down() -> bool:
            return (await first.manager.runlog.alerts.watch()).looked_ms > 0

        await wait_until(is_written_down, description="it is written down that a notifier looks")
    async with telling(place, clock=OffClock(5 * _HOUR)) as second:
        await second.job("other")
        await second.happens(_failed("other"))
        await second.says("ops: problem failed")
        second.clock.offset_ms += 3 * _HOUR
        await second.says("ops: problem failed", "ops: problem silent")
        await second.manager.write([record(job="backup", plan_ms=second.clock.wall_ms())])
        await second.says("ops: problem failed", "ops: problem silent", "ops: recovered recovered")


async def test_job_that_is_saved_more_often_than_its_limit_is_silent_all_the_same(here: Telling) -> None:
    await here.job("backup", silentAfterSeconds=2 * 3600)

    async def is_looked_at() -> bool:
        return (await here.manager.runlog.alerts.watch()).looked_ms > 0

    await wait_until(is_looked_at, description="the notifier looks at it")
    spec = parse_job({
        "name": "backup", "command": "y", "cronExpr": "@yearly", "silentAfterSeconds": 2 * 3600,
    })  # fmt: skip
    here.clock.offset_ms = round(1.5 * _HOUR)
    saved = SavedJob(spec=spec, anchor_ms=NOW - _HOUR, saved_ms=here.clock.wall_ms())
    await here.manager.etcd.put(here.manager.keys.job("backup"), saved.to_json())
    await here.says("ops: problem silent")


async def test_worker_that_is_gone_is_told_to_rules_for_the_system_and_that_it_is_back(here: Telling) -> None:
    await here.rule("system", system=True, to=["admins"], on=["worker-down", "recovered"])
    gone = RosterEntry(worker="w3", host="h3", seen_ms=NOW, left=Left.GONE)
    await here.manager.etcd.put(here.manager.keys.roster_entry("w3"), gone.to_json())
    await here.says("admins: system worker-down")
    await here.has_taken_all()
    await here.manager.etcd.delete(here.manager.keys.roster_entry("w3"))
    await here.says("admins: system worker-down", "admins: recovered recovered")


async def test_member_of_etcd_that_does_not_answer_is_told(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manager.notices.system_events._LOOKS", {**_LOOKS, EventKind.ETCD_MEMBER_AWAY: 1})
    dead = f"127.0.0.1:{free_port()}"
    async with (
        telling(place, etcdEndpoints=[place.etcd, dead]) as here,
        running(here.manager.parts.health.run()),
    ):
        await here.rule("system", system=True)

        async def is_told() -> bool:
            told = [one.event for notice in await here.notices() for one in notice.told]
            return (EventKind.ETCD_MEMBER_AWAY, dead) in [(event.kind, event.subject) for event in told]

        await wait_until(is_told, description="it is told")


async def test_channel_that_fails_and_is_removed_fails_no_longer(here: Telling) -> None:
    await here.rule("sys", system=True)
    key = here.manager.keys.channel("hook")
    await here.manager.etcd.put(key, CHANNEL.to_json(Stored(record=CHANNEL.read(
        {"kind": "webhook", "url": "https://hooks.example.org"}))))  # fmt: skip
    failing = Event(kind=EventKind.NOTICES_FAILING, at_ms=NOW, subject="hook")
    await here.manager.runlog.outbox.put(outbox_documents([failing], NOW))
    await here.says("ops: system notices-failing")
    await here.manager.etcd.delete(key)
    await here.says("ops: system notices-failing", "ops: recovered recovered")


async def test_runs_that_are_lost_with_one_worker_are_one_message_though_they_are_found_one_after_the_other(
    here: Telling,
) -> None:
    for number in range(3):
        lost = [record(job=f"job-{number}-{one}", status=Verdict.LOST, worker="w3") for one in range(20)]
        await here.happens(*lost)
        # Each is seen by a turn of its own.
        await here.happens(_failed(f"other-{number}"))
        await wait_until(partial(_has_told, here, f"other-{number}"), description="a turn has passed")
    await here.has_taken_all()
    of_lost = [one for one in await here.notices() if one.told[0].event.kind is EventKind.LOST]
    assert {one.told[0].event.worker for one in of_lost} == {"w3"}
    assert sum(one.total for one in of_lost) == 60
    assert len({one.created_ms for one in of_lost}) == 1  # so its sender joins them


async def _has_told(here: Telling, job: str) -> bool:
    return any(told.event.job == job for one in await here.notices() for told in one.told)


# Nothing is lost, and nothing is told twice


def _jobs_told(notices: Collection[Notice]) -> Counter[str]:
    return Counter(told.event.job for notice in notices for told in notice.told)


def _documents(count: int, *, of: int) -> list[OutboxDocument]:
    """Failures of so many jobs, so many in a document."""
    failures = [event for number in range(count) for event in events_of(_failed(f"job-{number}"))]
    return [one for start in range(0, count, of) for one in outbox_documents(failures[start : start + of], NOW + start)]


async def test_thousand_events_over_a_failover_are_each_in_one_notice(place: Place) -> None:
    documents = _documents(1000, of=5)
    async with telling(place) as first:
        await first.rule("all", labels="all")
        for one in documents[:100]:
            await first.manager.runlog.outbox.put([one])

        async def has_begun() -> bool:
            return bool(await first.notices())

        await wait_until(has_begun, description="the first notices are there", at_most_every_s=0.05)
    async with telling(place) as second:
        await second.manager.runlog.outbox.put(documents)  # what was told already is delivered again
        await second.has_taken_all()
        notices = await second.notices()
        assert _jobs_told(notices) == Counter({f"job-{number}": 1 for number in range(1000)})
        assert sum(notice.total for notice in notices) == 1000


async def test_crash_between_notices_and_alerts_makes_the_same_notices(place: Place) -> None:
    documents = _documents(40, of=10)
    async with telling(place) as first:
        await first.rule("all", labels="all")
        await first.manager.runlog.outbox.put(documents)
        await first.has_taken_all()
        before = await first.notices()
    async with managing(place) as between:
        # As it is after such a crash: notices and outbox are there, and the alerts are those before.
        epoch = await between.runlog.alerts.epoch()
        assert await between.runlog.alerts.write(dict.fromkeys(range(BUCKETS), Bucket()), epoch)
        await between.runlog.outbox.put(documents)
    async with telling(place) as second:
        await second.has_taken_all()
        assert await second.notices() == before
        buckets = await second.manager.runlog.alerts.read()
        assert len(open_alerts(buckets) + ended_alerts(buckets)) == 40


async def test_notifier_that_is_replaced_writes_no_alerts_and_leaves_the_outbox_to_its_successor(
    here: Telling, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def confirm(_: Election) -> bool:
        return False  # says etcd; the election has not heard of it

    await here.job("first")
    await here.happens(_failed("first"))
    await here.says("ops: problem failed")
    await here.has_taken_all()
    runlog = here.manager.runlog
    before = await runlog.alerts.read()
    monkeypatch.setattr(Election, "confirm", confirm)
    assert await runlog.alerts.take(await runlog.alerts.epoch() + 1)
    await here.happens(_failed("second"))
    await here.says("ops: problem failed", "ops: problem failed")  # the successor makes the same one
    for _ in range(3):
        await here.happens(_failed("third"))
    assert await runlog.alerts.read() == before
    assert {event.job for one in await runlog.outbox.read(10) for event in one.events} == {"second", "third"}


async def test_notifier_of_an_etcd_that_was_restored_tells_though_a_later_epoch_is_remembered(place: Place) -> None:
    async with telling(place) as before:
        await before.rule("all", labels="all")
        await before.job("first")
        await before.job("second")
        await before.happens(_failed("first"))
        await before.says("ops: problem failed")
        await before.has_taken_all()
    async with managing(place) as between:
        remembered = 1 << 60  # higher than any revision of this etcd
        assert await between.runlog.alerts.take(remembered)
    async with telling(place) as after:
        await after.happens(_failed("second"))
        await after.says("ops: problem failed", "ops: problem failed")
        await after.has_taken_all()
        alerts = after.manager.runlog.alerts
        assert {alert.event.job for alert in await after.open()} == {"first", "second"}
        assert not await alerts.write({0: Bucket()}, remembered)  # the notifier of before is shut out


async def test_alert_that_a_later_version_has_opened_stays_as_it_is(place: Place) -> None:
    later, number = '{"alert":{"event":{"kind":"of-a-later-version"},"sinceMs":1}}', bucket_of("first")
    async with managing(place) as before:
        standings, ended = f'{{"later":{later}}}', f"[{later}]"
        written = {"_id": f"bucket/{number:02d}", "epoch": 1, "standings": standings, "ended": ended}
        await before.runlog.alerts._collection.insert_one(written)
    async with telling(place) as here:
        await here.rule("all", labels="all")
        await here.job("first")
        await here.happens(_failed("first"))
        await here.says("ops: problem failed")
        await here.has_taken_all()
        assert [alert.event.job for alert in await here.open()] == ["first"]
        found = await here.manager.runlog.alerts._collection.find_one({"_id": written["_id"]})
        assert found is not None
        standings = json.loads(found["standings"])
        assert (set(standings), standings["later"]) == ({"first", "later"}, json.loads(later))


async def test_one_of_two_terms_takes_an_epoch_and_none_an_earlier_one(place: Place) -> None:
    async with managing(place) as manager:
        alerts = manager.runlog.alerts
        epoch = await alerts.epoch() + 1
        assert not all(await asyncio.gather(alerts.take(epoch), alerts.take(epoch)))
        assert await alerts.take(epoch + 1)
        assert await alerts.epoch() == epoch + 1
        assert not await alerts.take(epoch + 1)
        assert not await alerts.take(epoch)
        assert not await alerts.write({0: Bucket()}, epoch)
        assert await alerts.write({0: Bucket()}, epoch + 1)


async def test_epoch_that_the_log_store_refuses_is_no_other_notifier_s(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refusing(_: object, **__: object) -> None:
        raise BulkWriteError({"nMatched": 0, "writeErrors": [{"index": 0, "code": 121, "errmsg": "no"}]})

    async with managing(place) as manager:
        monkeypatch.setattr(manager.runlog.alerts._collection, "bulk_write", refusing)
        with pytest.raises(UnavailableError, match="does not take alerts: no"):
            await manager.runlog.alerts.take(1)


async def test_clusters_that_use_one_database_shut_each_other_out_and_each_says_so(place: Place) -> None:
    clock, numbers = OffClock(), itertools.count()
    elsewhere = dataclasses.replace(place, prefix=f"{place.prefix}-other")
    async with telling(place, clock=clock) as one, telling(elsewhere, clock=clock) as other:
        first = await one.manager.runlog.alerts.epoch()

        async def has_happened() -> None:
            await one.happens(_failed(f"job-{next(numbers)}"))

        async def is_shut_out() -> bool:
            await has_happened()
            return await one.manager.runlog.alerts.epoch() > first + 5

        async def is_said() -> bool:
            await has_happened()
            looks = [await each.manager.get("/readyz") for each in (one, other)]
            return all(any(SHUT_OUT in problem for problem in look["problems"]) for look in looks)

        await wait_until(is_shut_out, description="each has been shut out", at_most_every_s=0.5)
        assert not await is_said(), "once is no wonder"
        clock.passed_s += 121
        await wait_until(is_said, description="both say so", at_most_every_s=0.5)


async def test_notices_wait_for_a_log_store_that_is_away_which_is_told_without_it(place: Place, tmp_path: Path) -> None:
    async with receiving() as receiver, LogStoreServer(tmp_path / "own") as store:
        own = dataclasses.replace(place, log_store=store.uri)
        async with telling(own, noticeNetworks=["127.0.0.0/8"]) as here:
            await here.rule("all", labels="all")
            await here.rule("system", system=True, to=["admins"])
            channel = CHANNEL.read({"kind": "webhook", "url": receiver.url})
            await here.manager.etcd.put(here.manager.keys.channel("admins"), CHANNEL.to_json(Stored(record=channel)))
            await here.happens(_failed("first"))
            await here.says("ops: problem failed")
            await here.has_taken_all()
            store.pause()
            await wait_until(lambda: len(receiver.got) == 1, description="its absence is told")
            assert receiver.got[0].body["data"]["events"][0]["kind"] == "log-store-away"
            store.resume()
            await here.happens(_failed("second"))
            await here.says("ops: problem failed", "ops: problem failed", "admins: recovered recovered")


async def test_burst_of_ten_thousand_failures_costs_few_documents_and_no_mutation_of_etcd(place: Place) -> None:
    writes = _Writes()
    pymongo.monitoring.register(writes)  # for clients that are made from now on
    jobs = [f"job-{number}" for number in range(200)]
    failures = [event for number in range(50) for job in jobs for event in events_of(_failed(job, number))]
    documents = [one for start in range(0, 10_000, 100) for one in outbox_documents(failures[start : start + 100], NOW)]
    async with telling(place) as here:
        await here.rule("all", labels="all")
        for job in jobs:
            await here.job(job)
        await here.happens(_failed(jobs[0], -1))
        await here.says("ops: problem failed")
        await here.has_taken_all()
        writes.documents.clear()
        mutations = await _mutations(here)
        await here.manager.runlog.outbox.put(documents)
        await here.has_taken_all()
        assert await _mutations(here) - mutations <= 1
        assert sum(notice.total for notice in await here.notices()) == len(jobs)
        assert sum(alert.count for alert in await here.open()) == 10_001
        assert writes.documents["outbox"] == 100
        assert sum(writes.documents.values()) <= 500, writes.documents


async def _mutations(here: Telling) -> int:
    """How many there were of this etcd, but for beats."""
    page = await here.manager.etcd.txn(Txn((), [GetPrefix(here.manager.keys.beats)]))
    return page.revision - sum(kv.version for kv in page.kvs(0))


class _Writes(CommandListener):
    """Counts the documents that are written, by collection."""

    def __init__(self) -> None:
        self.documents = Counter[str]()

    def started(self, event: CommandStartedEvent) -> None:
        for what in ("documents", "updates"):
            if event.command_name in ("insert", "update"):
                self.documents[event.command[event.command_name]] += len(event.command.get(what, ()))

    def succeeded(self, event: CommandSucceededEvent) -> None:
        pass

    def failed(self, event: CommandFailedEvent) -> None:
        pass


async def test_notifier_that_cannot_tell_of_the_log_store_takes_no_manager_down(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = list[str]()

    async def fail(_: LogStoreAway, why: str) -> None:
        tries.append(why)
        raise OverflowError("nobody foresaw it")

    async def away(_: object, epoch: int) -> bool:
        raise UnavailableError("the log store is away")

    monkeypatch.setattr(LogStoreAway, "note_away", fail)
    monkeypatch.setattr(Alerts, "take", away)
    async with managing(place) as manager, running(manager.parts.presence.run(), manager.parts.notifier.run()) as loops:
        await wait_until(lambda: bool(tries), description="it has tried")
        await asyncio.sleep(0)
        assert not any(loop.done() for loop in loops)


async def test_broadcast_job_that_fails_on_one_worker_is_not_well_as_others_succeed(here: Telling) -> None:
    def of(worker: str, number: int, **changes: Any) -> RunRecord:
        plan_ms = NOW - _HOUR + number * _SECOND
        return record(run_id=RunId.planned(f"backup~{worker}", plan_ms), plan_ms=plan_ms, worker=worker, **changes)

    await here.job("backup", broadcast=True, notify=[{"to": "third", "on": ["failed"], "after": 3}])
    for number in range(3):
        assert await here.said() == ["ops: problem failed"] * (number > 0)
        await here.happens(
            *(of(one, number, status=Verdict.FAILED if one == "a" else Verdict.SUCCESS) for one in "abc")
        )
        await here.has_taken_all()
    await here.says("ops: problem failed", "third: problem failed")
    (alert,) = await here.open()
    assert (alert.count, alert.event.worker) == (3, "a")
    await here.happens(*(of(one, 3) for one in "abc"))
    await here.says("ops: problem failed", "third: problem failed", "ops: recovered recovered")
