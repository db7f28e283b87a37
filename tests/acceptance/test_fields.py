"""Every field of a job, on real servers: what it does, and what a bad value is answered.

A field that joins the model fails the first test until it is here, or until the test that shows it is named here.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from common.jobs.job import JobSpec
from tests.support.cluster import EVERY_SECOND, ROOT, Cluster, running_cluster
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.etcd, pytest.mark.logstore, pytest.mark.slow]

Records = list[dict[str, Any]]
_FUTURE: Final = "0 0 0 1 1 * 2199"

ELSEWHERE: Final = {
    "misfire": "tests/acceptance/test_catching_up.py::"
    "test_workers_stopped_for_a_while_make_up_for_what_the_policy_says",
    "overlap": "tests/acceptance/test_overlap.py::test_queue_runs_back_to_back_and_keeps_one_waiting",
    "retry": "tests/acceptance/test_retry_and_after.py::test_fails_twice_and_its_worker_is_killed_between_attempts",
    "onWorkerLost": "tests/acceptance/test_retry_and_after.py::test_lost_run_is_run_again_once",
    "lostAfterSeconds": "tests/acceptance/test_retry_and_after.py::test_lost_run_is_run_again_once",
    "broadcast": "tests/acceptance/test_where.py::test_a_broadcast_job_follows_the_workers_as_they_come_and_go",
    "slots": "tests/acceptance/test_where.py::test_selectors_and_slots_say_where",
    "priority": "tests/integration/deciding/test_scheduler_times.py::"
    "test_greater_priority_gets_the_slot_that_comes_free",
    "user": "tests/integration/test_executor_accounts.py::test_",
    "description": "tests/console/test_editing_fields.py::test_every_field_is_saved_and_shown_again",
    "links": "tests/console/test_editing_fields.py::test_every_field_is_saved_and_shown_again",
    "notify": "tests/integration/working/test_outbox_writer.py::test_what_rules_and_the_job_ask_for_is_told",
    "suspiciousBelowSeconds": "tests/integration/working/test_outbox_writer.py::"
    "test_what_rules_and_the_job_ask_for_is_told",
    "lateAfterSeconds": "tests/unit/test_events.py::"
    "test_late_is_what_starts_after_its_jitter_and_more_than_the_job_allows",
    "warnAfterSeconds": "tests/integration/manager/test_notifier.py::"
    "test_run_that_goes_on_for_too_long_is_told_once_whoever_tells_it",
    "silentAfterSeconds": "tests/integration/manager/test_notifier.py::"
    "test_job_without_a_success_is_silent_and_the_time_without_a_notifier_does_not_count",
}  # fmt: skip
BAD: Final[Mapping[str, Any]] = {
    "name": "a/b", "command": [], "cronExpr": "99 * * * * * *", "every": "5 minutes", "offset": "9h", "after": "0s",
    "at": "yesterday", "timezone": "Mars", "enabled": "yes", "startAt": "soon", "endAt": "2001", "jitterSeconds": -1,
    "calendar": {"exclude": ["2026-02-30"]}, "overlap": "later", "misfire": {"policy": "maybe"},
    "retry": {"limit": -1}, "timeoutSeconds": -1, "killGraceSeconds": "long", "onWorkerLost": "cry",
    "lostAfterSeconds": "often", "env": {"1A": "x"}, "secrets": {"A": "/etc/shadow"}, "secretFiles": {"A": "../x"},
    "workdir": "tmp", "user": "no such user!", "shell": "sh",
    "outputLimitBytes": -1, "labels": {"": "x"}, "workers": {"zone": []}, "broadcast": 1, "slots": 0, "priority": 1000,
    "description": 1, "links": [{"title": "x", "url": "javascript:alert(1)"}], "notify": [{"to": "a@b.c"}],
    "warnAfterSeconds": -1, "lateAfterSeconds": "1m", "silentAfterSeconds": -1, "suspiciousBelowSeconds": -1,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A job with a field, and what its records then look like."""

    field: str
    spec: Mapping[str, Any]
    shows: Callable[[Records], bool]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """For both: what one saves, the other does not look at."""
    async with running_cluster(tmp_path_factory.mktemp("fields"), workers=1, managers=1) as running:
        running.add_worker("in-b", "--labels", "zone=b").start()
        await running.ready()
        yield running


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _plans(records: Records) -> list[int]:
    return [record["planTime"] // 1000 for record in records if record["status"] == "success"]


def _outputs(records: Records) -> list[str]:
    return [record["output"].strip() for record in records if record.get("startTime")]


def cases(directory: Path) -> list[Case]:
    """One for each field whose effect shows in records within seconds."""
    now_s, today = int(time.time()), datetime.now(UTC).strftime("%Y-%m-%d")
    tokyo = datetime.fromtimestamp(now_s, UTC) + timedelta(hours=9)
    in_tokyo = f"* * {tokyo.hour},{(tokyo.hour + 1) % 24} * * * *"
    # A run that a busy machine holds up for a second must not keep the next one from it.
    each = {"cronExpr": EVERY_SECOND, "command": "echo ran", "overlap": "allow"}
    return [
        Case(field="command", spec={**each, "command": ["printf", "%s-", "a b", "$HOME"]},
             shows=lambda found: "a b-$HOME-" in _outputs(found)),
        Case(field="cronExpr", spec={**each, "cronExpr": ["*/4 * * * * * *", "1-59/4 * * * * * *"]},
             shows=lambda found: len(found) >= 3 and {one % 4 for one in _plans(found)} == {0, 1}),
        Case(field="every", spec={"command": "true", "every": "2s"},
             shows=lambda found: len(found) >= 2 and {one % 2 for one in _plans(found)} == {0}),
        Case(field="offset", spec={"command": "true", "every": "2s", "offset": "1s"},
             shows=lambda found: len(found) >= 2 and {one % 2 for one in _plans(found)} == {1}),
        Case(field="after", spec={"command": "sleep 0.5", "after": "1s"},
             shows=lambda found: len(found) >= 3 and _follow(found, 1000)),
        Case(field="timezone", spec={**each, "cronExpr": in_tokyo, "timezone": "Asia/Tokyo"},
             shows=lambda found: len(_plans(found)) >= 2),
        Case(field="enabled", spec={**each, "enabled": False}, shows=lambda found: found == []),
        Case(field="startAt", spec={**each, "startAt": _iso(now_s + 5)},
             shows=lambda found: len(_plans(found)) >= 2 and min(_plans(found)) >= now_s + 5),
        Case(field="calendar", spec={**each, "calendar": {"exclude": [f"{today}/2199-12-30"]}},
             shows=lambda found: len(found) >= 2 and {one["reason"] for one in found} == {"calendar"}),
        Case(field="jitterSeconds", spec={"command": "true", "cronExpr": "*/2 * * * * * *", "jitterSeconds": 1},
             shows=lambda found: len(found) >= 4 and _spread(found)),
        Case(field="timeoutSeconds", spec={"command": "sleep 60", "every": "5s", "timeoutSeconds": 0.5},
             shows=lambda found: "timeout" in {one["status"] for one in found}),
        Case(field="killGraceSeconds",
             spec={"command": "trap '' TERM; sleep 60", "every": "5s", "timeoutSeconds": 0.2, "killGraceSeconds": 1},
             shows=lambda found: any(one["status"] == "timeout" and _took(one) >= 1100 for one in found)),
        Case(field="env", spec={**each, "command": "echo $LEVEL-$PATH", "env": {"LEVEL": "deep"}},
             shows=lambda found: any(one.startswith("deep-/usr/bin") for one in _outputs(found))),
        Case(field="secrets", spec={**each, "secrets": {"PW": "pg/prod"}}, shows=lambda found: any(
             one["status"] == "failed" and "secretsFile" in one["err"] for one in found)),
        Case(field="secretFiles", spec={**each, "secretFiles": {"F": "pg/prod"}}, shows=lambda found: any(
             one["status"] == "failed" and "secretsFile" in one["err"] for one in found)),
        Case(field="workdir", spec={**each, "command": "pwd", "workdir": str(directory)},
             shows=lambda found: str(directory) in _outputs(found)),
        Case(field="shell", spec={**each, "command": "echo $BASH_VERSION", "shell": "/bin/bash"},
             shows=lambda found: any(re.match(r"[0-9]+\.", one) for one in _outputs(found))),
        Case(field="outputLimitBytes", spec={**each, "command": "seq 1 9999", "outputLimitBytes": 1000},
             shows=lambda found: any(one["outputTruncated"] and one["outputBytes"] > 40_000 for one in found)),
        Case(field="labels", spec={**each, "labels": {"team": "a"}},
             shows=lambda found: any(one["labels"] == {"team": "a"} for one in found)),
        Case(field="workers", spec={**each, "workers": {"zone": ["b", "c"]}},
             shows=lambda found: len(_plans(found)) >= 4 and {one.get("worker", "in-b") for one in found} == {"in-b"}),
        Case(field="user", spec={**each, "user": "nobody"}, shows=lambda found: any(
             one["status"] == "failed" and "allowedUsers" in one["err"] for one in found)),
        Case(field="at", spec={"command": "true", "at": _iso(now_s + 20)},
             shows=lambda found: [one["planTime"] // 1000 for one in found] == [now_s + 20]),
        Case(field="endAt", spec={**each, "endAt": _iso(now_s + 20)},
             shows=lambda found: len(_plans(found)) >= 2 and max(_plans(found)) <= now_s + 20),
    ]  # fmt: skip


def _follow(records: Records, delay_ms: int) -> bool:
    """Each starts so long after the end of the one before."""
    runs = sorted((one for one in records if "startTime" in one), key=lambda one: one["startTime"])
    gaps = [later["startTime"] - earlier["endTime"] for earlier, later in pairwise(runs)]
    return len(gaps) >= 2 and all(gap >= delay_ms for gap in gaps)


def _spread(records: Records) -> bool:
    late = [one["scheduleTime"] - one["planTime"] for one in records if one.get("scheduleTime")]
    return all(one >= 0 for one in late) and any(one > late[0] + 50 or one < late[0] - 50 for one in late)


def _took(record: Mapping[str, Any]) -> int:
    return int(record["endTime"] - record["startTime"])


def test_every_field_has_a_test_and_a_bad_value() -> None:
    fields = set(JobSpec(name="j", command="a").to_document()) | {"cronExpr", "every", "offset", "after", "at"}
    assert {case.field for case in cases(Path("/tmp"))} | set(ELSEWHERE) | {"name"} == fields
    assert set(BAD) == fields


@pytest.mark.parametrize("field", ELSEWHERE)
def test_the_tests_that_are_named_are_there(field: str) -> None:
    path, _, name = ELSEWHERE[field].partition("::")
    assert f"def {name}" in (ROOT / path).read_text()


@pytest.mark.asyncio(loop_scope="module")
async def test_each_field_has_its_effect(cluster: Cluster, tmp_path: Path) -> None:
    shown = cases(tmp_path)
    for case in reversed(shown):  # first those whose time comes, or is over, by itself
        await cluster.call("PUT", f"/api/v1/jobs/{case.field}", case.spec)
    for case in shown:

        async def shows(case: Case = case) -> bool:
            return case.shows(await _records(cluster, case.field))

        await wait_until(shows, description=f"the effect of {case.field}")
        if case.field != "enabled":  # which nothing else is to hold
            await cluster.call("POST", f"/api/v1/jobs/{case.field}/pause", {"reason": "it is shown"})
    assert await _records(cluster, "enabled") == []
    await cluster.call("PUT", "/api/v1/jobs/name.with-dots_1", {"command": "true", "cronExpr": _FUTURE})
    assert (await cluster.get("/api/v1/jobs/name.with-dots_1"))["name"] == "name.with-dots_1"


async def _records(cluster: Cluster, job: str) -> Records:
    """The newest records with their output."""
    found = (await cluster.get("/api/v1/runs", job=job, limit=20))["items"]
    ran = {one["_id"]: one["output"] for one in (await cluster.get("/job/log", name=job, limit=20))["data"]}
    return [{**one, "output": ran.get(one["id"], "")} for one in found if one["state"] == "finished"]


@pytest.mark.asyncio(loop_scope="module")
async def test_each_bad_value_is_named_and_nothing_is_saved(cluster: Cluster) -> None:
    assert cluster.http is not None
    before = await _names(cluster)
    for field, value in BAD.items():
        trigger = {} if field in ("every", "after", "at") else {"cronExpr": _FUTURE}
        beside = {"every": "5m"} if field == "offset" else trigger
        spec = {"command": "true", **beside, field: value}
        url = f"http://127.0.0.1:{cluster.ports[0]}/api/v1/jobs/bad"
        async with cluster.http.put(url, json=spec) as answer:
            problem = await answer.json()
        assert answer.status == 400, (field, problem)
        named = {one["field"] for one in problem["errors"]}
        assert any(one == field or one.startswith((f"{field}.", f"{field}[")) for one in named), (field, problem)
        assert all(one["message"] and one["remedy"] for one in problem["errors"]), problem
    assert await _names(cluster) <= before


async def _names(cluster: Cluster) -> set[str]:
    return {job["name"] for job in (await cluster.get("/job/list"))["data"]}
