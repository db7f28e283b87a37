"""An entry of a crontab, with the variables above it, becomes a job; or a reason why it cannot. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from common.crontab.command_text import parse_command
from common.crontab.lines import Blank, Comment, Entry, Line, Unreadable, Variable
from common.crontab.names import Names
from common.errors import Problem, ScheduleError
from common.jobs.notify import LONGEST_DESCRIPTION
from common.jobs.values import REBOOT
from common.schedules.schedule import parse_cron
from common.verdicts import EventKind

_UNCERTAIN: Final = r"\\%"
_USER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\$?", re.ASCII)
_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_POSIX_SHELLS: Final = frozenset({"sh", "bash", "dash", "ash", "ksh", "zsh"})
_STEP_FROM: Final = re.compile(r"(?:^|,)(?P<item>(?:[0-9]+|[A-Za-z]{3})/(?P<step>[0-9]+))(?:,|$)")
_RANDOM: Final = re.compile(r"(?P<first>[0-9]{0,2})~(?P<last>[0-9]{0,2})", re.ASCII)
_BOUNDS: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
"""Of the five fields."""
_NOT_PROSE: Final = re.compile(r"[^\w]*|[-=*_#]{3,}.*|[A-Z_]+=.*|m h +dom .*", re.DOTALL)
_MAIL: Final = frozenset({"MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING"})
_MAILED: Final = (EventKind.OUTPUT, EventKind.FAILED)
"""What cron mails: what a command prints; and that it failed, which cron has no other way to say."""
_LONGEST_CHANNEL: Final = 80
_IDENTITY: Final = frozenset({"LOGNAME", "USER"})


class RefusedError(Exception):
    """The line cannot become a job. The text is the reason, and what to do instead.

    ``problem``: the same as a fault of a field, where it is one.
    """

    def __init__(self, why: str, problem: Problem | None = None) -> None:
        self.problem = problem
        super().__init__(why)


class LineResult(StrEnum):
    """What became of a line."""

    BLANK = "blank"
    COMMENT = "comment"
    VARIABLE = "variable"
    JOB = "job"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineOutcome:
    """What became of one line, and why."""

    line: Line
    result: LineResult
    notes: tuple[str, ...] = ()
    """For people; of a refused line the first one is the reason."""
    document: dict[str, Any] | None = None
    """The job."""
    problem: Problem | None = None
    """Of a line that is refused: its reason, where it is a fault of the schedule."""
    is_named: bool = False
    """A comment names the job."""

    @property
    def name(self) -> str:
        """The job's name."""
        return str((self.document or {}).get("name", ""))


@dataclass(slots=True)
class _Settings:
    """What the variables have set so far."""

    timezone: str
    env: dict[str, str] = field(default_factory=dict)
    shell: str | None = None
    workdir: str | None = None
    delay_minutes: int = 0
    channel: str | None = None
    """Of MAILTO."""
    bad_zone: str | None = None


def translate(
    lines: Iterable[Line], *, timezone: str, prefix: str = "", enabled: bool = False, labels: Mapping[str, str],
    by_comment: bool = False,
) -> list[LineOutcome]:  # fmt: skip
    """What becomes of every line. `enabled` False: the jobs leave it out, and the command pauses new ones.

    ``by_comment``: a comment above an entry names its job.
    """
    settings, names, above, outcomes = _Settings(timezone), Names(prefix), list[str](), list[LineOutcome]()
    for line in lines:
        outcome = _outcome(line, settings, names, above, by_comment=by_comment)
        if outcome.document is not None:
            if enabled:
                outcome.document["enabled"] = True
            if labels:
                outcome.document["labels"] = dict(labels)
        if isinstance(line, Comment) and not _is_out_of_use(line):
            if (text := _text_of(line)) and not _NOT_PROSE.fullmatch(text):  # neither a ruler nor a header
                above.append(text)
        else:
            above = []
        outcomes.append(outcome)
    return outcomes


