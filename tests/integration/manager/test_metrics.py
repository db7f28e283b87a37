"""``GET /metrics``: what Prometheus reads is what there is; what is not known is left out."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from common.access.callers import Via
from common.access.rights import Role
from common.notices.alerts import Alert, Standing
from common.notices.events import Event
from common.notices.notice import Notice, NoticeKind, NoticeState
from common.protocol.clocks import Clocks, Measured
from common.protocol.keys import RunId
from common.protocol.member import Beat
from common.runlog.alerts import Bucket
from common.verdicts import EventKind, Verdict
from common.version import VERSION
from manager.api import metrics
from tests.support.access import Accessing, kept_of
from tests.support.counting import count_records
from tests.support.etcd_server import EtcdServer, usual_etcd
from tests.support.joining import join
from tests.support.log_store import LogStore, to_disturb
from tests.support.managing import Managed, Place, managing
from tests.support.open_runs import claim, now_ms, record_of
from tests.support.promql import uses
from tests.support.proxy import Mode, Proxy
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

JOB = {"command": "a", "cronExpr": "@yearly"}
ROOT = Path(__file__).parents[3]
ALERTS = ROOT / "deploy" / "prometheus-alerts.yml"
BEAT = Beat(kind="worker", wall_ms=1, free_slots=3, running=1, waiting=7, unsent_records=9, ending_count=2)


async def scrape(manager: Managed) -> dict[str, float]:
    """The samples, by name and labels as they are written."""
    response = await manager.http.get("/metrics")
    assert response.status == 200
    assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    samples = {}
    for family in text_string_to_metric_families(await response.text()):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sample.labels.items())
            samples[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return samples


async def test_jobs_by_state_as_they_come_and_go(manager: Managed) -> None:
    for name in ("one", "two", "three"):
        await manager.call("PUT", f"/api/v1/jobs/{name}", JOB)
    await manager.call("POST", "/api/v1/jobs/two/pause", {})
    await manager.call("PUT", "/api/v1/jobs/one", {**JOB, "command": "b"})
    await manager.call("DELETE", "/api/v1/jobs/three")
    await manager.etcd.put(manager.keys.job("odd"), b"{")
    await wait_until(lambda: manager.parts.watching.catalog.get("odd") is not None, description="the odd one is seen")
    samples = await scrape(manager)
    assert {name: value for name, value in samples.items() if name.startswith("etcron_jobs{")} == {
        "etcron_jobs{state=enabled}": 1, "etcron_jobs{state=paused}": 1, "etcron_jobs{state=broken}": 1,
    }  # fmt: skip


async def test_fires_of_today_and_jobs_that_fail(manager: Managed) -> None:
    assert (await scrape(manager))["etcron_fires_today{status=failed}"] == 0
    for name in ("a", "b"):
        await manager.call("PUT", f"/api/v1/jobs/{name}", JOB)
    midnight = now_ms() // 86_400_000 * 86_400_000
    await manager.write([
        record_of(RunId.planned("a", midnight)),
        record_of(RunId.planned("a", midnight + 1), Verdict.FAILED, end_ms=midnight + 2503),
        record_of(RunId.planned("b", midnight + 1), Verdict.MISSED),
        record_of(RunId.planned("b", midnight - 1), Verdict.MISSED),
    ])  # fmt: skip
    await count_records(manager.runlog)
    samples = await scrape(manager)
    today = {name: value for name, value in samples.items() if name.startswith("etcron_fires_today")}
    assert {name: value for name, value in today.items() if value} == {
        "etcron_fires_today{status=success}": 1, "etcron_fires_today{status=failed}": 1,
        "etcron_fires_today{status=missed}": 1,
    }  # fmt: skip
    assert len(today) == len(Verdict)
    assert samples["etcron_jobs_failing"] == 2
    assert samples["etcron_longest_run_today_seconds"] == 2.5


async def test_what_has_just_been_missed_is_told_apart_from_what_was_earlier(manager: Managed) -> None:
    """An alert on it ends with its cause."""
    this_hour = now_ms() // 3_600_000 * 3_600_000
    await manager.write([
        record_of(RunId.planned("a", at_ms), Verdict.MISSED)
        for at_ms in (this_hour, this_hour - 3_600_000, this_hour - 3_600_001)
    ])  # fmt: skip
    await count_records(manager.runlog)
    samples = await scrape(manager)
    assert samples["etcron_fires_recent{status=missed}"] == 2
    assert samples["etcron_fires_recent{status=lost}"] == 0


async def test_a_deleted_job_fails_no_more(manager: Managed, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c", "d"):
        await manager.call("PUT", f"/api/v1/jobs/{name}", JOB)
        await manager.write([record_of(RunId.planned(name, now_ms()), Verdict.FAILED)])
    for name in ("a", "b", "c"):
        await manager.call("DELETE", f"/api/v1/jobs/{name}")
    assert (await scrape(manager))["etcron_jobs_failing"] == 1
    monkeypatch.setattr(metrics, "MAX_FAILING", 2)
    assert (await scrape(manager))["etcron_jobs_failing"] == 1, "it is behind the first names that are read"


async def test_logins_by_way_and_outcome_and_calls_that_were_refused(place: Place) -> None:
    async with managing(place, auth="required", trustOwner=True) as manager:
        access = Accessing(manager)
        password = "three words in a row"
        bearer = await access.user("alice", Role.VIEWER, password=await kept_of(password))
        for tried in ("wrong", "wrong", password):
            await manager.http.post("/api/v1/login", json={"name": "alice", "password": tried})
            manager.http.session.cookie_jar.clear()
        await manager.http.post("/api/v1/login/link", json={"secret": "none"})
        for headers in (bearer, bearer, {"Authorization": "Bearer etcron_0_0"}):
            await manager.http.get("/api/v1/users", headers=headers)
        samples = await scrape(manager)
    counted = {name: value for name, value in samples.items() if name.startswith(("etcron_logins", "etcron_calls"))}
    assert {name: value for name, value in counted.items() if value} == {
        "etcron_logins_total{outcome=done,way=password}": 1, "etcron_logins_total{outcome=refused,way=password}": 2,
        "etcron_logins_total{outcome=refused,way=link}": 1, "etcron_calls_refused_total{via=token}": 2,
        "etcron_calls_refused_total{via=nobody}": 1,
    }  # fmt: skip
    assert len(counted) == 3 * 4 + len(Via), "the others are there from the start, so that an increase is seen"
    assert samples["etcron_sessions_open"] == 1


async def test_notices_that_wait_and_alerts_that_are_open(manager: Managed) -> None:
    at_ms = now_ms() - 3_600_000
    event = Event(kind=EventKind.FAILED, at_ms=at_ms, job="j")
    await manager.runlog.alerts.take(1)
    standings = {"j": Standing(alert=Alert(event=event, since_ms=at_ms))}
    await manager.runlog.alerts.write({0: Bucket(standings=standings)}, 1)
    await manager.runlog.notices.put([
        Notice(id=f"{number:032}", channel="ops", kind=NoticeKind.PROBLEM, created_ms=at_ms, state=state)
        for number, state in enumerate((NoticeState.WAITING, NoticeState.WAITING, NoticeState.FAILED))
    ])  # fmt: skip
    await manager.etcd.put(manager.keys.channel("ops"), b"also one that cannot be read")
    for channel in ("ops", "removed"):
        state = await manager.runlog.notices.claim(channel, "me")
        await manager.runlog.notices.write(structs.replace(state, failing=True), owner="me")
    known = manager.parts.watching.notices
    await wait_until(lambda: not known.has_channel("removed") and known.has_channel("ops"), description="it is known")
    manager.parts.sender.sent["email", "sent"] = 3
    samples = await scrape(manager)
    assert (samples["etcron_notices{state=waiting}"], samples["etcron_notices{state=failed}"]) == (2, 1)
    assert samples["etcron_notices_oldest_seconds"] >= 3600
    assert samples["etcron_notices_sent_total{kind=email,outcome=sent}"] == 3
    assert samples["etcron_notices_sent_total{kind=webhook,outcome=failed}"] == 0
    assert samples["etcron_channels_failing"] == 1
    assert samples["etcron_alerts_open"] == 1
    problems = (await manager.get("/readyz"))["problems"]
    assert "messages to channel ops fail (etcron notice list --channel ops)" in problems


async def test_open_runs(manager: Managed) -> None:
    samples = await scrape(manager)
    assert (samples["etcron_runs_open"], samples["etcron_oldest_run_seconds"]) == (0, 0)
    await claim(manager, "a", now_ms() - 3_600_000)
    await claim(manager, "b", now_ms())
    await wait_until(lambda: len(manager.parts.watching.open_runs) == 2, description="both are seen")
    samples = await scrape(manager)
    assert samples["etcron_runs_open"] == 2
    assert 3600 <= samples["etcron_oldest_run_seconds"] < 3660


async def test_workers_and_what_each_says_of_itself(manager: Managed) -> None:
    await join(manager, "w1", slots=4, beat=BEAT)
    await join(manager, "w2", not_accepting="its disk is full")
    await manager.call("POST", "/api/v1/workers/w2/drain", {})
    await manager.etcd.put(f"{manager.keys.workers}odd/1", b"{")
    samples = await scrape(manager)
    assert {name: value for name, value in samples.items() if name.startswith("etcron_workers") and value} == {
        "etcron_workers{state=accepting}": 1, "etcron_workers{state=draining}": 1, "etcron_workers{state=broken}": 1,
    }  # fmt: skip
    assert {name: value for name, value in samples.items() if name.startswith("etcron_worker_")} == {
        "etcron_worker_accepting{worker=w1}": 1, "etcron_worker_accepting{worker=w2}": 0,
        "etcron_worker_slots{worker=w1}": 4, "etcron_worker_slots{worker=w2}": 2,
        "etcron_worker_free_slots{worker=w1}": 3, "etcron_worker_running{worker=w1}": 1,
        "etcron_worker_waiting_fires{worker=w1}": 7, "etcron_worker_unsent_records{worker=w1}": 9,
        "etcron_worker_ending_runs{worker=w1}": 2,
    }  # fmt: skip


async def test_state_and_servers(manager: Managed) -> None:
    samples = await scrape(manager)
    assert samples[f"etcron_build_info{{version={VERSION}}}"] == 1
    assert [samples[f"etcron_ready{{state={state}}}"] for state in ("ready", "degraded", "unready")] == [0, 1, 0]
    assert samples["etcron_problems"] == 1, "no worker is live"
    assert (samples["etcron_etcd_up"], samples["etcron_log_store_up"]) == (1, 1)
    (endpoint,) = manager.parts.etcd.endpoints
    assert samples[f"etcron_etcd_database_bytes{{endpoint={endpoint}}}"] > 0
    assert samples[f"etcron_etcd_alarms{{endpoint={endpoint}}}"] == 0


async def test_what_is_away_is_said_and_what_only_it_knows_is_left_out(tmp_path: Path) -> None:
    nowhere = EtcdServer(usual_etcd(), tmp_path / "etcd")
    place = Place.new(etcd=nowhere.endpoint, log_store="mongodb://127.0.0.1:9")
    async with managing(place, apiWriteTimeout=1000) as manager:
        samples = await scrape(manager)
    assert (samples["etcron_etcd_up"], samples["etcron_log_store_up"]) == (0, 0)
    assert samples["etcron_ready{state=unready}"] == 1
    assert {name.partition("{")[0] for name in samples} == {
        "etcron_build_info", "etcron_ready", "etcron_problems", "etcron_etcd_up", "etcron_log_store_up",
        "etcron_audit_waiting", "etcron_audit_not_on_disk", "etcron_audit_lost",
        "etcron_logins_total", "etcron_calls_refused_total", "etcron_notices_sent_total", "etcron_live_outputs",
    }  # fmt: skip


async def test_what_was_before_etcd_went_away_is_not_told_as_what_is(place: Place) -> None:
    async with Proxy(place.etcd) as proxy, managing(place, etcd=proxy.endpoint) as manager:
        await manager.call("PUT", "/api/v1/jobs/j", JOB)
        assert (await scrape(manager))["etcron_jobs{state=enabled}"] == 1
        proxy.set(Mode.SWALLOW)
        await wait_until(lambda: manager.parts.watching.stale_since_ms is not None, description="silence")
        samples = await scrape(manager)
        assert samples["etcron_etcd_up"] == 0
        assert not {name for name in samples if name.startswith(("etcron_jobs{", "etcron_runs_open"))}
        proxy.set(Mode.PASS)

        async def told() -> bool:
            return (await scrape(manager)).get("etcron_jobs{state=enabled}") == 1

        await wait_until(told, description="the jobs are told again")


async def test_a_log_store_that_says_nothing_keeps_no_scrape_waiting(place: Place, log_store: LogStore) -> None:
    async with (
        Proxy(f"127.0.0.1:{to_disturb(log_store).port}", http2=False) as proxy,
        managing(replace(place, log_store=f"mongodb://{proxy.endpoint}"), apiWriteTimeout=600_000) as manager,
    ):

        async def answers() -> bool:
            return (await scrape(manager))["etcron_log_store_up"] == 1

        await wait_until(answers, description="the log store answers in time")
        proxy.set(Mode.SWALLOW)
        async with asyncio.timeout(60):
            samples = await scrape(manager)
    assert samples["etcron_log_store_up"] == 0
    assert "etcron_jobs_failing" not in samples


async def test_openmetrics_for_who_asks_for_it(manager: Managed) -> None:
    response = await manager.http.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert response.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    names = {family.name for family in read_openmetrics(await response.text())}  # type: ignore[no-untyped-call]
    assert {"etcron_build", "etcron_ready", "etcron_jobs"} <= names


@pytest.mark.parametrize(
    "accept",
    ['application/openmetrics-text; version="1.0.0"', "application/openmetrics-text;version=x", "text/plain;version=a"],
)
async def test_who_asks_for_a_version_that_there_is_not_gets_the_plainest(manager: Managed, accept: str) -> None:
    response = await manager.http.get("/metrics", headers={"Accept": accept})
    assert response.status == 200
    assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"


async def test_a_page_of_another_site_cannot_read_it(manager: Managed) -> None:
    response = await manager.http.get("/metrics", headers={"Host": "evil.example"})
    assert response.status == 403


async def test_documents_and_alerts_name_what_there_is(manager: Managed) -> None:
    await join(manager, "w1", beat=BEAT)
    clocks = Clocks(count=3, measured={"w1": Measured(offset_ms=5, clock="c")})
    await manager.etcd.put(manager.keys.clocks, clocks.to_json())
    samples = [re.findall(r"[\w/:.-]+", name) for name in await scrape(manager)]
    there = {name for name, *_ in samples}
    pages = (ROOT / "docs/reference/metrics.md").read_text().split("## Of a worker's own port")
    documented, of_a_worker = (set(re.findall(r"^\| `(etcron_\w+)", page, re.MULTILINE)) for page in pages)
    assert documented == there
    labels = {(name, label) for name, *rest in samples for label in rest[::2]}
    values = {(name, *pair) for name, *rest in samples for pair in zip(rest[::2], rest[1::2], strict=True)}
    for use in uses():
        if use.metric.removesuffix("_bucket") in of_a_worker:
            continue  # tests/integration/working/test_metrics_port.py
        assert use.metric in there, use
        assert {(use.metric, label) for label in use.labels} <= labels, use
        assert {(use.metric, *pair) for pair in use.values} <= values, use


def test_no_alert_is_raised_by_each_manager() -> None:
    used = re.findall(r"(.*)\b(etcron_\w+)", re.sub("#.*", "", ALERTS.read_text()))
    assert used
    for before, metric in used:
        joined = (
            r"sum without \(instance.*\) \(increase\($"
            if metric.endswith("_total")
            else r"max without \(instance\) \($"
        )
        assert re.search(joined, before), metric
