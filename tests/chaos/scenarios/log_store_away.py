"""The log store away for minutes under load: ``python -m tests.chaos.scenarios.log_store_away --minutes 10 --rate 50``.

    calm, then the log store is stopped for so many minutes, then it is back until all is delivered, then calm again

Violations, and exit status 1: a fire that did not start, or more than once; one without just one record, of success
with its output; etcd with 15,000 keys or more; starts while it was away that are later than before (median by more than
10 ms, 99 % by more than 50 ms and twice, the latest beyond a second and the latest before); a process that ended.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from common.etcd import EtcdClient
from tests.chaos.scenarios.load import (
    WORKER_FLAGS,
    Load,
    Start,
    arguments,
    between,
    lateness,
    wrong_starts,
)
from tests.chaos.scenarios.sampling import Sample, Sampler
from tests.support.cluster import Cluster, running_cluster
from tests.support.waiting import wait_until

MOST_KEYS = 15_000
_CALM_S = 20.0
_WARM_UP_S = 5.0
_SAMPLED_EVERY_S = 3.0
_MEDIAN_MS, _P99_MS, _WORST_MS = 10, 50, 1000


@dataclass(slots=True)
class Seen:
    """What the scenario has seen; the phases with their first and last plan time in ms."""

    phases: dict[str, tuple[int, int]] = field(default_factory=dict)
    samples: list[tuple[int, Sample]] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    delivered_s: float = 0.0
    """From the log store's return until nothing waited any more."""


def main() -> int:
    """Run it, say what was seen; 1 where anything is not as it should be."""
    given = arguments(__doc__, minutes=10)
    with tempfile.TemporaryDirectory(prefix="etcron-log-store-away-") as directory:
        return asyncio.run(_run(Path(directory), minutes=given.minutes, rate=given.rate, workers=given.workers))


async def _run(directory: Path, *, minutes: float, rate: int, workers: int) -> int:
    seen = Seen()
    async with running_cluster(directory, workers=workers, managers=1, worker_flags=WORKER_FLAGS) as cluster:
        load = Load(cluster, rate)
        async with EtcdClient([cluster.etcd.endpoint]) as client, asyncio.TaskGroup() as tasks:
            sampler = Sampler(cluster, client)
            await load.save()
            await asyncio.sleep(_WARM_UP_S)
            sampling = tasks.create_task(_sample(sampler, seen), name="sampling")
            await _phases(cluster, sampler, seen, minutes * 60)
            sampling.cancel()
        await _collect(cluster, load, seen)
    wrong = _violations(load, seen)
    _report(seen, wrong)
    return 1 if wrong else 0


async def _phases(cluster: Cluster, sampler: Sampler, seen: Seen, away_s: float) -> None:
    """What is measured is what happens in so much time; only the delivery takes as long as it takes."""
    began = _next_second_ms()
    await asyncio.sleep(_CALM_S)
    _say("the log store is stopped")
    await cluster.log_store.stop()
    stopped = _next_second_ms()
    seen.phases["before"] = began, stopped - 1000
    await asyncio.sleep(away_s)
    back = _next_second_ms()
    await cluster.log_store.start()
    _say("the log store is back")
    returned_s = time.monotonic()
    seen.phases["away"] = stopped, back - 1000
    await wait_until(
        lambda: _delivered(sampler), description="all is delivered", timeout=120 + 2 * away_s, at_most_every_s=0.5
    )
    seen.delivered_s = time.monotonic() - returned_s
    done = _next_second_ms()
    seen.phases["delivering"] = back, done - 1000
    await asyncio.sleep(_CALM_S)
    seen.phases["after"] = done, _next_second_ms() - 3000


async def _delivered(sampler: Sampler) -> bool:
    """Nothing waits but what has just ended."""
    return await sampler.unsent() < 200


async def _sample(sampler: Sampler, seen: Seen) -> None:
    while True:
        seen.samples.append((_now_ms(), await sampler.sample()))
        await asyncio.sleep(_SAMPLED_EVERY_S)


