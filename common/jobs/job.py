"""A job, once: its fields with their limits, defaults, meanings and examples, and its JSON.

Each field's annotation says how pydantic reads it (``kinds``, ``values``), what it means and how the console shows it.
From these come the reader, the JSON Schema of the API, the console's form, definition and comparison, the table in
``docs/reference/fields.md`` and the help of ``etcron job save``.

Pure: pydantic's core, standard library and its neighbours.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cache
from operator import attrgetter
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

from common.instants import Duration
from common.jobs.kinds import (
    AnyText,
    Choice,
    Kind,
    Named,
    Number,
    Object,
    ObjectField,
    Pattern,
    Several,
    Truth,
    about,
    members_of,
    written,
)
from common.jobs.notify import DEFAULT_ON, LINKS, LONGEST_DESCRIPTION, NOTIFY, Link, Notify
from common.jobs.retry import RETRY, Retry
from common.jobs.values import (
    MAX_EXPRESSIONS,
    MAX_SECONDS,
    REBOOT,
    Command,
    Dates,
    Expression,
    Instant,
    JobName,
    LostAfter,
    Span,
    ZoneName,
)
from common.schedules.job_calendar import Calendar, CalendarSchedule
from common.schedules.moment import Moment
from common.schedules.schedule import Schedule, parse_cron
from common.schedules.triggers import AtSchedule, EverySchedule, NoFires, Union, Window

MAX_OUTPUT_LIMIT_BYTES: Final = 8 * 1024 * 1024
MOST_NAMES: Final = 100
"""Of ``env``, of ``labels`` and of ``workers``."""
MAX_VALUE_LENGTH: Final = 4_096
NEWER: Final[Mapping[str, bool]] = {
    "secrets": True, "secretFiles": True, "description": False, "links": False, "notify": False,
    "warnAfterSeconds": False, "lateAfterSeconds": False, "silentAfterSeconds": False, "suspiciousBelowSeconds": False,
}  # fmt: skip
"""The fields that some version which reads ``mustKnow`` (0.1.0 on) does not know: whether a reader has to know it, or
whether the job runs as it should without it. A new member of a field that is an object makes that one a new field.
"""
TRIGGERS: Final = ("cronExpr", "every", "after", "at")
"""What makes a job fire: it has exactly one of them."""
TIMING: Final = (*TRIGGERS, "offset", "timezone", "startAt", "endAt", "calendar", "jitterSeconds")
"""The fields that say when, and no more."""
SECTIONS: Final = (
    "what", "when", "window", "limits", "retry", "late", "where", "surroundings", "told", "labelled",
)  # fmt: skip
"""Of the console's form, in this order; a field says in which it is."""
EXAMPLE: Final = '{"name":"hello","command":"echo hello","cronExpr":"0 * * * * * *"}'


class Overlap(StrEnum):
    """What becomes of a fire that is due while an earlier run of the job is going."""

    SKIP = "skip"
    ALLOW = "allow"
    QUEUE = "queue"
    """The newest waits for its end; the others that come meanwhile are skipped."""
    REPLACE = "replace"
    """The old run is killed, then this one starts."""


class MisfirePolicy(StrEnum):
    """What becomes of fires that no worker claimed within their grace."""

    SKIP = "skip"
    LATEST = "latest"
    ALL = "all"


