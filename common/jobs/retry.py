"""When a run that failed is tried again, and how long after.

Pure: standard library only. Source: ``docs/job-model.md``, field ``retry``; ``docs/protocol.md``, *Retry*.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

_HIGHEST_POWER: Final = 300
"""Beyond, a factor of ten is no float any more; a run may have that many attempts by being lost again and again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """The retry policy of a job."""

    limit: int = 0
    """Attempts beyond the first; 0: none."""
    delay_s: float = 10
    backoff: float = 2
    """Each delay is the former one times this."""
    max_delay_s: float = 3600
    jitter: float = 0
    """Up to this share of the delay is added, by a hash of the run: 0 to 1."""
    on_exit_codes: tuple[int, ...] = ()
    """Only these exit codes are tried again; empty: any failure or timeout."""
    other_worker: bool = False
    """The next attempt goes to another worker, where there is one."""

    def delay_ms(self, run: str, attempt: int) -> int:
        """How long after the end of the attempt with this number (from 1) the next one is due."""
        delay_s = (
            min(self.max_delay_s, self.delay_s * self.backoff ** min(attempt - 1, _HIGHEST_POWER))
            if self.delay_s
            else 0.0
        )
        share = int.from_bytes(blake2b(f"{run}#{attempt}".encode(), digest_size=8).digest()) / float(1 << 64)
        return round(delay_s * (1 + self.jitter * share) * 1000)