async def _collect(cluster: Cluster, load: Load, seen: Seen) -> None:
    """The evidence, and the records once there is one for each fire that counts."""
    first_ms, last_ms = _window(seen)
    expected = set(load.fires(first_ms, last_ms))

    async def complete() -> bool:
        try:
            records = await cluster.runs()
        except AssertionError as error:  # the log store is slow to answer on a busy machine
            _say(f"asked again: {error}")
            return False
        seen.records = [one for one in records if first_ms <= one["planTime"] <= last_ms]
        return expected <= {(one["jobName"], one["planTime"]) for one in seen.records}

    try:
        await wait_until(complete, description="every fire has a record", timeout=180, at_most_every_s=1)
    except AssertionError as error:
        _say(str(error))
    seen.starts = load.starts()


def _violations(load: Load, seen: Seen) -> list[str]:
    first_ms, last_ms = _window(seen)
    wrong = wrong_starts(load, seen.starts, first_ms, last_ms)
    counts = Counter((one["jobName"], one["planTime"]) for one in seen.records)
    missing = sum(1 for fire in load.fires(first_ms, last_ms) if counts[fire] != 1)
    if missing:
        wrong.append(f"{missing} fires have not just one record")
    statuses = Counter(f"{one['status']} {(one.get('reason') or '').partition(':')[0]}".strip() for one in seen.records)
    if set(statuses) - {"success"}:
        wrong.append(f"not all records say success: {dict(statuses)}")
    if cut := sum(1 for one in seen.records if one["status"] == "success" and one["outputTruncated"]):
        wrong.append(f"{cut} records have lost some of their output")
    most = max(sample.keys for _, sample in seen.samples)
    if most >= MOST_KEYS:
        wrong.append(f"etcd held {most} keys")
    return wrong + _late(seen)


def _late(seen: Seen) -> list[str]:
    of = {name: between(seen.starts, *bounds) for name, bounds in seen.phases.items()}
    before, away = lateness(of["before"]), lateness(of["away"])
    worst = {name: max((one.late_ms for one in starts), default=0) for name, starts in of.items()}
    wrong = []
    if away.median_ms > before.median_ms + _MEDIAN_MS:
        wrong.append(f"the median lateness rose from {before.median_ms} to {away.median_ms} ms")
    if away.percentile99_ms > max(before.percentile99_ms + _P99_MS, 2 * before.percentile99_ms):
        wrong.append(f"the lateness at 99 % rose from {before.percentile99_ms} to {away.percentile99_ms} ms")
    if worst["away"] > max(_WORST_MS, worst["before"]):
        wrong.append(f"a start was {worst['away']} ms late")
    return wrong


def _report(seen: Seen, wrong: list[str]) -> None:
    head = f"{'phase':<12}{'seconds':>8}{'starts':>8}{'median':>8}{'99 %':>7}{'latest':>8}"
    _say(f"\n{head}{'keys':>8}{'run keys':>10}{'unsent':>8}{'load':>6}{'RSS of the largest worker':>27}")
    for name, (first_ms, last_ms) in seen.phases.items():
        starts = between(seen.starts, first_ms, last_ms)
        late, worst = lateness(starts), max((one.late_ms for one in starts), default=0)
        samples = [sample for at_ms, sample in seen.samples if first_ms <= at_ms <= last_ms + 1000]
        rss = max((held.rss_bytes for one in samples for held in _workers(one)), default=0)
        keys, run_keys, unsent, load = (
            max((getattr(sample, figure) for sample in samples), default=0)
            for figure in ("keys", "run_keys", "unsent", "load")
        )
        _say(
            f"{name:<12}{(last_ms - first_ms) // 1000 + 1:>8}{late.starts:>8}{late.median_ms:>8}"
            f"{late.percentile99_ms:>7}{worst:>8}{keys:>8}{run_keys:>10}{unsent:>8}{load:>6.1f}{rss / 2**20:>23.0f} MiB"
        )
    statuses = dict(Counter(one["status"] for one in seen.records))
    _say("\nlateness in ms; keys, records and the machine's load at most")
    _say(f"all was delivered {seen.delivered_s:.1f} s after the return")
    _say(f"records: {statuses}")
    _say("no violation" if not wrong else "VIOLATIONS\n" + "\n".join(f"  {one}" for one in wrong))


def _workers(sample: Sample) -> list[Any]:
    return [held for name, held in sample.processes.items() if name.startswith("worker")]


def _window(seen: Seen) -> tuple[int, int]:
    return seen.phases["before"][0], seen.phases["after"][1]


def _next_second_ms() -> int:
    return (_now_ms() // 1000 + 1) * 1000


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
