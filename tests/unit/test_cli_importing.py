"""Other schedulers' exports: each thing in them becomes a job that says the same, or is refused with the reason."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from cli.importing.found import Found, RefusedError, UnreadableError
from cli.importing.systemd import calendar, systemd
from cli.importing.systems import SYSTEMS
from common.jobs.reader import parse_job

CRON_JOB = {
    "apiVersion": "batch/v1", "kind": "CronJob",
    "metadata": {"name": "report", "namespace": "billing", "labels": {"app": "report"}, "resourceVersion": "81"},
    "spec": {
        "schedule": "30 2 * * 1-5", "timeZone": "Europe/Berlin", "concurrencyPolicy": "Forbid", "suspend": False,
        "startingDeadlineSeconds": 200, "successfulJobsHistoryLimit": 3,
        "jobTemplate": {"spec": {"backoffLimit": 2, "activeDeadlineSeconds": 600, "template": {"spec": {
            "restartPolicy": "OnFailure",
            "containers": [{
                "name": "report", "image": "registry.example.org/report:7", "command": ["/app/report"],
                "args": ["--daily"], "workingDir": "/app",
                "env": [{"name": "LEVEL", "value": "3"},
                        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}],
            }],
        }}}},
    },
    "status": {"lastScheduleTime": "2026-03-29T01:30:00Z"},
}  # fmt: skip
DKRON = {
    "id": "job1", "name": "job1", "displayname": "First job", "timezone": "Europe/Berlin", "schedule": "0 30 2 * * *",
    "owner": "", "disabled": False, "tags": {"role": "web:2"}, "metadata": {"office": "Barcelona"}, "retries": 2,
    "parent_job": "", "processors": None, "concurrency": "forbid", "executor": "shell",
    "executor_config": {"command": "/bin/dump --all", "shell": "true", "cwd": "/srv", "env": "A=1,B=2"},
    "success_count": 7, "error_count": 0, "last_success": "2026-03-29T01:30:00Z", "status": "",
}  # fmt: skip
CRONICLE = {
    "id": "3c182051", "title": "DB Reindex", "enabled": 1, "category": "43f8c57e", "plugin": "shellplug",
    "target": "db1.int.myserver.com", "timeout": 3600, "timezone": "America/New_York", "max_children": 1,
    "timing": {"hours": [21], "minutes": [20, 40], "weekdays": [1, 5]}, "retries": 1, "retry_delay": 30, "catch_up": 1,
    "params": {"script": "#!/bin/bash\n\nreindex --db idb01\n", "annotate": 0}, "notes": "Database maintenance.",
    "multiplex": 0, "notify_fail": "ops@example.org", "web_hook": "", "username": "admin", "modified": 1451185588,
}  # fmt: skip
CRONSUN = {
    "id": "7c0dd3b8", "name": "backup", "group": "default", "cmd": "/opt/backup", "user": "backup", "kind": 1,
    "rules": [{"id": "a", "timer": "0 0 4 * * *", "nids": ["10.0.0.5"], "gids": [], "exclude_nids": []},
              {"id": "b", "timer": "0 0 16 * * *", "nids": [], "gids": ["web"], "exclude_nids": []}],
    "pause": True, "timeout": 60, "parallels": 1, "retry": 2, "interval": 3, "avg_time": 0, "fail_notify": False,
}  # fmt: skip
TIMER = """\
# /etc/systemd/system/backup.timer
[Unit]
Description=Backup, each night

[Timer]
OnCalendar=Mon..Fri *-*-* 02:30:00 Europe/Berlin
RandomizedDelaySec=5min
Persistent=true

[Install]
WantedBy=timers.target

# /etc/systemd/system/backup.service
[Unit]
Description=Backup of the database

[Service]
Type=oneshot
User=backup
WorkingDirectory=/srv
Environment=LEVEL=3 "WORDS=two words"
ExecStart=/usr/bin/backup --to "/mnt/b c" \\
    100%%
TimeoutStartSec=1h 30min

