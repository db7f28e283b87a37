"""When a process's next beat is due: every 3 s; the first ones of a clock sooner, so that it is compared soon.

Pure: standard library only.
"""

from __future__ import annotations

from typing import Final

BEAT_S: Final = 3.0
SOON_S: Final = 0.5
_SOON: Final = 4
"""Beats of a new clock that follow each other soon: the first makes the steward listen well, and a beat is counted
once the next one says that it was quick."""


class BeatPace:
    """One process's beats."""

    def __init__(self) -> None:
        self._clock = ""
        self._sent = 0

    def after(self, clock: str) -> float:
        """Seconds from a beat that told of this clock to the next one."""
        if clock != self._clock:
            self._clock, self._sent = clock, 0
        self._sent += 1
        return SOON_S if self._sent < _SOON else BEAT_S
