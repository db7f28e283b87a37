"""For how long a command that waits bears that no manager answers: what it waits for goes on without us."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cli.errors import CommandError, ExitStatus

PATIENCE_S: Final = 60.0


class Patience:
    """Since when nothing was heard, by the caller's monotonic clock (seconds)."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self.heard_at = monotonic()

    def heard(self) -> None:
        """A manager has answered."""
        self.heard_at = self._monotonic()

    def bears(self, error: CommandError) -> bool:
        """Whether to ask again: nobody answers, and that not for long."""
        return error.status is ExitStatus.UNAVAILABLE and self._monotonic() - self.heard_at <= PATIENCE_S
