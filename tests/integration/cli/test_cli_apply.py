"""`etcron job apply` against a real manager: nothing by halves, and a dry run that tells the truth."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cli.__main__ import main
from cli.manifests.carrying import make_plan
from tests.integration.cli.conftest import Etcron

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

Write = Callable[[str, str], str]

TWO = """\
# Two documents
name: backup
command: echo backup
cronExpr: '0 30 2 * * * *'
timezone: Europe/Berlin
---
jobs:
  - name: report
    command: "echo a: b"
    cronExpr: '@daily'
    env: {LEVEL: debug}
"""


async def names(etcron: Etcron) -> list[str]:
    return [row["name"] for row in (await etcron.ok("job", "list", "-o", "json")).json]


async def revisions(etcron: Etcron) -> dict[str, int]:
    return {row["name"]: row["revision"] for row in (await etcron.ok("job", "list", "-o", "json")).json}


async def test_creates_then_leaves_alone_then_changes(etcron: Etcron, write: Write) -> None:
    path = write("jobs.yaml", TWO)
    result = await etcron.ok("job", "apply", "-f", path)
    assert result.out == "backup: created\nreport: created\n2 created\n"
    before = await revisions(etcron)
    assert (await etcron.ok("job", "apply", "-f", path)).out == "2 unchanged\n"
    assert await revisions(etcron) == before
    write("jobs.yaml", TWO.replace("debug", "info"))
    assert (await etcron.ok("job", "apply", "-f", path)).out == "report: changed\n1 changed, 1 unchanged\n"


async def test_dry_run_shows_fields_and_fires_and_changes_nothing(etcron: Etcron, write: Write) -> None:
    path = write("jobs.yaml", TWO)
    dry = await etcron.ok("job", "apply", "-f", path, "--dry-run")
    assert f"+ backup  ({path}:2)" in dry.out
    assert dry.out.endswith("2 to create (dry run: nothing was changed)\n")
    assert await names(etcron) == []
    await etcron.ok("job", "apply", "-f", path)
    write("jobs.yaml", TWO.replace("0 30 2", "0 45 2").replace("{LEVEL: debug}", "{}"))
    lines = (await etcron.ok("job", "apply", "-f", path, "--dry-run")).out.splitlines()
    assert lines[0] == f"~ backup  ({path}:2)"
    assert lines[1] == '    cronExpr: "0 30 2 * * * *" -> "0 45 2 * * * *"'
    assert lines[2].startswith("    next fires, now:  20")
    assert " 02:30:00+0" in lines[2]
    assert " 02:45:00+0" in lines[3]
    assert lines[4:] == [
        f"~ report  ({path}:8)", '    env.LEVEL: "debug" -> null', "2 to change (dry run: nothing was changed)",
    ]  # fmt: skip
    spec = (await etcron.ok("job", "show", "backup", "-o", "json")).json["spec"]
    assert spec["cronExpr"] == "0 30 2 * * * *"


async def test_dry_run_leaves_out_fires_that_the_calendar_closes(etcron: Etcron, write: Write) -> None:
    job = "name: monthly\ncommand: 'true'\ncronExpr: '@monthly'\ncalendar: {include: ['02-01']}\n"
    dry = await etcron.ok("job", "apply", "-f", write("jobs.yaml", job), "--dry-run")
    fires = next(line for line in dry.out.splitlines() if "next fires" in line)
    assert fires.count("-02-01 00:00:00+00:00") == fires.count(" 00:00:00") == 3


async def test_dry_run_as_json(etcron: Etcron, write: Write) -> None:
    path = write("jobs.json", json.dumps([{"name": "a", "command": "true", "cronExpr": "@daily"}]))
    document = (await etcron.ok("job", "apply", "-f", path, "--dry-run", "-o", "json")).json
    assert document["dryRun"] is True
    (job,) = document["jobs"]
    assert (job["name"], job["action"], job["result"]) == ("a", "create", None)
    assert len(job["fires"]["after"]) == 3
    done = (await etcron.ok("job", "apply", "-f", path, "-o", "json")).json
    assert done["jobs"][0]["result"] == "created"


async def test_one_bad_job_among_many_files_changes_nothing(etcron: Etcron, write: Write) -> None:
    write("jobs/a.yaml", TWO)
    write("jobs/deep/b.yml", "name: bad\ncommand: true\ncronExpr: '61 * * * *'\nmisfire:\n  limit: 0\n")
    write("jobs/.hidden.yaml", "neither: read")
    write("jobs/notes.txt", "neither")
    folder = write("jobs/c.json", '{"name": "c", "command": "true", "cronExpr": "@daily"}').removesuffix("/c.json")
    result = await etcron("job", "apply", "-f", folder)
    assert result.status == 5
    assert result.out == ""
    assert f"{folder}/deep/b.yml:2: bad: command: " in result.err
    assert f"{folder}/deep/b.yml:3: bad: cronExpr: Minute 61 is not between 0 and 59" in result.err
    assert f"{folder}/deep/b.yml:4: bad: misfire.limit: " in result.err
    assert await names(etcron) == []
    write("jobs/deep/b.yml", "name: good\ncommand: echo\ncronExpr: '1 * * * *'\n")
    assert (await etcron.ok("job", "apply", "-f", folder)).out.endswith("4 created\n")


async def test_the_same_name_twice_is_told_with_both_places(etcron: Etcron, write: Write) -> None:
    one, other = write("a.yaml", TWO), write("b.yaml", "\n\nname: report\ncommand: 'true'\ncronExpr: '@daily'\n")
    result = await etcron("job", "apply", "-f", one, "-f", other)
    assert result.status == 5
    assert f"{other}:3: job report is defined at {one}:8, too; take one away" in result.err
    assert await names(etcron) == []


async def test_a_pause_by_hand_outlasts_an_apply(etcron: Etcron, write: Write) -> None:
    path = write("jobs.yaml", TWO)
    await etcron.ok("job", "apply", "-f", path)
    await etcron.ok("job", "pause", "backup", "--reason", "night shift")
    assert "2 unchanged" in (await etcron.ok("job", "apply", "-f", path)).out
    write("jobs.yaml", TWO.replace("echo backup", "echo other"))
    await etcron.ok("job", "apply", "-f", path)
    row = (await etcron.ok("job", "show", "backup", "-o", "json")).json
    assert (row["state"], row["paused"]["reason"]) == ("paused", "night shift")
    write("jobs.yaml", TWO.replace("name: backup", "name: backup\nenabled: true"))
    await etcron.ok("job", "apply", "-f", path)
    assert (await etcron.ok("job", "show", "backup", "-o", "json")).json["state"] == "enabled"


async def test_what_was_saved_is_applied_again_as_it_is(etcron: Etcron, write: Write) -> None:
    await etcron.ok("job", "apply", "-f", write("jobs.yaml", TWO))
    spec = (await etcron.ok("job", "show", "backup", "-o", "json")).json["spec"]
    assert (await etcron.ok("job", "apply", "-f", "-", stdin=json.dumps(spec))).out == "1 unchanged\n"


# Owners


async def test_prune_deletes_what_is_the_owners_and_in_no_file(etcron: Etcron, write: Write) -> None:
    path = write("jobs.yaml", TWO)
    await etcron.ok("job", "save", "stranger", "--command", "true", "--cron", "@daily")
    await etcron.ok("job", "apply", "-f", path, "--owner", "web")
    write("jobs.yaml", TWO.partition("---")[0])
    dry = await etcron.ok("job", "apply", "-f", path, "--owner", "web", "--prune", "--dry-run")
    assert dry.out.splitlines()[0] == "- report"
    assert dry.out.splitlines()[-1] == "1 unchanged, 1 to prune (dry run: nothing was changed)"
    assert await names(etcron) == ["backup", "report", "stranger"]
    assert (await etcron.ok("job", "apply", "-f", path, "--owner", "web")).out == "1 unchanged\n"
    pruned = await etcron.ok("job", "apply", "-f", path, "--owner", "web", "--prune", "--yes", "1")
    assert pruned.out == "report: pruned\n1 unchanged, 1 pruned\n"
    assert await names(etcron) == ["backup", "stranger"]


@pytest.mark.parametrize(("there", "wanted", "is_asked"), [(9, 7, True), (10, 8, False)])
async def test_many_jobs_are_pruned_only_by_their_number(
    etcron: Etcron, there: int, wanted: int, is_asked: bool
) -> None:
    """More than a fifth; tests/unit/test_cli_pruning.py has the other bounds."""
    jobs = [{"name": f"job-{number:02}", "command": "true", "cronExpr": "@daily"} for number in range(there)]
    prune = ("job", "apply", "-f", "-", "--owner", "web", "--prune")
    await etcron.ok(*prune, stdin=json.dumps(jobs))
    gone, few = there - wanted, json.dumps(jobs[:wanted])
    if is_asked:
        for number in ((), ("--yes", str(gone - 1)), ("--yes", str(gone + 1))):
            refused = await etcron(*prune, *number, stdin=few)
            assert (refused.status, len(await names(etcron))) == (5, there)
            assert f"this would delete {gone} of web's jobs: job-" in refused.err
            assert f"add --yes {gone}" in refused.err
    number = ("--yes", str(gone)) if is_asked else ()
    assert (await etcron.ok(*prune, *number, stdin=few)).out.endswith(f"{wanted} unchanged, {gone} pruned\n")


async def test_jobs_without_an_owner_are_adopted_by_name(etcron: Etcron, write: Write) -> None:
    path = write("jobs.yaml", TWO)
    await etcron.ok("job", "apply", "-f", path)
    dry = await etcron.ok("job", "apply", "-f", path, "--owner", "web", "--dry-run")
    assert "had no owner, and would belong to web: backup, report" in dry.err
    assert (
        "had no owner, and now belong to web: backup, report"
        in (await etcron.ok("job", "apply", "-f", path, "--owner", "web")).err
    )
    assert "owner" not in (await etcron.ok("job", "apply", "-f", path, "--owner", "web")).err


async def test_prune_without_an_owner_is_refused(etcron: Etcron, write: Write) -> None:
    result = await etcron("job", "apply", "-f", write("jobs.yaml", TWO), "--prune")
    assert (result.status, await names(etcron)) == (2, [])
    assert "--prune: needs --owner NAME" in result.err


async def test_an_empty_folder_or_file_prunes_nothing(etcron: Etcron, write: Write) -> None:
    path = write("jobs.yaml", TWO)
    await etcron.ok("job", "apply", "-f", path, "--owner", "web")
    for nothing in ("# nothing\n", "[]\n", "jobs: []\n", '{"jobs": []}\n', "---\n[]\n---\njobs: []\n"):
        write("jobs.yaml", nothing)
        refused = await etcron("job", "apply", "-f", path, "--owner", "web", "--prune")
        assert (refused.status, "holds no job" in refused.err) == (5, True), nothing
    folder = write("empty/x.txt", "").removesuffix("/x.txt")
    assert (await etcron("job", "apply", "-f", folder, "--owner", "web", "--prune")).status == 5
    assert await names(etcron) == ["backup", "report"]


async def test_another_owners_job_is_a_conflict(etcron: Etcron, write: Write) -> None:
    path = write("jobs.yaml", TWO)
    await etcron.ok("job", "apply", "-f", path, "--owner", "web")
    result = await etcron("job", "apply", "-f", path, "--owner", "billing")
    assert result.status == 4
    assert "backup: belongs to web (etcron/owner)" in result.err
    write("jobs.yaml", "name: x\ncommand: 'true'\ncronExpr: '@daily'\nlabels: {etcron/owner: web}\n")
    said = await etcron("job", "apply", "-f", path, "--owner", "billing")
    assert said.status == 5
    assert f"{path}:4: x: labels: has etcron/owner=web, and --owner says billing" in said.err


async def test_many_jobs_are_compared_with_one_list(etcron: Etcron, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cli.manifests.carrying._ALL_AT_ONCE", 20)
    jobs = [{"name": f"job-{number:04}", "command": "true", "cronExpr": "@daily"} for number in range(25)]
    assert (await etcron.ok("job", "apply", "-f", "-", stdin=json.dumps(jobs))).out.endswith("\n25 created\n")
    assert (await etcron.ok("job", "apply", "-f", "-", stdin=json.dumps({"jobs": jobs}))).out == "25 unchanged\n"


def edit_behind_the_plan(monkeypatch: pytest.MonkeyPatch, job: str) -> None:
    """Another command edits the job between the plan of an apply and its first change."""

    def stale(*arguments: Any, **options: Any) -> Any:
        steps = make_plan(*arguments, **options)
        assert main(["job", "save", job, "--edit", "--command", "mine"]) == 0
        return steps

    monkeypatch.setattr("cli.manifests.applying.make_plan", stale)


async def test_a_job_that_somebody_changes_meanwhile_is_not_overwritten(
    etcron: Etcron, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("jobs.yaml", TWO)
    await etcron.ok("job", "apply", "-f", path, "--owner", "web")

    edit_behind_the_plan(monkeypatch, "report")
    write("jobs.yaml", TWO.replace("echo", "printf").replace("name: backup", "name: other"))
    result = await etcron("job", "apply", "-f", path, "--owner", "web", "--prune", "--yes", "1")
    assert result.status == 4
    assert "other: created" in result.out
    assert "1 created, 1 failed, 1 not pruned" in result.out
    assert "nothing was pruned" in result.err
    assert (await etcron.ok("job", "show", "report", "-o", "json")).json["spec"]["command"] == "mine"
    assert await names(etcron) == ["backup", "other", "report"]


async def test_a_prune_that_is_refused_stops_no_other(
    etcron: Etcron, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("jobs.yaml", TWO)
    await etcron.ok("job", "apply", "-f", path, "--owner", "web")

    edit_behind_the_plan(monkeypatch, "backup")
    write("jobs.yaml", TWO.replace("name: backup", "name: other").replace("name: report", "name: another"))
    result = await etcron("job", "apply", "-f", path, "--owner", "web", "--prune", "--yes", "2")
    assert (result.status, "report: pruned\n2 created, 1 pruned, 1 failed\n" in result.out) == (4, True)
    assert await names(etcron) == ["another", "backup", "other"]
