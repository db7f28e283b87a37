"""A crontab's lines: each becomes a job truly, or is refused with the reason."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli.crontab.sources import source_of
from cli.crontab.sync import renamed
from cli.errors import CommandError, ExitStatus
from cli.times import machine_timezone
from common.crontab.command_text import parse_command
from common.crontab.jobs import LineOutcome, LineResult, expression, translate
from common.crontab.lines import TAKEN, Entry, read_lines
from common.crontab.names import Names
from common.jobs.reader import parse_job


def _translated(text: str, *, system: bool = False, **options: Any) -> list[LineOutcome]:
    return translate(read_lines(text, system=system), **{"timezone": "UTC", "labels": {}, **options})


def _one(text: str, **options: Any) -> LineOutcome:
    *_, last = _translated(text, **options)
    return last


def _job(text: str, **options: Any) -> dict[str, Any]:
    outcome = _one(text, **options)
    assert outcome.document is not None, outcome.notes
    return outcome.document


def _reason(text: str, **options: Any) -> str:
    outcome = _one(text, **options)
    assert outcome.result is LineResult.REFUSED
    return outcome.notes[0]


def test_every_line_is_accounted_for() -> None:
    text = "# a comment\n\n  \t\nSHELL=/bin/bash\n  # another\n* * * * * true\n@reboot x\nnonsense\n\r\n"
    assert [(one.line.number, str(one.result)) for one in _translated(text)] == [
        (1, "comment"), (2, "blank"), (3, "blank"), (4, "variable"), (5, "comment"), (6, "job"), (7, "job"),
        (8, "refused"), (9, "blank"),
    ]  # fmt: skip
    assert _translated("") == []
    assert len(_translated("\n")) == 1


# When


@pytest.mark.parametrize(
    ("when", "expr"),
    [
        ("*/5 * * * *", "0 */5 * * * * *"),
        ("0  2\t1 jan SUN", "0 0 2 1 jan SUN *"),
        ("1-59/2 8-18 * * 1-5", "0 1-59/2 8-18 * * 1-5 *"),
        ("0 0 1,15 * 5", "0 0 0 1,15 * 5 *"),
        ("@Daily", "@daily"),
        ("@weekly", "@weekly"),
    ],
)
def test_five_fields_become_seven(when: str, expr: str) -> None:
    assert _job(f"{when} true\n")["cronExpr"] == expr


def test_reboot_is_a_job_of_each_machine_without_a_delay() -> None:
    job = _job("RANDOM_DELAY=5\n@Reboot /bin/start\n")
    assert (job["cronExpr"], job["broadcast"], "jitterSeconds" in job) == ("@reboot", True, False)
    assert parse_job(job).at_boot


@pytest.mark.parametrize(
    ("when", "expr"),
    [
        ("0 0 */2 * 1", "0 0 0 */2 * &1 *"), ("0 0 1 * */2", "0 0 0 1 * &*/2 *"),
        ("0 0 */2 * */2", "0 0 0 */2 * &*/2 *"),
        ("0 0 */2 * *", "0 0 0 */2 * * *"), ("0 0 1 * 1", "0 0 0 1 * 1 *"),
    ],
)  # fmt: skip
def test_where_a_day_field_begins_with_a_star_both_have_to_match(when: str, expr: str) -> None:
    assert expression(when) == expr


@pytest.mark.parametrize(
    ("when", "expr"),
    [
        ("0~59 3 * * *", "0 H(0-59) 3 * * * *"),
        ("~ ~ * * *", "0 H(0-59) H(0-23) * * * *"),
        ("10~ 3 * * 1", "0 H(10-59) 3 * * 1 *"),
        ("5,~20 3 * * 1", "0 5,H(0-20) 3 * * 1 *"),
    ],
)
def test_random_values_become_hashed_ones(when: str, expr: str) -> None:
    assert _job(f"{when} true\n")["cronExpr"] == expr


def test_forms_that_mean_something_else_are_refused() -> None:
    assert "5/15 is 5 alone to most crons" in _reason("5/15 * * * * true\n")
    assert "MON/2 is MON alone to most crons" in _reason("0 0 * * SUN,MON/2 true\n")
    assert "Minute '9~5/2'" in _reason("9~5/2 3 * * * true\n")
    assert "Minute 61 is not between 0 and 59" in _reason("61 * * * * true\n")
    assert "is not a macro" in _reason("@every_minute true\n")
    assert "is no date" in _reason("0 0 30 2 * true\n")


# Comments


COMMENTS = """\
# m h  dom mon dow   command

