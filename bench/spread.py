"""A steady load: 50 fires a second for a while, spread over each second by jitter, each the only one of its job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from common.instants import to_ms
from common.jobs.job import JobSpec
from common.schedules.schedule import dispatch_ms

A_SECOND: Final = 50
COMMAND: Final = "echo hello"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The jobs, and when each is to start (ms since the epoch), in that order."""

    specs: Sequence[JobSpec]
    moments_ms: Mapping[str, int]

    @property
    def ends_ms(self) -> int:
        """The last of the moments."""
        return max(self.moments_ms.values())

    def late_ms(self, records: Iterable[Mapping[str, Any]]) -> dict[str, int]:
        """For each job's record of a run: how long after its moment it started."""
        return {
            record["jobName"]: record["startTime"] - self.moments_ms[record["jobName"]]
            for record in records
            if record.get("startTime") is not None
        }


def spread(begins: datetime, seconds: int, command: str = COMMAND) -> Spread:
    """From that second on; ``begins`` is aware and whole."""
    specs: list[JobSpec] = []
    moments_ms: dict[str, int] = {}
    for second in range(seconds):
        at = (begins + timedelta(seconds=second)).astimezone(UTC)
        expr = f"{at.second} {at.minute} {at.hour} {at.day} {at.month} * {at.year}"
        for number in range(A_SECOND):
            spec = JobSpec(
                name=f"spread-{second:04d}-{number:02d}", command=command, cron_exprs=(expr,), jitter_s=1
            )  # fmt: skip
            specs.append(spec)
            moments_ms[spec.name] = dispatch_ms(spec.name, spec.schedule, spec.jitter_s, to_ms(at))
    return Spread(specs=specs, moments_ms=dict(sorted(moments_ms.items(), key=lambda item: item[1])))
