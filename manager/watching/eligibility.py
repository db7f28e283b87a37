"""Who would take a fire, and why nobody could: the workers' own ranking, by the members that this manager sees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from common.jobs.job import JobSpec
from common.planning.placement import Candidate, Placement, bucket_of, fits, is_eligible
from common.stored.member import Member


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
        self._nobody = None if fitting else self._why_nobody()

    def takers(self, fire: str) -> Takers:
        """Who would take this fire (its plan time in ms, or a request's id); each of them, where it is a broadcast."""
        if self._nobody is not None:
            return Takers(workers=(), reason=self._nobody)
        if self._spec.broadcast:
            return Takers(workers=tuple(candidate.name for candidate in self._placement.candidates), reason=None)
        return Takers(workers=self._placement.order(bucket_of(self._spec.name, fire))[:2], reason=None)

    def _why_nobody(self) -> str:
        if not self._members:
            return "no worker is live"
        labelled = [one for one in self._members if fits(self._spec.workers, one.labels)]
        if not labelled:
            wanted = ", ".join(f"{name}={' or '.join(values)}" for name, values in self._spec.workers.items())
            return f"no live worker has the labels {wanted}"
        big = [one for one in labelled if one.slots >= self._spec.slots]
        if not big:
            most = max(one.slots for one in labelled)
            return f"it takes {self._spec.slots} slots, and no worker that fits has more than {most}"
        return "no worker that fits takes fires: " + _reasons(big)


def _reasons(members: Sequence[Member]) -> str:
    shown = [f"{one.worker}: {one.not_accepting or 'its session is detached'}" for one in members[:3]]
    more = f" and {len(members) - 3} more" if len(members) > 3 else ""
    return "; ".join(shown) + more
