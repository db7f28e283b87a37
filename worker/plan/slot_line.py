"""Who has the next slots: a line of what is to be tried as soon as there are enough for it.

The first waits until there are, and those behind it wait, too: else what takes several slots would never have them.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import count
from typing import Generic, TypeVar


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