# ---- backups ----
# Nightly backup of the database
# (takes an hour)
0 2 * * * /usr/local/bin/backup --full
0 3 * * * /usr/local/bin/report
# 0 4 * * * /usr/local/bin/old
0 5 * * * /usr/local/bin/new
# @daily old
#MAILTO=joe
0 6 * * * /usr/local/bin/other
# Nightly backup of the database

0 7 * * * /usr/local/bin/far
# Nightly backup, of the DATABASE!
0 8 * * * /usr/local/bin/again
"""


def test_a_comment_above_a_line_describes_its_job() -> None:
    jobs = [one.document for one in _translated(COMMENTS) if one.document]
    assert [job.get("description", "") for job in jobs] == [
        "Nightly backup of the database (takes an hour)", "", "", "", "", "Nightly backup, of the DATABASE!",
    ]  # fmt: skip


def test_a_comment_above_a_line_names_its_job_where_that_is_wanted() -> None:
    names = [one.name for one in _translated(COMMENTS, by_comment=True) if one.document]
    assert names[0] == "nightly-backup-of-the-database"
    assert [name.rpartition("-")[0] for name in names[1:5]] == ["report", "new", "other", "far"]
    assert names[5] == "nightly-backup-of-the-database-2"
    twice = "# same\n0 1 * * * a\n# same\n0 1 * * * b\n"
    assert [one.name for one in _translated(twice, by_comment=True) if one.document] == ["same", "same-2"]


def test_a_comment_above_an_entry_out_of_use_is_not_the_next_ones() -> None:
    text = "# beta\n#5 1 * * * run beta\n# gamma\n5 1 * * * run gamma"
    assert [one.name for one in _translated(text, by_comment=True) if one.document] == ["gamma"]


SYNCED = "# alpha\n5 1 * * * run alpha\n# beta\n5 1 * * * run beta\n5 1 * * * mark d10 >> log\n"


@pytest.mark.parametrize(
    ("edited", "runs"),
    [
        pytest.param("# beta\n5 1 * * * run beta", {"beta": "run beta"}, id="a line above is gone"),
        pytest.param("# beta\n5 1 * * * run alpha", {"alpha": "run alpha"}, id="a comment has moved"),
        pytest.param("# beta\n5 1 * * * run gamma", {"beta": "run gamma"}, id="a command has changed"),
        pytest.param("# new\n5 1 * * * run alpha", {"alpha": "run alpha"}, id="a comment has changed"),
        pytest.param("# new\n5 1 * * * mark d31 >> log", {"new": "mark d31 >> log"}, id="another line is gone"),
        pytest.param("5 1 * * * mark d31 >> log", {"mark-d10": "mark d31 >> log"}, id="a line without a comment"),
        pytest.param(f"{TAKEN}7 2 * * * mark d31 >> log", {"mark-d10": "mark d31 >> log"}, id="etcron's, other time"),
        pytest.param("7 2 * * * mark d31 >> log", {"mark-d31": "mark d31 >> log"}, id="cron's, other time"),
        pytest.param(
            "# alpha\n5 1 * * * other\n# alpha\n5 1 * * * run alpha",
            {"alpha-2": "other", "alpha": "run alpha"}, id="a line of the same comment came above",
        ),
    ],
)  # fmt: skip
def test_a_line_keeps_its_job_whatever_comes_and_goes_beside_it(edited: str, runs: dict[str, str]) -> None:
    rows = {
        one.name: {"spec": one.document} for one in _translated(SYNCED, by_comment=True) if one.document is not None
    }
    lines = read_lines(edited, system=False, taken=True)
    outcomes = renamed(translate(lines, timezone="UTC", labels={}, by_comment=True), rows)
    found = {one.name: one.document["command"] for one in outcomes if one.document is not None}
    assert {name if name in runs else name.rpartition("-")[0]: command for name, command in found.items()} == runs


@pytest.mark.parametrize(
    ("before", "edited", "kept"),
    [
        pytest.param(f"{TAKEN}0 1 * * * x", f"0 13 * * * x\n{TAKEN}0 1 * * * x", {2: 1}, id="another one came above"),
        pytest.param(f"{TAKEN}0 1 * * * x", f"0 1 * * * x\n{TAKEN}0 1 * * * x", {2: 1}, id="its double came above"),
        pytest.param(f"0 1 * * * x\n{TAKEN}0 2 * * * x", f"{TAKEN}0 2 * * * x", {1: 2}, id="the one above is gone"),
        pytest.param(
            f"0 1 * * * x\n{TAKEN}0 2 * * * x", f"{TAKEN}0 3 * * * x", {1: 2}, id="the one above is gone, other time"
        ),
        pytest.param(
            f"{TAKEN}0 1 * * * x\n0 13 * * * x", f"{TAKEN}0 13 * * * x\n0 13 * * * x", {1: 1, 2: 2},
            id="it has the time of another one now",
        ),
        pytest.param(
            f"# n\n{TAKEN}0 1 * * * x", f"# m\n0 13 * * * x\n# n\n{TAKEN}0 1 * * * x --new", {4: 2},
            id="its command has changed, and another one has it",
        ),
    ],
)  # fmt: skip
def test_a_line_that_etcron_runs_keeps_its_job_beside_others_of_its_command(
    before: str, edited: str, kept: dict[int, int]
) -> None:
    """``kept``: the line that the line was before; the job of a taken one is enabled."""

    def jobs(text: str) -> list[LineOutcome]:
        lines = read_lines(text, system=False, taken=True)
        return [one for one in translate(lines, timezone="UTC", labels={}, by_comment=True) if one.document]

    there = jobs(before)
    names = {one.line.number: one.name for one in there}
    rows = {
        one.name: {"spec": {**(one.document or {}), "enabled": isinstance(one.line, Entry) and one.line.taken}}
        for one in there
    }
    found = {one.line.number: one.name for one in renamed(jobs(edited), rows)}
    assert {number: found[number] for number in kept} == {number: names[was] for number, was in kept.items()}


def test_a_line_that_etcron_has_taken_over_is_a_comment_but_to_sync() -> None:
    text = f"{TAKEN}0 1 * * * /bin/x\n{TAKEN}# no entry\n0 2 * * * /bin/y\n"
    assert [str(one.result) for one in _translated(text)] == ["comment", "comment", "job"]
    taken = translate(read_lines(text, system=False, taken=True), timezone="UTC", labels={})
    assert [str(one.result) for one in taken] == ["job", "comment", "job"]
    assert [one.line.taken for one in taken if isinstance(one.line, Entry)] == [True, False]
    spoilt = translate(read_lines(f"{TAKEN}0 1 * * /bin/x\n", system=False, taken=True), timezone="UTC", labels={})
    assert [str(one.result) for one in spoilt] == ["refused"]


# Variables


def test_variables_hold_from_their_line_on() -> None:
    text = """\
