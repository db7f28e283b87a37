"""``GET /metrics``: the cluster for Prometheus, always answered: what is away is reported as such, or left out.

What is not known has no sample: a count of nought is given only where it has been counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from aiohttp import web
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from common.access.audit_chain import Outcome
from common.access.callers import Via
from common.access.rights import OWNER, Role
from common.errors import EtcdError, UnavailableError
from common.notices.channels import ChannelKind
from common.notices.notice import NoticeState
from common.protocol.clocks import Clocks
from common.runlog import SpanCounts
from common.runlog.statistics import DAY_MS, HOUR_MS
from common.verdicts import Verdict
from common.version import VERSION
from manager.access.audited import LOGINS
from manager.access.needs import needs
from manager.cluster.health import Report
from manager.parts import PARTS, Parts
from manager.views.alerts import Waiting
from manager.views.inventory import SeenWorker
from manager.views.shapes import worker_state
from manager.watch.catalog import ListState

_FAILURES: Final = " or ".join(", ".join(one for one in Verdict if one.is_failure).rsplit(", ", 1))
_OUTCOMES: Final = {NoticeState.SENT: "sent", NoticeState.FAILED: "failed", NoticeState.SENDING: "put_off"}
_READY: Final = ("ready", "degraded", "unready")
_WORKER_STATES: Final = ("accepting", "not accepting", "draining", "drained", "detached", "broken", "stopped", "gone")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditState:
    """Of this manager's audit: entries, and the calls that it has counted."""

    waiting: int
    not_on_disk: int
    lost: int
    logins: Mapping[tuple[str, Outcome], int]
    refused: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one look at everything came to; None: not known."""

    report: Report
    now_ms: int
    jobs: Mapping[ListState, int] | None
    """How many are enabled, paused, broken."""
    failing: int | None
    """Of the jobs that there are, those that are failing."""
    open_runs: int | None
    live_outputs: int
    """Runs that a user looks at, through this manager."""
    oldest_run_s: float | None
    """For how long the oldest run that is going has been due to go; 0 where none goes."""
    today: SpanCounts | None
    """The fires planned since midnight, UTC, that have a record."""
    recent: Mapping[Verdict, int] | None
    """Those of this hour and the last."""
    workers: Sequence[SeenWorker] | None
    clocks: Clocks | None
    audit: AuditState
    sessions: int | None
    waiting: Waiting | None
    sent: Mapping[tuple[str, str], int]
    """Messages, by the kind of channel and what came of them."""
    alerts: int | None


def families(seen: Measured) -> Iterator[Metric]:
    """Every metric family that something is known of."""
    yield InfoMetricFamily("etcron_build", "What this manager is.", {"version": VERSION})
    yield from _servers(seen.report)
    yield from _audit(seen.audit)
    if seen.sessions is not None:
        yield _gauge("etcron_sessions_open", "Sessions of people, on all managers.", seen.sessions)
    yield from _notices(seen)
    yield _gauge(
        "etcron_live_outputs",
        "Runs whose output somebody follows through this manager: take the sum.",
        seen.live_outputs,
    )
    yield from _jobs(seen)
    if seen.workers is not None:
        yield from _workers(seen.workers, seen.clocks, seen.report.clocks["maxClockSkewMs"])


def _servers(report: Report) -> Iterator[Metric]:
    ready = GaugeMetricFamily("etcron_ready", "1 for the state that /readyz of this manager reports.", labels=["state"])
    for state in _READY:
        ready.add_metric([state], report.state == state)
    yield ready
    yield _gauge("etcron_problems", "How many problems /readyz names.", len(report.problems))
    yield _gauge(
        "etcron_etcd_up",
        "1 if etcd answers a linearizable read, which takes a quorum.",
        report.etcd["state"] != "unreachable",
    )
    if report.etcd["state"] != "unreachable":
        full = "1 if etcd's database is full, so that nothing is saved and nothing starts."
        yield _gauge("etcron_etcd_full", full, report.etcd_is_full)
    yield _gauge("etcron_log_store_up", "1 if the log store answers.", report.log_store["state"] == "ok")
    size = GaugeMetricFamily("etcron_etcd_database_bytes", "Size of a member's database.", labels=["endpoint"])
    alarms = GaugeMetricFamily("etcron_etcd_alarms", "Alarms that a member has raised.", labels=["endpoint"])
    quota = GaugeMetricFamily(
        "etcron_etcd_quota_bytes",
        "What it may grow to (etcdQuotaBytes), as etcd does not tell it.",
        labels=["endpoint"],
    )
    for member in report.etcd["endpoints"]:
        if "dbSizeBytes" in member:
            quota.add_metric([member["endpoint"]], member["quotaBytes"])
            size.add_metric([member["endpoint"]], member["dbSizeBytes"])
            alarms.add_metric([member["endpoint"]], len(member["alarms"]))
    yield size
    yield quota
    yield alarms


def _audit(audit: AuditState) -> Iterator[Metric]:
    yield _gauge("etcron_audit_waiting", "Entries of this manager's audit that the log store lacks.", audit.waiting)
    yield _gauge(
        "etcron_audit_not_on_disk", "Of these, those that are not on the manager's disk either.", audit.not_on_disk
    )
    yield _gauge("etcron_audit_lost", "Audit entries that found no room, since this manager started.", audit.lost)
    logins = CounterMetricFamily(
        "etcron_logins", "Logins at this manager; refused: a wrong password.", labels=["way", "outcome"]
    )
    for way, action in LOGINS.items():
        for outcome in Outcome:
            logins.add_metric([way, outcome.replace(" ", "_")], audit.logins.get((action, outcome), 0))
    yield logins
    refused = CounterMetricFamily("etcron_calls_refused", "Other calls that it has refused (401, 403).", labels=["via"])
    for via in Via:
        refused.add_metric([via], audit.refused.get(via, 0))
    yield refused


def _notices(seen: Measured) -> Iterator[Metric]:
    if seen.waiting is not None:
        notices = GaugeMetricFamily("etcron_notices", "Notices that wait, or have failed.", labels=["state"])
        for state, count in seen.waiting.notices.by_state.items():
            notices.add_metric([state], count)
        yield notices
        failing = sum(one.is_failing for one in seen.waiting.channels.values())
        yield _gauge("etcron_channels_failing", "Channels whose messages are refused, or put off for minutes.", failing)
        since_ms = seen.waiting.oldest_ms
        oldest_s = 0.0 if since_ms is None else max(0.0, (seen.now_ms - since_ms) / 1000)
        yield _gauge("etcron_notices_oldest_seconds", "For how long the oldest thing has waited to be told.", oldest_s)
    if (stuck := seen.report.untold) is not None:
        yield _gauge("etcron_notifiers_stuck", "Notifiers that cannot tell all that happens: see /readyz.", len(stuck))
    sent = CounterMetricFamily(
        "etcron_notices_sent", "Messages that this manager has tried to send.", labels=["kind", "outcome"]
    )
    for kind in ChannelKind:
        for state, outcome in _OUTCOMES.items():
            sent.add_metric([kind, outcome], seen.sent.get((kind, state), 0))
    yield sent
    if seen.alerts is not None:
        yield _gauge("etcron_alerts_open", "Problems of jobs and of the system that are not over.", seen.alerts)


def _jobs(seen: Measured) -> Iterator[Metric]:
    if seen.jobs is not None:
        jobs = GaugeMetricFamily("etcron_jobs", "Jobs by state.", labels=["state"])
        for state in (ListState.ENABLED, ListState.PAUSED, ListState.BROKEN):
            jobs.add_metric([state], seen.jobs.get(state, 0))
        yield jobs
        blocked = len(seen.report.blocked)
        yield _gauge(
            "etcron_jobs_blocked",
            "Jobs that a wrong clock keeps from firing (etcron job unblock); at most 1,000.",
            blocked,
        )
        unsigned = seen.report.jobs.unsigned_count or 0
        yield _gauge(
            "etcron_jobs_unsigned",
            "Jobs without a signature that this manager knows; 0 where it signs nothing.",
            unsigned,
        )
    if seen.failing is not None:
        yield _gauge(
            "etcron_jobs_failing",
            f"Jobs whose newest fire that was not skipped is {_FAILURES}; at most 1,000.",
            seen.failing,
        )
    if (without := seen.report.jobs.without_worker_count) is not None:
        yield _gauge("etcron_jobs_without_worker", "Enabled jobs that fit no live worker's labels and slots.", without)
    if seen.open_runs is not None:
        yield _gauge("etcron_runs_open", "Runs that are claimed or running.", seen.open_runs)
    if seen.oldest_run_s is not None:
        yield _gauge(
            "etcron_oldest_run_seconds",
            "Since when the oldest of them was due: a command that hangs shows here.",
            seen.oldest_run_s,
        )
    if seen.today is not None:
        fires = GaugeMetricFamily(
            "etcron_fires_today", "Fires planned since 00:00 UTC that have a record.", labels=["status"]
        )
        for status, count in seen.today.by_status.items():
            fires.add_metric([status], count)
        yield fires
        longest_s = seen.today.max_duration_ms / 1000
        yield _gauge("etcron_longest_run_today_seconds", "The longest run among them.", longest_s)
    if seen.recent is not None:
        yield _recent(seen.recent)


def _recent(by_status: Mapping[Verdict, int]) -> Metric:
    recent = GaugeMetricFamily(
        "etcron_fires_recent",
        "The same of this hour and the last: an alert on it ends with its cause.",
        labels=["status"],
    )
    for status, count in by_status.items():
        recent.add_metric([status], count)
    return recent


def _workers(workers: Sequence[SeenWorker], clocks: Clocks | None, max_skew_ms: int) -> Iterator[Metric]:
    states = [worker_state(worker) for worker in workers]
    by_state = GaugeMetricFamily(
        "etcron_workers", "Workers by state; those that left count for 30 days.", labels=["state"]
    )
    for state in _WORKER_STATES:
        by_state.add_metric([state.replace(" ", "_")], states.count(state))
    yield by_state
    live = {worker.member.worker: worker for worker in workers if worker.member is not None and worker.member.attached}
    accepting = _of_workers("accepting", "1 if it takes fires.")
    slots = _of_workers("slots", "Its slots.")
    for name, worker in live.items():
        assert worker.member is not None, "it is live"
        accepting.add_metric([name], worker.member.accepts)
        slots.add_metric([name], worker.member.slots)
    yield accepting
    yield slots
    yield from _beats(live)
    offset = _of_workers("clock_offset_seconds", "How far its clock is ahead of the median of all; needs three.")
    for name in live:
        measured = None if clocks is None else clocks.measured.get(name)
        if measured is not None and not measured.tells_nothing(max_skew_ms):
            offset.add_metric([name], measured.offset_ms / 1000)
    yield offset


def _beats(live: Mapping[str, SeenWorker]) -> Iterable[Metric]:
    free = _of_workers("free_slots", "Slots that no run uses.")
    running = _of_workers("running", "Runs that are going on it.")
    waiting = _of_workers("waiting_fires", "Due fires that wait there for a slot.")
    unsent = _of_workers("unsent_records", "Records that the log store has not acknowledged yet.")
    ending = _of_workers("ending_runs", "Runs whose processes it cannot end: their locks wait.")
    for name, worker in live.items():
        if (beat := worker.beat) is not None:
            free.add_metric([name], beat.free_slots)
            running.add_metric([name], beat.running)
            waiting.add_metric([name], beat.waiting)
            unsent.add_metric([name], beat.unsent_records)
            ending.add_metric([name], beat.ending_count)
    return free, running, waiting, unsent, ending


def _of_workers(name: str, what: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"etcron_worker_{name}", what, labels=["worker"])


def _gauge(name: str, what: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, what, value=value)


T = TypeVar("T")

MAX_FAILING: Final = 1_000
"""Beyond so many they are not counted: their names have to be read for it, at each scrape."""
_ANSWER_S: Final = 2.0
"""However long other calls may take (``apiWriteTimeout``): a scraper gives up soon, and has nothing then."""


def add_routes(app: web.Application) -> None:
    """The call."""
    app.router.add_get("/metrics", show_metrics)


@needs(Role.VIEWER, everywhere=True)
async def show_metrics(request: web.Request) -> web.Response:
    """Everything at this moment, in the text format that the caller asks for.

    For those who may read everything: they are sums over all jobs, which the log store keeps as sums.
    """
    seen = await measured(request.app[PARTS])
    try:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    except (TypeError, ValueError):  # the version asked for is none: the plainest format is read by all
        encode, content_type = choose_encoder("")
    response = web.Response(body=encode(_Once(families(seen))), headers={"Content-Type": content_type})
    response.enable_compression()
    return response


class _Once(Collector):
    """What was measured, in the place of a registry that lives on."""

    def __init__(self, found: Iterable[Metric]) -> None:
        self._found = found

    def collect(self) -> Iterable[Metric]:
        return self._found


async def measured(parts: Parts) -> Measured:
    """What a scrape tells of the whole: etcd, the log store and this manager are asked together, now."""
    watching, directory = parts.watching, parts.directory
    store_is_away = parts.health.log_store_away  # then no call waits to find it away again
    report, failing, (today, recent), workers, clocks, (waiting, alerts) = await asyncio.gather(
        parts.health.look(OWNER),
        _known(partial(parts.history.count_failing, watching.catalog, MAX_FAILING), unless=store_is_away),
        asyncio.gather(
            _known(partial(_today, parts), unless=store_is_away),
            _known(partial(_recently, parts), unless=store_is_away),
        ),
        _known(parts.inventory.workers),
        _known(parts.inventory.clocks),
        asyncio.gather(
            _known(parts.alerts.waiting, unless=store_is_away), _known(parts.alerts.open, unless=store_is_away)
        ),
    )
    is_old = watching.stale_since_ms is not None  # then it is what was, and not what is
    jobs_known = watching.jobs_read.is_set() and not is_old
    runs_known = watching.runs_read.is_set() and not is_old
    return Measured(
        report=report,
        jobs=watching.catalog.states if jobs_known else None,
        failing=failing if jobs_known else None,
        open_runs=len(watching.open_runs) if runs_known else None,
        live_outputs=len(parts.tails),
        oldest_run_s=watching.open_runs.oldest_ms(parts.clock.wall_ms()) / 1000 if runs_known else None,
        today=today,
        recent=recent,
        workers=workers,
        clocks=clocks,
        audit=AuditState(
            waiting=parts.audit.waiting,
            not_on_disk=parts.audit.not_on_disk,
            lost=parts.audit.lost,
            logins=parts.audit.logins,
            refused=parts.audit.refused,
        ),
        waiting=waiting,
        sent=parts.sender.sent,
        alerts=None if alerts is None else len(alerts),
        now_ms=parts.clock.wall_ms(),
        sessions=len(directory.sessions) if directory.synced.is_set() and directory.stale_since_ms is None else None,
    )


async def _today(parts: Parts) -> SpanCounts | None:
    day = parts.clock.wall_ms() // DAY_MS
    found = await parts.history.statistics(None, [day], DAY_MS)
    return found[0] if found else SpanCounts.nothing(day)


async def _recently(parts: Parts) -> Mapping[Verdict, int]:
    hour = parts.clock.wall_ms() // HOUR_MS
    found = await parts.history.statistics(None, [hour - 1, hour], HOUR_MS)
    return {status: sum(one.by_status[status] for one in found) for status in Verdict}


async def _known(question: Callable[[], Awaitable[T]], *, unless: bool = False) -> T | None:
    """The answer; None where the server to be asked is away, which may be known before, or too slow."""
    if unless:
        return None
    try:
        async with asyncio.timeout(_ANSWER_S):
            return await question()
    except (EtcdError, UnavailableError, TimeoutError):
        return None
