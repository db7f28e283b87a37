"""``reference/metrics.md``: the metrics of a manager and of a worker, from the code that answers a scrape."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, Final

from prometheus_client.metrics_core import Metric

from common.verdicts import Verdict
from manager.api.metrics import AuditState, Measured, families
from worker.metrics import Counts, MetricsPort

_HEAD: Final = """\
# Metrics

How to scrape them, and alerts: [monitoring](../operate/monitoring.md). There is no metric per job: `GET /api/v1/jobs?state=failing` and the
console show which jobs fail, and why.
"""
_TABLE: Final = "\n| Metric | Kind | Labels | What |\n|---|---|---|---|\n"


def page() -> str:
    """The whole of it."""
    worker = MetricsPort(
        Counts(), _anything(SimpleNamespace(mutations=0)), host="", port=0, why_not=lambda: None, claims_lost=lambda: 0
    )
    return (
        _HEAD
        + "\n## Of a manager\n\nEach manager reports the whole cluster, read at the moment of the scrape. It leaves out what it does not\n"
        + "know, and never reports 0 instead.\n" + _TABLE + _rows(families(_everything()))
        + "\n## Of a worker's own port\n\nOff unless `metricsPort` is set in `worker.json`.\n" + _TABLE + _rows(worker.collect())
    )  # fmt: skip


def _rows(found: Iterable[Metric]) -> str:
    return "".join(_row(one) for one in found)


def _row(one: Metric) -> str:
    kind = "gauge" if one.type == "info" else one.type
    name = one.name + {"counter": "_total", "info": "_info"}.get(one.type, "")
    labels = list(
        dict.fromkeys([*getattr(one, "_labelnames", ()), *(key for each in one.samples for key in each.labels)])
    )
    return f"| `{name}` | {kind} | {', '.join(labels)} | {one.documentation} |\n"


def _everything() -> Measured:
    """A look at a cluster of which everything is known."""
    report = SimpleNamespace(
        state="ready", problems=[], etcd={"state": "ok", "endpoints": []}, log_store={"state": "ok"}, blocked=[],
        untold={}, jobs=SimpleNamespace(unsigned_count=0, without_worker_count=0), etcd_is_full=False,
        clocks={"maxClockSkewMs": 250},
    )  # fmt: skip
    none_of_each = dict.fromkeys(Verdict, 0)
    waiting = SimpleNamespace(notices=SimpleNamespace(by_state={}), channels={}, oldest_ms=None)
    return Measured(
        report=_anything(report), now_ms=0, jobs={}, failing=0, open_runs=0, live_outputs=0, oldest_run_s=0,
        today=_anything(SimpleNamespace(by_status=none_of_each, max_duration_ms=0)), recent=none_of_each, workers=(),
        clocks=None, audit=AuditState(waiting=0, not_on_disk=0, lost=0, logins={}, refused={}), sessions=0,
        waiting=_anything(waiting), sent={}, alerts=0,
    )  # fmt: skip


def _anything(fake: object) -> Any:
    """For a checker."""
    return fake
