"""The requests of one job, in the order in which they go: oldest plan time first, among those whose time has come."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterator, ValuesView

from common.protocol.keys import RunId
from common.protocol.request import Request

Place = tuple[int, RunId]


class Lineup:
    """Adding, removing and asking who is next costs little, however many wait."""

    __slots__ = ("_by_key", "_later", "_ready")

    def __init__(self) -> None:
        self._by_key: dict[str, Request] = {}
        self._ready: list[tuple[Place, str]] = []
        self._later: list[tuple[int, int, str]] = []
        """Not-before, revision, key; also of requests that are gone or have been written again since."""

    def __len__(self) -> int:
        return len(self._by_key)

    def values(self) -> ValuesView[Request]:
        """All of them, in no order."""
        return self._by_key.values()

    def put(self, key: str, request: Request) -> None:
        """Take in the request as it is under this key now; it lines up once its time has come."""
        self.remove(key)
        self._by_key[key] = request
        heapq.heappush(self._later, (request.not_before_ms, request.revision, key))

    def remove(self, key: str) -> None:
        """Forget what was under this key."""
        request = self._by_key.pop(key, None)
        if request is None:
            return
        place = (order_of(request), key)
        index = bisect_left(self._ready, place)
        if index < len(self._ready) and self._ready[index] == place:
            del self._ready[index]

    def advance(self, now_ms: int) -> int | None:
        """Line up those whose time has come; when the next one's will, or None."""
        while self._later:
            at_ms, revision, key = self._later[0]
            request = self._by_key.get(key)
            is_current = request is not None and (request.not_before_ms, request.revision) == (at_ms, revision)
            if is_current and at_ms > now_ms:
                return at_ms
            heapq.heappop(self._later)
            if is_current and request is not None:
                self._line_up((order_of(request), key))
        return None

    def heads(self, count: int) -> Iterator[tuple[str, Request]]:
        """The first so many, with their keys."""
        for _, key in self._ready[:count]:
            yield key, self._by_key[key]

    def _line_up(self, place: tuple[Place, str]) -> None:
        index = bisect_left(self._ready, place)
        if index == len(self._ready) or self._ready[index] != place:
            insort(self._ready, place)


def order_of(request: Request) -> Place:
    """A job's requests go in this order."""
    return request.plan_ms, request.run_id
