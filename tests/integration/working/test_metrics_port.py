"""A worker's own port: whether it lives, whether it takes fires, and what it has counted."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from common.clock import SystemClock
from common.protocol.drain import Drain
from tests.support.cluster import Process
from tests.support.etcd_server import EtcdServer, free_port, usual_etcd
from tests.support.promql import uses
from tests.support.waiting import wait_until
from tests.support.working import Place, World, working

ROOT = Path(__file__).parents[3]

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]


async def samples(http: aiohttp.ClientSession) -> dict[str, float]:
    async with http.get("/metrics") as answer:
        families = list(text_string_to_metric_families(await answer.text()))
    return {
        sample.name + "".join(f"{{{name}={value}}}" for name, value in sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


async def readiness(http: aiohttp.ClientSession) -> tuple[int, str | None]:
    """The status and the problem; 0 as long as nobody listens."""
    try:
        async with http.get("/readyz") as answer:
            return answer.status, (await answer.json())["problem"]
    except aiohttp.ClientError as error:
        return 0, str(error)


def process_with_port(place: Place, *more: str) -> tuple[Process, int]:
    port = free_port()
    flags = (
        f"--etcd-endpoints={place.etcd}", f"--mongodb-uri={place.log_store}", f"--mongodb-database={place.database}",
        f"--key-prefix={place.prefix}", f"--data-dir={place.directory / 'w1'}", "--worker-name=w1",
        f"--metrics-port={port}", *more,
    )  # fmt: skip
    return Process("worker", "w1", place.directory / "process", flags), port


async def test_tells_whether_it_takes_fires_and_counts_what_it_does(place: Place, world: World) -> None:
    process, port = process_with_port(place)
    process.start()
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as http:

            async def is_ready() -> bool:
                return await readiness(http) == (200, None)

            await wait_until(is_ready, description="it takes fires")
            job = await world.save(command="exit 3", retry={"limit": 1, "delaySeconds": 0})
            before = await samples(http)
            for status in ("missed", "lost"):
                # Of a counter that appears with its first value, `increase` says nothing.
                assert before[f"etcron_records_total{{status={status}}}{{trigger=schedule}}"] == 0
            await world.record(await world.ask(job, SystemClock().wall_ms()))

            async def has_tried_again() -> bool:
                return (await samples(http)).get("etcron_retries_total") == 1

            await wait_until(has_tried_again, description="it has tried again")
            after = await samples(http)
            assert after["etcron_records_total{status=failed}{trigger=schedule}"] == 1
            assert after["etcron_records_total{status=failed}{trigger=retry}"] == 1
            assert after["etcron_start_lateness_seconds_bucket{le=+Inf}{trigger=schedule}"] == 1
            assert after["etcron_start_lateness_seconds_bucket{le=+Inf}{trigger=retry}"] == 1
            assert after["etcron_run_duration_seconds_bucket{le=300.0}{status=failed}"] == 2
            assert after["etcron_accepting"] == 1
            assert after["etcron_etcd_mutations_total"] > before["etcron_etcd_mutations_total"]
            of_a_worker = (ROOT / "docs/reference/metrics.md").read_text().partition("## Of a worker's own port")[2]
            documented = set(re.findall(r"^\| `(etcron_\w+)", of_a_worker, re.MULTILINE))
            assert {re.sub("_(bucket|count|sum)$", "", name.partition("{")[0]) for name in after} == documented
            labels = {
                (name, label) for name, *rest in (re.findall(r"[\w+.]+", one) for one in after) for label in rest[::2]
            }
            asked = [use for use in uses() if use.metric.removesuffix("_bucket") in documented]
            assert {use.metric for use in asked} >= {"etcron_records_total", "etcron_run_duration_seconds_bucket"}
            for use in asked:
                assert use.metric in {name.partition("{")[0] for name in after}, use
                assert {(use.metric, label) for label in use.labels} <= labels, use
            async with http.get("/livez") as answer:
                assert answer.status == 200
            idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(40)]
            await wait_until(
                lambda: sum(reader.at_eof() for reader, _ in idle) >= 24,
                description="most are refused: a worker keeps its descriptors for its commands",
            )
            for _, writer in idle:
                writer.close()
            await wait_until(is_ready, description="it answers again")
            drain = Drain(since_ms=SystemClock().wall_ms(), by="a test", reason="repair")
            await world.etcd.put(world.keys.drain("w1"), drain.to_json())

            async def says_why() -> bool:
                status, problem = await readiness(http)
                return status == 503 and "repair" in str(problem)

            await wait_until(says_why, description="it says why it takes no fires")
    finally:
        process.destroy()


async def test_takes_no_fires_while_etcd_is_away(place: Place, tmp_path: Path) -> None:
    async with EtcdServer(usual_etcd(), tmp_path / "etcd") as etcd:
        process, port = process_with_port(replace(place, etcd=etcd.endpoint), "--lease-ttl-seconds=2")
        process.start()
        try:
            async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as http:

                async def is_ready() -> bool:
                    return await readiness(http) == (200, None)

                async def says_why() -> bool:
                    return await readiness(http) == (503, "its session with etcd is not confirmed")

                await wait_until(is_ready, description="it takes fires")
                await etcd.stop()
                await wait_until(says_why, description="it says why it takes no fires")
                assert (await samples(http))["etcron_accepting"] == 0
                await etcd.start()
                await wait_until(is_ready, description="it takes fires again")
        finally:
            process.destroy()


async def test_no_port_is_opened_and_nothing_is_counted_unless_it_is_wanted(place: Place) -> None:
    async with working(place) as worker:
        await worker.deciding()
        assert worker.parts.spool.on_record is None