def _whole(low: int, high: int, unit: str = "seconds") -> Number:
    return Number(low=low, high=high, whole=True, unit=unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfire:
    """How late a fire may start, and what is made up for afterwards."""

    policy: Annotated[MisfirePolicy, Choice(MisfirePolicy), about(
        "policy", "what becomes of fires that could not start within their grace: none runs, the newest one, or each",
        "all", label="Fires that could not start in time", hint="Fires that do not run are recorded as missed.",
        choices={"latest": "run the newest one", "skip": "run none", "all": "run each, oldest first"},
    )] = MisfirePolicy.LATEST  # fmt: skip
    grace_s: Annotated[int, _whole(1, 86_400), about(
        "graceSeconds", "how late a fire may start", 300,
        label="Start deadline, in seconds")] = 60  # fmt: skip
    window_s: Annotated[int, _whole(0, MAX_SECONDS), about(
        "windowSeconds", "how old a fire may be that is made up for", 86_400,
        label="Catch-up window, in seconds", hint="Older fires are recorded as missed.")] = 3600  # fmt: skip
    limit: Annotated[int, _whole(1, 100, "runs"), about(
        "limit", "how many fires `all` makes up for at most, the newest ones", 24,
        label="Catch-up runs at most", hint="How many fires are run where each one is.")] = 10  # fmt: skip

    @property
    def grace_ms(self) -> int:
        return self.grace_s * 1000

    @property
    def window_ms(self) -> int:
        return max(self.window_s, self.grace_s) * 1000


class OnWorkerLost(StrEnum):
    """What becomes of a fire whose run was lost with its worker."""

    RECORD = "record"
    RERUN = "rerun"


_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


_VALUE: Final = AnyText(longest=MAX_VALUE_LENGTH)
ENV: Final = Named(
    pattern="[A-Za-z_][A-Za-z0-9_]*", what="environment", of=_VALUE, most=MOST_NAMES, example='{"LEVEL": "debug"}',
    reserved="ETCRON_",
)  # fmt: skip

_SECRETS: Final = Named(
    pattern=ENV.pattern, what="environment", most=20, reserved=ENV.reserved, example='{"PGPASSWORD": "pg/prod"}',
    of=Pattern(
        pattern=r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*", longest=200,
        form="the name of a secret such as `pg/prod`",
    ),
)  # fmt: skip


def _labels(of: Kind, example: str) -> Named:
    return Named(pattern="[A-Za-z0-9][A-Za-z0-9._/-]*", what="label", of=of, most=MOST_NAMES, example=example)


def _path(example: str) -> Pattern:
    return Pattern(pattern=r"/[^\x00]*", form=f"an absolute path such as `{example}`", longest=4_095)


_MISFIRE: Final = Object(of=Misfire, name="misfire", example='{"policy": "latest", "graceSeconds": 60}')
LABELS: Final = _labels(_VALUE, '{"team": "billing"}')
SELECTOR: Final = _labels(Several(of=_VALUE, what="values", most=MOST_NAMES), '{"zone": "eu", "gpu": ["a100", "h100"]}')
_USER: Final = Pattern(
    pattern=r"[A-Za-z_][A-Za-z0-9._-]*\$?", form="a name of a system user such as `www-data`", longest=32
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """One job as its user defined it; valid by construction through :func:`parse_job`."""

    name: Annotated[str, JobName(), about(
        "name", "the job's name, and the key to it", "backup", section="what", label="Name",
        hint="Letters, digits, dots, dashes and underscores. It cannot be changed later.")]  # fmt: skip
    command: Annotated[str | tuple[str, ...], Command(), about(
        "command", "a line for the shell, or the arguments of a program for no shell", "/usr/local/bin/backup",
        section="what", input="command", label="Command",
        hint="A shell command, on one line or several. Exit status 0 is a success.")]  # fmt: skip
    cron_exprs: Annotated[tuple[str, ...], Several(of=Expression(), what="expressions", most=MAX_EXPRESSIONS), about(
        "cronExpr", "seven fields, a crontab's five, or a macro; of several it fires at the union", "0 30 2 * * * *",
        section="when", input="expressions", label="Expression",
        hint="second minute hour day month weekday year; five fields are a crontab line; or @daily and the like",
    )] = ()  # fmt: skip
    """Exactly one of cron_exprs, every, after, at is given."""
    every: Annotated[Duration | None, Span(), about(
        "every", "a fixed rate: at whole multiples since 1970-01-01 UTC, the same on every worker", "15m",
        section="when", label="Interval",
        hint="Such as 90s, 15m, 1h30m, 1d, 2w. Counted from 1970 in UTC, so the same everywhere.")] = None  # fmt: skip
    offset: Annotated[Duration | None, Span(least_s=0), about(
        "offset", "beside `every`, and below it: that much later", "5m", section="when", label="Offset",
        hint="Starts this much later each time; less than the interval.", unset="none")] = None  # fmt: skip
    after: Annotated[Duration | None, Span(), about(
        "after", "this long after the last run ended; `overlap` must be `skip`; not with `broadcast`", "30s",
        section="when", label="Delay after the last run",
        hint="From the end of a run to the start of the next, such as 30s or 1h.")] = None  # fmt: skip
    at: Annotated[Moment | None, Instant(), about(
        "at", "once, at this instant", "2035-01-01T00:00:00+01:00", section="when", label="Time",
        hint="Such as 2026-12-24T18:00 in the time zone beside it, or with an offset: 2026-12-24T18:00+01:00.",
    )] = None  # fmt: skip
    timezone: Annotated[str, ZoneName(), about(
        "timezone", "of the expressions, of the calendar, and of times without an offset; left out: "
        "`defaultTimezone` of the managers", "Europe/Berlin",
        section="when", label="Time zone", hint="")] = "UTC"  # fmt: skip
    enabled: Annotated[bool, Truth(), about(
        "enabled", "false: the job is paused", False,
        section="when", label="Fires as soon as it is saved", hint="")] = True  # fmt: skip
    start_at: Annotated[Moment | None, Instant(), about(
        "startAt", "no fire before it; not with `at`", "2035-01-01T00:00", section="window", label="No fire before",
        hint="Such as 2026-12-01T00:00, in the job's time zone or with an offset.", unset="no limit",
    )] = None  # fmt: skip
    end_at: Annotated[Moment | None, Instant(is_end=True), about(
        "endAt", "no fire after it; later than `startAt`; not with `at`", "2036-01-01T00:00", section="window",
        label="No fire after", hint="Both ends belong to the window.", unset="no limit")] = None  # fmt: skip
    calendar: Annotated[Calendar | None, Dates(), about(
        "calendar", "the days, in `timezone`, on which it does not fire, or alone fires; fires on the others are "
        "recorded as `skipped: calendar`", {"exclude": ["12-24/01-02", "2035-03-23"]}, section="window",
        input="calendar", label="Calendar", hint="One per line: 2026-05-01, or 12-24 for every year, or 12-24/01-02 "
        "for a range. Fires on closed days are recorded as skipped.")] = None  # fmt: skip
    jitter_s: Annotated[int, _whole(0, 86_400), about(
        "jitterSeconds", "a fire starts up to this much later, by a hash of job and plan time; not with `after`", 30,
        section="window", label="Jitter in seconds",
        hint="Each fire starts up to so much later, so that not everything starts at once.")] = 0  # fmt: skip
    overlap: Annotated[Overlap, Choice(Overlap), about(
        "overlap", "what becomes of a fire while a run is going: left out, run beside it, kept waiting (one), or "
        "run in its place", "queue", section="limits", input="radios", label="While the previous run is still going",
        hint="", absent="A job that starts after its last run never overlaps with itself.",
        choices={"skip": "skip it", "queue": "queue it", "replace": "replace the run", "allow": "run both"},
        means={"skip": "the run continues; the fire is recorded as skipped",
               "queue": "the newest fire waits until the run ends",
               "replace": "the run is killed, then the new one starts", "allow": "side by side"},
    )] = Overlap.SKIP  # fmt: skip
    misfire: Annotated[Misfire, _MISFIRE, about(
        "misfire", "fires that could not start in time", {"policy": "all", "limit": 24},
        section="late", label="Late fires")] = field(default_factory=cache(Misfire))  # fmt: skip
    retry: Annotated[Retry, RETRY, about(
        "retry", "runs that failed or timed out", {"limit": 3, "delaySeconds": 30},
        section="retry", label="Retries")] = field(default_factory=cache(Retry))  # fmt: skip
    timeout_s: Annotated[float, Number(low=0, high=MAX_SECONDS), about(
        "timeoutSeconds", "then the run is ended: TERM to its whole process group, later KILL; 0: never", 600,
        section="limits", label="Timeout in seconds", hint="The run is stopped then. 0: never.", choices={"0": "none"},
    )] = 0  # fmt: skip
    """0: none."""
    kill_grace_s: Annotated[float, Number(low=0, high=3600), about(
        "killGraceSeconds", "from TERM to KILL; also of what a command leaves in its process group when it ends", 10,
        section="limits", label="Grace before KILL in seconds")] = 5  # fmt: skip
    on_worker_lost: Annotated[OnWorkerLost, Choice(OnWorkerLost), about(
        "onWorkerLost", "what becomes of a fire whose run was lost with its worker, or ended because that shut down "
        "or was out of touch with etcd for too long: it is recorded, or run again", "rerun", section="late",
        label="A run lost with its worker", hint="Running it again may execute the command twice.",
        choices={"record": "record it", "rerun": "run it again"})] = OnWorkerLost.RECORD  # fmt: skip
    lost_after_s: Annotated[float | Literal["never"] | None, LostAfter(), about(
        "lostAfterSeconds", "how long a run may be out of touch with etcd before it counts as lost, more than "
        "`leaseTtlSeconds` + `killGraceSeconds` + 4; `never`: it runs on, and the job waits for it",
        60, section="late", label="Lost after seconds without contact",
        hint="How long a run may be without contact. never: it keeps running, and the job waits for it.",
        choices={"never": "never"}, unset="the worker's (300)")] = None  # fmt: skip
    """None: the worker's."""
    env: Annotated[Mapping[str, str], ENV, about(
        "env", "variables added to the clean environment", {"LEVEL": "debug"}, section="surroundings",
        label="Variables", hint="Added to a clean environment: PATH, HOME, USER, LOGNAME, SHELL, LANG.",
    )] = field(default_factory=lambda: _NONE)  # fmt: skip
    secrets: Annotated[Mapping[str, str], _SECRETS, about(
        "secrets", "variables whose values the worker looks up by these names when the run starts; they count before "
        "those of `env`", {"PGPASSWORD": "pg/prod"}, section="surroundings", label="Secrets",
        hint="Variable and name of the secret. The value stays on the worker and is masked in the output.",
    )] = field(default_factory=lambda: _NONE)  # fmt: skip
    secret_files: Annotated[Mapping[str, str], _SECRETS, about(
        "secretFiles", "variables that name a private file with a secret in it; the file goes when the run ends",
        {"PGPASSFILE": "pg/passfile"}, section="surroundings", label="Secrets in files",
        hint="Variable and name of the secret. The variable has the path of a file that only the run can read.",
    )] = field(default_factory=lambda: _NONE)  # fmt: skip
    workdir: Annotated[str | None, _path("/srv/reports"), about(
        "workdir", "the directory that the command starts in", "/srv/reports",
        section="surroundings", label="Directory", hint="", unset="the user's home")] = None  # fmt: skip
    user: Annotated[str | None, _USER, about(
        "user", "whom the command runs as; the worker has to allow it", "www-data",
        section="surroundings", label="User", unset="the worker's")] = None  # fmt: skip
    shell: Annotated[str | None, _path("/bin/bash"), about(
        "shell", "what a command line is given to, with `-c`", "/bin/bash",
        section="surroundings", label="Shell", hint="", unset="the worker's (`/bin/sh`)")] = None  # fmt: skip
    """None: for ``workdir`` the user's home; for ``user`` and ``shell`` the worker's."""
    output_limit_bytes: Annotated[int, _whole(0, MAX_OUTPUT_LIMIT_BYTES, "bytes"), about(
        "outputLimitBytes", "of more output the head and the tail are kept", 1_048_576, section="surroundings",
        label="Output kept, in bytes", hint="Of longer output the middle is cut.")] = 262_144  # fmt: skip
    labels: Annotated[Mapping[str, str], LABELS, about(
        "labels", "for searching and grouping", {"team": "billing"},
        section="labelled", label="Labels")] = field(default_factory=lambda: _NONE)  # fmt: skip
    workers: Annotated[Mapping[str, tuple[str, ...]], SELECTOR, about(
        "workers", "labels that a worker has to have; of several values any one will do",
        {"zone": "eu", "gpu": ["a100", "h100"]}, section="where", label="Workers",
        hint="Labels that a worker must have, all of them; of several values any one. Empty: any worker.", unset="any",
    )] = field(default_factory=lambda: _NONE)  # fmt: skip
    """Label to the values that will do; a worker has to fit all. Empty: any worker."""
    broadcast: Annotated[bool, Truth(), about(
        "broadcast", "it runs on every worker that `workers` selects, once each; not with `after`", True,
        section="where", label="On every matching worker, once each", hint="Otherwise on one of them.",
    )] = False  # fmt: skip
    slots: Annotated[int, _whole(1, 1024, "slots"), about(
        "slots", "how many of the worker's slots a run takes", 2, section="where", label="Slots")] = 1  # fmt: skip
    priority: Annotated[int, _whole(-100, 100, ""), about(
        "priority", "where slots are scarce, the larger goes first", 10,
        section="where", label="Priority")] = 0  # fmt: skip
    description: Annotated[str, AnyText(longest=LONGEST_DESCRIPTION), about(
        "description", "what the job is for, in a sentence or two: on its page, and in each message about it",
        "The books of the day, for the bank.", section="told", label="Description",
        hint="What the job is for: shown on its page and in each message about it.")] = ""  # fmt: skip
    links: Annotated[tuple[Link, ...], LINKS, about(
        "links", "where a person reads on, such as a runbook: on its page, and in each message about it",
        [{"title": "Runbook", "url": "https://wiki.example.com/backup"}], section="told", input="rows", label="Links",
        hint="A runbook, for example: shown on the job's page and in each message about it.")] = ()  # fmt: skip
    notify: Annotated[tuple[Notify, ...], NOTIFY, about(
        "notify", "channels that get messages about the job's events, in addition to rules; without `on`: "
        + ", ".join(f"`{one}`" for one in DEFAULT_ON),
        [{"to": "ops", "on": ["failed", "output"]}], section="told", input="rows", label="Notify",
        hint="Channels to notify in addition to rules. Without events: problems, and their end.",
    )] = ()  # fmt: skip
    warn_after_s: Annotated[float, Number(low=0, high=MAX_SECONDS), about(
        "warnAfterSeconds", "a run that takes longer is reported as `slow`, once; 0: none is", 3_600,
        section="told", label="Slow after seconds", hint="A run that takes longer is reported. 0: never.",
        choices={"0": "never"})] = 0  # fmt: skip
    late_after_s: Annotated[float, Number(low=0, high=MAX_SECONDS), about(
        "lateAfterSeconds", "a fire that starts later than this after its time, jitter included, is reported as "
        "`late`; 0: none is", 60, section="told", label="Late after seconds",
        hint="A fire that starts this long after its time is reported. 0: never.",
        choices={"0": "never"})] = 0  # fmt: skip
    silent_after_s: Annotated[float, Number(low=0, high=MAX_SECONDS), about(
        "silentAfterSeconds", "a job that has not succeeded for so long is reported as `silent`, also where no fire "
        "was planned; 0: it is not", 90_000, section="told", label="Silent after seconds",
        hint="No success for this long is reported, whatever the reason. 0: never.",
        choices={"0": "never"})] = 0  # fmt: skip
    suspicious_below_s: Annotated[float, Number(low=0, high=MAX_SECONDS), about(
        "suspiciousBelowSeconds", "a run that succeeds in less time is reported as `fast`; 0: none is", 5,
        section="told", label="Suspicious below seconds",
        hint="A faster success is reported: perhaps it did nothing. 0: never.",
        choices={"0": "never"})] = 0  # fmt: skip

    def fires_alike(self, other: JobSpec) -> bool:
        """Whether both plan the same fires, for the same times, so that what waits under one may go on under the other.

        Of a broadcast job also on the same workers: each of them plans fires of its own.
        """
        where = _PLACING if self.broadcast else ()
        return all(getattr(self, name) == getattr(other, name) for name in (*_PLANNING, *where))

    def called(self, name: str, command: str | tuple[str, ...]) -> JobSpec:
        """The same job under another name and with another command, both of them valid. A quarter of `replace`'s cost:
        a catalog of 100,000 jobs is made so."""
        made = object.__new__(JobSpec)
        for put, value in zip(_SETTERS, _VALUES(self), strict=True):
            put(made, value)
        _PUT_NAME(made, name)
        _PUT_COMMAND(made, command)
        return made

    @staticmethod
    def defaults() -> dict[str, Any]:
        """Every field by its JSON name with its default; of what is needed, an empty text."""
        return written(JobSpec(name="", command=""), _members())

    @property
    def asks_for_secrets(self) -> bool:
        return bool(self.secrets or self.secret_files)

    @property
    def command_line(self) -> str:
        """The command as one text, to be shown, searched and recorded."""
        return self.command if isinstance(self.command, str) else shlex.join(self.command)

    @property
    def schedule(self) -> Schedule:
        """The planned fires; equal expressions share one parsed object. Of an ``after`` job there are none."""
        planned = self.trigger
        if self.start_at is not None or self.end_at is not None:
            planned = Window(
                inner=planned, start_ms=self.start_at.ms if self.start_at else None,
                end_ms=self.end_at.ms if self.end_at else None,
            )  # fmt: skip
        if self.calendar is not None:
            planned = CalendarSchedule(inner=planned, calendar=self.calendar, timezone=self.timezone)
        return planned

    @property
    def at_boot(self) -> bool:
        """Whether it runs when a machine boots, and at no time."""
        return self.cron_exprs == (REBOOT,)

    @property
    def trigger(self) -> Schedule:
        """The same without window and calendar."""
        if self.every is not None:
            offset_ms = self.offset.ms if self.offset else 0
            return EverySchedule(period_ms=self.every.ms, offset_ms=offset_ms, timezone=self.timezone)
        if self.at is not None:
            return AtSchedule(at_ms=self.at.ms, timezone=self.timezone)
        if self.after is not None or self.at_boot:
            return NoFires()
        exprs = self.cron_exprs
        if len(exprs) == 1:  # of nearly all jobs: those of a hundred thousand are asked in a row
            return parse_cron(exprs[0], timezone=self.timezone, job=self.name)
        return Union(parts=tuple(parse_cron(expr, timezone=self.timezone, job=self.name) for expr in exprs))

    def to_document(self) -> dict[str, Any]:
        """Every field by its JSON name, defaults included; what it does not have is null.

        The document and its objects are the caller's; lists within these are not to be changed.
        """
        plain, objects = _defaults(), _PLAIN_OBJECTS
        document = plain.copy()
        # A list of jobs is spelled by this, and of most fields a job has the default.
        for value, (name, default, write) in zip(_VALUES(self), _writers(), strict=True):
            if value is not default:
                document[name] = None if value is None else write(value)
        for name in objects:
            if document[name] is plain[name]:
                document[name] = plain[name].copy()
        return document

    def to_stored(self) -> dict[str, Any]:
        """The fields that are needed to read the same job back: those that differ from their defaults."""
        plain = _defaults()
        return {name: value for name, value in self.to_document().items() if value != plain[name]}


_PLANNING: Final = (
    "cron_exprs", "every", "offset", "after", "at", "timezone", "start_at", "end_at", "calendar", "jitter_s",
    "broadcast", "enabled",
)  # fmt: skip
_PLACING: Final = ("workers", "slots")
_SLOTS: Final = tuple(one.name for one in fields(JobSpec))
_SETTERS: Final = tuple(vars(JobSpec)[name].__set__ for name in _SLOTS)
_VALUES: Final = attrgetter(*_SLOTS)
_PUT_NAME, _PUT_COMMAND = (vars(JobSpec)[name].__set__ for name in ("name", "command"))


@cache
def _members() -> Mapping[str, ObjectField]:
    return members_of(JobSpec)


_defaults: Final = cache(JobSpec.defaults)
_PLAIN_OBJECTS: Final = ("misfire", "retry", "env", "secrets", "secretFiles", "labels", "workers", "links", "notify")
"""The fields whose default is an object or a list: each document has its own."""


@cache
def _writers() -> tuple[tuple[str, Any, Callable[[Any], Any]], ...]:
    """Of each attribute, in their order: its name in JSON, its default, and how another value is written."""
    of = {member.attribute: member for member in _members().values()}
    plain = JobSpec(name="", command="")
    return tuple((of[slot].name, getattr(plain, slot), of[slot].kind.write) for slot in _SLOTS)
