"""What whoever starts processes tells the guardian of each run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from common.protocol.keys import RunId


class Guard(Protocol):
    """Told around each start."""

    def intents(self, run_ids: Sequence[RunId]) -> bool:
        """A process of each of these runs is about to be started; False: of none now, for nobody would guard it."""

    def group(self, run_id: RunId, pid: int, began: float) -> None:
        """It has been, after this second of the boot clock, and leads its group and its session."""

    def over(self, run_id: RunId) -> None:
        """Nothing of the run is left, or nothing of it was started."""

    def read_messages(self) -> None:
        """Whatever the guardian has said by now is taken in: it may be why a process has just ended."""


class Unguarded:
    """Where there is no guardian: an executor by itself."""

    def intents(self, run_ids: Sequence[RunId]) -> bool:
        return True

    def group(self, run_id: RunId, pid: int, began: float) -> None:
        pass

    def over(self, run_id: RunId) -> None:
        pass

    def read_messages(self) -> None:
        pass
