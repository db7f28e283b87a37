"""When a planned fire is to start: its plan time, moved by a hash of (job, plan time), the same on every worker.

Pure: standard library only.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Protocol


class _Timing(Protocol):
    def next_after_ms(self, ms: int) -> int | None: ...


def dispatch_ms(sequence: str, timing: _Timing, jitter_s: int, plan_ms: int) -> int:
    """The dispatch time of a planned fire: within 0 to ``jitter_s`` of it, and before the next plan time.

    So the dispatch times of a job are in the order of its plan times, and each fire is due before the next is planned.
    """
    if not jitter_s:
        return plan_ms
    following = timing.next_after_ms(plan_ms)
    span_ms = jitter_s * 1000 if following is None else min(jitter_s * 1000, following - plan_ms - 1)
    digest = blake2b(f"{sequence}@{plan_ms}/jitter".encode(), digest_size=8).digest()
    return plan_ms + int.from_bytes(digest) % (span_ms + 1)
