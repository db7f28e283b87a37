"""What a fleet asks of etcd while nothing fires, and what its jobs take there: arithmetic on the product's own figures.

Pure. The steward's own looks are left out: there is one, whatever the number of workers. That the sums are right can be
seen on a real etcd: `make bench-cost` tells what an idle cluster asks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from bench.simulate_fleet import BY_MANAGERS, BY_WORKERS
from common.clocks.check import LOOK_S as CLOCKS_S
from common.etcd import MirrorTimings
from common.etcd.session import KEEP_ALIVES_PER_TTL
from common.protocol.clocks import Clocks, Measured
from common.protocol.keys import Keys, Watched, encode_mark
from common.protocol.member import BEAT_S
from common.protocol.saved_job import SavedJob
from common.timings import Timings
from worker.sentinels import LOOK_S as SENTINELS_S

WORKER_WATCHES: Final = len(BY_WORKERS) + 2
"""Its own drain, and the outputs that it is asked for, beside what all of them watch."""
_CALMLY_BY_MANAGERS: Final = (Keys().channels, Keys().rules, Keys().silences, Keys().notifier)
MANAGER_WATCHES: Final = len(BY_MANAGERS) + len(_CALMLY_BY_MANAGERS)
_STEWARD_WATCHES: Final = 3
"""Beats, their roster, wishes to give a run up."""
_SIGN_OF_LIFE_S: Final = 2 * MirrorTimings().progress_s
"""How often a quiet watch asks for one (`common.etcd.mirror`)."""
_MANAGER_SIGN_OF_LIFE_S: Final = 2.0
_CAMPAIGN_S: Final = 10.0
"""How often a worker that is not steward asks who is (`common.etcd.election`)."""
_A_KEEP_ALIVE: Final = 2
"""The keep-alive itself, and the read of the session's key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What a fleet causes every second by being there."""

    requests: float
    """Messages to etcd: calls, and what is said on streams."""
    mutations: float
    watches: int
    """Open at any time."""
    clocks_bytes: int
    """The value of `clocks`, which has an entry for each process."""
    clocks_read: float
    """Bytes of it that all processes read in a second."""


def standing(*, workers: int, managers: int, timings: Timings | None = None) -> Standing:
    """The load of so many workers and managers while no job fires."""
    processes, lease_ttl_s = workers + managers, (timings or Timings()).lease_ttl_s
    alike = _A_KEEP_ALIVE * KEEP_ALIVES_PER_TTL / lease_ttl_s + 1 / BEAT_S + len(Watched) / SENTINELS_S + 1 / CLOCKS_S
    a_worker = alike + WORKER_WATCHES / _SIGN_OF_LIFE_S + 1 / _CAMPAIGN_S
    a_manager = alike + len(BY_MANAGERS) / _MANAGER_SIGN_OF_LIFE_S + len(_CALMLY_BY_MANAGERS) / _SIGN_OF_LIFE_S
    clocks = _clocks_bytes(processes)
    return Standing(
        requests=workers * a_worker + managers * a_manager,
        mutations=processes / BEAT_S + 1 / CLOCKS_S,
        watches=workers * WORKER_WATCHES + managers * MANAGER_WATCHES + _STEWARD_WATCHES,
        clocks_bytes=clocks, clocks_read=clocks * processes / CLOCKS_S,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What jobs take in etcd, without etcd's own share."""

    keys: int
    job_bytes: int
    """Of all keys and values under ``jobs/``: what each worker and manager reads when it starts."""
    mark_bytes: int
    """Of all keys and values under ``marks/``."""

    def __add__(self, other: Stored) -> Stored:
        return Stored(
            keys=self.keys + other.keys, job_bytes=self.job_bytes + other.job_bytes,
            mark_bytes=self.mark_bytes + other.mark_bytes,
        )  # fmt: skip

    def times(self, factor: float) -> Stored:
        """So many times as much."""
        return Stored(
            keys=round(self.keys * factor), job_bytes=round(self.job_bytes * factor),
            mark_bytes=round(self.mark_bytes * factor),
        )  # fmt: skip


def stored(jobs: Iterable[SavedJob]) -> Stored:
    """Of these jobs, with their marks, while none of them runs."""
    keys, total = Keys(), Stored(keys=0, job_bytes=0, mark_bytes=0)
    for job in jobs:
        name = job.spec.name
        total += Stored(
            keys=2, job_bytes=len(keys.job(name)) + len(job.to_json()),
            mark_bytes=len(keys.mark(name)) + len(encode_mark(job.anchor_ms)),
        )  # fmt: skip
    return total


def _clocks_bytes(processes: int) -> int:
    measured = {
        f"worker-{number:04d}": Measured(offset_ms=-1, within_ms=1, clock="0123abcd.0") for number in range(processes)
    }
    return len(Clocks(count=processes, measured=measured).to_json())
