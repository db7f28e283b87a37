"""`etcron import` against a real manager: another scheduler's jobs are saved, paused, and accounted for."""

from __future__ import annotations

import json

import pytest

from cli.times import machine_timezone
from tests.integration.cli.conftest import Etcron

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

JOBS = [
    {"name": "job1", "command": "echo hello", "cronExpr": "*/5 * * * * * *"},
    {"name": "job 2", "command": "echo two", "cronExpr": "0 61 * * * * *"},
    {"name": "job1", "command": "echo again", "cronExpr": "@daily"},
]


async def test_jobs_are_saved_paused_and_what_cannot_be_is_told(etcron: Etcron) -> None:
    export = "\n".join(map(json.dumps, JOBS))
    dry = await etcron("import", "legacy", "-", "--dry-run", stdin=export)
    assert (dry.status, "dry run: nothing was saved" in dry.out) == (1, True)
    assert (await etcron.ok("job", "list", "-o", "json")).json == []
    done = await etcron("import", "legacy", "-", "--owner", "legacy", "--set", "timeoutSeconds=60", stdin=export)
    assert done.status == 1
    assert "job job1 (created, paused): */5 * * * * * *  echo hello" in done.out
    assert "REFUSED: job 2\n  " in done.out
    assert "another one is called job1 already" in done.out
    (row,) = (await etcron.ok("job", "list", "-o", "json")).json
    assert (row["state"], row["spec"]["timeoutSeconds"], row["spec"]["labels"]) == (
        "paused", 60, {"etcron/owner": "legacy"},
    )  # fmt: skip
    await etcron.ok("job", "resume", "job1")
    again = await etcron("import", "legacy", "-", "--owner", "legacy", "--set", "timeoutSeconds=60", stdin=export)
    assert "job job1 (unchanged)" in again.out
    assert (await etcron.ok("job", "show", "job1", "-o", "json")).json["state"] == "enabled"


async def test_a_timer_that_names_no_time_zone_is_in_that_of_the_machine_that_it_ran_on(etcron: Etcron) -> None:
    timers = "".join(
        f"# /etc/systemd/system/{name}.timer\n[Timer]\nOnCalendar={when}\n"
        f"# /etc/systemd/system/{name}.service\n[Service]\nUser=nobody\nExecStart=/bin/true\n"
        for name, when in (("own", "*-*-* 02:30 Asia/Tokyo"), ("none", "*-*-* 02:30"))
    )

    async def zones(*options: str) -> tuple[dict[str, str], str]:
        done = await etcron.ok("import", "systemd", "-", *options, stdin=timers)
        jobs = (await etcron.ok("job", "list", "-o", "json")).json
        return {row["name"]: row["spec"].get("timezone") for row in jobs}, done.err

    here = machine_timezone()[0]
    found, told = await zones()
    assert found == {"own": "Asia/Tokyo", "none": here}
    assert f"times are those of {here}" in told
    assert (await zones("--tz", "Europe/Berlin"))[0] == {"own": "Asia/Tokyo", "none": "Europe/Berlin"}


async def test_what_is_no_export_is_refused(etcron: Etcron) -> None:
    refused = await etcron("import", "dkron", "-", stdin="<html>")
    assert (refused.status, "it is no JSON" in refused.err) == (5, True)
    assert (await etcron("import", "airflow", "-", stdin="")).status == 2
