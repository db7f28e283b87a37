"""``GET /api/v1/runs`` narrowed down, and counted by error; one run with its attempts and its command."""

from __future__ import annotations

from dataclasses import replace as replace_version
from typing import Any

from msgspec.structs import replace

from common.protocol.keys import RunId
from common.protocol.run import RunRecord, Trigger
from common.protocol.saved_job import EditKind, JobVersion
from common.protocol.txn import Put, Txn
from common.verdicts import Verdict
from tests.integration.manager.test_run_list import RUNS, going, pages
from tests.support.managing import Managed, problem_of
from tests.support.open_runs import claim, now_ms, open_entry, record_of

MINUTE_MS = 60_000
JOB = {"command": "echo hello", "cronExpr": "@yearly"}


def failed(job: str, plan_ms: int, code: int, **changes: Any) -> RunRecord:
    """One that has printed a line of its own."""
    output = f"hello\n{job} says {code}\n"
    values = {"exit_code": code, "err": f"exit status {code}", "output": output, "output_bytes": len(output)}
    return record_of(RunId.planned(job, plan_ms), Verdict.FAILED, **values, **changes)


async def test_runs_are_found_by_a_part_of_a_name_a_label_and_what_started_them(manager: Managed) -> None:
    now = now_ms()
    for job in ("import-big", "Import-small", "export"):
        await manager.call("PUT", f"/api/v1/jobs/{job}", JOB)
    big, small, export = [RunId.planned(job, now - 5 * MINUTE_MS) for job in ("import-big", "Import-small", "export")]
    gone = RunId.planned("was-imported", now - 6 * MINUTE_MS)
    await manager.write([
        record_of(big, labels={"team": "a"}), record_of(small, labels={"team": "b"}, trigger=Trigger.MANUAL),
        record_of(export, labels={"team": "a"}), record_of(gone),
    ])  # fmt: skip
    open_one = await claim(manager, "import-big", now - MINUTE_MS)
    await going(manager, open_one)
    for query, found in (
        ({"q": "import"}, [open_one, big, small]),
        ({"q": "IMPORT-B"}, [open_one, big]),
        ({"q": "was-imported"}, [gone]),
        ({"q": "nothing"}, []),
        ({"label": "team=a"}, [big, export]),
        ({"label": "team", "q": "import"}, [big, small]),
        ({"trigger": "manual,retry"}, [small]),
        ({"trigger": "schedule", "q": "small"}, []),
    ):
        ids = [run for page in await pages(manager, **query) for run in page]
        assert ids == [str(run) for run in found], query


async def test_each_filter_that_is_wrong_is_named(manager: Managed) -> None:
    wrong = {"trigger": "cron", "status": "bad", "group": "job", "from": "yesterday", "lable": "a"}
    problem = await problem_of(await manager.http.get(RUNS, params=wrong), 400)
    assert sorted(error["field"] for error in problem["errors"]) == sorted(wrong)
    assert all(error["remedy"] for error in problem["errors"])


async def test_what_failed_is_counted_by_its_error(manager: Managed) -> None:
    now = now_ms()
    records = [failed(f"job-{number % 7}", now - number * MINUTE_MS, 3) for number in range(1, 16)]
    records += [failed("other", now - number * MINUTE_MS, 4) for number in (2, 30)]
    records += [record_of(RunId.planned("late", now - MINUTE_MS), Verdict.MISSED, reason="late")]
    records += [record_of(RunId.planned("fine", now - number * MINUTE_MS)) for number in range(1, 40)]
    await manager.write(records)
    answer = await manager.get(RUNS, group="error")
    groups = answer["groups"]
    assert [(group["error"], group["count"], group["jobCount"]) for group in groups] == [
        ("failed: exit status 3", 15, 7), ("failed: exit status 4", 2, 1), ("missed: late", 1, 1),
    ]  # fmt: skip
    assert (answer["items"], answer["records"], answer["isComplete"]) == ([], 18, True)
    first = groups[0]
    assert (first["firstTime"], first["lastTime"]) == (now - 15 * MINUTE_MS, now - MINUTE_MS)
    assert first["lastLine"] == "job-1 says 3"
    assert [run["id"] for run in first["runs"]] == [str(one.run_id) for one in records[:5]]
    assert groups[2]["lastLine"] is None
    since = await manager.get(RUNS, group="error", **{"from": str(now - 10 * MINUTE_MS)}, status="failed")
    assert [group["count"] for group in since["groups"]] == [10, 1]
    assert await pages(manager, error="failed: exit status 4") == [[str(one.run_id) for one in records[15:17]]]
    assert (await manager.get(RUNS, group="error", status="success"))["groups"] == []


