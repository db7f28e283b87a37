"""What the cron of a machine made of a crontab until now, where etcron will make something else of it."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from cli.crontab.sources import Source
from cli.crontab.until_now import CronsView, crons_view, daemon_here, noted
from common.crontab.daemons import Daemon, Kind, Reading, file_faults, name_fault, reading
from common.crontab.jobs import LineOutcome, translate
from common.crontab.lines import read_lines

DEBIAN = Daemon(kind=Kind.DEBIAN, version="3.0pl1-162")
CRONIE = Daemon(kind=Kind.CRONIE, version="1.7.2")
OLD_CRONIE = Daemon(kind=Kind.CRONIE, version="1.5.7")


@pytest.mark.parametrize(
    "when", ["*/5 0-23/2 1,15 jan-MAR sun", "0 0 * * 7", "@daily", "0,30 8-18 * * Mon,wed-FRI", "59 23 31 12 0-7/3"]
)
@pytest.mark.parametrize("daemon", [DEBIAN, CRONIE], ids=lambda daemon: daemon.kind.name)
def test_usual_times_are_read_alike(when: str, daemon: Daemon) -> None:
    assert reading(when, daemon) == Reading()


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ("5/15 * * * *", "cannot read the minute 5/15"), ("0 0 L * *", "cannot read the day of the month L"),
        ("0 0 * * 5L", "cannot read the weekday 5L"), ("0 H * * *", "cannot read the hour H"),
        ("? * * * *", "cannot read the minute ?"), ("1- * * * *", "cannot read the minute 1-"),
        ("*/x * * * *", "cannot read the minute */x"), ("*/0 * * * *", "cannot read the minute */0"),
        ("0 24 * * *", "cannot read the hour 24"), ("0 5-24 * * *", "cannot read the hour 5-24"),
        ("1, * * * *", "cannot read the minute 1,"), ("@Daily", "has no @Daily"), ("@every_minute", "has no @every_"),
        (f"{'9' * 5000} * * * *", "cannot read the minute 999"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("daemon", [DEBIAN, CRONIE], ids=lambda daemon: daemon.kind.name)
def test_what_cron_cannot_read_never_ran(when: str, said: str, daemon: Daemon) -> None:
    found = reading(when, daemon)
    assert (found.is_read, found.runs, found.what[: len(said)]) == (False, False, said)


@pytest.mark.parametrize(
    ("when", "runs"),
    [
        ("0 0 * * tue-mon", False),
        ("0 22-2 * * *", False),
        ("0 0 * oct-feb *", False),
        ("0 0 1 * fri-mon", True),
        ("0 0 */2 * fri-mon", False),
        ("0 0 * * wed,fri-mon", True),
        ("0 0 31-1 * 1", True),
        ("0 0 31-1 * 5-1", False),
    ],
)
@pytest.mark.parametrize("daemon", [DEBIAN, CRONIE], ids=lambda daemon: daemon.kind.name)
def test_a_range_that_runs_backwards_is_no_day_at_all(when: str, runs: bool, daemon: Daemon) -> None:
    found = reading(when, daemon)
    assert (found.is_read, found.runs) == (True, runs)
    assert "at all" in found.what


def test_a_range_that_ends_on_sunday_is_none_to_debians_cron_and_to_an_older_cronie() -> None:
    never = Reading(runs=False, what="takes fri-sun for no weekday at all")
    assert reading("0 0 * * fri-sun", DEBIAN) == never
    assert reading("0 0 * * fri-sun", replace(CRONIE, version="1.7.1")) == never
    for when in ("0 0 * * fri-sun", "0 0 * * mon-0"):
        assert reading(when, CRONIE) == Reading()


@pytest.mark.parametrize("when", ["0 0 * * wed,fri-mon", "0 0 * * fri-sun", "0~59 * * * *", "~ * * * *"])
def test_cronie_of_red_hat_9_cannot_read_backward_ranges_and_random_times(when: str) -> None:
    assert reading(when, OLD_CRONIE).is_read is False


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ("0~59 3 * * *", "reads the minute 0~59 as 0"),
        ("0 0 * * mon#2", "reads the weekday mon#2 as mon"),
        ("*5 * * * *", "reads the minute *5 as *"),
        ("*/5/2 * * * *", "reads the minute */5/2 as */5"),
        ("1-5;7 * * * *", "reads the minute 1-5;7 as 1-5"),
    ],
)
def test_debians_cron_passes_over_what_follows_a_number(when: str, said: str) -> None:
    assert reading(when, DEBIAN) == Reading(what=said)
    assert reading(when, CRONIE).is_read is ("~" in when)


@pytest.mark.parametrize("when", ["~ * * * *", "5~10 ~20 * * *", "3,10~ * * * *"])
def test_random_times_are_cronies_alone(when: str) -> None:
    assert reading(when, CRONIE) == Reading()
    assert reading(when, DEBIAN) != Reading()


def _about(mode: int = 0o644, uid: int = 0, links: int = 1) -> os.stat_result:
    return os.stat_result((stat.S_IFREG | mode, 1, 1, links, uid, 0, 1, 0, 0, 0))


@pytest.mark.parametrize(
    ("about", "itself", "debian", "cronie"),
    [
        (_about(), _about(), "", ""), (_about(0o600), _about(), "", ""),
        (_about(uid=1), _about(), "not root's", "not root's"), (_about(), _about(uid=1), "not root's", ""),
        (_about(0o664), _about(), "mode is 664", "mode is 664"), (_about(0o646), _about(), "646", "646"),
        (_about(0o755), _about(), "", "mode is 755"), (_about(links=2), _about(), "several hard links", ""),
    ],
)  # fmt: skip
def test_files_that_cron_does_not_trust(
    about: os.stat_result, itself: os.stat_result, debian: str, cronie: str
) -> None:
    for daemon, said in ((DEBIAN, debian), (CRONIE, cronie)):
        found = "; ".join(file_faults(about, itself, daemon))
        assert said in found
        assert bool(said) is bool(found)


def test_names_of_files_that_cron_passes_over() -> None:
    names = ("backup", "back-up_2", "backup.sh", "backup~", ".backup", "backup.dpkg-old", "backup.rpmnew", "größe")
    passed = {daemon.kind: {name for name in names if name_fault(name, daemon)} for daemon in (DEBIAN, CRONIE)}
    assert passed[Kind.DEBIAN] == set(names) - {"backup", "back-up_2"}
    assert passed[Kind.CRONIE] == {"backup~", ".backup", "backup.rpmnew"}


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What cron makes of a crontab, and the account of it."""

    view: CronsView
    outcomes: list[LineOutcome]

    @property
    def ignored(self) -> str:
        return self.view.ignored or ""

    @property
    def notes(self) -> list[str]:
        return [note for one in self.outcomes for note in one.notes if note.startswith(str(DEBIAN))]


