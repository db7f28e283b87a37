"""The saved definition of a job: its fields, their defaults, and its JSON.

Pure: standard library and its neighbours. Source of the fields and defaults: ``docs/job-model.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Literal

from common.schedule import Schedule, parse_cron


class Overlap(StrEnum):
    """What becomes of a fire that is due while an earlier run of the job is going."""

    SKIP = "skip"
    ALLOW = "allow"


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


NEVER: Final = "never"
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """One job as its user defined it; valid by construction through :func:`parse_job`."""

    name: str
    command: str
    cron_expr: str
    timezone: str = "UTC"
    enabled: bool = True
    overlap: Overlap = Overlap.SKIP
    misfire: Misfire = field(default_factory=Misfire)
    timeout_s: float = 0
    """0: none."""
    kill_grace_s: float = 5
    output_limit_bytes: int = 262_144
    env: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    lost_after_s: float | Literal["never"] | None = None
    """None: the worker's."""
    labels: Mapping[str, str] = field(default_factory=lambda: _NOTHING)

    @property
    def schedule(self) -> Schedule:
        """The parsed timing; one object for each distinct expression."""
        return parse_cron(self.cron_expr, timezone=self.timezone, job=self.name)

    def to_document(self) -> dict[str, Any]:
        """Every field by its JSON name, defaults included."""
        return {
            "name": self.name,
            "command": self.command,
            "cronExpr": self.cron_expr,
            "timezone": self.timezone,
            "enabled": self.enabled,
            "overlap": str(self.overlap),
            "misfire": _misfire_document(self.misfire),
            "timeoutSeconds": self.timeout_s,
            "killGraceSeconds": self.kill_grace_s,
            "outputLimitBytes": self.output_limit_bytes,
            "env": dict(self.env),
            "lostAfterSeconds": self.lost_after_s,
            "labels": dict(self.labels),
        }

    def to_stored(self) -> dict[str, Any]:
        """The fields that are needed to read the same job back: those that differ from their defaults."""
        plain = JobSpec(name="", command="", cron_expr="").to_document()
        return {name: value for name, value in self.to_document().items() if value != plain[name]}


def _misfire_document(misfire: Misfire) -> dict[str, Any]:
    return {
        "policy": str(misfire.policy), "graceSeconds": misfire.grace_s,
        "windowSeconds": misfire.window_s, "limit": misfire.limit,
    }  # fmt: skip
