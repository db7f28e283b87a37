"""Load for a long time, and nothing grows: ``python -m tests.chaos.scenarios.soak --minutes 30 --rate 50``.

Each minute (of a shorter run thirty times) it samples RSS, file descriptors and threads of each worker and manager, and
the keys and leases of etcd. The first sixth is warming up. Of the rest, a figure has grown where the median slope
between its samples, times their span, is more than its slack: RSS 4 MiB or 5 % of its first value, whichever is more;
4 descriptors; 2 threads; 2 leases; 100 keys. Exit status 1 where a figure has grown, a fire did not start just once, or
a process has ended.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from common.etcd import EtcdClient
from tests.chaos.scenarios.load import WORKER_FLAGS, Load, arguments, between, lateness, never_started, wrong_starts
from tests.chaos.scenarios.sampling import Sample, Sampler, growth
from tests.support.cluster import running_cluster

_SHOWN = {"1/6": 1 / 6, "1/2": 1 / 2, "end": 1.0}
"""At 5, 15 and 30 minutes of 30."""
_WARM_UP = 1 / 6
_SAMPLES = 30
_SLACK = {"descriptors": 4.0, "threads": 2.0, "leases": 2.0, "keys": 100.0}
_RSS_SLACK_MIB, _RSS_SLACK = 4.0, 0.05


def main() -> int:
    """Run it, say what was seen; 1 where something has grown."""
    given = arguments(__doc__, minutes=30)
    with tempfile.TemporaryDirectory(prefix="etcron-soak-") as directory:
        return asyncio.run(_run(Path(directory), minutes=given.minutes, rate=given.rate, workers=given.workers))


async def _run(directory: Path, *, minutes: float, rate: int, workers: int) -> int:
    async with running_cluster(directory, workers=workers, managers=1, worker_flags=WORKER_FLAGS) as cluster:
        load, samples = Load(cluster, rate), list[Sample]()
        async with EtcdClient([cluster.etcd.endpoint]) as client:
            await load.save()
            first_ms = (time.time_ns() // 1_000_000_000 + 5) * 1000
            sampler, began = Sampler(cluster, client), time.monotonic()
            every_s = min(60.0, minutes * 60 / _SAMPLES)
            while (now := time.monotonic()) < began + minutes * 60:
                await asyncio.sleep(min(every_s, began + minutes * 60 - now))
                samples.append(await sampler.sample())
                _say(_line(samples[-1]))
            last_ms = (time.time_ns() // 1_000_000_000 - 2) * 1000
        starts = load.starts()
        why_not = await load.why_not(never_started(load, starts, first_ms, last_ms))
    wrong = wrong_starts(load, starts, first_ms, last_ms) + _grown(samples)
    _table(samples)
    _say(f"\nlateness: {lateness(between(starts, first_ms, last_ms))}")
    _say("nothing has grown" if not wrong else "VIOLATIONS\n" + "\n".join(f"  {one}" for one in wrong))
    if why_not:
        _say(f"what the manager says of those that did not start: {dict(why_not)}")
    return 1 if wrong else 0


def _judged(samples: list[Sample]) -> list[Sample]:
    return [sample for sample in samples if sample.at_s >= samples[-1].at_s * _WARM_UP]


def _growths(samples: list[Sample]) -> dict[str, float]:
    judged = _judged(samples)
    return {name: growth([(one.at_s, one.figures[name]) for one in judged]) for name in samples[-1].figures}


def _grown(samples: list[Sample]) -> list[str]:
    first = _judged(samples)[0].figures
    return [
        f"{name} has grown by {grown:.1f} from {first[name]:.1f} (allowed: {_slack(name, first[name]):.1f})"
        for name, grown in _growths(samples).items()
        if grown > _slack(name, first[name])
    ]


def _slack(name: str, value: float) -> float:
    if name.endswith("MiB"):
        return max(_RSS_SLACK_MIB, _RSS_SLACK * value)
    return _SLACK[name.rsplit(" ", 1)[-1]]


def _table(samples: list[Sample]) -> None:
    shown = [samples[max(0, round(len(samples) * share) - 1)] for share in _SHOWN.values()]
    growths = _growths(samples)
    head = "".join(f"{one.at_s / 60:>8.1f} min" for one in shown)
    _say(f"\n{'':<24}{head}{'grown':>10}{'allowed':>10}")
    first = _judged(samples)[0].figures
    for name in samples[-1].figures:
        row = "".join(f"{one.figures[name]:>12.1f}" for one in shown)
        _say(f"{name:<24}{row}{growths[name]:>10.1f}{_slack(name, first[name]):>10.1f}")


def _line(sample: Sample) -> str:
    rss = " ".join(f"{held.rss_bytes / 2**20:.1f}" for held in sample.processes.values())
    etcd = f"keys {sample.keys}  leases {sample.leases}"
    return f"{sample.at_s / 60:6.1f} min  RSS {rss} MiB  {etcd}  unsent {sample.unsent}  load {sample.load:.1f}"


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