def _of(path: Path, text: str, daemon: Daemon | None = DEBIAN, *, system: bool = True) -> Seen:
    path.write_text(text)
    path.chmod(0o644)
    lines = list(read_lines(text, system=system, taken=True))
    view = crons_view(lines, Source(path=path, user=None if system else "root", is_live=True), text, daemon)
    return Seen(view=view, outcomes=noted(translate(lines, timezone="UTC", labels={}), view, daemon))


GOOD = "1 * * * * root /bin/good\n"


def test_variables_that_debians_cron_does_not_know(tmp_path: Path) -> None:
    text = f"CRON_TZ=Asia/Tokyo\nRANDOM_DELAY=5\n{GOOD}"
    zone, delay = _of(tmp_path / "tab", text).notes
    assert zone.startswith("Debian's cron (3.0pl1-162) has no CRON_TZ: until now the lines below ran by ")
    assert "with etcron they run by Asia/Tokyo" in zone
    assert delay.startswith("Debian's cron (3.0pl1-162) has no RANDOM_DELAY: until now the lines below started at")
    assert _of(tmp_path / "tab", text, CRONIE).notes == []
    assert _of(tmp_path / "tab", text, None).notes == []
    assert _of(tmp_path / "tab", f"CRON_TZ=Asia/Tokyo\n#etcron# {GOOD}").notes == [], "all are etcron's already"


