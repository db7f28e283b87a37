"""Why no worker could take a job's fires, in words: of a fire that waits, and of one that was given up.

Pure: standard library and its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from common.jobs.job import JobSpec
from common.planning.placement import fits

_SHOWN: Final = 3


class Worker(Protocol):
    """What is asked of a live worker."""

    @property
    def worker(self) -> str: ...
    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def slots(self) -> int: ...
    @property
    def not_accepting(self) -> str | None: ...


def why_nobody(spec: JobSpec, members: Iterable[Worker]) -> str:
    """What is in the way, where none of these live workers may take the job's fires."""
    members = tuple(members)
    if not members:
        return "no worker is live"
    labelled = [one for one in members if fits(spec.workers, one.labels)]
    if not labelled:
        wanted = ", ".join(f"{name}={' or '.join(values)}" for name, values in spec.workers.items())
        return f"no live worker has the labels {wanted}"
    big = [one for one in labelled if one.slots >= spec.slots]
    if not big:
        most = max(one.slots for one in labelled)
        return f"it takes {spec.slots} slots, and no worker that fits has more than {most}"
    reasons = [f"{one.worker}: {one.not_accepting or 'its session is detached'}" for one in big]
    return f"no worker that fits takes fires: {in_short(reasons)}"


def in_short(reasons: Sequence[str]) -> str:
    """The first three, and how many more there are."""
    more = f" and {len(reasons) - _SHOWN} more" if len(reasons) > _SHOWN else ""
    return "; ".join(reasons[:_SHOWN]) + more
