"""kill -9 of one of three workers under 50 fires a second: how late the late ones are.

Late are those that start more than 100 ms after their dispatch time, among the fires from the kill on. A fire that the
killed worker had claimed already stays with it: it is recorded as lost after lostAfterSeconds (20 here), is told apart
and is not among the late ones.
"""

from __future__ import annotations

import asyncio
import shlex
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

from bench.figures import Figure, WrongError, at_most, quantile
from bench.filling import save_directly
from bench.reading import all_records
from bench.spread import A_SECOND, Spread, spread
from tests.support.cluster import Cluster, running_cluster

SECONDS: Final = 40
_LEAD_S: Final = 6
_HEDGE_MS: Final = 500
_LATE_MS: Final = 100
_LOST_AFTER_S: Final = 20
_LIMIT_S: Final = 60
_LOOK_S: Final = 0.5


def one_round(share: float) -> list[Figure]:
    """One cluster, one kill after a quarter of the time."""
    seconds = max(4, round(SECONDS * share))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        return asyncio.run(_round(Path(folder), seconds))


async def _round(folder: Path, seconds: int) -> list[Figure]:
    flags = ("--lost-after-seconds", str(_LOST_AFTER_S))
    async with running_cluster(folder, workers=3, managers=1, worker_flags=flags, is_cold=True) as cluster:
        evidence = folder / "evidence"
        begins = cluster.second_from_now(_LEAD_S)
        load = spread(begins, seconds, f'echo "$ETCRON_JOB" >>{shlex.quote(str(evidence))}')
        await save_directly(cluster.etcd.endpoint, load.specs)
        await asyncio.sleep(begins.timestamp() + seconds / 4 - time.time())
        killed_ms = time.time() * 1000
        await cluster.workers[0].end(signal.SIGKILL)
        await asyncio.sleep(max(0.0, load.ends_ms / 1000 + 1 - time.time()))
        records = await _all_recorded(cluster, load, seconds * A_SECOND)
    starts = Counter(evidence.read_text().split())
    return _figures(load, records, starts, killed_ms)


async def _all_recorded(cluster: Cluster, load: Spread, fires: int) -> list[dict[str, Any]]:
    assert cluster.http is not None
    deadline_s = load.ends_ms / 1000 + _LOST_AFTER_S + _LIMIT_S
    while len(records := await all_records(cluster.http, f"http://127.0.0.1:{cluster.ports[0]}")) < fires:
        if time.time() > deadline_s:
            raise WrongError(f"only {len(records)} of {fires} fires have a record by now")
        await asyncio.sleep(_LOOK_S)
    return records


def _figures(load: Spread, records: list[dict[str, Any]], starts: Counter[str], killed_ms: float) -> list[Figure]:
    twice = [job for job, times in starts.items() if times > 1]
    ran = [record for record in records if record["status"] == "success"]
    lost = [record for record in records if record["status"] == "lost"]
    unexplained = load.moments_ms.keys() - {record["jobName"] for record in (*ran, *lost)}
    if twice or unexplained or len(records) != len(load.specs):
        raise WrongError(f"{len(twice)} ran twice, {len(unexplained)} neither ran nor were lost with the worker")
    if liars := {record["jobName"] for record in ran} - starts.keys():
        raise WrongError(f"{len(liars)} are recorded as run and have not run")
    after = {job: ms for job, ms in load.late_ms(ran).items() if load.moments_ms[job] >= killed_ms}
    late_ms = [ms for ms in after.values() if ms > _LATE_MS]
    if not late_ms:
        return [Figure(name="late fires", value=0, note=f"of {len(after):,} from the kill on")]
    return [
        Figure(name="late fires", value=len(late_ms), note=f"of {len(after):,} from the kill on"),
        Figure(name="late by: median", value=quantile(late_ms, 0.5), unit="ms"),
        Figure(name="late by: 99 %", value=quantile(late_ms, 0.99), unit="ms"),
        Figure(name="late by: the latest", value=max(late_ms), unit="ms"),
        Figure(name="99 % to hedge", value=quantile(late_ms, 0.99) / _HEDGE_MS, unit="x", goal=at_most(2)),
        Figure(name="lost with the worker", value=len(lost), note="claimed by it before the kill"),
        Figure(name="run twice", value=len(twice), goal=at_most(0)),
    ]
