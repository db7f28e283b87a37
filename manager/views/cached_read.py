"""An answer of a server that is read once for all that ask within a while, however many pages are open."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from common.clock import Clock
from common.errors import EtcronError

T = TypeVar("T")


class CachedRead(Generic[T]):
    """An answer, for so long, also that there was none; who asks meanwhile gets the same."""

    def __init__(self, read: Callable[[], Awaitable[T]], clock: Clock, seconds: float) -> None:
        self._read = read
        self._clock = clock
        self._seconds = seconds
        self._lock = asyncio.Lock()
        self._kept: T | EtcronError | None = None
        self._read_at = self._until = -math.inf

    async def get(self, *, since_s: float = -math.inf) -> T:
        """EtcronError, as the read raised it: it is not known. ``since_s``: it was read then (monotonic) or later."""
        async with self._lock:
            began_s = self._clock.monotonic()
            if self._kept is None or began_s >= self._until or self._read_at < since_s:
                try:
                    self._kept = await self._read()
                except EtcronError as error:
                    self._kept = error
                self._read_at, self._until = began_s, self._clock.monotonic() + self._seconds
        if isinstance(self._kept, EtcronError):
            raise self._kept
        return self._kept
