"""Lists of jobs in another order than that of their names: by the next fire, the newest failure, the newest duration.

Jobs without one come behind all others, by their names, in both directions. A cursor says what the last job of a page
was sorted by, so a job that has changed meanwhile may come twice, or not at all; and it is sealed, as a page may end at
a job that its caller may not know of. A page looks at some thousands of jobs at most: then it is short, and has a next.

The watch knows when a job fires next. What it came to the log store knows: where few jobs are asked for, their keys are
read, else the order itself, from an index, and those that are not asked for are left out.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from common.access.rights import Rights
from common.clock import Clock
from common.cursors import no_cursor
from common.protocol.keys import is_text
from common.runlog import ByResult
from manager.views.cursors import SealedCursors
from manager.views.history import History
from manager.watch.catalog import Catalog, CatalogPage, JobQuery

FEW: Final = 1_000
"""Of so many jobs the keys are read."""
_LOOKED_AT: Final = 5_000
_STEP: Final = 500


class Sort(StrEnum):
    """What a list of jobs is in the order of; with ``-`` in front the greatest, latest or newest comes first."""

    NAME = "name"
    NAME_DOWN = "-name"
    NEXT = "next"
    NEXT_DOWN = "-next"
    FAILURE = "failure"
    FAILURE_DOWN = "-failure"
    DURATION = "duration"
    DURATION_DOWN = "-duration"

    @property
    def by(self) -> str:
        return self.removeprefix("-")

    @property
    def descending(self) -> bool:
        return self.startswith("-")


_BY_RESULT: Final = {"failure": ByResult.FAILED, "duration": ByResult.TOOK}


class _Place(NamedTuple):
    """Where a page ends."""

    key: str
    """What its last job was sorted by; "": it is among those that have nothing."""
    name: str


class JobOrders:
    """Pages of the catalog."""

    def __init__(self, catalog: Catalog, history: History, cursors: SealedCursors, *, clock: Clock) -> None:
        self._catalog = catalog
        self._history = history
        self._cursors = cursors
        self._clock = clock

    async def page(self, query: JobQuery, rights: Rights, sort: Sort, *, cursor: str | None, limit: int) -> CatalogPage:
        """As `Catalog.page`. UnavailableError: the log store, which knows the order, is away."""
        place = None if cursor is None else _read(await self._cursors.opened(cursor), sort)
        if sort.by == "next":
            await self._catalog.next_fires.refresh(self._clock.wall_ms())
        names = await self._catalog.matching(query, rights)
        if sort.by == "name":
            found, end = _reversed(names, place, limit)
        else:
            found, end = await self._sorted(names, sort, place, limit)
        jobs = [job for name in found if (job := self._catalog.seen(name, rights)) is not None]
        sealed = None if end is None else await self._cursors.sealed(json.dumps([sort.value, *end]))
        return CatalogPage(jobs=jobs, total=len(names), next_cursor=sealed)

    async def _sorted(
        self, names: Sequence[str], sort: Sort, place: _Place | None, limit: int
    ) -> tuple[list[str], _Place | None]:
        """The names of a page, and where the next one begins; None: there is none."""
        found: list[_Place] = []
        looked_at = 0
        if place is None or place.key:
            wanted, behind = set(names), "" if place is None else place.key
            few: list[str] | None = None
            if len(names) <= FEW:
                few = sorted((await self._keys(names, sort)).values(), reverse=sort.descending)
            while len(found) <= limit:
                if few is None:
                    keys = await self._in_order(sort, behind, _STEP)
                else:
                    keys = [key for key in few if not behind or (key < behind if sort.descending else key > behind)]
                found += [_Place(key, name) for key in keys if (name := key.partition("/")[2]) in wanted]
                if few is not None or len(keys) < _STEP:
                    place = None
                    break
                behind, looked_at = keys[-1], looked_at + len(keys)
                if looked_at >= _LOOKED_AT and len(found) <= limit:
                    return [name for _, name in found], _Place(behind, behind.partition("/")[2])
        start = 0 if place is None else bisect_right(names, place.name)
        while len(found) <= limit and start < len(names):
            some = names[start : start + _STEP]
            start, looked_at = start + len(some), looked_at + len(some)
            keys_of = await self._keys(some, sort)
            found += [_Place("", name) for name in some if name not in keys_of]
            if looked_at >= _LOOKED_AT and len(found) <= limit and start < len(names):
                return [name for _, name in found], _Place("", some[-1])
        return [name for _, name in found[:limit]], found[limit - 1] if len(found) > limit else None

    async def _in_order(self, sort: Sort, behind: str, limit: int) -> list[str]:
        if sort.by in _BY_RESULT:
            return await self._history.in_order(_BY_RESULT[sort.by], behind, descending=sort.descending, limit=limit)
        return self._catalog.next_fires.in_order(behind=behind, descending=sort.descending, limit=limit)

    async def _keys(self, names: Sequence[str], sort: Sort) -> dict[str, str]:
        if sort.by in _BY_RESULT:
            return await self._history.order_keys(_BY_RESULT[sort.by], [name for name in names if is_text(name)])
        return self._catalog.next_fires.keys(names)


def _reversed(names: Sequence[str], place: _Place | None, limit: int) -> tuple[list[str], _Place | None]:
    end = len(names) if place is None else bisect_left(names, place.name)
    found = list(names[max(0, end - limit) : end][::-1])
    return found, _Place("", found[-1]) if end > limit else None


def _read(text: str, sort: Sort) -> _Place:
    """InvalidInputError where it is none of a list in this order."""
    try:
        of, key, name = json.loads(text)
        if of == sort.value and isinstance(key, str) and isinstance(name, str):
            return _Place(key, name)
    except (ValueError, TypeError, RecursionError):
        pass
    raise no_cursor()
