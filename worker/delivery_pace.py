"""When a batch of records is written to the log store: at once, in its time, or a little later while fires wait.

A record that comes alone is written at once; records that keep coming are written every `commit_timeout_ms`, or when a
batch is full. While due fires wait for slots, what a machine can do goes into starting them: a batch is written every
three seconds then, and the rest when the burst is over. Where more than a batch has been left for ten seconds,
records come to the log store as fast as it takes them, until it has caught up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from common.clock import Clock

BETWEEN_S: Final = 3.0
"""From one batch to the next while fires wait for slots."""
BURST_S: Final = 10.0
"""For so long records may fall behind."""


class Pace:
    """Says when the next batch is due."""

    def __init__(self, *, batch_size: int, commit_timeout_ms: int, may_wait: Callable[[], bool], clock: Clock) -> None:
        """``may_wait``: whether there is better to do, and room for what waits."""
        self._batch_size = batch_size
        self._commit_timeout_s = commit_timeout_ms / 1000
        self._may_wait = may_wait
        self._clock = clock
        self._written_at = float("-inf")
        self._abreast_at = float("-inf")
        """When less than a batch was left last."""

    def written(self, left: int) -> None:
        """A batch was written just now, and so many records are left."""
        self._written_at = self._clock.monotonic()
        if left < self._batch_size:
            self._abreast_at = self._written_at

    def due_in(self, waiting: int) -> float:
        """In how many seconds a batch is due where so many records wait; 0: now."""
        now = self._clock.monotonic()
        pause_s = 0.0 if waiting >= self._batch_size else self._commit_timeout_s
        if now < self._abreast_at + BURST_S and self._may_wait():
            pause_s = max(pause_s, BETWEEN_S)
        return max(0.0, self._written_at + pause_s - now)
