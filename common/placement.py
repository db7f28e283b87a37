"""Who may try a fire, in which order: the same answer on every worker that sees the same members.

A fire falls into one of 8,192 buckets by a hash of (job, plan time), so that the fires of one job spread evenly too.
For each bucket the members are ranked by rendezvous hashing weighted by their slots: a member that comes or goes moves
only its own share. Pure: standard library and its neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from common.job import JobSpec

BUCKETS: Final = 8192
_SPAN: Final = float(1 << 64)


@dataclass(frozen=True, slots=True, order=True)
class Candidate:
    """A worker that takes fires, and how many it can run at once."""

    name: str
    slots: int


def is_eligible(spec: JobSpec, labels: Mapping[str, str], slots: int) -> bool:
    """Whether a worker with these labels and so many slots may run the job."""
    return slots >= spec.slots and fits(spec.workers, labels)


def fits(selector: Mapping[str, tuple[str, ...]], labels: Mapping[str, str]) -> bool:
    """Whether a worker with these labels may run a job with this selector: each label has one of the values."""
    return all(labels.get(name) in values for name, values in selector.items())


def bucket_of(job: str, fire: str) -> int:
    """The bucket of a fire: ``fire`` is its plan time in ms in decimal, or the id of a request."""
    return int.from_bytes(blake2b(f"{job}@{fire}".encode(), digest_size=2).digest()) % BUCKETS


class Placement:
    """The order of the candidates for each bucket, remembered; a new membership is a new object."""

    __slots__ = ("_orders", "candidates", "names")

    def __init__(self, candidates: Iterable[Candidate] = ()) -> None:
        self.candidates = tuple(sorted(candidates))
        self.names = frozenset(candidate.name for candidate in self.candidates)
        self._orders: dict[int, tuple[str, ...]] = {}

    def order(self, bucket: int) -> tuple[str, ...]:
        """The names of all candidates, rank 0 first."""
        if len(self.candidates) < 2:
            return tuple(self.names)  # many jobs have a worker of their own: nothing is remembered for each of those
        order = self._orders.get(bucket)
        if order is None:
            ranked = sorted(self.candidates, key=lambda one: (_score(one, bucket), one.name))
            order = self._orders[bucket] = tuple(one.name for one in ranked)
        return order

    def rank(self, worker: str, job: str, fire: str) -> int | None:
        """The place of ``worker`` among those who may try this fire; None where it is not among them."""
        order = self.order(bucket_of(job, fire))
        return order.index(worker) if worker in order else None


def _score(candidate: Candidate, bucket: int) -> float:
    """Weighted rendezvous score (Mosharaf, Thaler: -ln(u)/w): the smaller, the earlier its turn."""
    digest = blake2b(f"{candidate.name}/{bucket}".encode(), digest_size=8).digest()
    uniform = (int.from_bytes(digest) + 0.5) / _SPAN
    return -math.log(uniform) / max(candidate.slots, 1)
