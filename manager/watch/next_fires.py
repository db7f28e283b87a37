"""When each job fires next, in that order, or since when it is due: made once a call asks for it, then kept in step.

To make it takes some 30 microseconds a job; others use the loop meanwhile. Where nobody asks, nothing is kept.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Sequence
from typing import Final

_AT_ONCE: Final = 200
"""Jobs that are looked at without a pause."""
_FEW: Final = 500
"""So many are put into their places one by one; where more have changed, all are sorted."""


class NextFires:
    """A key for each job that fires again: 16 digits (ms since the epoch), ``/`` and its name."""

    def __init__(self, next_after: Callable[[str, int], int | None], names: Sequence[str]) -> None:
        """``next_after``: when a job fires after an instant, if it does; ``names``: of all jobs, as they are."""
        self._next_after = next_after
        self._names = names
        self._order: list[str] = []
        self._keys: dict[str, str] = {}
        self._stale: set[str] | None = None
        """What has changed since a call asked; None: all of it."""
        self._lock = asyncio.Lock()

    def changed(self, name: str) -> None:
        """The job is another one, or gone."""
        if self._stale is None:
            return
        self._stale.add(name)
        if len(self._stale) > len(self._names) + _FEW:  # no call asks any more
            self.forget()

    def forget(self) -> None:
        """Nothing is kept until a call asks again."""
        self._stale, self._order, self._keys = None, [], {}

    async def refresh(self, now_ms: int) -> None:
        """What follows is as of now. Where it is cancelled, the next one goes on with the rest."""
        async with self._lock:
            rest = set(self._names) if self._stale is None else self._stale
            due = bisect_left(self._order, f"{now_ms:016d}0")  # "0" comes behind "/"
            rest.update(_name(key) for key in self._order[:due])
            self._stale = set()
            one_by_one = len(rest) <= _FEW
            try:
                for place, name in enumerate(list(rest), start=1):
                    at_ms = self._next_after(name, now_ms)
                    was = self._keys.pop(name, None)
                    if was is not None and one_by_one:
                        del self._order[bisect_left(self._order, was)]
                    if at_ms is not None:
                        key = self._keys[name] = f"{at_ms:016d}/{name}"
                        if one_by_one:
                            insort(self._order, key)
                    rest.remove(name)
                    if place % _AT_ONCE == 0:
                        await asyncio.sleep(0)
            finally:
                if self._stale is not None:
                    self._stale |= rest
                if not one_by_one:
                    self._order = sorted(self._keys.values())

    def in_order(self, *, behind: str, descending: bool, limit: int) -> list[str]:
        """The next keys behind that one; "": from the first on."""
        if descending:
            end = bisect_left(self._order, behind) if behind else len(self._order)
            return self._order[max(0, end - limit) : end][::-1]
        start = bisect_right(self._order, behind)
        return self._order[start : start + limit]

    def until(self, ms: int) -> list[str]:
        """The jobs whose next fire is due by then."""
        return [_name(key) for key in self._order[: bisect_left(self._order, f"{ms:016d}0")]]

    def keys(self, jobs: Iterable[str]) -> dict[str, str]:
        """Those of these jobs that have one, by job."""
        return {name: self._keys[name] for name in jobs if name in self._keys}


class Overdue:
    """The jobs that have been due since no worker takes fires: by the clock, as no worker counts them."""

    def __init__(self, next_after: Callable[[str, int], int | None], names: Sequence[str]) -> None:
        self._fires = NextFires(next_after, names)
        self._since_ms: int | None = None

    def changed(self, name: str) -> None:
        """The job is another one, or gone."""
        self._fires.changed(name)

    async def names(self, *, since_ms: int | None, now_ms: int) -> list[str]:
        """Those with a fire between the two; None: workers take fires, and what is kept is forgotten."""
        if since_ms != self._since_ms:
            self._fires.forget()
            self._since_ms = since_ms
        if since_ms is None:
            return []
        await self._fires.refresh(since_ms)
        return self._fires.until(now_ms)


def _name(key: str) -> str:
    return key.partition("/")[2]