def _is_out_of_use(comment: Comment) -> bool:
    """Whether it is a commented-out entry: the comments above it describe that entry, not the next one."""
    text = _text_of(comment)
    try:
        parse_cron(" ".join(text.split()[: 1 if text.startswith("@") else 5]), timezone="UTC")
    except ScheduleError:
        return False
    return True


def _text_of(comment: Comment) -> str:
    return comment.text.strip().removeprefix("#").strip()


def _outcome(line: Line, settings: _Settings, names: Names, above: Sequence[str], *, by_comment: bool) -> LineOutcome:
    match line:
        case Blank():
            return LineOutcome(line=line, result=LineResult.BLANK)
        case Comment():
            return LineOutcome(line=line, result=LineResult.COMMENT)
        case Variable():
            return LineOutcome(line=line, result=LineResult.VARIABLE, notes=(_set(settings, line),))
        case Entry():
            try:
                document, notes = _job(line, settings, names, above, by_comment=by_comment)
            except RefusedError as error:
                return LineOutcome(line=line, result=LineResult.REFUSED, notes=(str(error),), problem=error.problem)
            is_named = bool(above and by_comment)
            return LineOutcome(
                line=line, result=LineResult.JOB, notes=tuple(notes), document=document, is_named=is_named
            )
        case Unreadable():
            return LineOutcome(line=line, result=LineResult.REFUSED, notes=(line.why,))
        case _:
            raise AssertionError(line)


def _job(
    entry: Entry, settings: _Settings, names: Names, above: Sequence[str], *, by_comment: bool
) -> tuple[dict[str, Any], list[str]]:
    # The name is given first: a refused entry counts, too, so that mending it renames no other.
    name = names.of(entry.command, entry.user, above[0] if above and by_comment else "")
    if settings.bad_zone is not None:
        raise RefusedError(settings.bad_zone)
    expr = expression(entry.when)
    at_boot = expr == REBOOT
    try:
        parse_cron("@yearly" if at_boot else expr, timezone=settings.timezone, job=name)
    except ScheduleError as error:
        problem = Problem(field="cronExpr", message=error.sentence, remedy=error.remedy)
        raise RefusedError(str(error), problem) from error
    notes: list[str] = []
    if entry.user is not None and not _USER.fullmatch(entry.user):
        raise RefusedError(
            f"{entry.user[:40]!r} is no user; without a user column read it as a user's own (no --system)"
        )
    if entry.user is None and entry.command.split()[0] == "root":
        notes.append("is `root` the user column of /etc/crontab? Then read it so (--system)")
    document: dict[str, Any] = {
        "name": name, "command": _command(entry, settings, notes), "cronExpr": expr, "timezone": settings.timezone,
        # As cron does; etcron's own default is to skip a fire while a run is going.
        "overlap": "allow",
    }  # fmt: skip
    optional = {
        "env": dict(settings.env), "shell": settings.shell, "workdir": settings.workdir, "user": entry.user,
        "jitterSeconds": 0 if at_boot else settings.delay_minutes * 60, "broadcast": at_boot,
        "description": " ".join(above)[:LONGEST_DESCRIPTION],
        "notify": settings.channel and [{"to": settings.channel, "on": [str(kind) for kind in _MAILED]}],
    }  # fmt: skip
    document |= {key: value for key, value in optional.items() if value}
    if at_boot:
        notes.append("once when a machine boots, on each that `workers` chooses (workers.host=NAME: on that one)")
    if entry.unended:
        notes.append("the line has no end, so cron passes over it: here it is a job")
    return document, notes


def expression(when: str) -> str:
    """Seven fields for five, or the macro as it is. RefusedError with the reason. Syntax is left to the engine."""
    if when.startswith("@"):
        return when.lower()
    parts = [",".join(_hashed(item, *bounds) for item in part.split(","))
             for part, bounds in zip(when.split(), _BOUNDS, strict=True)]  # fmt: skip
    minute, hour, day, month, weekday = parts
    for part in parts:
        if (match := _STEP_FROM.search(part)) is not None:
            start = match["item"].split("/")[0]
            raise RefusedError(
                f"{match['item']} is {start} alone to most crons, and from {start} on every {match['step']} to etcron; "
                f"write {start} or {start}-<last>/{match['step']}"
            )
    if day != "*" and weekday != "*" and (day.startswith("*") or weekday.startswith("*")):
        weekday = f"&{weekday}"  # cron wants both to match where one begins with *
    return f"0 {minute} {hour} {day} {month} {weekday} *"