# /etc/systemd/system/backup.service.d/override.conf
[Service]
Environment=LEVEL=4
"""


def jobs(system: str, document: object) -> list[Found]:
    text = document if isinstance(document, str) else json.dumps(document)
    return list((SYSTEMS | {"systemd": systemd})[system](text))


def the_job(system: str, document: object) -> tuple[dict[str, Any], list[str]]:
    (found,) = jobs(system, document)
    assert found.job is not None, found.notes
    parse_job(found.job)
    return found.job, found.notes


def why(system: str, document: object) -> str:
    (found,) = jobs(system, document)
    assert found.job is None
    return found.notes[-1]


def test_a_cron_job_of_kubernetes() -> None:
    job, notes = the_job("kubernetes", {"apiVersion": "v1", "kind": "List", "items": [CRON_JOB]})
    assert job == {
        "name": "billing.report", "command": ["/app/report", "--daily"], "cronExpr": "30 2 * * 1-5",
        "timezone": "Europe/Berlin", "overlap": "skip", "timeoutSeconds": 600, "workdir": "/app", "env": {"LEVEL": "3"},
        "labels": {"app": "report"}, "retry": {"limit": 2, "delaySeconds": 10, "maxDelaySeconds": 360},
        "misfire": {"graceSeconds": 200, "windowSeconds": 200},
    }  # fmt: skip
    assert notes == [
        "it runs on the worker, and no longer in the image registry.example.org/report:7",
        "variables from elsewhere are left out (PASSWORD): see `secrets`",
    ]


def test_a_cron_job_as_yaml_and_what_cannot_be_told() -> None:
    text = (
        "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: x}\nspec:\n  schedule: 'CRON_TZ=Asia/Tokyo @daily'\n"
        "  jobTemplate: {spec: {template: {spec: {containers: [{image: busybox, command: [date]}]}}}}\n"
    )
    job, _ = the_job("kubernetes", text)
    assert (job["cronExpr"], job["timezone"], job["retry"]["limit"]) == ("@daily", "Asia/Tokyo", 6)
    assert "its command is that of the image busybox" in why("kubernetes", text.replace(", command: [date]", ""))
    assert why("kubernetes", {**CRON_JOB, "kind": "Job"}) == "it is a Job, and no CronJob"
    assert why("kubernetes", {**CRON_JOB, "spec": {}}) == "it is not as Kubernetes writes it"


def test_a_job_of_dkron() -> None:
    job, notes = the_job("dkron", [DKRON])
    assert job == {
        "name": "job1", "command": "/bin/dump --all", "cronExpr": "0 30 2 * * * *", "timezone": "Europe/Berlin",
        "overlap": "skip", "retry": {"limit": 2}, "workdir": "/srv", "env": {"A": "1", "B": "2"},
        "description": "First job", "labels": {"office": "Barcelona"}, "workers": {"role": "web"}, "broadcast": True,
    }  # fmt: skip
    assert notes == ["it runs on each worker with these labels, whatever number its tags named"]
    every, _ = the_job("dkron", [{**DKRON, "schedule": "@every 1h30m", "tags": {"role": "web:1"}}])
    assert (every["every"], "cronExpr" in every, "broadcast" in every) == ("1h30m", False, False)
    assert "its executor is http" in why("dkron", [{**DKRON, "executor": "http"}])
    assert "it runs after other" in why("dkron", [{**DKRON, "parent_job": "other"}])
    assert "it has no schedule (@manually)" in why("dkron", [{**DKRON, "schedule": "@manually"}])


@pytest.mark.parametrize("is_export", [False, True])
def test_an_event_of_cronicle(is_export: bool) -> None:
    page = json.dumps({"type": "list_page", "items": [CRONICLE]})
    export = f'# Cronicle Data Export v1.0\nglobal/schedule - {{"type":"list"}}\nglobal/schedule/0 - {page}\n'
    job, notes = the_job("cronicle", export if is_export else {"code": 0, "rows": [CRONICLE]})
    assert job == {
        "name": "DB-Reindex", "command": "\nreindex --db idb01\n", "shell": "/bin/bash",
        "cronExpr": "0 20,40 21 * * 1,5 *", "timezone": "America/New_York", "timeoutSeconds": 3600,
        "description": "Database maintenance.", "overlap": "skip",
        "retry": {"limit": 1, "delaySeconds": 30, "backoff": 1}, "misfire": {"policy": "all", "limit": 100},
        "labels": {"category": "43f8c57e"},
    }  # fmt: skip
    assert notes == ["its target db1.int.myserver.com is left out: set `workers`", "notify_fail is left out"]
    assert "its plugin is test" in why("cronicle", {"rows": [{**CRONICLE, "plugin": "test"}]})
    assert "its script is for /usr/bin/perl" in why(
        "cronicle", {"rows": [{**CRONICLE, "params": {"script": "#!/usr/bin/perl\n1"}}]}
    )
    both, _ = the_job("cronicle", {"rows": [{**CRONICLE, "timing": {"days": [13], "weekdays": [5]}}]})
    assert both["cronExpr"] == "0 * * 13 * &5 *"


def test_a_job_of_cronsun_becomes_one_for_each_rule() -> None:
    first, second = jobs("cronsun", json.dumps(CRONSUN))
    assert first.job == {
        "name": "default.backup.1", "command": "/opt/backup", "cronExpr": "0 0 4 * * * *", "user": "backup",
        "timeoutSeconds": 60, "overlap": "skip", "retry": {"limit": 2, "delaySeconds": 180, "backoff": 1},
    }  # fmt: skip
    assert second.job is not None
    assert second.job["cronExpr"] == "0 0 16 * * * *"
    assert second.notes == ["its nodes and groups (web) are left out: set `workers`", "it is paused there"]
    assert "it has no rule" in why("cronsun", {**CRONSUN, "rules": []})


def test_jobs_of_the_legacy_system() -> None:
    value = {"name": "job1", "command": "echo hello", "cronExpr": "*/5 * * * * * *"}
    kvs = [{"key": "L2Nyb24vam9icy9qb2Ix", "value": base64.b64encode(json.dumps(value).encode()).decode()},
           {"key": "L2Nyb24vam9icy94", "value": "eA=="}]  # fmt: skip
    first, odd = jobs("legacy", {"header": {}, "kvs": kvs, "count": 2})
    assert (first.job, first.notes) == (value, [])
    assert odd.notes == ["it has no command, or no cronExpr"]
    assert [one.job for one in jobs("legacy", json.dumps(value) + "\n")] == [value]


@pytest.mark.parametrize("spoiled", ["null", "5", "[1]", pytest.param("[" * 100_000, id="deep")])
def test_a_spoiled_key_of_the_legacy_system_stops_no_other(spoiled: str) -> None:
    value = {"name": "job1", "command": "echo hello", "cronExpr": "*/5 * * * * * *"}
    kvs = [{"key": key, "value": base64.b64encode(text.encode()).decode()}
           for key, text in (("spoiled", spoiled), ("good", json.dumps(value)))]  # fmt: skip
    odd, good = jobs("legacy", {"kvs": kvs})
    assert (odd.title, odd.notes, good.job) == ("spoiled", ["it has no command, or no cronExpr"], value)


def test_variables_of_kubernetes_stand_for_their_values() -> None:
    def of(*command: str, **more: object) -> dict[str, Any]:
        env = [{"name": "BUCKET", "value": "b"}, {"name": "TO", "value": "s3://$(BUCKET)/x"},
               {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}]  # fmt: skip
        pod = {"containers": [{"image": "i", "command": ["sync"], "args": command, "env": env, **more}]}
        job = {"spec": {"template": {"spec": pod}}}
        return {"kind": "CronJob", "metadata": {"name": "x"}, "spec": {"schedule": "@daily", "jobTemplate": job}}

    job, _ = the_job(
        "kubernetes", of("$(TO)", "a$(BUCKET)", "$$(BUCKET)", "$(date)", "$(date +%s)", "$BUCKET", "$(ps $$)", "$(B $$")
    )
    assert job["command"] == [
        "sync",
        "s3://b/x",
        "ab",
        "$(BUCKET)",
        "$(date)",
        "$(date +%s)",
        "$BUCKET",
        "$(ps $$)",
        "$(B $",
    ]
    assert job["env"] == {"BUCKET": "b", "TO": "s3://b/x"}
    for command in ("$(PASSWORD)", "http://$(DB_SERVICE_HOST)/"):
        assert "is not in its plain env" in why("kubernetes", of(command))
    assert "$(date) is not in its plain env" in why("kubernetes", of("$(date)", envFrom=[{"configMapRef": {}}]))


def test_a_timer_of_systemd_with_its_service() -> None:
    job, notes = the_job("systemd", TIMER)
    assert job == {
        "name": "backup", "command": ["/usr/bin/backup", "--to", "/mnt/b c", "100%"], "user": "backup",
        "cronExpr": "0 30 2 * * MON-FRI *", "timezone": "Europe/Berlin", "jitterSeconds": 300,
        "env": {"LEVEL": "4", "WORDS": "two words"},
        "workdir": "/srv", "timeoutSeconds": 5400, "description": "Backup of the database",
        "misfire": {"policy": "latest", "windowSeconds": 31_622_400},
    }  # fmt: skip
    assert notes == []
    assert "add backup.service to systemctl cat" in why(
        "systemd", TIMER.partition("# /etc/systemd/system/backup.service")[0]
    )
    assert "specifiers" in why("systemd", TIMER.replace("100%%", "%i"))
    every, noted = the_job(
        "systemd",
        TIMER.replace("OnCalendar=Mon..Fri *-*-* 02:30:00 Europe/Berlin", "OnUnitActiveSec=1h 30min").replace(
            "User=backup\n", ""
        ),
    )
    assert every["every"] == "5400s"
    assert noted == ["it ran as root there: say as whom it runs (--set user=...)"]


def test_a_timer_of_systemd_with_several_starts_says_which_are_left_out() -> None:
    job, notes = the_job("systemd", TIMER.replace("[Timer]\n", "[Timer]\nOnBootSec=15min\nOnUnitActiveSec=1h\n"))
    assert ("cronExpr" in job, "every" in job) == (True, False)
    assert notes == ["OnUnitActiveSec= is left out", "OnBootSec= is left out"]


def with_command(written: str, *more: str) -> str:
    """The timer, with this ExecStart=."""
    head, _, tail = TIMER.partition("ExecStart=")
    return f"{head}ExecStart={written}\n" + "".join(f"{one}\n" for one in more) + tail.partition("100%%\n")[2]


@pytest.mark.parametrize(
    ("written", "command"),
    [
        ("/bin/echo $WORDS ${WORDS} $LEVEL", ["/bin/echo", "two", "words", "two words", "4"]),
        ("/bin/echo a${LEVEL}b${LEVEL} a$LEVEL", ["/bin/echo", "a4b4", "a$LEVEL"]),
        ("/bin/sh -c 'echo $${WORDS} $$'", ["/bin/sh", "-c", "echo ${WORDS} $"]),
        (":/bin/echo $WORDS $$", ["/bin/echo", "$WORDS", "$$"]),
        (r"/bin/echo one \; ';' \"two\" 'a\tb\\d' \d", ["/bin/echo", "one", ";", ";", '"two"', "a\tb\\d", "\\d"]),
    ],
)
def test_a_command_line_of_systemd_means_what_it_means_there(written: str, command: list[str]) -> None:
    assert the_job("systemd", with_command(written))[0]["command"] == command


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("/bin/echo one ; echo two", "several commands"), ("@/bin/echo echo one", "a name of its own"),
        ("/usr/bin/rsync $OPTS /home", "$OPTS in its command"), ("/bin/echo a${HOME}", "a${HOME} in its command"),
        ("/bin/echo ${LEVEL", "${LEVEL in its command"), ("/bin/echo $", "$ in its command"),
        ("/bin/echo 'one", "a quote in it has no end"), (r"/bin/echo a\x20b", r"(\x...)"), ("-", "it has no command"),
    ],
)  # fmt: skip
def test_a_command_line_of_systemd_that_no_job_has_is_refused(written: str, reason: str) -> None:
    assert reason in why("systemd", with_command(written))


def test_a_command_line_of_systemd_with_prefixes_and_variables_from_a_file() -> None:
    job, notes = the_job("systemd", with_command("-+/bin/echo one"))
    assert (job["command"], "user" in job) == (["/bin/echo", "one"], False)
    assert [note.partition(" ")[0] for note in notes] == ["an", "it"]
    assert "${LEVEL} in its command" in why("systemd", with_command("/bin/echo ${LEVEL}", "EnvironmentFile=-/etc/x"))
    assert "specifiers" in why("systemd", TIMER.replace("LEVEL=3", "LEVEL=%n"))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90), ("1h 30 min", 5400), ("1.5h", 5400), (".5 h", 1800), ("1month", 2_629_800), ("1M", 2_629_800),
        ("1y", 31_557_600), ("2weeks 1d", 1_296_000), ("3 hr5sec", 10_805), ("1s 1000000us", 2), ("1m 5", 65),
        ("1s500ms 500 msec", 2),
    ],
)  # fmt: skip
def test_time_spans_of_systemd(text: str, seconds: int) -> None:
    timer = TIMER.replace("OnCalendar=Mon..Fri *-*-* 02:30:00 Europe/Berlin", f"OnUnitActiveSec={text}")
    assert the_job("systemd", timer)[0]["every"] == f"{seconds}s"


@pytest.mark.parametrize("text", ["1Y", "5 fortnights", "1h nonsense", "soon", "1,5h", "-5", "500ms", "infinity"])
def test_time_spans_that_no_job_has_are_refused(text: str) -> None:
    timer = TIMER.replace("OnCalendar=Mon..Fri *-*-* 02:30:00 Europe/Berlin", f"OnUnitInactiveSec={text}")
    assert "OnUnitInactiveSec=" in why("systemd", timer)


@pytest.mark.parametrize(
    ("service", "seconds"),
    [
        ("Type=oneshot\nTimeoutStartSec=30\nRuntimeMaxSec=60", 30), ("Type=oneshot\nRuntimeMaxSec=60", None),
        ("Type=oneshot\nTimeoutSec=40", 40), ("Type=simple\nTimeoutStartSec=30", None), ("TimeoutStartSec=30", None),
        ("TimeoutStartSec=30\nRuntimeMaxSec=1h", 3600), ("RuntimeMaxSec=infinity", None), ("RuntimeMaxSec=500ms", 1),
    ],
)  # fmt: skip
def test_a_service_that_is_no_oneshot_is_bounded_by_its_greatest_run_time(service: str, seconds: int | None) -> None:
    text = TIMER.replace("TimeoutStartSec=1h 30min\n", "").replace("Type=oneshot", service)
    assert the_job("systemd", text)[0].get("timeoutSeconds") == seconds


@pytest.mark.parametrize(
    ("text", "expr", "zone"),
    [
        ("daily", "0 0 0 * * * *", None), ("weekly", "0 0 0 * * MON *", None),
        ("quarterly", "0 0 0 1 1,4,7,10 * *", None),
        ("*:0/15", "0 */15 * * * * *", None), ("Sat,Sun 10:00", "0 0 10 * * SAT,SUN *", None),
        ("*-*-1..7 04:00", "0 0 4 1-7 * * *", None), ("Mon *-*-1..7 04:00 UTC", "0 0 4 1-7 * &MON *", "UTC"),
        ("2026-12-24 18:00:05", "5 0 18 24 12 * 2026", None), ("*-12-24", "0 0 0 24 12 * *", None),
        ("08..18/2:30", "0 30 8-18/2 * * * *", None), ("hourly", "0 0 * * * * *", None),
    ],
)  # fmt: skip
def test_calendar_events_become_cron_expressions(text: str, expr: str, zone: str | None) -> None:
    assert calendar(text) == (expr, zone)
    parse_job({"name": "j", "command": "true", "cronExpr": expr})


@pytest.mark.parametrize("text", ["*-*~1 00:00", "nonsense", "", "12:00:00.5", "tomorrow"])
def test_calendar_events_that_are_not_read_are_refused(text: str) -> None:
    with pytest.raises(RefusedError):
        calendar(text)


@pytest.mark.parametrize("more", ['{"items": [{"ti', "[1]", '{"items": 1}'])
def test_an_export_of_cronicle_that_is_cut_short_is_told_as_such(more: str) -> None:
    for first in ("", f'global/schedule/0 - {{"items": [{json.dumps(CRONICLE)}]}}\n'):
        with pytest.raises(UnreadableError, match="no JSON"):
            jobs("cronicle", f"{first}global/schedule/1 - {more}")


@pytest.mark.parametrize("system", [*SYSTEMS, "systemd"])
@pytest.mark.parametrize("text", [
    "", "{", "[1]", '"x"', "[[]]", "null", "a: [", "{}", '{"items": [{}]}', "- 1\n- 2", '{"metadata": 5, "rules": 5}',
    '{"metadata": {"namespace": 5, "name": [1]}}', "2020-01-01: x", "a: 2020-13-45", "&a [*a]",
    pytest.param("[" * 100_000, id="deep"), pytest.param('{"a":' * 100_000, id="deep objects"),
    pytest.param("{}\n" + "[" * 100_000, id="a deep line"), pytest.param("a: " + "[" * 2_000, id="deep YAML"),
])  # fmt: skip
def test_what_is_no_export_is_told_as_such_and_nothing_fails(system: str, text: str) -> None:
    try:
        found = jobs(system, text)
    except UnreadableError:
        return
    assert all(one.job is None and one.notes for one in found)
