"""When a batch of records is written to the log store: at once, in its time, or a little later while fires wait.

A record that comes alone is written at once; records that keep coming are written every `commit_timeout_ms`, or when a
batch is full. While due fires wait for slots, what a machine can do goes into starting them: a batch is written every
three seconds then, and the rest when the burst is over. Where fires wait for longer than ten seconds it is no burst:
records come to the log store as ever then, until a time at which none waits.
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

    def __init__(
        self,
        *,
        batch_size: int,
        commit_timeout_ms: int,
        fires_wait: Callable[[], bool],
        has_room: Callable[[], bool],
        clock: Clock,
    ) -> None:
        """``has_room``: whether more records may wait than usual."""
        self._batch_size = batch_size
        self._commit_timeout_s = commit_timeout_ms / 1000
        self._fires_wait = fires_wait
        self._has_room = has_room
        self._clock = clock
        self._written_at = float("-inf")
        self._pressed_since: float | None = None
        """When fires were first seen to wait; None: none did at the last look."""

    def written(self) -> None:
        """A batch was written just now."""
        self._written_at = self._clock.monotonic()

    def due_in(self, waiting: int) -> float:
        """In how many seconds a batch is due where so many records wait; 0: now. To be asked again and again."""
        now = self._clock.monotonic()
        pause_s = 0.0 if waiting >= self._batch_size else self._commit_timeout_s
        if self._is_burst(now) and self._has_room():
            pause_s = max(pause_s, BETWEEN_S)
        return max(0.0, self._written_at + pause_s - now)

    def _is_burst(self, now: float) -> bool:
        if not self._fires_wait():
            self._pressed_since = None
            return False
        if self._pressed_since is None:
            self._pressed_since = now
        return now < self._pressed_since + BURST_S
