"""What 10,000 fires cost in fleets of 10, 100 and 1,000 workers, and what 1,000,000 jobs take: counted, not timed.

Ranks, decisions and transactions are the product's own; etcd is one in memory that counts (see `bench.simulate_fleet`
for what is left out). The figures depend on nothing but the seed and the code: they are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from bench.figures import Figure, Goal, WrongError, at_most
from bench.filling import saved
from bench.simulate_fleet import MIDNIGHT_MS, Outcome, Scenario, simulate
from bench.simulate_standing import standing, stored
from common.jobs.reader import parse_job

WORKERS: Final = (10, 100, 1_000)
FIRES: Final = 10_000
BURST_A_WORKER: Final = 30
JOBS: Final = 1_000_000
MANAGERS: Final = 2
_SPREAD_S: Final = 60
_SAMPLE: Final = 1_000
_SHORT: Final[dict[str, object]] = {"command": "true", "cronExpr": "0 0 3 * * * *"}
_USUAL: Final[dict[str, object]] = {
    "command": "/opt/reports/bin/build --source warehouse --day yesterday --format parquet",
    "cronExpr": "0 15 3 * * MON-FRI *", "timezone": "Europe/Berlin", "timeoutSeconds": 3600, "overlap": "queue",
    "retry": {"limit": 3, "delaySeconds": 60}, "workers": {"zone": "eu", "tier": ["batch", "spare"]},
    "env": {"REPORTS_HOME": "/srv/reports", "REPORTS_LEVEL": "info"}, "jitterSeconds": 30,
    "labels": {"team": "sales", "what": "reports of the day before"},
}  # fmt: skip
"""Two kinds of jobs: as little as a job can say, and what many say."""
_GOALS: Final = {"mutations": at_most(5), "events to all workers": at_most(0)}


def one_round(share: float) -> list[Figure]:
    """One fleet after the other, then what stands."""
    fires = max(1, round(FIRES * share))
    figures: list[Figure] = []
    for workers in WORKERS:
        for name, scenario in _scenarios(workers, fires):
            figures += _costs(f"{workers:,} workers, {name}", scenario)
    for workers in WORKERS:
        figures += _standing(workers)
    return figures + _stored()


def _scenarios(workers: int, fires: int) -> Iterator[tuple[str, Scenario]]:
    spread = Scenario(workers=workers, fires=fires, seconds=_SPREAD_S, managers=MANAGERS)
    burst = replace(spread, seconds=1)
    yield "spread over a minute", spread
    yield "spread, 10 % dead", replace(spread, dead=0.1)
    yield "spread, 30 % full", replace(spread, full=0.3)
    yield "a burst", burst
    yield f"a burst of {BURST_A_WORKER} a worker", replace(burst, fires=BURST_A_WORKER * workers)


def _costs(of: str, scenario: Scenario) -> list[Figure]:
    """Of one fire, on average."""
    outcome = simulate(scenario)
    _check(of, scenario, outcome)
    counts, tries, fires = outcome.counts, outcome.tries, scenario.fires
    is_well = not (scenario.dead or scenario.full)
    costs = {
        "mutations": counts.mutations, "requests": counts.requests, "bytes put": counts.put_bytes,
        "events to all workers": counts.to_workers, "events to all managers": counts.to_managers,
        "marks read by rank 1": tries.hedges, "claimed by rank 1": tries.hedged, "offered to all": tries.offered,
        "claims lost": tries.lost + tries.requests_lost,
    }  # fmt: skip
    goals: dict[str, Goal] = _GOALS if is_well else {}
    figures = [
        Figure(name=f"{of}: {what}", value=value / fires, unit="a fire", goal=goals.get(what))
        for what, value in costs.items()
    ]
    if is_well and scenario.seconds > 1:
        figures.append(Figure(name=f"{of}: the busiest worker's fires", value=outcome.busiest, unit="x the mean"))
    return figures


def _check(of: str, scenario: Scenario, outcome: Outcome) -> None:
    """Every fire was claimed, and once. WrongError."""
    tries = outcome.tries
    if tries.claimed + tries.requests_claimed != scenario.fires or outcome.undecided:
        taken = tries.claimed + tries.requests_claimed
        raise WrongError(f"{of}: {taken} of {scenario.fires} fires were claimed, {outcome.undecided} are undecided")


def _standing(workers: int) -> list[Figure]:
    there = standing(workers=workers, managers=MANAGERS)
    figures = {
        "requests": (there.requests, "a second"), "mutations": (there.mutations, "a second"),
        "watches": (there.watches, ""), "clocks": (there.clocks_bytes / 1024, "KiB"),
        "clocks read": (there.clocks_read / 2**20, "MiB a second"),
    }  # fmt: skip
    return [Figure(name=f"{workers:,} workers idle: {what}", value=value, unit=unit) for what, (value, unit) in
            figures.items()]  # fmt: skip


def _stored() -> list[Figure]:
    """By a sample, since all of a kind are alike."""
    figures = []
    for kind, fields in (("short", _SHORT), ("usual", _USUAL)):
        sample = [
            saved(parse_job({"name": f"team-{n % 50}.job-{n:07d}", **fields}), MIDNIGHT_MS) for n in range(_SAMPLE)
        ]
        there = stored(sample).times(JOBS / len(sample))
        figures += [
            Figure(name=f"{JOBS:,} {kind} jobs: {what}", value=value, unit=unit)
            for what, value, unit in (
                ("keys", there.keys, ""), ("specs", there.job_bytes / 2**20, "MiB"),
                ("marks", there.mark_bytes / 2**20, "MiB"),
                ("specs read when 1,000 workers start", 1_000 * there.job_bytes / 2**30, "GiB"),
            )
        ]  # fmt: skip
    return figures
