"""10,000 jobs due in the same second, on `etcron up` with two workers: how fast they start, and can be read.

Everything runs on this machine: etcd, log store, manager, two workers. Measured from the plan time to the last start
and to the last record that can be read, against the rate at which this machine starts the same command by a loop in C
(before it and after it), Debian's cron and APScheduler. Each job must run once, by its own evidence and by its record.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from bench.evidence import Evidence
from bench.figures import Figure, WrongError, at_least, at_most, quantile, ratio
from bench.on_up import Up, up
from bench.peers import NotHereError, apscheduler, debian_cron
from bench.peers.spawn_loop import compile_loop, machine_rate
from bench.reading import all_records, once_each
from bench.recorded import until_recorded
from common.jobs.job import JobSpec

JOBS: Final = 10_000
_LEAD_S: Final = 4
_SAVED_A_SECOND: Final = 1_500
_LIMIT_S: Final = 120
_TOLD: Final = 5
_LOOP_S: Final = 3.0


def one_round(share: float) -> list[Figure]:
    """Ours, between two runs of the loop; then the peers."""
    jobs = max(1, round(JOBS * share))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        home.chmod(0o755)
        loop, why_not = _loop(home)
        rates = [loop()]
        by_shell = asyncio.run(ours(home / "shells", jobs))
        launched = asyncio.run(ours(home / "lists", jobs, in_lists=True))
        rates.append(loop())
        spawns = statistics.median(rate for rate in rates if rate) if all(rates) else None
        return [
            *by_shell,
            Figure(name="C loop of posix_spawn", value=spawns, unit="starts/s", note=why_not),
            Figure(
                name="etcron, lists of arguments with a workdir",
                value=launched[0].value,
                unit="starts/s",
                note=launched[0].note,
            ),
            ratio("etcron to C loop", by_shell[0].value, spawns, at_least(0.55)),
            *_peer("Debian cron", debian_cron.burst, home, jobs, by_shell[0].value, at_least(3.5)),
            *_peer("APScheduler", apscheduler.burst, home, jobs, by_shell[0].value, None),
            Figure(
                name="the legacy system (GDTS)", value=None, unit="starts/s", note="its programs cannot be had here"
            ),
        ]


def _loop(home: Path) -> tuple[Callable[[], float | None], str]:
    """Measures the machine's spawn rate; nothing, and why, where there is no compiler."""
    try:
        program = compile_loop(home)
    except NotHereError as error:
        return (lambda: None), str(error)
    command = Evidence(home / "of-the-loop").command(0)
    return (lambda: machine_rate(program, command, _LOOP_S)), ""


def _peer(
    name: str, burst: Callable[[int, Evidence], Awaitable[float]], home: Path, jobs: int, ours: float | None, goal: Any
) -> list[Figure]:
    async def measured() -> float:
        return await burst(jobs, Evidence(home / f"of-{name}"))

    rate, note = None, ""
    try:
        rate = jobs / asyncio.run(measured())
    except NotHereError as error:
        note = str(error)
    except WrongError as error:  # the peer's fault, and no reason to throw our figures away
        note = f"wrong: {error}"
    return [
        Figure(name=name, value=rate, unit="starts/s", note=note),
        ratio(f"etcron to {name}", ours, rate, goal),
    ]


async def ours(home: Path, jobs: int, *, in_lists: bool = False, are_told: bool = False) -> list[Figure]:
    """``in_lists``: commands that the worker has its launcher start. ``are_told``: a rule selects each job."""
    home.mkdir(mode=0o755)
    evidence = Evidence(home / "evidence")
    async with up(home) as running:
        if are_told:
            await running.tell_all()
        moment = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=_LEAD_S + jobs // _SAVED_A_SECOND)
        expr = f"{moment.second} {moment.minute} {moment.hour} {moment.day} {moment.month} * {moment.year}"
        await running.save(_spec(number, evidence, expr, in_lists=in_lists) for number in range(jobs))
        plan = moment.timestamp()
        if time.time() > plan - 2:
            raise WrongError("the jobs were not saved in time")
        await asyncio.sleep(plan - time.time())
        try:
            await evidence.all_started(jobs, plan + _LIMIT_S)
        except WrongError as error:
            raise WrongError(f"{error}: {await _why_not(running, evidence.missing(jobs), moment)}") from error
        started = evidence.last_start() - plan
        readable = await _last_readable(running, jobs, plan)
        records = once_each(await all_records(running.http, running.url), jobs)
    evidence.check(jobs)
    late = [(record["startTime"] - record["planTime"]) / 1000 for record in records]
    if min(late) < 0:
        raise WrongError(f"a run started {-min(late)} s before its plan time")
    ended = max(record["endTime"] for record in records) / 1000 - plan
    return [
        Figure(name="etcron", value=jobs / started, unit="starts/s", note=f"{jobs:,} of {jobs:,} once"),
        Figure(name="last start after", value=started, unit="s"),
        Figure(name="middle start after", value=quantile(late, 0.5), unit="s"),
        Figure(name="last record readable, after the last run", value=readable - ended, unit="s", goal=at_most(2)),
    ]


async def _why_not(running: Up, numbers: list[int], moment: datetime) -> str:
    """What the manager says of the first of them."""
    instant = moment.isoformat()
    said = []
    for number in numbers[:_TOLD]:
        name = _name(number)
        async with running.http.get(
            f"{running.url}/api/v1/jobs/{name}/fires", params={"from": instant, "to": instant}
        ) as answer:
            said.append(f"{name}: {await answer.text()}")
    return "; ".join(said)


def _name(number: int) -> str:
    return f"burst-{number:06d}"


def _spec(number: int, evidence: Evidence, expr: str, *, in_lists: bool) -> JobSpec:
    command = evidence.command(number)
    if not in_lists:
        return JobSpec(name=_name(number), command=command, cron_exprs=(expr,))
    workdir = str(evidence.path.parent)
    return JobSpec(name=_name(number), command=("/bin/sh", "-c", command), workdir=workdir, cron_exprs=(expr,))


async def _last_readable(running: Up, jobs: int, plan: float) -> float:
    """Seconds from the plan time until the log store has all records, and GET /job/log shows the newest of them."""
    newest = await until_recorded(running.log_store, jobs, plan + _LIMIT_S)
    async with running.http.get(f"{running.url}/job/log", params={"name": newest}) as answer:
        if len((await answer.json())["data"]) != 1:
            raise WrongError(f"GET /job/log does not show the run of {newest}")
    return time.time() - plan
