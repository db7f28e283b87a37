"""Channels, rules, silences, alerts and notices from the command line, and out of files."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from cli.__main__ import main
from cli.manifests.carrying import make_plan
from common.notices.alerts import Alert, Standing
from common.notices.events import Event
from common.notices.notice import Notice, NoticeKind, NoticeState
from common.runlog.alerts import Bucket
from common.verdicts import EventKind
from tests.integration.cli.conftest import Etcron
from tests.support.managing import Managed

pytestmark = [pytest.mark.etcd, pytest.mark.logstore, pytest.mark.usefixtures("administrator")]

Write = Callable[[str, str], str]


MAIL: Final = (
    "channel", "add", "ops", "email", "--to", "ops@example.org", "--from", "etcron@example.org", "--host", "mail",
)  # fmt: skip
ALL: Final = """\
channels:
  - {name: ops, kind: email, to: [ops@example.org], from: etcron@example.org, host: mail}
rules:
  - {name: all, labels: all, to: [ops]}
jobs:
  - {name: backup, command: 'true', cronExpr: '@daily', notify: [{to: ops}]}
"""


async def test_channels_and_rules_are_added_listed_and_removed(etcron: Etcron) -> None:
    assert "channel ops is saved" in (await etcron.ok(*MAIL)).out
    again = await etcron(*MAIL)
    assert (again.status, "there is a channel ops already" in again.err) == (4, True)
    await etcron.ok(*MAIL, "--port", "465", "--tls", "tls", "--replace")
    assert "ops   email  ops@example.org  ok     -          -" in (await etcron.ok("channel", "list")).out
    assert (await etcron.ok("channel", "show", "ops", "-o", "json")).json["port"] == 465
    assert "tls" in (await etcron.ok("channel", "show", "ops")).out

    await etcron.ok("rule", "add", "dba", "--labels", "team=dba", "--to", "ops", "--on", "failed", "--after", "3")
    await etcron.ok("rule", "add", "system", "--system", "--to", "ops", "--required", "--repeat-hours", "0")
    listed = (await etcron.ok("rule", "list")).out
    assert "dba     team=dba               failed   3      ops  24 h    -" in listed
    assert "system  the system (required)  default  1      ops  never   -" in listed
    refused = await etcron("channel", "remove", "ops")
    assert (refused.status, "is named by rules dba, system" in refused.err) == (4, True)
    await etcron.ok("rule", "remove", "dba", "system")
    await etcron.ok("channel", "remove", "ops")
    assert (await etcron.ok("channel", "list", "-o", "json")).json == []


async def test_rule_without_a_job_is_warned_of_and_one_without_a_channel_is_refused(etcron: Etcron) -> None:
    await etcron.ok(*MAIL)
    saved = await etcron.ok("rule", "add", "dba", "--labels", "team=dba", "--to", "ops")
    assert "it selects no job that there is now" in saved.err
    refused = await etcron("rule", "add", "other", "--labels", "all", "--to", "opps")
    assert (refused.status, "to[0]: there is no channel opps; did you mean ops?" in refused.err) == (5, True)


@pytest.mark.parametrize("words", [
    ("rule", "add", "x", "--to", "ops"), ("rule", "add", "x", "--to", "ops", "--system", "--labels", "all"),
    ("silence", "add", "--for", "1h"), ("silence", "add", "--job", "a"), ("silence", "add", "--job", "a", "--for", "x"),
    ("silence", "add", "--job", "a", "--labels", "all", "--for", "1h"),
    ("silence", "add", "--job", "a", "--for", "1h", "--until", "2099-01-01"), ("channel", "add", "x", "pigeon"),
])  # fmt: skip
async def test_what_does_not_go_together_is_a_mistake_in_usage(etcron: Etcron, words: tuple[str, ...]) -> None:
    assert (await etcron(*words)).status == 2


async def test_silences_are_added_listed_and_ended(etcron: Etcron) -> None:
    await etcron.ok("job", "save", "backup", "--command", "true", "--cron", "@daily")
    await etcron.ok("silence", "add", "--job", "backup", "--for", "90m", "--reason", "repairs")
    await etcron.ok("silence", "add", "--labels", "team=dba", "--for", "2d")
    [one, other] = sorted((await etcron.ok("silence", "list", "-o", "json")).json, key=lambda it: "labels" in it)
    assert one["untilTime"] - one["fromTime"] == 90 * 60_000
    assert "team=dba" in (await etcron.ok("silence", "list")).out
    await etcron.ok("silence", "end", one["id"], other["id"])
    assert (await etcron("silence", "end", one["id"])).status == 3


async def test_alerts_are_listed_and_acknowledged(etcron: Etcron, manager: Managed) -> None:
    await etcron.ok("job", "save", "backup", "--command", "true", "--cron", "@daily")
    event = Event(kind=EventKind.FAILED, at_ms=5, job="backup", reason="exit status 3\n\x1b[31mred")
    await manager.runlog.alerts.take(1)
    alert = Alert(event=event, since_ms=5, count=2, is_flapping=True, is_bad=False)
    await manager.runlog.alerts.write({0: Bucket(standings={"backup": Standing(alert=alert)})}, 1)
    listed = (await etcron.ok("alert", "list")).out
    assert "backup  failed (flapping, well now)" in listed
    assert "\x1b" not in listed
    await etcron.ok("alert", "ack", "backup", "--reason", "alice is on it")
    [shown] = (await etcron.ok("alert", "list", "-o", "json")).json
    assert shown["acknowledged"]["reason"] == "alice is on it"
    assert "the alert of backup" in (await etcron.ok("silence", "list")).out
    assert (await etcron.ok("alert", "list", "--ended", "-o", "json")).json == []
    assert (await etcron("alert", "ack", "other")).status == 4


async def test_notices_are_listed_and_sent_again(etcron: Etcron, manager: Managed) -> None:
    notice = Notice(
        id="0" * 32, channel="ops", kind=NoticeKind.TEST, created_ms=5, state=NoticeState.FAILED, error="550 no"
    )  # fmt: skip
    await manager.runlog.notices.put([notice])
    assert "failed  a test" in (await etcron.ok("notice", "list", "--state", "failed")).out
    await etcron.ok("notice", "resend", notice.id)
    assert (await etcron("notice", "resend", notice.id)).status == 4
    assert [one["state"] for one in (await etcron.ok("notice", "list", "-o", "json")).json] == ["waiting"]


async def test_files_hold_channels_and_rules_beside_the_jobs_that_name_them(etcron: Etcron, write: Write) -> None:
    path = write("all.yaml", ALL)
    dry = await etcron.ok("job", "apply", "-f", path, "--dry-run")
    assert f"+ channel ops  ({path}:2)" in dry.out
    assert dry.out.endswith("3 to create (dry run: nothing was changed)\n")
    assert (await etcron.ok("channel", "list", "-o", "json")).json == []

    applied = await etcron.ok("job", "apply", "-f", path, "--owner", "me", "--prune")
    assert applied.out == "channel ops: created\nrule all: created\nbackup: created\n3 created\n"
    assert (await etcron.ok("job", "apply", "-f", path, "--owner", "me", "--prune")).out == "3 unchanged\n"
    write("all.yaml", ALL.replace("host: mail", "host: mail2"))
    changed = await etcron.ok("job", "apply", "-f", path, "--owner", "me", "-o", "json")
    assert [(one["name"], one["result"]) for one in changed.json["channels"]] == [("ops", "changed")]
    assert changed.json["channels"][0]["changes"] == [{"field": "host", "before": "mail", "after": "mail2"}]

    jobs = write("jobs.yaml", "{name: other, command: 'true', cronExpr: '@daily'}")
    await etcron.ok("job", "apply", "-f", jobs, "--owner", "me", "--prune", "--yes", "1")
    assert [one["name"] for one in (await etcron.ok("channel", "list", "-o", "json")).json] == ["ops"]


async def test_what_is_listed_can_be_applied_to_an_empty_cluster(etcron: Etcron, write: Write) -> None:
    """As docs/operate/cluster.md has it, with jq."""
    listed = ALL.replace("rules:", "  - {name: pager, kind: webhook, url: 'https://hooks.example.org/x'}\nrules:")
    listed = listed.replace("jobs:", "  - {name: system, system: true, to: [ops], after: 2}\njobs:")
    await etcron.ok("job", "apply", "-f", write("all.yaml", listed))
    kept = {}
    for kind in ("channels", "rules"):
        rows = (await etcron.ok(kind.removesuffix("s"), "list", "-o", "json")).json
        others = ("revision", "state", "createdTime", "createdBy", "changedTime")
        kept[kind] = [{name: value for name, value in row.items() if name not in others} for row in rows]
    path = write("kept.json", json.dumps(kept))
    assert (await etcron.ok("job", "apply", "-f", path)).out == "4 unchanged\n"
    await etcron.ok("job", "delete", "backup")
    await etcron.ok("rule", "remove", "all", "system")
    await etcron.ok("channel", "remove", "ops", "pager")
    assert (await etcron.ok("job", "apply", "-f", path)).out.endswith("4 created\n")


async def test_one_mistake_in_a_channel_of_a_file_changes_nothing(
    etcron: Etcron, write: Write, manager: Managed
) -> None:  # fmt: skip
    before = await manager.stored()
    path = write("all.yaml", ALL.replace("host: mail", "host: 'mail:25'").replace("labels: all", "label: all"))
    refused = await etcron("job", "apply", "-f", path)
    assert refused.status == 5
    assert "nothing was changed" in refused.err
    assert f"{path}:2: ops: host: is 'mail:25'" in refused.err
    assert f"{path}:4: all: label: is not a field of rule; did you mean labels?" in refused.err
    assert await manager.stored() == before


@pytest.mark.parametrize(("given", "instead", "mistake"), [
    ("labels: all, to: [ops]", "labels: all, to: [ops, opps]",
     ":4: all: to[1]: there is no channel opps; did you mean ops?"),
    ("host: mail}", "host: mail, labels: {team: [dba]}}",
     ":6: backup: notify[0].to: channel ops may be used by jobs with team=dba alone; "),
], ids=["of a rule", "of a job"])  # fmt: skip
async def test_a_channel_that_may_not_be_named_is_told_before_anything_is_changed(
    etcron: Etcron, write: Write, given: str, instead: str, mistake: str
) -> None:
    path = write("all.yaml", ALL.replace(given, instead))
    for how in (("--dry-run",), ()):
        refused = await etcron("job", "apply", "-f", path, *how)
        assert (refused.status, f"nothing was changed:\n{path}{mistake}" in refused.err) == (5, True)
    assert (await etcron.ok("channel", "list", "-o", "json")).json == []


@pytest.mark.parametrize("labels", ["{team: [dba]}", "{team: 1}"])
async def test_a_mistake_in_a_jobs_labels_is_told_alone(etcron: Etcron, write: Write, labels: str) -> None:
    """Whether it may name the channel, which is for jobs with labels, is not known yet."""
    text = ALL.replace("host: mail", "host: mail, labels: {team: [dba]}").replace(
        "cronExpr", f"labels: {labels}, cronExpr"
    )
    path = write("all.yaml", text)
    refused = await etcron("job", "apply", "-f", path)
    assert (refused.status, f"nothing was changed:\n{path}:6: backup: labels" in refused.err) == (5, True)
    assert "notify" not in refused.err


async def test_no_job_is_changed_where_its_rule_is_refused(
    etcron: Etcron, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another administrator removes its channel meanwhile."""
    await etcron.ok(*("opps" if word == "ops" else word for word in MAIL))

    def stale(*arguments: Any, **options: Any) -> Any:
        assert main(["channel", "remove", "opps"]) == 0
        return make_plan(*arguments, **options)

    monkeypatch.setattr("cli.manifests.applying.make_plan", stale)
    path = write("all.yaml", ALL.replace("labels: all, to: [ops]", "labels: all, to: [opps]"))
    refused = await etcron("job", "apply", "-f", path)
    assert (refused.status, "rule all: to[0]: there is no channel opps" in refused.err) == (5, True)
    assert "no job was changed" in refused.err
    assert (await etcron.ok("job", "list", "-o", "json")).json == []
