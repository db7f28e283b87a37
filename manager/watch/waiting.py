"""Waiting until what a watch shows fulfils a condition; never longer than said."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Changes:
    """Tells those who wait that something has changed, so that they look again."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def notify(self) -> None:
        """Everybody who waits looks again."""
        self._event.set()
        self._event = asyncio.Event()

    async def until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Whether the condition holds, at the latest after so many seconds; it is asked again at each change."""
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    await self._event.wait()
        except TimeoutError:
            return condition()
        return True
