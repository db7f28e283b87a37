"""The list of runs: those that are going, as the watch shows them, ahead of the records of those that have ended."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from common.access.rights import Rights
from common.clock import Clock
from common.cursors import decode_cursor, encode_cursor
from common.errors import UnavailableError
from common.protocol.keys import RunId, is_text
from common.runlog import RunFilter
from common.runlog.causes import cause_of
from common.verdicts import Verdict
from manager.views.ending import EndingRunsView, shown
from manager.views.history import History, seen_by
from manager.views.shapes import going_view, run_view
from manager.watch.open_runs import OpenRun, Place
from manager.watch.watching import Watching

NOT_KNOWN = "etcd has not been reached since this manager started: runs that are going are not shown"
NOT_RECORDED = "the log store cannot be reached: runs that have ended meanwhile may be shown as running"
_RECORDS_COUNTED: Final = 1_000
_PAGES_COUNTED: Final = 2
"""So many records are counted by their causes, in so many pages of the log store."""
MOST_GROUPS: Final = 100
_SHOWN: Final = 5
"""Of a group's jobs and runs."""
_OF_CAUSE: Final = ("status", "exitCode", "signal", "reason")
_LINES: Final = 10
_OUTPUT_READ: Final = 65_536
_LINE_CHARS: Final = 300
"""Of so many groups the newest run's output is read for its last line, where it is no longer than so many bytes."""
MOST_NAMES: Final = 10
"""A part of a name that is in no more names than this is looked for by these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunList:
    """One page, and where the next one starts (None: there is none)."""

    items: list[dict[str, Any]]
    next_cursor: str | None
    warnings: list[str]
    looked_ms: int | None = None
    """The plan time down to which it has looked, where that ended the page before it was full, and may be told."""


class RunLists:
    """Pages over both. A run that ends while a user turns pages may come once more, as a record.

    None is left out, but for a moment one that took no lock: it has ended, and its record is on its way.
    """

    def __init__(self, watching: Watching, history: History, ending: EndingRunsView, *, clock: Clock) -> None:
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
        wanted = self.by_names(wanted, rights)
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
        if not items and not self._may_name(wanted.named, rights):
            next_cursor = None  # as of a job that there is not: of hidden records there may be any number
        looked_ms = page.looked_ms if rights.sees_all else None
        return RunList(items=items, next_cursor=next_cursor, warnings=warnings, looked_ms=looked_ms)

    def _may_name(self, jobs: Sequence[str], rights: Rights) -> bool:
        """Whether a caller may know of one of these jobs; of no job in particular, of any."""
        return rights.sees_all or not jobs or any(self._watching.catalog.seen(job, rights) for job in jobs)

    async def by_cause(self, wanted: RunFilter, rights: Rights) -> dict[str, Any]:
        """The newest runs that did not go well, of those wanted, counted by what they have in common; most first.

        ``isComplete``: all of them were counted; else those down to ``lookedTime``.
        """
        statuses = (wanted.statuses or frozenset(Verdict)) - {Verdict.SUCCESS}
        wanted = self.by_names(replace(wanted, statuses=statuses), rights)
        records, cursor, page = list[Mapping[str, Any]](), None, None
        for _ in range(_PAGES_COUNTED if statuses else 0):
            page = await self._history.walk(wanted, rights, cursor=cursor, limit=_RECORDS_COUNTED // _PAGES_COUNTED)
            records += page.items
            if (cursor := page.next_cursor) is None:
                break
        groups = sorted(_grouped(records), key=lambda group: (-group["count"], group["error"]))[:MOST_GROUPS]
        lines = await asyncio.gather(*(self._last_line(group) for group in groups[:_LINES]))
        for group, line in zip(groups, lines, strict=False):
            group.pop("outputBytes")
            group["lastLine"] = line
        looked_ms = None if cursor is None or page is None else page.looked_ms or records[-1].get("planTime")
        return {
            "items": [], "nextCursor": None, "warnings": [], "groups": groups, "records": len(records),
            "isComplete": cursor is None, "lookedTime": looked_ms if rights.sees_all else None,
        }  # fmt: skip

    async def _last_line(self, group: Mapping[str, Any]) -> str | None:
        """What the group's newest run has printed last; None: nothing, or too much to be read for a line."""
        if not 0 < group["outputBytes"] <= _OUTPUT_READ:
            return None
        try:
            record = await self._history.record(RunId.parse(group["runs"][0]["id"]))
        except (UnavailableError, ValueError):  # of the legacy system
            return None
        lines = str((record or {}).get("output", "")).rstrip().splitlines()
        return lines[-1][:_LINE_CHARS] if lines else None

    def by_names(self, wanted: RunFilter, rights: Rights) -> RunFilter:
        """The same, by the names of the few jobs that a caller may know of with that part in it.

        Of jobs that are deleted the whole name finds the records: no list has their names.
        """
        if not wanted.part or wanted.named:
            return wanted
        part, catalog = wanted.part.casefold(), self._watching.catalog
        having = (name for name in catalog.names_seen(rights) if part in name.casefold() and is_text(name))
        names = list(islice(having, MOST_NAMES + 1))
        if len(names) > MOST_NAMES:
            return wanted
        if rights.sees_all or not names:  # else a hidden job of this name would be told apart from none
            names = [*dict.fromkeys((*names, wanted.part))]
        return replace(wanted, jobs=tuple(names))


def _grouped(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """By cause; each with its newest runs. ``records``: newest first."""
    by_cause: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        by_cause.setdefault(cause_of(record), []).append(record)
    groups = []
    for cause, those in by_cause.items():
        newest, jobs = those[0], list(dict.fromkeys(str(one.get("jobName", "")) for one in those))
        group = {
            "error": cause, "count": len(those), "jobs": jobs[:_SHOWN], "jobCount": len(jobs),
            "firstTime": those[-1].get("planTime"), "lastTime": newest.get("planTime"),
            "runs": [run_view(one) for one in those[:_SHOWN]], "outputBytes": _whole(newest.get("outputBytes")),
        }  # fmt: skip
        groups.append(group | {name: newest[name] for name in _OF_CAUSE if name in newest})
    return groups


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def _cursor(place: Place) -> str:
    """Where a page ends among the runs that are going. It never looks like a cursor of the log store's."""
    plan_ms, run = place
    return encode_cursor(f"o{plan_ms}/{run}")


def _place(cursor: str) -> Place | None:
    """What `_cursor` has spelled; None: any other text, for the log store to judge."""
    place = decode_cursor(cursor, errors="surrogateescape")
    plan_ms, slash, run = place.removeprefix("o").partition("/")
    try:
        return (int(plan_ms), run) if place.startswith("o") and slash else None
    except ValueError:
        return None
