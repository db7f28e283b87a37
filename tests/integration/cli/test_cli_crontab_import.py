"""`etcron crontab import` against a real manager: what is saved, the account, and importing again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.cli.conftest import Etcron

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

Write = Callable[[str, str], str]

CRONTAB = """\
# nightly work
SHELL=/bin/bash
MAILTO=root

30 2 * * * /usr/local/bin/backup.sh --full
@hourly /usr/local/bin/poll
5/10 * * * * /usr/local/bin/start
"""


async def states(etcron: Etcron) -> dict[str, str]:
    rows = (await etcron.ok("job", "list", "-o", "json")).json
    return {row["name"].rpartition("-")[0]: row["state"] for row in rows}


async def test_accounts_for_every_line_and_imports_the_others(etcron: Etcron, write: Write) -> None:
    result = await etcron("crontab", "import", write("tab", CRONTAB), "--tz", "Europe/Berlin")
    assert result.status == 1
    assert result.err == "times are those of Europe/Berlin (--tz)\n"
    lines = result.out.splitlines()
    assert [line.split()[:2] for line in lines[:-4] if line[:1].isdigit()] == [
        ["1", "comment"], ["2", "variable"], ["3", "variable"], ["4", "blank"], ["5", "job"], ["6", "job"],
        ["7", "REFUSED:"],
    ]  # fmt: skip
    assert lines[4].endswith("(created, paused) [1]: 0 30 2 * * * *  /usr/local/bin/backup.sh --full")
    assert "5/10 is 5 alone to most crons" in result.out
    assert lines[-4].startswith("[1] lines 5-6: no notifications: "), "what holds for several is told once"
    assert "7 lines: 1 blank, 1 comment, 2 variables, 2 jobs (2 created), 1 refused" in lines
    assert await states(etcron) == {"backup.sh": "paused", "poll": "paused"}
    row = (await etcron.ok("job", "list", "-q", "backup", "-o", "json")).json[0]
    assert (row["spec"]["timezone"], row["spec"]["shell"], row["spec"]["overlap"]) == (
        "Europe/Berlin", "/bin/bash", "allow",
    )  # fmt: skip


async def test_importing_again_changes_nothing_and_pauses_nothing(etcron: Etcron, write: Write) -> None:
    path = write("tab", CRONTAB.replace("5/10", "# 5/10"))
    await etcron.ok("crontab", "import", path, "--tz", "UTC")
    rows = (await etcron.ok("job", "list", "-o", "json")).json
    await etcron.ok("job", "resume", rows[0]["name"])
    before = {row["name"]: row["revision"] for row in (await etcron.ok("job", "list", "-o", "json")).json}
    again = await etcron.ok("crontab", "import", path, "--tz", "UTC")
    assert "2 jobs (2 unchanged)" in again.out
    after = (await etcron.ok("job", "list", "-o", "json")).json
    assert {row["name"]: row["revision"] for row in after} == before
    write("tab", CRONTAB.replace("5/10", "# 5/10").replace("30 2", "45 3"))
    changed = await etcron.ok("crontab", "import", path, "--tz", "UTC")
    assert "2 jobs (1 changed, 1 unchanged)" in changed.out
    assert sorted((await states(etcron)).values()) == ["enabled", "paused"]
    enabled = await etcron.ok("crontab", "import", path, "--tz", "UTC", "--enable")
    assert "2 jobs (1 changed, 1 unchanged)" in enabled.out
    assert set((await states(etcron)).values()) == {"enabled"}


@pytest.mark.usefixtures("administrator")
async def test_mailto_is_told_once_there_is_its_channel(etcron: Etcron, write: Write) -> None:
    path = write("tab", "MAILTO=ops@example.org\n30 2 * * * backup\n")
    first = await etcron.ok("crontab", "import", path, "--tz", "UTC")
    assert "no notifications: " in first.out
    assert "there is no channel mail-ops-example.org" in first.out
    (row,) = (await etcron.ok("job", "list", "-o", "json")).json
    assert row["spec"]["notify"] == []
    mail = ("email", "--to", "ops@example.org", "--from", "etcron@example.org", "--host", "mail.example.org")
    await etcron.ok("channel", "add", "mail-ops-example.org", *mail)
    assert "1 job (1 changed)" in (await etcron.ok("crontab", "import", path, "--tz", "UTC")).out
    (row,) = (await etcron.ok("job", "list", "-o", "json")).json
    assert row["spec"]["notify"] == [{"to": "mail-ops-example.org", "on": ["output", "failed"], "after": 1}]
    await etcron.ok("job", "save", row["name"], "--edit", "--set", 'notify=[{"to": "mail-ops-example.org"}]')
    assert "(1 unchanged)" in (await etcron.ok("crontab", "import", path, "--tz", "UTC")).out


async def test_importing_again_leaves_what_was_given_by_hand(etcron: Etcron, write: Write) -> None:
    path = write("tab", "RANDOM_DELAY=5\nHOME=/srv\n0 9 * * * report\n")
    options = ("--tz", "UTC", "--set", "workers.host=web-1", "--set", "timeoutSeconds=60")
    await etcron.ok("crontab", "import", path, *options)
    (row,) = (await etcron.ok("job", "list", "-o", "json")).json
    assert (row["spec"]["workers"], row["spec"]["timeoutSeconds"]) == ({"host": "web-1"}, 60)
    by_hand = ("--set", "overlap=skip", "--set", "user=backup", "--label", "team=ops", "--set", "workers.zone=eu")
    await etcron.ok("job", "save", row["name"], "--edit", *by_hand)
    assert "(1 unchanged)" in (await etcron.ok("crontab", "import", path, "--tz", "UTC")).out
    write("tab", "0 10 * * * report\n")
    again = await etcron.ok("crontab", "import", path, "--tz", "UTC", "--owner", "o", "--set", "timeoutSeconds=90")
    assert "(1 changed)" in again.out
    assert '  workdir: "/srv" -> null\n' in again.out, "what a line does not have any more goes, and is told"
    (row,) = (await etcron.ok("job", "list", "-o", "json")).json
    spec = row["spec"]
    assert (spec["cronExpr"], spec["workdir"], spec["env"], spec["jitterSeconds"]) == ("0 0 10 * * * *", None, {}, 0)
    assert (spec["workers"], spec["overlap"]) == ({"host": "web-1", "zone": "eu"}, "skip")
    assert spec["user"] == "backup", "a line without a user column"
    assert (spec["labels"], spec["timeoutSeconds"]) == ({"team": "ops", "etcron/owner": "o"}, 90)
    assert row["state"] == "paused"
    refused = await etcron("crontab", "import", path, "--set", "name=x")
    assert refused.status == 2


async def test_a_line_that_runs_at_boots_or_does_so_no_more_is_saved_as_a_new_one_would_be(
    etcron: Etcron, write: Write
) -> None:
    path = write("tab", "@reboot report\n")
    for when, broadcast in (("@reboot", True), ("@hourly", False), ("@reboot", True)):
        write("tab", f"{when} report\n")
        await etcron.ok("crontab", "import", path, "--tz", "UTC")
        (row,) = (await etcron.ok("job", "list", "-o", "json")).json
        assert (row["spec"]["cronExpr"], row["spec"]["broadcast"]) == (when, broadcast)
    write("tab", "@hourly report\n")
    await etcron.ok("crontab", "import", path, "--tz", "UTC", "--set", "broadcast=true")
    write("tab", "@daily report\n")
    await etcron.ok("crontab", "import", path, "--tz", "UTC")
    (row,) = (await etcron.ok("job", "list", "-o", "json")).json
    assert row["spec"]["broadcast"], "set by hand"


async def test_dry_run_and_strict_save_nothing(etcron: Etcron, write: Write) -> None:
    path = write("tab", CRONTAB)
    dry = await etcron("crontab", "import", path, "--dry-run", "-o", "json")
    assert dry.status == 1
    assert dry.json["dryRun"] is True
    assert [line["result"] for line in dry.json["lines"] if line["became"] == "job"] == ["to create", "to create"]
    strict = await etcron("crontab", "import", path, "--strict")
    assert strict.status == 1
    assert "nothing was imported" in strict.out
    assert await states(etcron) == {}
    clean = write("clean", CRONTAB.replace("5/10", "#"))
    assert (await etcron("crontab", "import", clean, "--strict", "--tz", "UTC")).status == 0


async def test_what_the_manager_refuses_is_a_refused_line(etcron: Etcron, write: Write) -> None:
    text = "A=" + "x" * 5000 + "\n* * * * * first\n"
    result = await etcron("crontab", "import", "-", stdin=text)
    assert result.status == 1
    assert "REFUSED: * * * * * first" in result.out
    assert "env.A: is 5,000 characters long" in result.out
    result = await etcron("crontab", "import", "-", "--name-prefix", "über ", stdin="* * * * * first\n")
    assert result.status == 1
    assert "name: " in result.out


async def test_owner_and_prefix(etcron: Etcron) -> None:
    tab = "17 * * * * root cd / && run-parts /etc/cron.hourly\n"
    await etcron.ok("crontab", "import", "-", "--system", "--owner", "web-1", "--name-prefix", "web-1.", stdin=tab)
    (row,) = (await etcron.ok("job", "list", "--label", "etcron/owner=web-1", "-o", "json")).json
    assert row["name"].startswith("web-1.run-parts-cron.hourly-")
    assert row["spec"]["user"] == "root"
    other = await etcron("crontab", "import", "-", "--system", "--owner", "b", "--name-prefix", "web-1.", stdin=tab)
    assert other.status == 4


async def test_files_that_are_no_crontab(etcron: Etcron, write: Write) -> None:
    assert (await etcron("crontab", "import", "/nowhere")).status == 5
    assert "has a NUL character" in (await etcron("crontab", "import", "-", stdin="\0")).err
    strange = await etcron("crontab", "import", "-", "--tz", "Mars")
    offline = await etcron("cron", "next", "@daily", "--tz", "Mars")
    assert (strange.status, strange.err) == (offline.status, offline.err)
    assert strange.status == 2
    assert "0 lines: nothing" in (await etcron.ok("crontab", "import", "-")).out
