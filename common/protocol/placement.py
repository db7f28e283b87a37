"""Who may try a fire, in which order: the same answer on every worker that sees the same members.

A fire falls into one of 8,192 buckets by a hash of (job, plan time), so that the fires of one job spread evenly too.
For each bucket the members are ranked by rendezvous hashing weighted by their slots: a member that comes or goes moves
only its own share, and so of what was ranked before only that has to be ranked again. One hash serves eight buckets: in
a burst every worker ranks every fire.
Pure: standard library and its neighbours.
"""

from __future__ import annotations

import math
import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, TypeAlias

from common.jobs.job import JobSpec

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


LATER: Final = 2
"""The rank of all but the first two, where nothing depends on which of them it is."""

_Scored: TypeAlias = tuple[float, str]
_BLOCK: Final = 8
"""Buckets whose scores come from one hash."""
_WORDS: Final = struct.Struct(f"<{_BLOCK}Q")


class Placement:
    """The order of the candidates for each bucket, remembered; a new membership is a new object."""

    __slots__ = ("_came", "_firsts", "_gone", "_old", "_old_candidates", "_orders", "candidates", "names")

    def __init__(self, candidates: Iterable[Candidate] = (), *, former: Placement | None = None) -> None:
        """``former``: of the membership before, most of whose firsts are still right."""
        self.candidates = tuple(sorted(candidates))
        self.names = frozenset(candidate.name for candidate in self.candidates)
        self._orders: dict[int, tuple[str, ...]] = {}
        self._firsts: dict[int, tuple[_Scored, ...]] = {}
        self._old, self._old_candidates = ({}, ()) if former is None else former._most_firsts()
        self._came = tuple(set(self.candidates).difference(self._old_candidates))
        self._gone = frozenset(one.name for one in set(self._old_candidates).difference(self.candidates))

    def order(self, bucket: int) -> tuple[str, ...]:
        """The names of all candidates, rank 0 first."""
        if len(self.candidates) < 2:
            return tuple(self.names)  # many jobs have a worker of their own: nothing is remembered for each of those
        order = self._orders.get(bucket)
        if order is None:
            block, place = divmod(bucket, _BLOCK)
            scored = [(_score(_words(one.name, block)[place], one.slots), one.name) for one in self.candidates]
            order = self._orders[bucket] = tuple(name for _, name in sorted(scored))
        return order

    def firsts(self, bucket: int) -> tuple[str, ...]:
        """The names of ranks 0 and 1, as far as there are so many: all that most fires need to know."""
        if len(self.candidates) < 2:
            return tuple(self.names)
        firsts = self._firsts.get(bucket)
        if firsts is None:
            self._rank_block(bucket // _BLOCK)
            firsts = self._firsts[bucket]
        (_, first), (_, second) = firsts
        return first, second

    def rank(self, worker: str, job: str, fire: str) -> int | None:
        """0 or 1, or `LATER` for any other place of ``worker`` among those who may try this fire; None: it is none."""
        firsts = self.firsts(bucket_of(job, fire))
        if worker in firsts:
            return firsts.index(worker)
        return LATER if worker in self.names else None

    def _rank_block(self, block: int) -> None:
        """What those that came make of the former firsts; all are ranked where one of those is gone, or not known."""
        buckets = range(block * _BLOCK, (block + 1) * _BLOCK)
        olds = [self._old.get(bucket) for bucket in buckets]
        moved = [old is not None and not any(name in self._gone for _, name in old) for old in olds]
        came = _bests(self._came, block) if any(moved) else ()
        ranked = () if all(moved) else _bests(self.candidates, block)
        for place, bucket in enumerate(buckets):
            scored = [*(olds[place] or ()), *came[place]] if moved[place] else ranked[place]
            self._firsts[bucket] = tuple(sorted(scored)[:2])

    def _most_firsts(self) -> tuple[dict[int, tuple[_Scored, ...]], tuple[Candidate, ...]]:
        """The firsts that are known of most buckets, and of which candidates: its own, or those before it."""
        if len(self._firsts) >= len(self._old):
            return self._firsts, self.candidates
        return self._old, self._old_candidates


def _bests(candidates: Iterable[Candidate], block: int) -> Sequence[Sequence[_Scored]]:
    """For each bucket of the block the candidates among which the first two are, with their scores.

    Of those with as many slots the greater word has the smaller score: the first two of each number of slots will do,
    and only theirs are reckoned.
    """
    names_by_slots: dict[int, list[str]] = defaultdict(list)
    for one in candidates:
        names_by_slots[one.slots].append(one.name)
    bests: list[list[_Scored]] = [[] for _ in range(_BLOCK)]
    for slots, names in names_by_slots.items():
        for scored, words in zip(bests, zip(*(_words(name, block) for name in names), strict=True), strict=True):
            first = words.index(max(words))
            scored.append((_score(words[first], slots), names[first]))
            if len(names) > 1:
                others = (*words[:first], -1, *words[first + 1 :])
                second = others.index(max(others))
                scored.append((_score(words[second], slots), names[second]))
    return bests


def _words(name: str, block: int) -> tuple[int, ...]:
    """A number at random for each bucket of the block, the same everywhere."""
    return _WORDS.unpack(blake2b(f"{name}/{block}".encode(), digest_size=_WORDS.size).digest())


def _score(word: int, slots: int) -> float:
    """Weighted rendezvous score (Mosharaf, Thaler: -ln(u)/w): the smaller, the earlier its turn."""
    return math.log((word + 0.5) / _SPAN) / -max(slots, 1)
