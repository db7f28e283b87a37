"""A clock that moves only when told."""

from __future__ import annotations


class FakeClock:
    """All three clocks move together, but for a wall clock that is set."""

    def __init__(self, wall_ms: int = 1_790_000_000_000) -> None:
        self._wall_ms = wall_ms
        self._elapsed_s = 1000.0
        self.synchronised = False

    def wall_ms(self) -> int:
        return self._wall_ms

    def monotonic(self) -> float:
        return self._elapsed_s

    def boottime(self) -> float:
        return self._elapsed_s

    def is_synchronised(self) -> bool:
        return self.synchronised

    def advance(self, ms: int) -> None:
        """So much time passes."""
        self._wall_ms += ms
        self._elapsed_s += ms / 1000

    def set_wall(self, wall_ms: int) -> None:
        """Somebody sets the wall clock; no time passes."""
        self._wall_ms = wall_ms
