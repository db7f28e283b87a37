"""For both queues: what comes up when, the waiter for it, and who has the next slots. No timer and no task for each.

In a line for slots the first waits until there are enough for it, and those behind it wait, too: else what takes
several slots would never have them.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Final, Generic, TypeVar

from common.clock import Clock

LONGEST_S: Final = 5.0
"""However late the moment, the wall clock is looked at again after so long: it is slewed, machines are suspended."""


class Alarm:
    """Clear it, read the state, act, then wait: a ring in between is not lost."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._event = asyncio.Event()

    def ring(self) -> None:
        """Wake the waiter, now or when it next waits."""
        self._event.set()

    def clear(self) -> None:
        self._event.clear()

    async def wait_until_wall(self, wall_ms: int | None) -> None:
        """Return when rung, once the wall clock has reached ``wall_ms``, or earlier: look again after waking."""
        if self._event.is_set():
            await asyncio.sleep(0)  # others have their turn, also between two turns of a waiter that rings for itself
            return
        if wall_ms is None:
            await self._event.wait()
            return
        delay_s = (wall_ms - self._clock.wall_ms()) / 1000
        if delay_s <= 0:
            await asyncio.sleep(0)
            return
        handle = asyncio.get_running_loop().call_later(min(delay_s, LONGEST_S), self._event.set)
        try:
            await self._event.wait()
        finally:
            handle.cancel()


T = TypeVar("T")


class Cues(Generic[T]):
    """Each comes up once, at its time; those of one time in the order in which they were put."""

    __slots__ = ("_heap", "_numbers")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, T]] = []
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def next_ms(self) -> int | None:
        """When the first comes up."""
        return self._heap[0][0] if self._heap else None

    def put(self, at_ms: int, what: T) -> None:
        """Have it come up at this wall time, also where another cue of it is there."""
        heapq.heappush(self._heap, (at_ms, next(self._numbers), what))

    def due(self, now_ms: int) -> Iterator[tuple[int, T]]:
        """Takes what has come up, each with its time; also what is put meanwhile."""
        while self._heap and self._heap[0][0] <= now_ms:
            at_ms, _, what = heapq.heappop(self._heap)
            yield at_ms, what

    def keep(self, is_wanted: Callable[[T], bool]) -> None:
        """Drop the others."""
        self._heap = [cue for cue in self._heap if is_wanted(cue[2])]
        heapq.heapify(self._heap)

    def clear(self) -> None:
        """Drop all: they were planned by a clock that has jumped."""
        self._heap.clear()


@dataclass(slots=True, kw_only=True, eq=False)
class Pending:
    """What this worker is to try: a job's undecided fires, or a run that was asked for."""

    queued: bool = False
    """It stands in the line for slots; it keeps its place there while it does not wait for a moment."""
    busy: bool = False
    """A try of it is on its way to etcd, or in doubt."""
    parked: bool = False
    """It waits for a lock to come free, or for a cue."""
    freed: bool = False
    """This worker freed the lock while it was busy: an answer that it is held may be older than that."""
    gone: bool = False
    """Another has taken its place, or nothing has."""

    @property
    def waits(self) -> bool:
        """Whether it is to be tried as soon as there are slots."""
        raise NotImplementedError

    @property
    def order(self) -> tuple[int, ...]:
        """Its place in the line: the smaller, the earlier."""
        raise NotImplementedError


P = TypeVar("P", bound=Pending)


class SlotLine(Generic[P]):
    """The line; of two whose order is the same, the one that came first."""

    __slots__ = ("_heap", "_numbers")

    def __init__(self) -> None:
        self._heap: list[tuple[tuple[int, ...], int, P]] = []
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._heap)

    def join(self, one: P) -> None:
        """Put it into the line, once."""
        if one.waits and not one.queued:
            one.queued = True
            heapq.heappush(self._heap, (one.order, next(self._numbers), one))

    def first(self) -> P | None:
        """The first that still waits; it stays where it is."""
        while self._heap:
            one = self._heap[0][2]
            if one.waits:
                return one
            self.leave()
        return None

    def leave(self) -> None:
        """The first leaves the line."""
        heapq.heappop(self._heap)[2].queued = False

    def drop_gone(self) -> None:
        """Those that are gone take no room."""
        self._heap = [entry for entry in self._heap if not entry[2].gone]
        heapq.heapify(self._heap)
