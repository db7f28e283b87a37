"""`etcron run`, `job log` and `worker` against a real manager."""

from __future__ import annotations

import asyncio
import time

import pytest

from common.protocol.keys import RunId
from common.protocol.roster import Left, RosterEntry
from common.verdicts import Verdict
from tests.integration.cli.conftest import Etcron
from tests.support.managing import Managed
from tests.support.open_runs import claim, settle
from tests.support.records import PLAN_0_MS, record
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

NASTY = "\x1b[31mred\x1b[0m\nsecond line\n"


async def test_list_shows_what_ran_and_what_did_not(etcron: Etcron, manager: Managed) -> None:
    await manager.write([
        record(0), record(1, status=Verdict.FAILED, err="exit status 3", exit_code=3),
        record(2, status=Verdict.SKIPPED, reason="overlap", err="skipped: overlap"), record(3, job="other"),
    ])  # fmt: skip
    lines = (await etcron.ok("run", "list")).out.splitlines()
    assert [line.split()[2:4] for line in lines[1:]] == [
        ["other", "success"], ["backup", "skipped"], ["backup", "failed"], ["backup", "success"],
    ]  # fmt: skip
    assert "exit status 3" in lines[3]
    failed = await etcron.ok("run", "list", "--job", "backup", "--status", "failed,skipped", "-o", "json")
    assert [run["status"] for run in failed.json] == ["skipped", "failed"]
    assert (await etcron.ok("run", "list", "--limit", "2")).err == "the first 2; more with --limit\n"
    at = f"{PLAN_0_MS // 1000}"
    none = await etcron.ok("run", "list", "--to", "2001-01-01T00:00:00Z")
    assert (none.out, none.err, at) == ("", "no runs\n", at)
    bad = await etcron("run", "list", "--from", "yesterday")
    assert (bad.status, bad.err) == (2, "etcron: --from: 'yesterday' is not a time; write it as 2026-03-29T01:00:00Z\n")
    swapped = await etcron("run", "list", "--from", "1h", "--to", "2h")
    assert (swapped.status, swapped.err.startswith("etcron: --to: is not later than --from")) == (2, True)
    assert (await etcron("run", "list", "--status", "nonsense")).status == 5
    assert len((await etcron.ok("run", "list", "--error", "failed: exit status 3", "-o", "json")).json) == 1
    assert (await etcron.ok("run", "list", "-q", "oth", "--trigger", "manual")).err == "no runs\n"
    groups = (await etcron.ok("run", "list", "--group", "error")).out.splitlines()
    assert [line.split("backup")[0].split() for line in groups[1:]] == [
        ["1", "failed:", "exit", "status", "3"], ["1", "skipped:", "overlap"],
    ]  # fmt: skip


async def test_list_and_log_begin_with_what_is_going(etcron: Etcron, manager: Managed) -> None:
    await manager.write([record(0, job="j"), record(1, job="j", status=Verdict.FAILED)])
    run = await claim(manager, "j", PLAN_0_MS - 3_600_000)
    await wait_until(lambda: manager.parts.watching.open_runs.has(run), description="the run to be seen")
    lines = (await etcron.ok("run", "list")).out.splitlines()
    assert [line.split()[3] for line in lines[1:]] == ["running", "failed", "success"]
    assert lines[1].endswith(str(run))
    (alone,) = (await etcron.ok("run", "list", "--status", "running", "-o", "json")).json
    assert (alone["id"], alone["state"], alone["worker"]) == (str(run), "running", "w1")
    assert "running" in (await etcron.ok("job", "log", "j", "--limit", "1")).out
    assert (await etcron.ok("job", "log", "j", "--output")).out.startswith(f"--- {run}")


async def test_show_and_log_of_a_run(etcron: Etcron, manager: Managed) -> None:
    run = record(0, output=NASTY)
    await manager.write([run])
    shown = (await etcron.ok("run", "show", str(run.run_id))).out
    assert "planTime" in shown
    assert "second line" in shown
    assert (await etcron.ok("run", "show", str(run.run_id), "-o", "json")).json["output"] == NASTY
    # Into a pipe it goes as it was printed.
    assert (await etcron.ok("run", "log", str(run.run_id))).out == NASTY
    assert (await etcron("run", "log", "backup@1#1")).status == 3
    assert (await etcron("run", "show", "nonsense")).status == 5


async def test_log_follows_a_run_to_its_end(etcron: Etcron, manager: Managed) -> None:
    run = await claim(manager, "j", time.time_ns() // 1_000_000 - 1000)
    follows = asyncio.create_task(etcron("run", "log", "-f", str(run)))
    await wait_until(lambda: manager.parts.tails.viewers == 1, description="it follows")
    await settle(manager, run, Verdict.FAILED, exit_code=3, err="exit status 3", output="said\n", output_bytes=5)
    result = await follows
    assert (result.status, result.out) == (1, "said\n")
    assert f"{run}: failed: exit status 3" in result.err
    again = await etcron("run", "log", "-f", str(run))
    assert (again.status, again.out) == (1, "said\n")
    assert (await etcron("run", "log", "-f", "backup@1#1")).status == 3


async def test_log_of_a_job_with_output(etcron: Etcron, manager: Managed) -> None:
    await manager.write([record(0), record(1, status=Verdict.MISSED, reason="no worker")])
    lines = (await etcron.ok("job", "log", "backup", "--output")).out.splitlines()
    assert lines[0].startswith(f"--- {record(1).run_id}")
    assert lines[0].endswith("missed  no worker")
    assert lines[-1] == "hello 0"
    assert len((await etcron.ok("job", "log", "backup")).out.splitlines()) == 3
    assert len((await etcron.ok("job", "log", "backup", "--limit", "1", "-o", "json")).json) == 1
    assert (await etcron.ok("job", "log", "backup", "--limit", "1")).err == "the first 1; more with --limit\n"


async def test_kill_of_a_run_that_does_not_end_is_a_no(etcron: Etcron, manager: Managed) -> None:
    run = await claim(manager, "j", time.time_ns() // 1_000_000 - 1000)
    result = await etcron("run", "kill", str(run))
    assert result.status == 1
    assert "has not ended yet" in result.err
    assert (await etcron("run", "kill", str(RunId.planned("j", 1)))).status == 3


async def test_give_up_of_a_run_that_nobody_settles_is_a_no(etcron: Etcron, manager: Managed) -> None:
    run = await claim(manager, "j", time.time_ns() // 1_000_000 - 1000)
    assert (await etcron("run", "give-up", str(run))).status == 2, "a reason is needed"
    result = await etcron("run", "give-up", str(run), "--reason", "it burned")
    assert result.status == 1
    assert "is to be given up" in result.err


async def test_workers(etcron: Etcron) -> None:
    result = await etcron.ok("worker", "list")
    assert (result.out, result.err) == ("", "no workers: nothing fires until one starts\n")
    assert (await etcron.ok("worker", "list", "-o", "json")).json == []
    assert (await etcron("worker", "list", "extra")).status == 2


async def test_a_worker_that_has_left_is_listed_until_it_is_forgotten(etcron: Etcron, manager: Managed) -> None:
    entry = RosterEntry(worker="w3", host="machine-3", seen_ms=7, left=Left.GONE)
    await manager.etcd.put(manager.keys.roster_entry("w3"), entry.to_json())
    result = await etcron.ok("worker", "list")
    assert "w3" in result.out
    assert "gone" in result.out
    assert "no worker is live" in result.err
    await etcron.ok("worker", "forget", "w3")
    assert (await etcron.ok("worker", "list")).out == ""
    assert (await etcron("worker", "forget", "w3")).status == 3
