"""`etcron job` against a real manager: what is changed, what is printed, the statuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cli.times import local
from common.instants import iso, to_ms
from common.protocol.keys import RunId, encode_mark
from common.protocol.txn import KeyValue
from common.verdicts import Verdict
from tests.integration.cli.conftest import Etcron
from tests.support.managing import Managed, Place, ShiftedClock, managing
from tests.support.open_runs import claim, now_ms, record_of
from tests.support.records import record
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

HOUR_MS = 3_600_000
NIGHTLY = ("--command", "echo hello", "--cron", "0 30 2 * * * *")


async def spec_of(etcron: Etcron, name: str) -> dict[str, object]:
    result = await etcron.ok("job", "show", name, "-o", "json")
    spec: dict[str, object] = result.json["spec"]
    return spec


# save


async def test_save_creates_then_changes_then_leaves_alone(etcron: Etcron) -> None:
    first = await etcron.ok("job", "save", "backup", *NIGHTLY, "--label", "team=ops", "--env", "LEVEL=debug")
    assert first.out.startswith("backup: created (revision ")
    assert "next fire: " in first.err
    assert (await etcron.ok("job", "save", "backup", *NIGHTLY)).out.splitlines()[1:] == [
        '  env.LEVEL: "debug" -> null',
        '  labels.team: "ops" -> null',
    ]
    assert "backup: unchanged" in (await etcron.ok("job", "save", "backup", *NIGHTLY)).out


async def test_save_with_edit_changes_only_what_is_said(etcron: Etcron) -> None:
    await etcron.ok("job", "save", "backup", *NIGHTLY, "--label", "team=ops", "--timeout", "60")
    result = await etcron.ok(
        "job", "save", "backup", "--edit", "--label", "zone=eu", "--set", "misfire.limit=3", "--set", "labels.team=null"
    )
    assert set(result.out.splitlines()[1:]) == {
        "  misfire.limit: 10 -> 3", '  labels.team: "ops" -> null', '  labels.zone: null -> "eu"',
    }  # fmt: skip
    assert (await spec_of(etcron, "backup"))["timeoutSeconds"] == 60
    assert (await etcron("job", "save", "nothing", "--edit", "--timeout", "1")).status == 3
    refused = await etcron("job", "save", "backup", "--edit", "--timeout", "5m")
    assert refused.status == 2
    assert "argument --timeout: '5m' is not a number of seconds, such as 300" in refused.err


async def test_save_does_not_resume_a_paused_job_by_the_way(etcron: Etcron) -> None:
    await etcron.ok("job", "save", "backup", *NIGHTLY, "--paused")
    await etcron.ok("job", "save", "backup", "--command", "echo other", "--cron", "@daily")
    assert (await spec_of(etcron, "backup"))["enabled"] is False
    await etcron.ok("job", "save", "backup", "--edit", "--enabled")
    assert (await spec_of(etcron, "backup"))["enabled"] is True


async def test_save_on_conditions(etcron: Etcron) -> None:
    await etcron.ok("job", "save", "backup", *NIGHTLY, "--create")
    again = await etcron("job", "save", "backup", *NIGHTLY, "--create")
    assert (again.status, again.err) == (
        4, "etcron: there is a job backup already; change it without --create\n",
    )  # fmt: skip
    stale = await etcron("job", "save", "backup", "--command", "x", "--cron", "@daily", "--if-match", "1")
    assert stale.status == 4
    assert (await spec_of(etcron, "backup"))["command"] == "echo hello"


async def test_save_from_a_file_with_flags_on_top(etcron: Etcron, write: Callable[[str, str], str]) -> None:
    path = write("job.yaml", "name: report\ncommand: make report\ncronExpr: '@daily'\n")
    await etcron.ok("job", "save", "-f", path, "--tz", "Europe/Berlin")
    spec = await spec_of(etcron, "report")
    assert (spec["command"], spec["timezone"]) == ("make report", "Europe/Berlin")
    await etcron.ok("job", "save", "-f", "-", stdin=json.dumps({**spec, "command": "true"}))
    assert (await spec_of(etcron, "report"))["command"] == "true"


async def test_bad_input_names_field_fault_and_remedy(etcron: Etcron) -> None:
    result = await etcron("job", "save", "x", "--command", "true", "--cron", "61 * * * *", "--set", "overlop=skip")
    assert result.status == 5
    assert "cronExpr: Minute 61 is not between 0 and 59; write 0-59" in result.err
    assert "did you mean overlap?" in result.err
    assert result.out == ""


async def test_usage_mistakes_have_status_2(etcron: Etcron) -> None:
    assert (await etcron("job", "save", *NIGHTLY)).status == 2
    result = await etcron("job", "save", "x", "--env", "=1")
    assert (result.status, result.err) == (2, "etcron: --env: '=1' has no name; write --env NAME=VALUE\n")
    assert (await etcron("job", "save", "x", "--set", "nothing")).status == 2
    assert (await etcron("job", "save", "x", "--paused", "--enabled")).status == 2


async def test_warnings_go_to_stderr(etcron: Etcron) -> None:
    result = await etcron.ok("job", "save", "x", "--command", "true", "--cron", "0 0 0 13 * 5 *", "-o", "json")
    assert "warning: both day fields are restricted" in result.err
    assert result.json["job"]["name"] == "x"


# list, show, next, log


async def test_list_is_a_table_or_json(etcron: Etcron, manager: Managed) -> None:
    assert (await etcron.ok("job", "list")).err == "no jobs\n"
    for name, team in (("a", "ops"), ("b", "web")):
        await etcron.ok("job", "save", name, *NIGHTLY, "--label", f"team={team}")
    lines = (await etcron.ok("job", "list")).out.splitlines()
    assert lines[0].split() == ["NAME", "STATE", "SCHEDULE", "NEXT", "FIRE", "LAST", "RESULT"]
    assert [line.split()[0] for line in lines[1:]] == ["a", "b"]
    assert "At 02:30" in lines[1]
    one = await etcron.ok("job", "list", "--label", "team=web", "-o", "json")
    assert [row["name"] for row in one.json] == ["b"]
    assert len((await etcron.ok("job", "list", "--limit", "1", "-o", "json")).json) == 1
    assert (await etcron.ok("job", "list", "--limit", "1")).err == "the first 1; more with --limit\n"


async def test_list_is_sorted_and_shows_by_what(etcron: Etcron, manager: Managed) -> None:
    for number, name in enumerate(("a", "b", "c")):
        await etcron.ok("job", "save", name, "--command", "x", "--cron", f"0 0 0 1 1 * {2090 - number}")
    await manager.write([
        record_of(RunId("a", "r-1"), Verdict.FAILED, plan_ms=now_ms() - 9_000_000, end_ms=now_ms() - 8_940_000),
        record_of(RunId("b", "r-2"), plan_ms=now_ms() - 5_000_000, end_ms=now_ms() - 4_000_000),
        record_of(RunId("c", "r-3"), Verdict.FAILED, plan_ms=now_ms() - 3_000_000, end_ms=now_ms() - 2_999_000),
    ])  # fmt: skip

    async def names(*options: str) -> list[str]:
        return [row["name"] for row in (await etcron.ok("job", "list", "-o", "json", "--sort", *options)).json]

    assert await names("name", "--reverse") == ["c", "b", "a"]
    assert await names("next") == ["c", "b", "a"]
    assert await names("duration", "--limit", "2") == ["b", "a"]
    assert await names("duration", "--reverse") == ["c", "a", "b"]
    assert await names("last-failure") == ["c", "a", "b"]
    heads, first, *_ = (await etcron.ok("job", "list", "--sort", "duration")).out.splitlines()
    assert (heads.split()[-3:], "16 min 40 s" in first) == (["TOOK", "LAST", "RESULT"], True)
    heads, *_, last = (await etcron.ok("job", "list", "--sort", "last-failure")).out.splitlines()
    assert ("LAST FAILURE" in heads, last.split()[0]) == (True, "b")
    assert (await etcron("job", "list", "--sort", "duration", "--deleted")).status == 2


async def test_list_goes_through_every_page(etcron: Etcron, manager: Managed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cli.client.PAGE", 2)
    for number in range(5):
        await etcron.ok("job", "save", f"j{number}", *NIGHTLY)
    rows = (await etcron.ok("job", "list", "-o", "json")).json
    assert [row["name"] for row in rows] == [f"j{number}" for number in range(5)]


async def test_show_tells_state_and_every_field(etcron: Etcron) -> None:
    await etcron.ok("job", "save", "backup", *NIGHTLY, "--set", "killGraceSeconds=7")
    await etcron.ok("job", "pause", "backup", "--reason", "the disk\nis full")
    out = (await etcron.ok("job", "show", "backup")).out
    assert "by api 127.0.0.1: the disk␊is full" in out
    assert "killGraceSeconds" in out
    missing = await etcron("job", "show", "nothing")
    assert (missing.status, missing.err) == (3, "etcron: there is no job nothing\n")


async def test_next_has_as_many_fires_as_wanted(etcron: Etcron) -> None:
    await etcron.ok("job", "save", "minutely", "--command", "true", "--cron", "* * * * *", "--tz", "Asia/Kathmandu")
    lines = (await etcron.ok("job", "next", "minutely", "-n", "25")).out.splitlines()
    assert len(lines) == len(set(lines)) == 25
    assert lines == sorted(lines)
    assert all(line.endswith("+05:45") for line in lines)
    await etcron.ok("job", "pause", "minutely")
    assert (await etcron.ok("job", "next", "minutely")).err == "minutely has no next fire: it is paused\n"


async def test_why_an_enabled_job_has_no_next_fire(etcron: Etcron) -> None:
    now = datetime.now(UTC).isoformat()
    once = await etcron.ok("job", "save", "once", "--command", "true", "--at", now)
    assert once.err.endswith("\nno next fire: none of its fires is still to come\n")
    after = await etcron.ok("job", "save", "after", "--command", "true", "--after", "5m")
    assert after.err == "no next fire: it fires after the end of its last run\n"
    said = (await etcron.ok("job", "next", "once")).err
    assert said == "once has no next fire: none of its fires is still to come\n"


async def test_next_says_which_fires_the_calendar_closes(etcron: Etcron) -> None:
    closed = '{"exclude": ["01-01/06-30"]}'
    await etcron.ok("job", "save", "monthly", "--command", "true", "--cron", "@monthly", "--set", f"calendar={closed}")
    lines = (await etcron.ok("job", "next", "monthly", "-n", "12")).out.splitlines()
    skipped = [line[5:7] for line in lines if line.endswith("  (closed by its calendar: will be skipped)")]
    assert sorted(skipped) == ["01", "02", "03", "04", "05", "06"]


async def test_fires_between_two_times_with_what_became_of_each(etcron: Etcron, manager: Managed) -> None:
    await etcron.ok("job", "save", "hourly", "--command", "true", "--cron", "0 * * * *")
    document = json.loads((await key_of(manager, manager.keys.job("hourly"))).value)
    first_ms = document["anchorMs"] // HOUR_MS * HOUR_MS - 4 * HOUR_MS
    await manager.etcd.put(manager.keys.job("hourly"), json.dumps(document | {"anchorMs": first_ms - 1}).encode())
    hours = [first_ms + hour * HOUR_MS for hour in range(4)]
    await manager.write([
        record(job="hourly", plan_ms=hours[0], end_ms=hours[0] + 1202),
        record(job="hourly", plan_ms=hours[1], status=Verdict.MISSED, reason="late", count=2, range_end_ms=hours[2]),
        record(job="hourly", plan_ms=hours[3], status=Verdict.SKIPPED, reason="overlap: hourly@1#1"),
    ])  # fmt: skip
    await manager.etcd.put(manager.keys.mark("hourly"), encode_mark(hours[3]))
    since = ("--from", iso(hours[0]), "--to", iso(hours[3]))
    head, *lines = (await etcron.ok("job", "fires", "hourly", *since)).out.splitlines()
    assert head.split() == ["PLANNED", "VERDICT", "STARTED", "TOOK", "WORKER", "WHY", "RUN"]
    assert [line.split("  ")[1].strip() for line in lines] == ["skipped", "missed", "success"]
    assert "overlap: hourly@1#1" in lines[0]
    assert f"late (2 fires, the last {local(hours[2])})" in lines[1]
    assert "1.2 s" in lines[2]
    assert "w1" in lines[2]
    not_run = (await etcron.ok("job", "fires", "hourly", *since, "--not-run", "-o", "json")).json
    assert [one["verdict"] for one in not_run] == ["skipped", "missed"]
    ran = await etcron.ok("job", "fires", "hourly", "--from", iso(hours[0]), "--to", iso(hours[0]), "--not-run")
    assert ran.err == "none among the fires known of these times: each has a run (1)\n"
    one = await etcron.ok("job", "fires", "hourly", *since, "--limit", "1")
    assert len(one.out.splitlines()) == 2
    assert one.err.startswith(f"there are more before {local(hours[3])}: ask with --to")
    soon = iso(document["anchorMs"] + 2 * HOUR_MS)
    to_come = (await etcron.ok("job", "fires", "hourly", "--from", iso(document["anchorMs"]), "--to", soon)).out
    assert "planned" in to_come
    assert "no worker is live" in to_come


async def test_fires_that_a_restored_etcd_knows_not_and_a_pause_skips_are_never_called_runs(
    etcron: Etcron, manager: Managed
) -> None:
    await etcron.ok("job", "save", "hourly", "--command", "true", "--cron", "0 * * * *")
    document = json.loads((await key_of(manager, manager.keys.job("hourly"))).value)
    first_ms = document["anchorMs"] // HOUR_MS * HOUR_MS - 3 * HOUR_MS
    as_of_snapshot = {"anchorMs": first_ms - 1, "savedMs": first_ms - 1}
    await manager.etcd.put(manager.keys.job("hourly"), json.dumps(document | as_of_snapshot).encode())
    await manager.etcd.put(manager.keys.mark("hourly"), encode_mark(first_ms - 1))
    ran = record(job="hourly", plan_ms=first_ms, end_ms=first_ms + 1202)  # after the snapshot
    await manager.write([ran])
    await etcron.ok("job", "pause", "hourly")
    skipped = await key_of(manager, manager.keys.run(ran.run_id))
    assert b'"skipped"' in skipped.value, "a range under the key of the run that it begins with"
    since = ("--from", iso(first_ms), "--to", iso(first_ms + 3 * HOUR_MS))
    not_run = (await etcron.ok("job", "fires", "hourly", *since, "--not-run", "-o", "json")).json
    assert [(one["planTime"], one["verdict"]) for one in not_run] == [
        (first_ms + hour * HOUR_MS, "unknown") for hour in (3, 2, 1)
    ]


async def test_runs_without_a_process_are_among_the_fires_that_did_not_run(etcron: Etcron, manager: Managed) -> None:
    await etcron.ok("job", "save", "hourly", "--command", "true", "--cron", "0 * * * *")
    first_ms = 1_790_000_000_000 // HOUR_MS * HOUR_MS
    began, refused, killed = (first_ms + hour * HOUR_MS for hour in range(3))
    never: dict[str, Any] = {"start_ms": None, "reason": "before start"}
    await manager.write([
        record(job="hourly", plan_ms=began, status=Verdict.FAILED, err="exit status 3"),
        record(job="hourly", plan_ms=refused, status=Verdict.FAILED, err="could not be started: no such user", **never),
        record(job="hourly", plan_ms=killed, status=Verdict.KILLED, err="killed by ops before start: enough", **never),
    ])  # fmt: skip
    since = ("--from", iso(began), "--to", iso(killed), "--not-run")
    last, first = (await etcron.ok("job", "fires", "hourly", *since)).out.splitlines()[1:]
    assert "killed by ops before start: enough" in last
    assert local(refused) in first


async def test_fires_of_a_job_that_there_is_not(etcron: Etcron) -> None:
    result = await etcron("job", "fires", "nobody")
    assert (result.status, result.out) == (3, "")


async def test_what_waits_is_shown_with_its_reason(etcron: Etcron, manager: Managed) -> None:
    await etcron.ok("job", "save", "idle", "--command", "true", "--cron", "* * * * *")
    document = json.loads((await key_of(manager, manager.keys.job("idle"))).value)
    due_ms = document["anchorMs"] // 60_000 * 60_000
    await manager.etcd.put(manager.keys.job("idle"), json.dumps(document | {"anchorMs": due_ms - 60_001}).encode())
    await manager.etcd.put(manager.keys.mark("idle"), encode_mark(due_ms - 60_001))
    run = (await etcron.ok("job", "run", "idle")).out.strip()

    async def is_shown() -> bool:
        shown = await etcron.ok("job", "show", "idle")
        return "waiting      2 fires since " in shown.out or "waiting      3 fires since " in shown.out

    await wait_until(is_shown, description="the manager knows that fires are due")
    fires, asked = [line for line in (await etcron.ok("job", "log", "idle")).err.splitlines() if "waiting: " in line]
    assert fires.endswith(": no worker is live")
    assert asked.startswith(f"waiting: {run}, planned ")
    assert asked.endswith(", for a worker: no worker is live")
    assert (await etcron.ok("job", "log", "idle", "-o", "json")).json == []


async def test_what_waits_for_its_time_says_when_that_is(etcron: Etcron) -> None:
    in_an_hour = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    await etcron.ok("job", "save", "later", "--command", "true", "--cron", "@yearly")
    await etcron.ok("job", "run", "later", "--at", in_an_hour.isoformat())
    shown = (await etcron.ok("job", "show", "later")).out
    assert f", for its time, {local(to_ms(in_an_hour))}" in shown


async def key_of(manager: Managed, key: str) -> KeyValue:
    kv = await manager.etcd.get(key)
    assert kv is not None
    return kv


async def test_log_of_nothing(etcron: Etcron) -> None:
    await etcron.ok("job", "save", "idle", *NIGHTLY)
    assert (await etcron.ok("job", "log", "idle")).err == "no runs\n"
    assert (await etcron("job", "log", "nothing")).status == 3


# pause, resume, kill, delete


async def test_pause_and_resume_several(etcron: Etcron) -> None:
    await etcron.ok("job", "save", "a", *NIGHTLY)
    await etcron.ok("job", "save", "b", *NIGHTLY)
    assert (await etcron.ok("job", "pause", "a", "b")).out == "a: paused\nb: paused\n"
    assert (await etcron.ok("job", "pause", "a", "--reason", "another")).out == "a: was paused already\n"
    result = await etcron("job", "resume", "nothing", "a")
    assert (result.status, result.out) == (3, "a: resumed\n")
    assert result.err == "etcron: nothing: there is no job nothing\n"


async def test_kill_of_what_does_not_run_says_so(etcron: Etcron) -> None:
    await etcron.ok("job", "save", "idle", *NIGHTLY)
    assert (await etcron.ok("job", "kill", "idle")).out == "no run of idle was going\n"
    result = await etcron("job", "kill", "idel")
    assert (result.status, result.err) == (3, "etcron: idel: there is no job idel, and no run of that name was going\n")


async def test_delete(etcron: Etcron) -> None:
    await etcron.ok("job", "save", "old", *NIGHTLY)
    assert (await etcron("job", "delete", "old", "--if-match", "1")).status == 4
    assert (await etcron.ok("job", "delete", "old")).out == "old: deleted\n"
    gone = await etcron("job", "delete", "old")
    assert (gone.status, gone.err) == (3, "etcron: old: there is no job old\n")


@pytest.mark.parametrize("name", ["..", "a/b", "a b", "ä", "%2e%2e"])
async def test_strange_names_are_refused_and_reach_nothing_else(etcron: Etcron, name: str) -> None:
    assert (await etcron("job", "show", name)).status in (3, 5)
    assert (await etcron("job", "delete", name)).status in (3, 5)


# versions, restore


async def test_versions_and_back(etcron: Etcron) -> None:
    await etcron.ok("job", "save", "backup", *NIGHTLY)
    first = (await etcron.ok("job", "show", "backup", "-o", "json")).json["revision"]
    await etcron.ok("job", "save", "backup", "--edit", "--command", "echo other")
    lines = (await etcron.ok("job", "versions", "backup")).out.splitlines()
    assert len(lines) == 3
    assert lines[1].split()[-2:] == ["save", "command"]
    version = (await etcron.ok("job", "versions", "backup", str(first))).out
    assert '  command: "echo hello" -> "echo other"' in version
    restored = await etcron.ok("job", "restore", "backup", str(first))
    assert restored.out.startswith(f"backup: restored from revision {first} as ")
    assert (await spec_of(etcron, "backup"))["command"] == "echo hello"
    assert (await etcron("job", "restore", "backup", str(first), "--if-match", "1")).status == 4
    await etcron.ok("job", "delete", "backup")
    assert "there is no job backup now" in (await etcron.ok("job", "versions", "backup", str(first))).err
    await etcron.ok("job", "restore", "backup", str(first))
    assert (await spec_of(etcron, "backup"))["command"] == "echo hello"
    assert (await etcron("job", "versions", "backup", "1")).status == 3
    assert (await etcron("job", "versions", "nothing")).status == 3


async def test_deleted_jobs_are_listed_and_come_back(etcron: Etcron) -> None:
    for name in ("old", "older", "again"):
        await etcron.ok("job", "save", name, *NIGHTLY, "--set", f"description=the {name} one")
    for name in ("older", "old", "again"):
        await etcron.ok("job", "delete", name)
    await etcron.ok("job", "save", "again", *NIGHTLY)
    lines = (await etcron.ok("job", "list", "--deleted")).out.splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", "old", "older"]
    assert lines[1].endswith("the old one")
    assert (await etcron.ok("job", "restore", "older")).out.startswith("older: restored from revision ")
    assert (await spec_of(etcron, "older"))["description"] == "the older one"
    assert [one["name"] for one in (await etcron.ok("job", "list", "--deleted", "-o", "json")).json] == ["old"]
    there = await etcron("job", "restore", "older")
    assert (there.status, "older is there: say which version" in there.err) == (2, True)
    assert (await etcron("job", "restore", "never")).status == 3
    assert (await etcron("job", "list", "--deleted", "-q", "old")).status == 2


async def test_list_tells_how_far_a_first_fire_has_come(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ShiftedClock()
    async with managing(place, clock=clock) as manager:
        etcron = Etcron(server=str(manager.http.make_url("/")), monkeypatch=monkeypatch)
        await etcron.ok("job", "save", "j", "--command", "true", "--cron", "0 * * * * * *")
        assert (await etcron.ok("job", "list")).out.splitlines()[1].endswith("-")
        clock.offset_ms = 62_000
        assert (await etcron.ok("job", "list")).out.splitlines()[1].endswith(": no worker is live")
        run = await claim(manager, "j", 60_000)
        await wait_until(lambda: manager.parts.watching.open_runs.has(run), description="the run to be seen")
        assert (await etcron.ok("job", "list")).out.splitlines()[1].endswith("none yet, running")


async def test_a_server_with_a_path_is_told_from_an_old_manager(etcron: Etcron) -> None:
    for server in (f"{etcron.server}cron", f"{etcron.server}api/v1/"):
        for command in (("job", "list"), ("run", "log", "j@1#1"), ("job", "pause", "j")):
            result = await etcron(*command, server=server)
            assert (result.status, result.out) == (2, "")
            assert "the address of a manager has none; write " + etcron.server.rstrip("/") in result.err
            assert "another version" not in result.err


async def test_without_the_log_store_fires_are_told_as_far_as_they_are_known(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Place(etcd=place.etcd, log_store="mongodb://127.0.0.1:9", prefix=place.prefix, database=place.database)
    async with managing(away, apiWriteTimeout=1000, mongodbConnectTimeout=200) as manager:
        etcron = Etcron(server=str(manager.http.make_url("/")), monkeypatch=monkeypatch)
        await etcron.ok("job", "save", "j", "--command", "true", "--cron", "0 0 0 1 1 * 2099")
        result = await etcron.ok("job", "fires", "j", "--to", "2100-01-01T00:00:00Z")
        assert "planned" in result.out
        assert "no worker is live" in result.out
        assert "the log store cannot be reached: " in result.err
        assert "2099" in (await etcron.ok("job", "next", "j")).out


async def test_show_says_why_the_last_result_is_no_success(etcron: Etcron, manager: Managed) -> None:
    await etcron.ok("job", "save", "j", "--command", "true", "--cron", "@daily")
    await manager.write([record(job="j", status=Verdict.MISSED, reason="late: no worker had a free slot")])
    shown = (await etcron.ok("job", "show", "j")).out
    assert "late: no worker had a free slot" in next(line for line in shown.splitlines() if "last result" in line)
