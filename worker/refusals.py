"""What etcd refuses this worker for good, for want of a permission or because of a limit: said loudly, not at length.

Who is refused tries again by itself, apart from what is not refused; so it goes on when the fault is mended. Here it is
only remembered and told: one line at once, then at most one a minute, and a word in the worker's beat for as long as
the refusals go on.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from common.clock import Clock
from common.errors import EtcdBusyError, EtcdRefusedError

_log = logging.getLogger(__name__)

_Item = TypeVar("_Item")

AGAIN_S: Final = 1.0
"""How long what was refused for good waits before it is tried again."""
SAID_AGAIN_S: Final = 60.0
_RECENT_S: Final = 10.0
"""A refusal is a problem for so long; what is refused on is tried more often than that."""


def is_for_good(error: Exception) -> bool:
    """Whether etcd would refuse the same again until somebody mends something; False: it is away, busy, or in doubt."""
    return isinstance(error, EtcdRefusedError) and not isinstance(error, EtcdBusyError)


async def apart(
    items: Sequence[_Item],
    work: Callable[[Sequence[_Item]], Awaitable[None]],
    refused: Callable[[_Item, EtcdRefusedError], None],
) -> None:
    """Do the work on all together; where etcd refuses it for good, in halves, down to those that are refused.

    Any other error of ``work`` is passed on.
    """
    if not items:
        return
    try:
        await work(items)
    except EtcdRefusedError as error:
        if not is_for_good(error):
            raise
        if len(items) == 1:
            refused(items[0], error)
            return
        middle = len(items) // 2
        await apart(items[:middle], work, refused)
        await apart(items[middle:], work, refused)


class Refusals:
    """Remembers what is refused now."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = self._said = float("-inf")
        self._unsaid: set[str] = set()
        self._problem = ""

    def note(self, what: str, error: Exception) -> None:
        """etcd has refused this, of the run or job ``what``; nothing is noted of an error that passes by itself."""
        if not is_for_good(error):
            return
        now = self._clock.monotonic()
        self._last, self._problem = now, f"etcd refuses what is to be written of {what}: {error}"
        self._unsaid.add(what)
        if now - self._said < SAID_AGAIN_S:
            return
        more = f" (and of {len(self._unsaid) - 1} others)" if len(self._unsaid) > 1 else ""
        extra = {"action": "etcd.refuses", "what": what, "others": len(self._unsaid) - 1}
        _log.error("%s%s; it is tried again every second", self._problem, more, extra=extra)
        self._said = now
        self._unsaid.clear()

    @property
    def problem(self) -> str | None:
        """What is refused, in a line for people; None: nothing, as far as is known."""
        return self._problem if self._clock.monotonic() - self._last < _RECENT_S else None
