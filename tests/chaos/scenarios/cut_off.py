"""A worker cut off from etcd for longer than `lostAfterSeconds`: what holds a lock ends before the lock passes on.

The evidence is a line every 10 ms from each run, on the boot clock, which is the same for all processes of the machine.
Only etcd is away: the log store has the verdict of what was ended before anybody could call it lost.
"""

from __future__ import annotations

import signal
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import EVERY_SECOND, Cluster, running_cluster
from tests.support.proxy import Mode, Proxy
from tests.support.waiting import wait_until

TTL_S, LOST_AFTER_S, GRACE_S = 2, 12, 1
JOBS: dict[str, dict[str, Any]] = {
    "skip": {},
    "stubborn": {},
    "queue": {"overlap": "queue"},
    "allow": {"overlap": "allow"},
    "never": {"lostAfterSeconds": "never"},
}
LIVES = """
import os, signal, sys, time
file = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
if os.environ["ETCRON_JOB"] == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
until = time.monotonic() + float(sys.argv[2])
while time.monotonic() < until:
    words = os.environ["ETCRON_RUN_ID"], os.environ["ETCRON_WORKER"], str(time.clock_gettime_ns(time.CLOCK_BOOTTIME))
    os.write(file, (" ".join(words) + "\\n").encode())
    time.sleep(0.01)
"""


@dataclass(slots=True)
class Life:
    """One run as its own lines tell it; ns on the boot clock."""

    job: str
    worker: str
    first: int
    last: int


def lives(evidence: Path) -> list[Life]:
    """Each run that has written something."""
    seen: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for line in evidence.read_text().splitlines() if evidence.exists() else ():
        run, worker, at = line.split()
        seen[run].append((int(at), worker))
    return [Life(run.partition("@")[0], lines[0][1], lines[0][0], lines[-1][0]) for run, lines in seen.items()]


def of(evidence: Path, job: str, worker: str) -> list[Life]:
    return sorted((one for one in lives(evidence) if (one.job, one.worker) == (job, worker)), key=lambda one: one.first)


async def recorded(cluster: Cluster, job: str) -> dict[str, Any]:
    """The record of the first fire of the job."""
    found: list[dict[str, Any]] = []

    async def there() -> bool:
        records = await cluster.runs(job=job)
        found[:] = [one for one in records if one.get("worker") == "cut" and one["status"] in ("success", "killed")]
        return bool(found)

    await wait_until(there, description=f"the run of {job} is recorded as it ended", timeout=60)
    return min(found, key=lambda one: one["planTime"])


@pytest.mark.parametrize("how", ["cut off", "frozen"])
async def test_what_holds_a_lock_ends_before_another_worker_starts_the_next_fire(tmp_path: Path, how: str) -> None:
    evidence = tmp_path / "lives"
    flags = ("--lost-after-seconds", str(LOST_AFTER_S), "--lease-ttl-seconds", str(TTL_S))
    async with (
        running_cluster(tmp_path, workers=0, managers=1) as cluster,
        Proxy(cluster.etcd.endpoint) as way,
    ):
        cluster.add_worker("cut", *flags, "--etcd-endpoints", way.endpoint).start()
        await cluster.ready()
        for job, fields in JOBS.items():
            seconds = "30" if job in ("allow", "never") else "120"
            command = [sys.executable, "-I", "-S", "-c", LIVES, str(evidence), seconds]
            plan = EVERY_SECOND if job not in ("allow", "never") else "0 0 0 1 1 * 2199"
            spec = {"name": job, "command": command, "cronExpr": plan, "killGraceSeconds": GRACE_S, **fields}
            await cluster.call("PUT", f"/api/v1/jobs/{job}", spec)
            if plan != EVERY_SECOND:
                await cluster.call("POST", f"/api/v1/jobs/{job}/run", {})
        await wait_until(lambda: {one.job for one in lives(evidence)} == set(JOBS), description="all of them run")
        cluster.add_worker("other", *flags).start()
        await cluster.ready()
        process = cluster.workers[0].popen
        assert process is not None
        if how == "frozen":
            process.send_signal(signal.SIGSTOP)
        else:
            way.set(Mode.SWALLOW)
        locked = [job for job in JOBS if job not in ("allow", "never")]
        await wait_until(
            lambda: all(of(evidence, job, "other") for job in locked), description="the other runs them",
            timeout=TTL_S + LOST_AFTER_S + 20,
        )  # fmt: skip
        for job in locked:
            ended, began = of(evidence, job, "cut")[-1].last, of(evidence, job, "other")[0].first
            print(f"{job}: ended {(began - ended) / 1e9:.2f} s before the next began")  # noqa: T201 - a figure
            assert ended < began
        going = {job: of(evidence, job, "cut")[0].last for job in ("allow", "never")}
        await wait_until(
            lambda: all(of(evidence, job, "cut")[0].last > last for job, last in going.items()),
            description="what holds no lock, and what is never lost, goes on",
        )
        process.send_signal(signal.SIGCONT)
        way.set(Mode.PASS)
        late = await recorded(cluster, "allow")
        assert (late["status"], late.get("late")) == ("success", True)
        never = await recorded(cluster, "never")
        assert never["status"] == "success"
        for job in locked:
            record = await recorded(cluster, job)
            assert (record["status"], record["reason"]) == ("killed", "out of touch with etcd for too long"), record
