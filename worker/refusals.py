"""What etcd refuses this worker for good, for want of a permission or because of a limit, and how that is logged.

Who is refused tries again by itself, apart from what is not refused; so it goes on when the fault is mended. Here it is
only remembered and logged: one line at once, then at most one a minute, and a word in the worker's beat for as long as
the refusals go on.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Final

from common.clock import Clock
from common.etcd.settle import Bears, Patience, is_for_good

_log = logging.getLogger(__name__)

RETRY_S: Final = 0.3
"""Before etcd is asked again, where it was away."""
PATIENT: Final = Patience(bears=Bears.ABSENCE, pause_s=lambda _: RETRY_S)
"""What a worker has to do with its runs, it does however long etcd is away."""
LOGGED_AGAIN_S: Final = 60.0
_RECENT_S: Final = 10.0
"""A refusal is a problem for so long; what is refused on is tried more often than that."""


class Refusals:
    """Remembers what is refused now."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = self._logged = float("-inf")
        self._unlogged: set[str] = set()
        self._problem = ""

    def note(self, what: str, error: Exception) -> None:
        """etcd has refused this, of the run or job ``what``; nothing is noted of an error that passes by itself."""
        if not is_for_good(error):
            return
        now = self._clock.monotonic()
        self._last, self._problem = now, f"etcd refuses what is to be written of {what}: {error}"
        self._unlogged.add(what)
        if now - self._logged < LOGGED_AGAIN_S:
            return
        more = f" (and of {len(self._unlogged) - 1} others)" if len(self._unlogged) > 1 else ""
        extra = {"action": "etcd.refuses", "what": what, "others": len(self._unlogged) - 1}
        _log.error("%s%s; it is tried again every second", self._problem, more, extra=extra)
        self._logged = now
        self._unlogged.clear()

    def patience(self, what: str) -> Patience:
        """For what goes on also while etcd refuses it: that is noted. No other write may wait for it meanwhile."""
        return Patience(bears=Bears.ALL, pause_s=PATIENT.pause_s, note=partial(self.note, what))

    @property
    def problem(self) -> str | None:
        """What is refused, in a line for people; None: nothing, as far as is known."""
        return self._problem if self._clock.monotonic() - self._last < _RECENT_S else None