@pytest.mark.parametrize(
    ("line", "note"),
    [
        ("0 0 * * fri-mon root x", "takes fri-mon for no weekday at all: until now it never ran; with etcron it will"),
        ("@Daily root x", "has no @Daily: until now it never ran; with etcron it will"),
        ("0 0 * * mon#2 root x", "reads the weekday mon#2 as mon: it would run at other times than with etcron"),
        ("5/15 * * * * root x", "cannot read the minute 5/15"),
        ("0 0 * * * nobody-here x", "finds no user nobody-here on this machine: until now it never ran; with"),
        (GOOD.strip(), None), ("#etcron# 0 0 * * fri-mon root x", None),
    ],
)  # fmt: skip
def test_each_line_says_what_debians_cron_made_of_it(tmp_path: Path, line: str, note: str | None) -> None:
    notes = _of(tmp_path / "tab", f"{line}\n5/15 * * * * root makes cron run nothing of it\n").notes
    assert [one[: len(f"{DEBIAN} {note}")] for one in notes[:-1]] == ([f"{DEBIAN} {note}"] if note else [])


def test_what_ran_at_other_times_is_said(tmp_path: Path) -> None:
    (note,) = _of(tmp_path / "tab", "0 0 * * mon#2 root x\n", system=False).notes
    assert note.endswith("reads the weekday mon#2 as mon: until now it ran at other times than it will with etcron")


@pytest.mark.parametrize("bad", ["5/15 * * * * root x\n", "1 * * * * nobody-here x\n", "nonsense\n"])
def test_one_bad_line_keeps_debians_cron_from_running_the_file(tmp_path: Path, bad: str) -> None:
    found = _of(tmp_path / "tab", GOOD + bad)
    assert "runs nothing of it: " in found.ignored
    assert "it cannot read line 2, and begins to run the others when these are mended" in found.ignored
    of_cronie = _of(tmp_path / "tab", GOOD + bad, CRONIE)
    assert "cannot read line" not in of_cronie.ignored
    assert "cannot read line" not in _of(tmp_path / "tab", f"{GOOD}#etcron# {bad}").ignored


def test_a_last_line_without_an_end_keeps_debians_cron_from_running_the_file(tmp_path: Path) -> None:
    found = _of(tmp_path / "tab", GOOD + GOOD.rstrip())
    assert "its last line has no end" in found.ignored
    of_cronie = _of(tmp_path / "tab", GOOD + GOOD.rstrip(), CRONIE).view.readings
    assert [found.runs for found in of_cronie.values()] == [True, False]


def test_a_users_own_crontab_was_looked_at_as_it_was_saved(tmp_path: Path) -> None:
    assert _of(tmp_path / "tab", "nonsense\n", system=False).ignored == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="a crontab of the system is root's")
def test_a_file_that_cron_runs_has_no_fault(tmp_path: Path) -> None:
    assert _of(tmp_path / "tab", GOOD).view.runs(1)
    (tmp_path / "tab").chmod(0o666)
    lines, source = list(read_lines(GOOD, system=True)), Source(path=tmp_path / "tab", is_live=True)
    view = crons_view(lines, source, GOOD, DEBIAN)
    assert (view.runs(1), "its mode is 666" in (view.ignored or "")) == (False, True)
    assert crons_view(lines, replace(source, is_live=False), GOOD, DEBIAN).runs(1), "nothing is known of it"


@pytest.mark.parametrize(
    ("dpkg", "crontab", "daemon"),
    [
        ("printf 'installed 3.0pl1-162'", "exit 1", DEBIAN), ("exit 1", "echo cronie 1.7.2", CRONIE),
        ("printf 'config-files 3.0pl1-162'", "echo cronie 1.7.2 >&2", CRONIE), ("exit 1", "exit 1", None),
    ],
)  # fmt: skip
def test_the_cron_that_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dpkg: str, crontab: str, daemon: Daemon | None
) -> None:
    for name, does in (("dpkg-query", dpkg), ("crontab", crontab)):
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert daemon_here() == daemon
