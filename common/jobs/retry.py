"""When a run that failed is tried again, and how long after.

Pure: pydantic's core, standard library and its neighbours. Source: ``docs/reference/fields.md``, field ``retry``;
``docs/internals/protocol.md``, *Retry*.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Any, Final

from common.errors import Problem
from common.jobs.kinds import Number, Object, Several, Truth, about
from common.jobs.reading import all_wrong
from common.jobs.values import MAX_SECONDS

_HIGHEST_POWER: Final = 300
"""Beyond, a factor of ten is no float any more; a run may have that many attempts by being lost again and again."""


_CODES: Final = Several(
    of=Number(low=0, high=255, whole=True, unit=""), what="exit codes", least=0, most=256, alone=False, unique=True
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """The retry policy of a job."""

    limit: Annotated[int, Number(low=0, high=100, whole=True, unit="retries"), about(
        "limit", "attempts beyond the first", 3,
        label="Retries", hint="Attempts beyond the first, after a failure or a timeout.")] = 0  # fmt: skip
    delay_s: Annotated[float, Number(low=0, high=86_400), about(
        "delaySeconds", "from the end of the first attempt to the second; not beyond `maxDelaySeconds`", 30,
        label="First delay in seconds", hint="From the end of an attempt to the next.")] = 10  # fmt: skip
    backoff: Annotated[float, Number(low=1, high=10, unit=""), about(
        "backoff", "each delay is the one before times this", 3,
        label="Each delay times", hint="2 doubles it, 1 keeps it.")] = 2  # fmt: skip
    max_delay_s: Annotated[float, Number(low=0, high=MAX_SECONDS), about(
        "maxDelaySeconds", "no delay grows beyond it (before the jitter)", 600,
        label="Longest delay in seconds")] = 3600  # fmt: skip
    jitter: Annotated[float, Number(low=0, high=1, unit=""), about(
        "jitter", "up to this share of the delay is added, by a hash of the run", 0.1,
        label="Jitter, as a share")] = 0  # fmt: skip
    on_exit_codes: Annotated[tuple[int, ...], _CODES, about(
        "onExitCodes", "only these are tried again; empty: any failure, and a timeout", [75],
        label="Only after these exit statuses", hint="Separated by commas, such as 75, 111.",
        unset="any failure, and a timeout")] = ()  # fmt: skip
    other_worker: Annotated[bool, Truth(), about(
        "otherWorker", "the next attempt goes to another worker, where there is one", True,
        label="On another worker, where there is one", hint="")] = False  # fmt: skip

    def delay_ms(self, run: str, attempt: int) -> int:
        """How long after the end of the attempt with this number (from 1) the next one is due."""
        delay_s = (
            min(self.max_delay_s, self.delay_s * self.backoff ** min(attempt - 1, _HIGHEST_POWER))
            if self.delay_s
            else 0.0
        )
        share = int.from_bytes(blake2b(f"{run}#{attempt}".encode(), digest_size=8).digest()) / float(1 << 64)
        return round(delay_s * (1 + self.jitter * share) * 1000)


def _check(retry: Any) -> None:
    """`all_wrong` where the delay is beyond the largest one."""
    if retry.delay_s > retry.max_delay_s:
        message = f"is {retry.delay_s:g}, beyond maxDelaySeconds ({retry.max_delay_s:g})"
        remedy = "lower it, or raise maxDelaySeconds"
        raise all_wrong([Problem(field="delaySeconds", message=message, remedy=remedy)])


RETRY: Final = Object(of=Retry, name="retry", example='{"limit": 3, "delaySeconds": 10}', also=_check)