* * * * * first
SHELL=/bin/bash
PATH = "/opt/bin:/bin"
HOME=/srv
'QUOTED'=' kept '
LEVEL=a=b # no comment
* * * * * second
"""
    first, *_, second = (one.document for one in _translated(text) if one.result is LineResult.JOB)
    assert first is not None
    assert second is not None
    assert {"shell", "env", "workdir"}.isdisjoint(first)
    assert (second["shell"], second["workdir"]) == ("/bin/bash", "/srv")
    assert second["env"] == {
        "PATH": "/opt/bin:/bin", "HOME": "/srv", "QUOTED": " kept ", "LEVEL": "a=b # no comment",
    }  # fmt: skip


def test_mailto_becomes_who_is_told_until_there_is_another() -> None:
    outcomes = _translated("MAILTO=ops@a.org, me\n1 * * * * a\nMAILTO=\n2 * * * * b\nMAILTO=root\n3 * * * * c\n")
    jobs = [one.document for one in outcomes if one.document is not None]
    assert [job.get("notify") for job in jobs] == [
        [{"to": "mail-ops-a.org-me", "on": ["output", "failed"]}], None,
        [{"to": "mail-root", "on": ["output", "failed"]}],
    ]  # fmt: skip
    assert all(parse_job(job) for job in jobs)


@pytest.mark.parametrize(
    ("line", "note"),
    [
        (
            "MAILTO=me@example.com",
            "MAILTO: the jobs below send their output and failures to the channel mail-me-example.com",
        ),
        ('MAILTO=""', "MAILTO: of the jobs below no output is mailed"),
        ("MAILFROM=cron", "MAILFROM: left out"),
        ("LOGNAME=joe", "LOGNAME: cron does not let it be set"),
        ("TZ=Europe/Berlin", "TZ: an environment variable, as in cron; the times below are UTC"),
        ("my-var=1", "my-var: left out, as no environment variable"),
        ("ETCRON_JOB=1", "ETCRON_JOB: left out"),
        ("RANDOM_DELAY=x", "RANDOM_DELAY: 'x' is not a number of minutes"),
        ("RANDOM_DELAY=0", "RANDOM_DELAY: starts below are not spread"),
    ],
)
def test_variables_without_an_equal_leave_a_note(line: str, note: str) -> None:
    assert _one(line + "\n").notes[0].startswith(note)


def test_time_zones() -> None:
    text = "0 1 * * * a\nCRON_TZ=America/New_York\n0 1 * * * b\nTZ=Asia/Tokyo\n0 1 * * * c\nCRON_TZ=Mars\n0 1 * * * d\n"
    jobs = [one for one in _translated(text, timezone="Europe/Berlin") if one.result is not LineResult.VARIABLE]
    assert [one.document and one.document["timezone"] for one in jobs] == [
        "Europe/Berlin", "America/New_York", "America/New_York", None,
    ]  # fmt: skip
    assert jobs[2].document is not None
    assert jobs[2].document["env"] == {"TZ": "Asia/Tokyo"}
    assert "CRON_TZ above it: 'Mars'" in jobs[3].notes[0]


def test_random_delay_is_jitter() -> None:
    assert _job("RANDOM_DELAY=5\n* * * * * true\n")["jitterSeconds"] == 300


def test_a_variable_on_an_entrys_line_is_the_shells() -> None:
    assert _job("* * * * * LEVEL=1 run\n")["command"] == "LEVEL=1 run"


# Commands


@pytest.mark.parametrize(
    ("text", "line", "stdin"),
    [
        ("date +\\%F", "date +%F", None),
        ("cat%one%two", "cat", "one\ntwo"),
        ("cat%one%two%", "cat", "one\ntwo"),
        ("cat %", "cat", None),
        ("cat%%", "cat", ""),
        ("cat%50\\%", "cat", "50%"),
        ("echo a\\b", "echo a\\b", None),
    ],
)
def test_percent_signs(text: str, line: str, stdin: str | None) -> None:
    command = parse_command(text)
    assert (command.line, command.stdin) == (line, stdin)


@pytest.mark.parametrize(
    ("text", "output", "status"),
    [
        ('cat%it\'s%$HOME "x"%-n', 'it\'s\n$HOME "x"\n-n\n', 0),
        ("cat # a comment%x", "x\n", 0),
        ("wc -l | tr -d ' '; exit 3%a%b", "2\n", 3),
        ("cat%%", "\n", 0),
    ],
)
def test_input_comes_through_a_pipe_and_the_status_is_the_commands(text: str, output: str, status: int) -> None:
    line = parse_command(text).shell_line
    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == (output, status)


def test_commands_that_cannot_be_told_truly() -> None:
    assert "no command before the %" in _reason("* * * * * %x\n")
    assert "which fish cannot be given" in _reason("SHELL=/usr/bin/fish\n* * * * * cat%x\n")
    assert "two backslashes before a %" in _reason("* * * * * echo \\\\%x\n")


def test_overlapping_runs_are_allowed_as_in_cron() -> None:
    assert _job("* * * * * true\n")["overlap"] == "allow"


def test_the_last_line_without_an_end_is_noted() -> None:
    assert "the line has no end, so cron passes over it" in _one("* * * * * true").notes[0]
    assert _one("* * * * * true\n").notes == ()


def test_dos_line_ends_do_not_reach_the_command() -> None:
    assert _job("* * * * * true\r\n")["command"] == "true"


# The format of /etc/crontab


def test_user_column() -> None:
    job = _job("17 * * * * www-data cd / && run-parts /etc/cron.hourly\n", system=True)
    assert (job["user"], job["command"]) == ("www-data", "cd / && run-parts /etc/cron.hourly")
    assert _job("@daily root true\n", system=True)["user"] == "root"
    assert "user" not in _job("* * * * * root true\n")
    assert "--system" in _one("* * * * * root true\n").notes[0]
    assert "no --system" in _reason("* * * * * /bin/x y\n", system=True)
    assert "five fields, a user and a command" in _reason("* * * * * true\n", system=True)


# Names


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("/usr/local/bin/backup.sh --full >/dev/null 2>&1", "backup.sh"),
        ("cd /srv/app && LEVEL=1 ./manage.py clearsessions", "app-manage.py-clearsessions"),
        ("/usr/bin/python3 /srv/x/report.py", "python3-report.py"),
        ("test -x /usr/sbin/anacron || ( cd / && run-parts --report /etc/cron.daily )", "anacron-run-parts-cron.daily"),
        ("[ -d /x ]", "x"),
        ("cd /", "cron"),
        ("größe", "gr-e"),
        ("mail joe%secret", "mail-joe"),
        ("a" * 500, "a" * 40),
    ],
)
def test_names_come_from_the_command(command: str, words: str) -> None:
    name = Names().of(command, None)
    assert name[:-7] == words
    assert name == Names().of(command, None)


def test_names_are_unique_and_stable() -> None:
    names = Names("web-1.")
    first, second, other = names.of("x", None), names.of("x", None), names.of("x", "joe")
    assert (second, first.startswith("web-1.x-")) == (f"{first}-2", True)
    assert other not in (first, second)
    # Another time, other lines around it: the same job.
    assert _job("5 5 * * * /bin/x\n")["name"] == _job("A=1\n# c\n@daily /bin/x\n")["name"]


def test_a_refused_line_keeps_its_name() -> None:
    refused = "5/15 0 * * 1 /bin/x\n0 1 * * * /bin/x\n"
    mended = "0 0 * * 1 /bin/x\n0 1 * * * /bin/x\n"
    assert _job(refused)["name"] == _job(mended)["name"]


# The machine's time zone


def test_the_zone_that_this_machines_cron_counts_by(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")  # the user's; cron does not have it
    assert machine_timezone(tmp_path)[0] == "UTC"
    localtime = tmp_path / "localtime"
    zone = tmp_path / "zoneinfo" / "posix" / "Europe" / "Berlin"
    zone.parent.mkdir(parents=True)
    zone.touch()
    localtime.symlink_to(zone)
    assert machine_timezone(tmp_path)[0] == "Europe/Berlin"
    localtime.unlink()
    localtime.write_bytes(b"TZif2")
    with pytest.raises(CommandError) as raised:
        machine_timezone(tmp_path)
    assert raised.value.status is ExitStatus.USAGE
    (tmp_path / "timezone").write_text("Europe/Vienna\n")
    assert machine_timezone(tmp_path)[0] == "Europe/Vienna"


@given(
    st.text(alphabet=st.sampled_from(list(" \n\t\r#=*/,-@%\\'\"0123456789abMONrebotTZSHELPAH~")), max_size=120),
    st.booleans(),
)
@settings(max_examples=400, deadline=None)
def test_any_text_is_accounted_for_line_by_line(text: str, system: bool) -> None:
    outcomes = _translated(text, system=system)
    lines = text.split("\n")
    assert [one.line.number for one in outcomes] == list(range(1, len(lines) + (1 if lines[-1] else 0)))
    jobs = [one.document for one in outcomes if one.document is not None]
    assert len({job["name"] for job in jobs}) == len(jobs)
    for job in jobs:
        parse_job({**job, "name": job["name"][:100]})


def test_crontabs_of_a_machine_with_a_long_name_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "ip-10-0-0-1.eu-central-1.compute.internal.example.org")
    owners = {
        source_of(f"/etc/cron.d/{name}", None, system=None).owner for name in ("backup", "report", "report-weekly")
    }
    assert len(owners) == 3
    assert max(map(len, owners)) <= 63
