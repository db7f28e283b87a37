"""One worker, live or gone: what runs there, what no other can run, what its last day came to, and what happened to it.

Nothing is kept for this. What runs and which jobs ask for what the watch knows; the day is counted from the newest
1,000 records of the worker; what happened stands in the alerts, the audit and the roster already.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from common.access.audit_chain import Entry, Outcome
from common.access.rights import Rights
from common.jobs.job import JobSpec
from common.notices.alerts import Alert
from common.protocol.placement import is_eligible
from common.protocol.roster import Left
from common.runlog import RunFilter
from common.verdicts import EventKind
from manager.views.ending import EndingRunsView, shown
from manager.views.history import History, seen_by
from manager.views.inventory import SeenWorker
from manager.views.rows import seen_usual_ms
from manager.views.shapes import going_view, worker_state
from manager.watch.catalog import Catalog
from manager.watch.open_runs import OpenRun
from manager.watch.watching import Watching

MOST_RUNNING: Final = 100
MOST_NAMED: Final = 50
MOST_RECORDS: Final = 1_000
MOST_EVENTS: Final = 50
DAY_MS: Final = 86_400_000
BUCKETS: Final = 96
_YIELD_EVERY: Final = 500
_A_READ: Final = 500
_KINDS: Final[Mapping[EventKind, str]] = {
    EventKind.WORKER_DOWN: "down", EventKind.WORKER_REFUSING: "refusing", EventKind.CLOCK_OFF: "clock",
    EventKind.SPOOL_FILLING: "spool",
}  # fmt: skip
_ACTIONS: Final = {"worker.drain": "drained", "worker.undrain": "undrained", "worker.forget": "forgotten"}


class Able(NamedTuple):
    """What decides whether a worker fits a job."""

    labels: Mapping[str, str]
    slots: int


def able(worker: SeenWorker) -> Able | None:
    """Of one that is gone: as it was. None: it is not known."""
    known = worker.member or worker.past
    return None if known is None else Able(known.labels, known.slots)


async def running(
    watching: Watching, ending: EndingRunsView, history: History, name: str, rights: Rights, *, now_ms: int
) -> dict[str, Any]:
    """The runs that go there, the newest first, each with how long its job usually runs; and how many there are."""
    wanted = seen_by(RunFilter(worker=name), rights)
    runs = watching.open_runs.newest(wanted, after=None, limit=MOST_RUNNING)
    count = len(runs) if len(runs) < MOST_RUNNING else watching.open_runs.count(wanted)
    known = await ending.all()
    results = await history.results(list({run.run_id.job_name for run in runs})) or {}
    items = []
    for run in runs:
        view = shown(going_view(run, now_ms=now_ms), known.get(str(run.run_id)))
        name = run.run_id.job_name
        usual_ms = seen_usual_ms(results.get(name), watching.catalog.get(name), rights)
        items.append({**view, **({} if usual_ms is None else {"usualMs": usual_ms})})
    return {"items": items, "count": count}


async def only_there(catalog: Catalog, own: Able, others: Sequence[Able], rights: Rights) -> dict[str, Any]:
    """The enabled jobs that ask for slots or labels which this worker has, and no other live one; some of them named.

    Whether one takes fires just now is not looked at: drained, it comes back.
    """
    names, count = list[str](), 0
    for index, wanting in enumerate(list(catalog.needs.values()), 1):
        if index % _YIELD_EVERY == 0:
            await asyncio.sleep(0)
        spec = next((job.saved.spec for name in wanting if (job := catalog.get(name)) and job.saved), None)
        if spec is None or not _fits(spec, own) or any(_fits(spec, other) for other in others):
            continue
        seen = [name for name in wanting if catalog.seen(name, rights) is not None]
        count += len(seen)
        names += seen[: MOST_NAMED - len(names)]
    return {"items": sorted(names), "count": count}


def _fits(spec: JobSpec, worker: Able) -> bool:
    return is_eligible(spec, worker.labels, worker.slots)


async def day_of(history: History, watching: Watching, name: str, rights: Rights, *, now_ms: int) -> dict[str, Any]:
    """The verdicts of the last day's runs, and how many slots they used: of the newest 1,000 that a caller may know of.

    ``fromMs``: since when that is all. UnavailableError: the log store is away.
    """
    from_ms, cursor, records = now_ms - DAY_MS, None, list[dict[str, Any]]()
    wanted = RunFilter(worker=name, from_ms=from_ms - DAY_MS)  # what was planned before may have run since
    for _ in range(MOST_RECORDS // _A_READ):
        page = await history.walk(wanted, rights, cursor=cursor, limit=_A_READ)
        records += page.items
        if (cursor := page.next_cursor) is None:
            break
    if cursor is not None and records:
        from_ms = max(from_ms, records[-1]["planTime"])
    inside = [one for one in records if one["planTime"] >= from_ms]
    going = watching.open_runs.newest(seen_by(RunFilter(worker=name), rights), after=None, limit=MOST_RUNNING)
    return {
        "fromMs": from_ms, "toMs": now_ms, "verdicts": dict(Counter(str(one.get("status")) for one in inside)),
        "slots": _slots_used(_spans(records, going, watching.catalog, now_ms), from_ms, now_ms),
    }  # fmt: skip


class _Span(NamedTuple):
    """When a run held its slots."""

    start_ms: int
    end_ms: int
    slots: int


def _spans(
    records: Sequence[Mapping[str, Any]], going: Sequence[OpenRun], catalog: Catalog, now_ms: int
) -> Iterator[_Span]:  # fmt: skip
    """No record says how many slots its run held: it is what the job asks for now."""

    def slots_of(name: str) -> int:
        job = catalog.get(name)
        return 1 if job is None or job.saved is None else job.saved.spec.slots

    for record in records:
        start_ms, end_ms = record.get("startTime"), record.get("endTime")
        if isinstance(start_ms, int) and isinstance(end_ms, int):
            yield _Span(start_ms, end_ms, slots_of(str(record.get("jobName"))))
    for run in going:
        if run.has_started(now_ms):
            yield _Span(run.start_ms, now_ms, slots_of(run.run_id.job_name))


def _slots_used(spans: Iterator[_Span], from_ms: int, to_ms: int) -> list[dict[str, Any]]:
    """How many slots were used on average, in equal parts of the time."""
    part_ms = max(1000, -(-(to_ms - from_ms) // BUCKETS))
    used = Counter[int]()
    for start_ms, end_ms, slots in spans:
        at_ms = max(start_ms, from_ms)
        while at_ms < min(end_ms, to_ms):
            part = (at_ms - from_ms) // part_ms
            until_ms = min(end_ms, to_ms, from_ms + (part + 1) * part_ms)
            used[part] += (until_ms - at_ms) * slots
            at_ms = until_ms
    parts = range(-(-(to_ms - from_ms) // part_ms))
    return [{"ms": from_ms + part * part_ms, "used": round(used[part] / part_ms, 2)} for part in parts]


def events_of(worker: SeenWorker, alerts: Collection[Alert], entries: Collection[Entry]) -> list[dict[str, Any]]:
    """What happened to it, the newest first: when, until when where it lasted (null: it still does), by whom, why."""
    found = [
        _event(_KINDS[one.event.kind], one.since_ms, end_ms=one.end_ms, lasts=True, reason=one.event.reason)
        for one in alerts
        if one.event.kind in _KINDS and one.event.subject == worker.name
    ]
    found += [
        _event(_ACTIONS[note.action], note.ms, by=note.who, reason=note.details.get("reason"))
        for note in (entry.note for entry in entries)
        if note.action in _ACTIONS and note.outcome is Outcome.DONE and note.details.get("changed", True)
    ]
    if worker.member is not None:
        found.append(_event("joined", worker.member.since_ms))
    elif worker.past is not None and worker_state(worker) != "gone":
        found.append(_event(str(worker.past.left or Left.STOPPED), worker.past.seen_ms))
    return sorted(found, key=lambda one: -one["ms"])[:MOST_EVENTS]


def _event(
    kind: str, ms: int, *, end_ms: int | None = None, lasts: bool = False, by: str | None = None,
    reason: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    return {"kind": kind, "ms": ms, "endMs": end_ms, "lasts": lasts, "by": by, "reason": reason}
