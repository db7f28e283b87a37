"""What comes up when: a heap of wall times, for a loop that waits for the first. No timer and no task for each."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import count
from typing import Generic, TypeVar

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
