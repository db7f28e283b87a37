"""So many fires a second, of jobs that each fire every second; each command says when it started."""

from __future__ import annotations

import argparse
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final
from urllib.parse import quote

from common.instants import iso
from tests.chaos.latency import Lateness
from tests.support.cluster import EVERY_SECOND, Cluster

_MOST_ASKED: Final = 500
_PRINTED = "printf '%0400d\\n' 0"
WORKER_FLAGS: Final = ("--slots", "64")
"""Room for what is due at one instant, also where one of the workers has most of it."""


@dataclass(frozen=True, slots=True)
class Start:
    """One line of evidence."""

    job: str
    plan_ms: int
    wall_ms: float
    """When the command's shell wrote it."""

    @property
    def late_ms(self) -> int:
        return round(self.wall_ms - self.plan_ms)


class Load:
    """The jobs, half of them with a lock; use `save`, then look at `starts`."""

    def __init__(self, cluster: Cluster, rate: int) -> None:
        """``rate``: fires a second."""
        self._cluster = cluster
        self.jobs = [f"load-{number}" for number in range(rate)]

    async def save(self) -> None:
        """All jobs fire from now on."""
        bash = shutil.which("bash")
        assert bash is not None, "the commands tell the time with bash's EPOCHREALTIME"
        line = f'echo "$ETCRON_JOB $ETCRON_PLAN_MS $EPOCHREALTIME" >> {self._cluster.evidence_file}; {_PRINTED}'
        for number, name in enumerate(self.jobs):
            await self._cluster.call("PUT", f"/api/v1/jobs/{name}", {
                "name": name, "command": [bash, "-c", line], "cronExpr": EVERY_SECOND,
                "overlap": "allow" if number % 2 else "skip",
            })  # fmt: skip

    def starts(self) -> list[Start]:
        """All evidence so far."""
        file = self._cluster.evidence_file
        lines = file.read_text().splitlines() if file.exists() else []
        return [_start(*line.split()) for line in lines]

    async def why_not(self, fires: Iterable[tuple[str, int]]) -> Counter[str]:
        """What the manager says of the first of these fires: how many of each verdict and kind of reason."""
        said: Counter[str] = Counter()
        for job, plan_ms in islice(fires, _MOST_ASKED):
            at = quote(iso(plan_ms))
            page = await self._cluster.call("GET", f"/api/v1/jobs/{job}/fires?from={at}&to={at}")
            for fire in page["items"] or [{"verdict": "of nothing", "reason": None}]:
                said[": ".join([fire["verdict"], *(fire["reason"] or "").split(":")[:1]])] += 1
        return said

    def fires(self, first_ms: int, last_ms: int) -> Iterator[tuple[str, int]]:
        """What should have started, both ends included, whole seconds each."""
        return ((job, plan_ms) for plan_ms in range(first_ms, last_ms + 1, 1000) for job in self.jobs)


def _start(job: str, plan: str, seconds: str) -> Start:
    return Start(job, int(plan), float(seconds.replace(",", ".")) * 1000)


def between(starts: Iterable[Start], first_ms: int, last_ms: int) -> list[Start]:
    """Those of these plan times, both ends included."""
    return [one for one in starts if first_ms <= one.plan_ms <= last_ms]


def lateness(starts: Iterable[Start]) -> Lateness:
    """How late they were."""
    return Lateness.of([one.late_ms for one in starts])


def never_started(load: Load, starts: list[Start], first_ms: int, last_ms: int) -> list[tuple[str, int]]:
    """Fires of these plan times without a start."""
    started = {(one.job, one.plan_ms) for one in starts}
    return [fire for fire in load.fires(first_ms, last_ms) if fire not in started]


def wrong_starts(load: Load, starts: list[Start], first_ms: int, last_ms: int) -> list[str]:
    """Fires of these plan times that did not start, or more than once, in words, each kind with an example."""
    counts = Counter((one.job, one.plan_ms) for one in between(starts, first_ms, last_ms))
    never = never_started(load, starts, first_ms, last_ms)
    again = [fire for fire in counts if counts[fire] > 1]
    wrong = []
    if never:
        wrong.append(f"{len(never)} fires did not start, the first of {never[0][0]} at {never[0][1]}")
    if again:
        wrong.append(f"{len(again)} fires started more than once, the first of {again[0][0]} at {again[0][1]}")
    return wrong


def arguments(doc: str | None, *, minutes: float) -> argparse.Namespace:
    """Those of every scenario: ``minutes``, ``rate``, ``workers``."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=minutes)
    parser.add_argument("--rate", type=int, default=50, help="fires a second")
    parser.add_argument("--workers", type=int, default=3)
    return parser.parse_args()