def _hashed(item: str, least: int, most: int) -> str:
    """cronie's random value within a range, as ours: the same at each fire, spread by the job's name."""
    if (match := _RANDOM.fullmatch(item)) is None:
        return item
    return f"H({match['first'] or least}-{match['last'] or most})"


def _command(entry: Entry, settings: _Settings, notes: list[str]) -> str:
    command = parse_command(entry.command)
    if not command.line.strip():
        raise RefusedError("there is no command before the %; write \\% for a % of the command's own")
    if _UNCERTAIN in entry.command:
        raise RefusedError(
            "two backslashes before a %: crons take that in different ways; put the command into a script"
        )
    if command.stdin is not None:
        shell = (settings.shell or "/bin/sh").rpartition("/")[2]
        if shell not in _POSIX_SHELLS:
            raise RefusedError(
                f"what follows the % is the command's input, which {shell} cannot be given; use a script"
            )
        notes.append("what follows the % is its input: it comes through a pipe")
    elif command.line != entry.command:
        notes.append("\\% became %")
    if "\\\\" in entry.command:
        notes.append("\\\\ is kept as it is; some crons make \\ of it")
    return command.shell_line


def _set(settings: _Settings, variable: Variable) -> str:
    """Take the variable in; what it does from this line on."""
    name, value = variable.name, variable.value
    if name in _MAIL:
        return f"{name}: left out; the channel says how its messages look"
    if name in _IDENTITY:
        return f"{name}: cron does not let it be set, and it has no effect here either"
    match name:
        case "SHELL":
            settings.shell = value or None
            return f"SHELL: commands below run by {value or 'the usual shell'}"
        case "HOME":
            settings.workdir = value or None
            settings.env["HOME"] = value
            return f"HOME: commands below run in {value}"
        case "MAILTO":
            return _set_channel(settings, value)
        case "CRON_TZ":
            return _set_zone(settings, value)
        case "RANDOM_DELAY":
            return _set_delay(settings, value)
        case "TZ":
            settings.env["TZ"] = value
            return f"TZ: an environment variable, as in cron; the times below are {settings.timezone} (CRON_TZ, --tz)"
        case _:
            if not _ENV_NAME.fullmatch(name) or name.startswith("ETCRON_"):
                return f"{name[:40]}: left out, as no environment variable of a job may be called so"
            settings.env[name] = value
            return f"{name}: in the environment of the commands below"


def _set_channel(settings: _Settings, value: str) -> str:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", value)[:_LONGEST_CHANNEL].strip("-")
    settings.channel = f"mail-{name}" if name else None
    if settings.channel is None:
        return "MAILTO: of the jobs below no output is mailed"
    return (
        f"MAILTO: the jobs below send their output and failures to the channel {settings.channel}; if there is none, "
        f"make it first (etcron channel add {settings.channel} email --to {value} --from ... --host ...)"
    )


def _set_zone(settings: _Settings, value: str) -> str:
    try:
        parse_cron("@yearly", timezone=value)
    except ScheduleError as error:
        settings.bad_zone = f"CRON_TZ above it: {value!r} {error.message}; {error.remedy}"
        return f"CRON_TZ: {value!r} {error.message}; {error.remedy}"
    settings.timezone, settings.bad_zone = value, None
    return f"CRON_TZ: the times below are those of {value}"


def _set_delay(settings: _Settings, value: str) -> str:
    if not (value.isascii() and value.isdecimal() and len(value) < 5):
        return f"RANDOM_DELAY: {value!r} is not a number of minutes; it is left out"
    settings.delay_minutes = int(value)
    if settings.delay_minutes == 0:
        return "RANDOM_DELAY: starts below are not spread"
    return f"RANDOM_DELAY: starts below are spread over {value} minutes (jitterSeconds)"
