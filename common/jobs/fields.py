"""The fields of a job: one table, by which they are read and documented.

Pure: standard library and its neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from common.jobs.job import Misfire, MisfirePolicy, OnWorkerLost, Overlap
from common.jobs.kinds import AnyText, Choice, Member, Members, Named, Number, Pattern, Several, Truth
from common.jobs.retry import Retry
from common.jobs.values import (
    MAX_EXPRESSIONS,
    MAX_SECONDS,
    CalendarKind,
    Command,
    ExpressionText,
    JobName,
    LostAfter,
    MomentText,
    Span,
    ZoneName,
    check_retry,
)

MAX_OUTPUT_LIMIT_BYTES: Final = 8 * 1024 * 1024
MAX_ENTRIES: Final = 100
"""Of ``env``, of ``labels`` and of ``workers``."""
MAX_VALUE_LENGTH: Final = 4_096
NOT_YET: Final = frozenset({"maxDurationWarnSeconds", "notify"})
"""Fields of the design that a later version has."""
NEWER: Final[Mapping[str, bool]] = {}
"""The fields that some version which reads ``mustKnow`` (0.1.0 on) does not know: whether a reader has to know it, or
whether the job runs as it should without it. A new member of a field that is an object makes that one a new field.
"""
TRIGGERS: Final = ("cronExpr", "every", "after", "at")
"""What makes a job fire: it has exactly one of them."""
TIMING: Final = (*TRIGGERS, "offset", "timezone", "startAt", "endAt", "calendar", "jitterSeconds")
"""The fields that say when, and no more."""

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_LABEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*", re.ASCII)
_VALUE = AnyText(longest=MAX_VALUE_LENGTH)
_PATH = Pattern(form=re.compile(r"/[^\0]*"), limits="an absolute path such as `/srv/reports`", longest=4_095)
_SHELL = Pattern(form=re.compile(r"/[^\0]*"), limits="an absolute path such as `/bin/bash`", longest=4_095)
_USER = Pattern(
    form=re.compile(r"[A-Za-z_][A-Za-z0-9._-]*\$?", re.ASCII),
    limits="a name of a system user such as `www-data`",
    longest=32,
)


def _whole(low: int, high: int, unit: str = "seconds") -> Number:
    return Number(low=low, high=high, whole=True, unit=unit)


_MISFIRE: Final = Members(
    of="misfire",
    make=Misfire,
    example='{"policy": "latest", "graceSeconds": 60}',
    members=(
        Member(
            name="policy", attribute="policy", kind=Choice(MisfirePolicy),
            meaning="what becomes of fires that nobody started within their grace: none runs, the newest one, or each",
        ),
        Member(
            name="graceSeconds", attribute="grace_s", kind=_whole(1, 86_400), meaning="how late a fire may start",
        ),
        Member(
            name="windowSeconds", attribute="window_s", kind=_whole(0, MAX_SECONDS),
            meaning="how old a fire may be that is made up for",
        ),
        Member(
            name="limit", attribute="limit", kind=_whole(1, 100, "runs"),
            meaning="how many fires `all` makes up for at most, the newest ones",
        ),
    ),
)  # fmt: skip
_RETRY: Final = Members(
    of="retry",
    make=Retry,
    example='{"limit": 3, "delaySeconds": 10}',
    also=check_retry,
    members=(
        Member(name="limit", attribute="limit", kind=_whole(0, 100, "retries"), meaning="attempts beyond the first"),
        Member(
            name="delaySeconds", attribute="delay_s", kind=Number(low=0, high=86_400),
            meaning="from the end of the first attempt to the second; not beyond `maxDelaySeconds`",
        ),
        Member(
            name="backoff", attribute="backoff", kind=Number(low=1, high=10, unit=""),
            meaning="each delay is the one before times this",
        ),
        Member(
            name="maxDelaySeconds", attribute="max_delay_s", kind=Number(low=0, high=MAX_SECONDS),
            meaning="no delay grows beyond it (before the jitter)",
        ),
        Member(
            name="jitter", attribute="jitter", kind=Number(low=0, high=1, unit=""),
            meaning="up to this share of the delay is added, by a hash of the run",
        ),
        Member(
            name="onExitCodes", attribute="on_exit_codes",
            kind=Several(of=_whole(0, 255, ""), what="exit codes", least=0, most=256, alone=False, unique=True),
            meaning="only these are tried again; empty: any failure, and a timeout",
        ),
        Member(
            name="otherWorker", attribute="other_worker", kind=Truth(),
            meaning="the next attempt goes to another worker, where there is one",
        ),
    ),
)  # fmt: skip

FIELDS: Final[tuple[Member, ...]] = (
    Member(name="name", attribute="name", kind=JobName(), meaning="the job's name, and the key to it"),
    Member(
        name="command", attribute="command", kind=Command(),
        meaning="a line for the shell, or the arguments of a program for no shell",
    ),
    Member(
        name="cronExpr", attribute="cron_exprs",
        kind=Several(of=ExpressionText(), what="expressions", most=MAX_EXPRESSIONS),
        meaning="seven fields, a crontab's five, or a macro; of several it fires at the union",
    ),
    Member(
        name="every", attribute="every", kind=Span(),
        meaning="a fixed rate: at whole multiples since 1970-01-01 UTC, the same on every worker",
    ),
    Member(
        name="offset", attribute="offset", kind=Span(least_s=0), meaning="beside `every`, and below it: that much later"
    ),
    Member(
        name="after", attribute="after", kind=Span(),
        meaning="this long after the last run ended; `overlap` must be `skip`; not with `broadcast`",
    ),
    Member(name="at", attribute="at", kind=MomentText(), meaning="once, at this instant"),
    Member(
        name="timezone", attribute="timezone", kind=ZoneName(),
        meaning="of the expressions, of the calendar, and of times without an offset",
    ),
    Member(name="enabled", attribute="enabled", kind=Truth(), meaning="false: the job is paused"),
    Member(name="startAt", attribute="start_at", kind=MomentText(), meaning="no fire before it; not with `at`"),
    Member(
        name="endAt", attribute="end_at", kind=MomentText(),
        meaning="no fire after it; later than `startAt`; not with `at`",
    ),
    Member(
        name="calendar", attribute="calendar", kind=CalendarKind(),
        meaning="the days, in `timezone`, on which it does not fire, or alone fires; "
        "fires on the others are recorded as `skipped: calendar`",
    ),
    Member(
        name="jitterSeconds", attribute="jitter_s", kind=_whole(0, 86_400),
        meaning="a fire starts up to this much later, by a hash of job and plan time; not with `after`",
    ),
    Member(
        name="overlap", attribute="overlap", kind=Choice(Overlap),
        meaning="what becomes of a fire while a run is going: left out, run beside it, kept waiting (one), "
        "or run in its place",
    ),
    Member(name="misfire", attribute="misfire", kind=_MISFIRE, meaning="fires that could not start in time"),
    Member(name="retry", attribute="retry", kind=_RETRY, meaning="runs that failed or timed out"),
    Member(
        name="timeoutSeconds", attribute="timeout_s", kind=Number(low=0, high=MAX_SECONDS),
        meaning="then the run is ended: TERM to its whole process group, later KILL; 0: never",
    ),
    Member(
        name="killGraceSeconds", attribute="kill_grace_s", kind=Number(low=0, high=3600),
        meaning="from TERM to KILL; also of what a command leaves in its process group when it ends",
    ),
    Member(
        name="onWorkerLost", attribute="on_worker_lost", kind=Choice(OnWorkerLost),
        meaning="what becomes of a fire whose run was lost with its worker, or ended because that shut down or was out "
        "of touch with etcd for too long: it is recorded, or run again",
    ),
    Member(
        name="lostAfterSeconds", attribute="lost_after_s", kind=LostAfter(),
        meaning="how long a run may be out of touch with etcd before it counts as lost, more than `leaseTtlSeconds` + "
        "`killGraceSeconds` + 4; `never`: it runs on, and the job waits for it",
    ),
    Member(
        name="env", attribute="env",
        kind=Named(names=_ENV_NAME, what="environment", of=_VALUE, most=MAX_ENTRIES, example='{"LEVEL": "debug"}',
                   reserved="ETCRON_"),
        meaning="variables added to the clean environment",
    ),
    Member(name="workdir", attribute="workdir", kind=_PATH, meaning="the directory that the command starts in"),
    Member(name="user", attribute="user", kind=_USER, meaning="whom the command runs as; the worker has to allow it"),
    Member(name="shell", attribute="shell", kind=_SHELL, meaning="what a command line is given to, with `-c`"),
    Member(
        name="outputLimitBytes", attribute="output_limit_bytes", kind=_whole(0, MAX_OUTPUT_LIMIT_BYTES, "bytes"),
        meaning="of more output the head and the tail are kept",
    ),
    Member(
        name="labels", attribute="labels",
        kind=Named(names=_LABEL_NAME, what="label", of=_VALUE, most=MAX_ENTRIES, example='{"team": "billing"}'),
        meaning="for searching and grouping",
    ),
    Member(
        name="workers", attribute="workers",
        kind=Named(names=_LABEL_NAME, what="label", of=Several(of=_VALUE, what="values", most=MAX_ENTRIES),
                   most=MAX_ENTRIES, example='{"zone": "eu", "gpu": ["a100", "h100"]}'),
        meaning="labels that a worker has to have; of several values any one will do",
    ),
    Member(
        name="broadcast", attribute="broadcast", kind=Truth(),
        meaning="it runs on every worker that `workers` selects, once each; not with `after`",
    ),
    Member(
        name="slots", attribute="slots", kind=_whole(1, 1024, "slots"),
        meaning="how many of the worker's slots a run takes",
    ),
    Member(
        name="priority", attribute="priority", kind=_whole(-100, 100, ""),
        meaning="where slots are scarce, the larger goes first",
    ),
)  # fmt: skip
REQUIRED: Final = ("name", "command")
"""These, and one trigger."""
UNSET: Final = {
    "lostAfterSeconds": "the worker's (300)", "workdir": "the user's home", "user": "the worker's",
    "shell": "the worker's (`/bin/sh`)",
}  # fmt: skip
"""What a field that is null stands for."""
EXAMPLE: Final = '{"name":"hello","command":"echo hello","cronExpr":"0 * * * * * *"}'