async def test_attempts_of_a_fire_know_each_other(manager: Managed) -> None:
    now = now_ms()
    first = RunId.planned("again", now - MINUTE_MS)
    second, third = first.next_attempt, first.next_attempt.next_attempt
    await manager.write([record_of(first, Verdict.FAILED), record_of(second, Verdict.TIMEOUT, plan_ms=now - MINUTE_MS)])
    assert [(one["id"], one["status"]) for one in (await manager.get(f"{RUNS}/{quoted(first)}"))["attempts"]] == [
        (str(first), "failed"), (str(second), "timeout"),
    ]  # fmt: skip
    entry = open_entry(now - MINUTE_MS, dispatch_ms=now - 1000)
    puts = [Put(manager.keys.run(third), entry.to_json()), Put(manager.keys.lock("again"), str(third).encode())]
    await manager.etcd.txn(Txn([], puts))
    for run in (first, second, third):
        attempts = (await manager.get(f"{RUNS}/{quoted(run)}"))["attempts"]
        assert [one.get("status", one.get("state")) for one in attempts] == ["failed", "timeout", "running"], run
    assert (await manager.get(f"{RUNS}/{quoted(third)}"))["dueTime"] == now - 1000, "late by its own time alone"
    alone = RunId.planned("once", now)
    await manager.write([record_of(alone, Verdict.FAILED)])
    assert "attempts" not in await manager.get(f"{RUNS}/{quoted(alone)}")


async def test_a_run_that_is_going_says_its_command_as_it_was_claimed(manager: Managed) -> None:
    saved = await manager.call("PUT", "/api/v1/jobs/j", {**JOB, "command": ["echo", "two words"]})
    now = now_ms()
    run = RunId.planned("j", now - MINUTE_MS)

    async def shown() -> Any:
        return (await manager.get(f"{RUNS}/{quoted(run)}")).get("command")

    entry = replace(open_entry(now - MINUTE_MS), revision=saved["job"]["revision"], args=("more",))
    await manager.etcd.txn(Txn([], [Put(manager.keys.run(run), entry.to_json())]))
    assert await shown() == "echo 'two words' more"
    await manager.call("PUT", "/api/v1/jobs/j", JOB)
    assert await shown() == "echo 'two words' more"


async def test_command_is_not_that_of_a_version_before_a_restore_of_etcd_which_had_the_same_revision(
    manager: Managed,
) -> None:
    now = now_ms()
    before = JobVersion(
        job="j", revision=7, spec=JOB, saved_ms=now - 3 * MINUTE_MS, saved_by="me", ended_ms=now - 2 * MINUTE_MS,
        ended_by="me", ended_with=EditKind.SAVE,
    )  # fmt: skip
    after = replace_version(before, spec={**JOB, "command": "echo after"}, saved_ms=before.ended_ms, ended_ms=now)
    run = RunId.planned("j", now)
    await manager.etcd.put(manager.keys.run(run), replace(open_entry(now), revision=7).to_json())
    for versions, expected in (([before], None), ([before, after], "echo after")):
        await manager.runlog.versions.put(versions)
        assert (await manager.get(f"{RUNS}/{quoted(run)}")).get("command") == expected


def quoted(run: RunId) -> str:
    return str(run).replace("#", "%23")
