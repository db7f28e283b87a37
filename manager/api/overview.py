"""``GET /api/v1/overview``: whether all is well. However many jobs, records and pages there are, it stays cheap.

What the watch holds is counted already; the log store and etcd are asked once for all who ask at a time.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Mapping
from typing import Any, Final, TypeVar

from aiohttp import web

from common.access.rights import Rights, Role
from common.errors import EtcronError
from common.notices.alerts import Alert
from common.notices.silences import MOST_JOBS, AlertOf, Quiet
from manager.access.needs import needs
from manager.cluster.clocks import clocks_view
from manager.cluster.health import HALTED
from manager.http.queries import Query
from manager.parts import PARTS, Parts, answer, rights
from manager.views.ending import shown
from manager.views.failing import FailingAlike, SeenFailing
from manager.views.fire_verdicts import SOON_MS
from manager.views.inventory import Fleet
from manager.views.rows import seen_usual_ms
from manager.views.shapes import going_view, healthy, worker_state
from manager.watch.catalog import ListState

T = TypeVar("T")

MOST_GROUPS: Final = 10
MOST_OF_A_GROUP: Final = 10
"""So many of its jobs are shown with all about them."""
MOST_RUNNING: Final = 10
_MOST_WORKERS: Final = 5


def add_routes(app: web.Application) -> None:
    """The call."""
    app.router.add_get("/api/v1/overview", show_overview)


@needs(Role.VIEWER)
async def show_overview(request: web.Request) -> web.Response:
    """Counts, what needs attention by error, the runs that have been going for longest, and how the servers are.

    Of jobs and runs that the caller may know of. What cannot be known now is null, and ``checks`` say why.
    """
    Query.read(request)
    parts, may = request.app[PARTS], rights(request)
    await parts.watching.ready()
    glance = parts.health.glance(etcd_silent_since_ms=parts.watching.stale_since_ms)
    is_away = glance["etcd"] == "away"
    failing, fleet, (going, running), unmet = await asyncio.gather(
        _known(parts.failing.seen(may)), _fleet(parts, is_away=is_away), _running(parts, may),
        _unmet(parts, may, is_away=is_away),
    )  # fmt: skip
    states = parts.watching.catalog.states_seen(may)
    guard = parts.clock_guard
    clocks = clocks_view(
        fleet.clocks if fleet else None, known=fleet is not None, own_fault=guard.fault, max_skew_ms=guard.max_skew_ms
    )
    workers = None if fleet is None else _workers(fleet)
    overdue = await _overdue(parts, may, glance["fires"])
    late = overdue
    if overdue is None and workers is not None and unmet is not None and may.sees_all:
        late = workers["waiting"] + unmet  # a limited caller does not hear of others' fires
    return answer({
        "nowMs": parts.clock.wall_ms(),
        "jobs": {
            "total": sum(states.values()), "paused": states[ListState.PAUSED], "broken": states[ListState.BROKEN],
            "failing": None if failing is None else failing.count, "late": late,
        },
        "running": going,
        "workers": workers,
        "attention": None if failing is None else await _attention(parts, may, failing),
        "longest": running,
        "fires": glance["fires"],
        "checks": {
            "etcd": glance["etcd"], "logStore": glance["logStore"], "sinceMs": glance["sinceMs"],
            "problem": glance["problem"], "clocks": {"state": clocks["state"], "problem": clocks["problem"]},
        },
    })  # fmt: skip


async def _fleet(parts: Parts, *, is_away: bool) -> Fleet | None:
    """None where etcd is away; who looks at a page need not wait until that is found once more."""
    return None if is_away else await _known(parts.fleet.get())


async def _unmet(parts: Parts, may: Rights, *, is_away: bool) -> int | None:
    """How many are due that no worker may take; None: it is not known."""
    return None if is_away else await _known(parts.unmet.count(may))


async def _overdue(parts: Parts, may: Rights, fires: Mapping[str, Any]) -> int | None:
    """How many jobs have been due since nothing fires; None: something does, or it is not known."""
    is_halted, catalog = fires["state"] in HALTED, parts.watching.catalog
    since_ms = (fires["sinceMs"] or 0) if is_halted else None
    names = await catalog.overdue.names(since_ms=since_ms, now_ms=parts.clock.wall_ms() - SOON_MS)
    if not is_halted:
        return None
    return len(names) if may.sees_all else sum(catalog.seen(name, may) is not None for name in names)


async def _running(parts: Parts, may: Rights) -> tuple[int, list[dict[str, Any]]]:
    """How many go, and those that began first, each with how long it usually takes."""
    now_ms, catalog = parts.clock.wall_ms(), parts.watching.catalog
    going, longest = parts.watching.open_runs.longest(may, MOST_RUNNING)
    names = list({run.run_id.job_name for run in longest})
    results, ending = await asyncio.gather(parts.history.results(names), parts.ending.all())
    rows = []
    for run in longest:
        name = run.run_id.job_name
        usual_ms = seen_usual_ms((results or {}).get(name), catalog.get(name), may)
        row = {**going_view(run, now_ms=now_ms), "labels": dict(run.labels)}
        if usual_ms is not None:
            row["usualMs"] = usual_ms
        rows.append(shown(row, ending.get(row["id"])))
    return going, rows


async def _attention(parts: Parts, may: Rights, failing: SeenFailing) -> dict[str, Any]:
    alerts = {one.event.job: one for one in await _known(parts.alerts.open()) or ()}
    quiet = Quiet(parts.watching.notices.silences.values(), now_ms=parts.clock.wall_ms())
    listed = failing.groups[:MOST_GROUPS]
    lines = await asyncio.gather(*(_last_line(parts, may, group) for group in listed))
    groups = []
    for group, line in zip(listed, lines, strict=True):
        groups.append(_group(parts, group, line, alerts, quiet))
        await asyncio.sleep(0)
    return {"groups": groups, "moreGroups": len(failing.groups) - len(listed), "lookedAt": failing.looked_at}


async def _last_line(parts: Parts, may: Rights, group: FailingAlike) -> str | None:
    result = group.newest.result
    return await parts.failing.last_line(str(result.get("runId")), may) if result.get("startTime") else None


def _group(
    parts: Parts, group: FailingAlike, line: str | None, alerts: Mapping[str, Alert], quiet: Quiet
) -> dict[str, Any]:  # fmt: skip
    status, code, signal, phrase = group.error
    newest = group.newest.result
    jobs = []
    for one in group.jobs[:MOST_OF_A_GROUP]:
        job, alert = parts.watching.catalog.get(one.job), alerts.get(one.job)
        labels = (job.labels if job is not None else None) or {}
        acknowledged = None if alert is None else AlertOf(job=one.job, since_ms=alert.since_ms)
        jobs.append({
            "name": one.job, "labels": dict(labels), "state": None if job is None else str(job.state),
            "runId": one.result.get("runId"), "sinceTime": one.since_ms,
            "endTime": one.result.get("endTime") or one.result.get("planTime"),
            "silencedUntil": quiet.until_ms(one.job, labels, acknowledged),
        })  # fmt: skip
    return {
        "status": status, "exitCode": code, "signal": signal, "reason": phrase or None, "count": len(group.jobs),
        "sinceTime": group.since_ms, "result": newest, "lastLine": line, "jobs": jobs,
        "names": [one.job for one in group.jobs[:MOST_JOBS]],
    }  # fmt: skip


def _workers(fleet: Fleet) -> dict[str, Any]:
    live = {worker.worker for worker in healthy(fleet.workers)}
    by_state: dict[str, list[str]] = {}
    for worker in fleet.workers:
        by_state.setdefault(worker_state(worker), []).append(worker.name or worker.key)
    beats = [one.beat.waiting for one in fleet.workers if one.beat is not None and one.name in live]
    gone = [
        (one.past.seen_ms, one.name or one.key)
        for one in fleet.workers if one.past is not None and worker_state(one) == "gone"
    ]  # fmt: skip
    refusing = by_state.get("not accepting", [])
    return {
        "taking": len(by_state.get("accepting", ())), "total": len(live) + len(gone), "goneCount": len(gone),
        "gone": [{"name": name, "seenMs": seen_ms} for seen_ms, name in heapq.nlargest(_MOST_WORKERS, gone)],
        "refusingCount": len(refusing), "refusing": refusing[:_MOST_WORKERS],
        "drained": len(by_state.get("draining", ())) + sum(name in live for name in by_state.get("drained", ())),
        # Where none has a slot, each of them holds what is due.
        "waiting": max(beats, default=0),
    }  # fmt: skip


async def _known(asked: Awaitable[T]) -> T | None:
    """None where the server that would know it is away."""
    try:
        return await asked
    except EtcronError:
        return None
