"""While the spool refuses records no new fires are taken; that it takes them again is found out by trying.

    taking --a record refused--> refusing --a trial of a mebibyte succeeded--> taking

Nothing is appended while no fires are taken, so nothing else would notice. A record that fits in between proves
nothing: the next one may be larger.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from worker.record.spool import SpoolError

_log = logging.getLogger(__name__)

TRY_AGAIN_S: Final = 5.0


class SpoolWatch:
    """Announces, in order, that the spool refuses records and that it takes them again."""

    def __init__(
        self,
        *,
        try_out: Callable[[], Awaitable[None]],
        announce: Callable[[str | None], Awaitable[None]],
        every_s: float = TRY_AGAIN_S,
    ) -> None:
        """``try_out`` raises SpoolError while records are refused; ``announce`` is given the fault, or None."""
        self._try_out = try_out
        self._announce = announce
        self._every_s = every_s
        self._fault: str | None = None
        self._refused = asyncio.Event()

    def note(self, fault: str) -> None:
        """A record was refused."""
        if self._fault is None:
            self._fault = fault
            self._refused.set()

    async def run(self) -> None:
        """Watches until cancelled."""
        while True:
            await self._refused.wait()
            await self._announce(self._fault)
            while True:
                with suppress(SpoolError):
                    await self._try_out()
                    break
                await asyncio.sleep(self._every_s)
            self._fault = None
            self._refused.clear()
            await self._announce(None)
