"""What the cron of this machine made of a crontab until now, where that is not what etcron will make of it.

Debian's cron runs nothing of a file of /etc/cron.d for one line that it cannot read, for its name, its owner or its
mode; users' own crontabs are checked as they are saved.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from cli.crontab.sources import Source, is_user
from cli.errors import CommandError
from cli.times import machine_timezone
from common.crontab.daemons import Daemon, Kind, Reading, file_faults, name_fault, reading
from common.crontab.jobs import LineOutcome
from common.crontab.lines import Entry, Line, Unreadable, Variable

_CRON_D: Final = Path("/etc/cron.d")
_DEFAULTS: Final = Path("/etc/default/cron")
_LSB_NAMES: Final = re.compile(r"""^\s*EXTRA_OPTS=.*-[A-Za-z]*l""", re.MULTILINE)
_COMMAND_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CronsView:
    """What cron makes of a crontab as it is. Lines that etcron has taken over are none of cron's."""

    ignored: str | None = None
    """Why it runs nothing of it."""
    readings: Mapping[int, Reading] = field(default_factory=dict)
    """Of lines, by their numbers; none where it is not known what cron makes of them."""

    def runs(self, number: int) -> bool:
        """Whether cron runs the line, as far as is known."""
        found = self.readings.get(number)
        return self.ignored is None and (found is None or found.runs)


def daemon_here() -> Daemon | None:
    """The cron that is installed; None: it is not one that is known."""
    package = _stdout_of("dpkg-query", "--show", "--showformat=${db:Status-Status} ${Version}", "cron")
    status, _, version = package.partition(" ")
    if status == "installed":
        return Daemon(kind=Kind.DEBIAN, version=version)
    found = re.match(r"cronie ([0-9.]+)", _stdout_of("crontab", "-V"))
    return None if found is None else Daemon(kind=Kind.CRONIE, version=found[1])


def crons_view(lines: Sequence[Line], source: Source, text: str, daemon: Daemon | None) -> CronsView:
    """``lines``: of the text."""
    if daemon is None or not source.is_live:
        return CronsView()
    readings = {line.number: _read(line, daemon) for line in lines}
    reasons = list[str]()
    if source.user is None and source.path is not None:  # a user's own is looked at as it is saved
        unread = [number for number, found in readings.items() if not found.is_read]
        reasons = [*_of_file(source.path, daemon), *_of_lines(unread, text, daemon)]
    ignored = f"{source.title}: {daemon} runs nothing of it: {'; '.join(reasons)}" if reasons else None
    return CronsView(ignored=ignored, readings=readings)


def noted(outcomes: Sequence[LineOutcome], view: CronsView, daemon: Daemon | None) -> list[LineOutcome]:
    """The outcomes, with a note for each line that cron read otherwise."""
    if daemon is None or not view.readings:
        return list(outcomes)
    has_some = any(isinstance(one.line, Entry) and not one.line.taken for one in outcomes)

    def note(one: LineOutcome) -> str:
        if isinstance(one.line, Variable):
            return _of_variable(one.line, daemon) if has_some else ""
        return _of_entry(one, view.readings[one.line.number], daemon, ignored=view.ignored is not None)

    return [replace(one, notes=(*one.notes, added)) if (added := note(one)) else one for one in outcomes]


def _read(line: Line, daemon: Daemon) -> Reading:
    if isinstance(line, Unreadable) and not line.taken:
        return Reading(is_read=False, runs=False)
    if not isinstance(line, Entry) or line.taken:
        return Reading()
    if line.user is not None and not is_user(line.user):
        return Reading(is_read=False, runs=False, what=f"finds no user {line.user} on this machine")
    found = reading(line.when, daemon)
    return replace(found, runs=found.runs and not line.unended)


def _of_entry(one: LineOutcome, found: Reading, daemon: Daemon, *, ignored: bool) -> str:
    if not found.what:
        return ""
    if found.runs:
        ran = "it would run at other times than" if ignored else "until now it ran at other times than it will"
        then = f"{ran} with etcron"
    else:
        then = "until now it never ran; with etcron it will"
    return f"{daemon} {found.what}" + (f": {then}" if one.document is not None else "")


def _of_variable(line: Variable, daemon: Daemon) -> str:
    """Debian's cron takes these for variables like any other."""
    if daemon.spreads:
        waits = line.name == "RANDOM_DELAY" and line.value != "0"
        return f"a fire that {daemon} delays while its line is taken over is run by neither" if waits else ""
    match line.name:
        case "CRON_TZ":
            zone = "this machine's time zone"
            with suppress(CommandError):
                zone = machine_timezone()[0]
            if zone == line.value:
                return ""
            then = f"until now the lines below ran by {zone}, with etcron they run by {line.value}"
            return f"{daemon} has no CRON_TZ: {then}; take it out where the times are to stay"
        case "RANDOM_DELAY" if line.value != "0":
            then = "until now the lines below started at their times, with etcron up to so many minutes later"
            return f"{daemon} has no RANDOM_DELAY: {then}; take it out where they are to start at once"
        case _:
            return ""


def _of_lines(unread: Sequence[int], text: str, daemon: Daemon) -> Iterator[str]:
    if not daemon.gives_up_files:
        return
    if unread:
        lines = ("line " if len(unread) == 1 else "lines ") + ", ".join(map(str, unread[:10]))
        yield f"it cannot read {lines}, and begins to run the others when these are mended, or out of the crontab"
    if text and not text.endswith("\n"):
        yield "its last line has no end"


def _of_file(path: Path, daemon: Daemon) -> Iterator[str]:
    """What keeps it from reading the file."""
    try:
        about, itself = path.stat(), path.lstat()
    except OSError:
        return  # it was there a moment ago: what comes next says that it is gone
    if path.parent == _CRON_D and not _takes_other_names() and (fault := name_fault(path.name, daemon)) is not None:
        yield fault
    yield from file_faults(about, itself, daemon)


def _takes_other_names() -> bool:
    """Whether Debian's cron was told to: by rules of the LSB, which are not looked at here."""
    with suppress(OSError, ValueError):
        return _LSB_NAMES.search(_DEFAULTS.read_text(encoding="utf-8")) is not None
    return False


def _stdout_of(*command: str) -> str:
    """What a program prints; empty where it is not there, or says no."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_COMMAND_S, check=False,
            env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stdout or done.stderr).strip() if done.returncode == 0 else ""
