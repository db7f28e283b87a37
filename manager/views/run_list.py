"""The list of runs: those that are going, as the watch shows them, ahead of the records of those that have ended."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Any

from common.access.rights import Rights
from common.clock import Clock
from common.errors import UnavailableError
from common.runlog import RunFilter
from manager.views.ending import EndingRuns, shown
from manager.views.history import History, seen_by
from manager.views.shapes import going_view, run_view
from manager.watch.open_runs import OpenRun, Place
from manager.watch.watching import Watching

NOT_KNOWN = "etcd has not been reached since this manager started: runs that are going are not shown"
NOT_RECORDED = "the log store cannot be reached: runs that have ended meanwhile may be shown as running"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunList:
    """One page, and where the next one starts (None: there is none)."""

    items: list[dict[str, Any]]
    next_cursor: str | None
    warnings: list[str]


class RunLists:
    """Pages over both. A run that ends while somebody turns pages may come once more, as a record.

    None is left out, but for a moment one that took no lock: it has ended, and its record is on its way.
    """

    def __init__(self, watching: Watching, history: History, ending: EndingRuns, *, clock: Clock) -> None:
        self._watching = watching
        self._history = history
        self._ending = ending
        self._clock = clock

    async def page(
        self, wanted: RunFilter, rights: Rights, *, going: bool, ended: bool, cursor: str | None, limit: int
    ) -> RunList:
        """Of those wanted, the ones that are going or have ended, or both; each newest plan time first, no output.

        Only of those that a caller may know of: a page then may hold fewer than asked for, and have a next one.

        UnavailableError: the log store is away, or, where only those that go are wanted, etcd was never reached.
        """
        after = _place(cursor) if cursor is not None and going else None
        is_in_records = cursor is not None and after is None
        if cursor is not None and is_in_records:
            await self._history.check_cursor(cursor)
        found: list[OpenRun] = []
        warnings: list[str] = []
        if going and not is_in_records:
            try:
                await self._watching.ready()
                warnings = self._watching.warnings
            except UnavailableError:
                if not ended:  # without the runs that go there is no list
                    raise
                warnings = [NOT_KNOWN]
            # Before the log store is asked: what ends meanwhile has its record by then, so it is in one of the two.
            found = self._watching.open_runs.newest(seen_by(wanted, rights), after=after, limit=limit + 1)
        now_ms = self._clock.wall_ms()
        ending = await self._ending.all() if going else {}
        items = [shown(going_view(run, now_ms=now_ms), ending.get(str(run.run_id))) for run in found[:limit]]
        if len(found) > limit or (ended and len(found) == limit):
            return RunList(items=items, next_cursor=_cursor(found[limit - 1].place), warnings=warnings)
        if not ended:
            late = [NOT_RECORDED] if items and self._history.is_away else []
            return RunList(items=items, next_cursor=None, warnings=warnings + late)
        of_records = cursor if is_in_records else None
        page = await self._history.seen_runs(wanted, rights, cursor=of_records, limit=limit - len(items))
        views = map(run_view, page.items)
        records = [shown(view, ending.get(view["id"])) for view in views]
        recorded = {record["id"] for record in records}
        items = [item for item in items if item["id"] not in recorded]
        items, next_cursor = items + records, page.next_cursor
        if not (items or rights.sees_all or wanted.job is None or self._watching.catalog.seen(wanted.job, rights)):
            next_cursor = None  # as of a job that there is not: of hidden records there may be any number
        return RunList(items=items, next_cursor=next_cursor, warnings=warnings)


def _cursor(place: Place) -> str:
    """Where a page ends among the runs that are going. It never looks like a cursor of the log store's."""
    plan_ms, run = place
    return base64.urlsafe_b64encode(f"o{plan_ms}/{run}".encode(errors="surrogateescape")).decode().rstrip("=")


def _place(cursor: str) -> Place | None:
    """What `_cursor` has spelled; None: any other text, for the log store to judge."""
    try:
        raw = base64.b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        plan_ms, slash, run = raw.decode(errors="surrogateescape").removeprefix("o").partition("/")
        return (int(plan_ms), run) if raw[:1] == b"o" and slash else None
    except (binascii.Error, ValueError):
        return None
