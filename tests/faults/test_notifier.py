"""Notifiers that die or are frozen between notices and alerts: each event is told once, whoever comes back."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from common.etcd import EtcdClient
from common.jobs.reader import parse_job
from common.notices.events import events_of
from common.notices.forms import Stored
from common.notices.rules import RULE
from common.protocol.keys import Keys
from common.protocol.saved_job import SavedJob
from common.runlog.outbox import outbox_documents
from common.verdicts import Verdict
from tests.chaos.history import wall_ms
from tests.chaos.scenarios.notices import Story, telling
from tests.support.records import record
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

_KEYS = Keys()
_JOBS = 20


async def _begin(story: Story) -> None:
    """All jobs are there, a rule for all of them, and a manager that comes to the failpoint with their first events."""
    async with EtcdClient([story.cluster.etcd.endpoint]) as etcd:
        rule = RULE.read({"labels": "all", "to": ["c0"]})
        await etcd.put(_KEYS.rule("all"), RULE.to_json(Stored(record=rule)))
        for number in range(_JOBS):
            spec = parse_job({"name": f"job-{number}", "command": "x", "cronExpr": "@yearly"})
            await etcd.put(_KEYS.job(spec.name), SavedJob(spec=spec, anchor_ms=0).to_json())


async def _fail(story: Story) -> None:
    failures = [record(job=f"job-{number}", status=Verdict.FAILED) for number in range(_JOBS)]
    await story.runlog.write(failures)
    for one in failures:
        await story.runlog.outbox.put(outbox_documents(events_of(one), wall_ms()))


async def _has_taken_all(story: Story) -> bool:
    return not await story.runlog.outbox.read(1)


def _told(story: Story) -> int:
    """Events, in messages that are not the same: a sender that dies or is frozen may send one twice."""
    bodies = dict(zip(story.receiver.ids, (got.body for got in story.receiver.got), strict=True))
    return sum(body["data"]["total"] for body in bodies.values())


@pytest.mark.parametrize("place", ["before_notices", "after_notices"])
async def test_notifier_that_is_killed_while_it_tells_loses_nothing_and_tells_it_once(
    tmp_path: Path, place: str
) -> None:
    async with telling(tmp_path, channels=1, managers=2, managers_started=1) as story:
        await _begin(story)
        await story.restart(story.cluster.managers[0], failpoint=f"{place}:kill")
        await _fail(story)
        await story.died(story.cluster.managers[0])
        story.cluster.managers[1].start()
        await wait_until(lambda: _has_taken_all(story), description="all is taken")
        await story.all_told()
        assert _told(story) == _JOBS


async def test_notifier_that_was_frozen_and_comes_back_writes_nothing(tmp_path: Path) -> None:
    async with telling(tmp_path, channels=1, managers=2, managers_started=1) as story:
        await _begin(story)
        frozen, successor = story.cluster.managers
        await story.restart(frozen, failpoint="after_notices:stop")
        await _fail(story)
        assert frozen.popen is not None
        process = psutil.Process(frozen.popen.pid)
        await wait_until(lambda: process.status() == psutil.STATUS_STOPPED, description="it is frozen")
        successor.start()
        await wait_until(lambda: _has_taken_all(story), description="the successor has taken all")
        await story.runlog.write([record(_JOBS, job=f"job-{number}") for number in range(_JOBS)])

        async def are_over() -> bool:
            return not any(
                one.alert for bucket in await story.runlog.alerts.read() for one in bucket.standings.values()
            )

        await wait_until(are_over, description="all problems are over")
        await story.all_told()
        alerts = await story.runlog.alerts.read()
        process.resume()
        await wait_until(
            lambda: "no longer leads /etcron/leader/notifier" in frozen.log,
            description="it has heard of its successor",
        )  # fmt: skip
        assert "notifier.failed" not in frozen.log
        assert await story.runlog.alerts.read() == alerts
        await story.all_told()
        assert _told(story) == 2 * _JOBS
