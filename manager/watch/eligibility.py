"""Who would take a fire, and why none could: the workers' own ranking, by the members that this manager sees."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from common.jobs.job import JobSpec
from common.protocol.absence import why_no_worker
from common.protocol.member import Member
from common.protocol.placement import Candidate, Placement, bucket_of, is_eligible

_MOST_TOLD = 20
"""Workers that are named one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Takers:
    """The workers that may take a fire, the first in rank first; none: the reason in words."""

    workers: tuple[str, ...]
    reason: str | None


class Eligibility:
    """The ranking of one membership for one job."""

    def __init__(self, spec: JobSpec, members: Iterable[Member]) -> None:
        self._spec = spec
        self._members = tuple(members)
        fitting = [one for one in self._members if is_eligible(spec, one.labels, one.slots) and one.accepts]
        self._placement = Placement(Candidate(one.worker, one.slots) for one in fitting)
        self._why_none = None if fitting else why_no_worker(spec, self._members, most=_MOST_TOLD)

    def takers(self, fire: str) -> Takers:
        """Who would take this fire (its plan time in ms, or a request's id); each of them, where it is a broadcast."""
        if self._why_none is not None:
            return Takers(workers=(), reason=self._why_none)
        if self._spec.broadcast:
            return Takers(workers=tuple(candidate.name for candidate in self._placement.candidates), reason=None)
        return Takers(workers=self._placement.order(bucket_of(self._spec.name, fire))[:2], reason=None)
