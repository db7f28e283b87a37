"""Where a clock must stand by what is known of it: its last comparison with the others', and its jumps since."""

from __future__ import annotations


class Expectation:
    """An offset from the others' clocks, and by how much it may be wrong; or nothing is known."""

    def __init__(self, known: tuple[float, int] | None, *, max_skew_ms: int) -> None:
        """``known``: (offset, within) in ms. ``max_skew_ms``: a clock that is further off is wrong."""
        self._known = known
        self._max_skew_ms = max_skew_ms

    @property
    def offset_ms(self) -> float | None:
        """How far it is from the others' (ahead: above 0); None: nobody knows."""
        return None if self._known is None else self._known[0]

    @property
    def must_be_right(self) -> bool:
        """Whether it is within the bound, however wrong what is known may be."""
        return self._known is not None and abs(self._known[0]) + self._known[1] <= self._max_skew_ms

    @property
    def must_be_wrong(self) -> bool:
        """Whether it is beyond the bound, however wrong what is known may be."""
        return self._known is not None and abs(self._known[0]) - self._known[1] > self._max_skew_ms

    def jumped(self, by_ms: float) -> None:
        """It has been set: what was known holds, so much further on."""
        if self._known is not None:
            self._known = self._known[0] + by_ms, self._known[1]

    def compared(self, offset_ms: int, within_ms: int, *, has_jumped: bool) -> None:
        """It was compared. After a jump only what is no vaguer than what is known replaces that."""
        if self._known is None or not has_jumped or within_ms <= self._known[1]:
            self._known = offset_ms, within_ms

    def forget(self) -> None:
        """It is taken for right where it is now."""
        self._known = None
