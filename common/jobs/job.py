"""The saved definition of a job: its fields, their defaults, and its JSON.

Pure: standard library and its neighbours. Source of the fields and defaults: ``docs/job-model.md``.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cache
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, Literal

from common.duration import Duration
from common.jobs.retry import Retry
from common.schedules.job_calendar import Calendar, CalendarSchedule
from common.schedules.moment import Moment
from common.schedules.schedule import Schedule, parse_cron
from common.schedules.triggers import AtSchedule, EverySchedule, NoFires, Union, Window


class Overlap(StrEnum):
    """What becomes of a fire that is due while an earlier run of the job is going."""

    SKIP = "skip"
    ALLOW = "allow"
    QUEUE = "queue"
    """The newest waits for its end; the others that come meanwhile are skipped."""
    REPLACE = "replace"
    """The old run is killed, then this one starts."""


class MisfirePolicy(StrEnum):
    """What becomes of fires that nobody claimed within their grace."""

    SKIP = "skip"
    LATEST = "latest"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfire:
    """How late a fire may start, and what is made up for afterwards."""

    policy: MisfirePolicy = MisfirePolicy.LATEST
    grace_s: int = 60
    window_s: int = 3600
    limit: int = 10

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


NEVER: Final = "never"
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_NO_SELECTOR: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """One job as its user defined it; valid by construction through :func:`parse_job`."""

    name: str
    command: str | tuple[str, ...]
    """A line for the shell, or the arguments of a program for no shell."""
    cron_exprs: tuple[str, ...] = ()
    """One or several: it fires at the union. Exactly one of cron_exprs, every, after, at is given."""
    every: Duration | None = None
    offset: Duration | None = None
    """Only beside ``every``."""
    after: Duration | None = None
    at: Moment | None = None
    timezone: str = "UTC"
    enabled: bool = True
    start_at: Moment | None = None
    end_at: Moment | None = None
    calendar: Calendar | None = None
    """The days, in its timezone, on which its fires run; those on other days are skipped."""
    jitter_s: int = 0
    overlap: Overlap = Overlap.SKIP
    misfire: Misfire = field(default_factory=Misfire)
    retry: Retry = field(default_factory=Retry)
    timeout_s: float = 0
    """0: none."""
    kill_grace_s: float = 5
    on_worker_lost: OnWorkerLost = OnWorkerLost.RECORD
    lost_after_s: float | Literal["never"] | None = None
    """None: the worker's."""
    env: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    workdir: str | None = None
    user: str | None = None
    shell: str | None = None
    """These three: None is the worker's."""
    output_limit_bytes: int = 262_144
    labels: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    workers: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _NO_SELECTOR)
    """Label to the values that will do; a worker has to fit all. Empty: any worker."""
    broadcast: bool = False
    slots: int = 1
    priority: int = 0
    """The larger goes first where slots are scarce."""

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
    def trigger(self) -> Schedule:
        """The same without window and calendar."""
        if self.every is not None:
            offset_ms = self.offset.ms if self.offset else 0
            return EverySchedule(period_ms=self.every.ms, offset_ms=offset_ms, timezone=self.timezone)
        if self.at is not None:
            return AtSchedule(at_ms=self.at.ms, timezone=self.timezone)
        if self.after is not None:
            return NoFires()
        parts = tuple(parse_cron(expr, timezone=self.timezone, job=self.name) for expr in self.cron_exprs)
        return parts[0] if len(parts) == 1 else Union(parts=parts)

    def to_document(self) -> dict[str, Any]:
        """Every field by its JSON name, defaults included; what it does not have is null."""
        document: dict[str, Any] = {
            "name": self.name,
            "command": self.command if isinstance(self.command, str) else list(self.command),
            **self._trigger_document(),
            "timezone": self.timezone,
            "enabled": self.enabled,
            "startAt": _text(self.start_at),
            "endAt": _text(self.end_at),
            "calendar": None if self.calendar is None else self.calendar.to_document(),
            "jitterSeconds": self.jitter_s,
            "overlap": str(self.overlap),
            "misfire": _misfire_document(self.misfire),
            "retry": _retry_document(self.retry),
            "timeoutSeconds": self.timeout_s,
            "killGraceSeconds": self.kill_grace_s,
            "onWorkerLost": str(self.on_worker_lost),
            "lostAfterSeconds": self.lost_after_s,
            "env": dict(self.env),
            "workdir": self.workdir,
            "user": self.user,
            "shell": self.shell,
            "outputLimitBytes": self.output_limit_bytes,
            "labels": dict(self.labels),
            "workers": {name: _short(values) for name, values in self.workers.items()},
            "broadcast": self.broadcast,
            "slots": self.slots,
            "priority": self.priority,
        }
        return document

    def to_stored(self) -> dict[str, Any]:
        """The fields that are needed to read the same job back: those that differ from their defaults."""
        plain = _plain_document()
        return {name: value for name, value in self.to_document().items() if value != plain[name]}

    def _trigger_document(self) -> dict[str, Any]:
        return {
            "cronExpr": _short(self.cron_exprs) if self.cron_exprs else None,
            "every": _text(self.every),
            "offset": _text(self.offset),
            "after": _text(self.after),
            "at": _text(self.at),
        }


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
def _plain_document() -> dict[str, Any]:
    """Every field with its default; not to be changed."""
    return JobSpec(name="", command="").to_document()


def _text(value: Moment | Duration | None) -> str | None:
    return None if value is None else value.text


def _short(values: tuple[str, ...]) -> str | list[str]:
    """One value as itself, several as a list."""
    return values[0] if len(values) == 1 else list(values)


def _retry_document(retry: Retry) -> dict[str, Any]:
    return {
        "limit": retry.limit, "delaySeconds": retry.delay_s, "backoff": retry.backoff,
        "maxDelaySeconds": retry.max_delay_s, "jitter": retry.jitter, "onExitCodes": list(retry.on_exit_codes),
        "otherWorker": retry.other_worker,
    }  # fmt: skip


def _misfire_document(misfire: Misfire) -> dict[str, Any]:
    return {
        "policy": str(misfire.policy), "graceSeconds": misfire.grace_s,
        "windowSeconds": misfire.window_s, "limit": misfire.limit,
    }  # fmt: skip
