"""Why no worker could take a job's fires, in words. Pure: its neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from common.instants import iso
from common.jobs.job import JobSpec
from common.protocol.member import Member
from common.protocol.placement import fits, is_eligible
from common.protocol.roster import RosterEntry

_SHOWN: Final = 3
_DAY_MS: Final = 86_400_000


def why_no_worker(
    spec: JobSpec, members: Iterable[Member], away: Iterable[RosterEntry] = (), *, now_ms: int = 0, most: int = _SHOWN
) -> str:  # fmt: skip
    """What is in the way, where none of these live workers may take the job's fires; ``away``: who has left; ``most``:
    an answer names up to so many workers.
    """
    members = tuple(members)
    past = sorted((one for one in away if is_eligible(spec, one.labels, one.slots)), key=lambda one: -one.seen_ms)
    left = [_departure(spec, one, now_ms) for one in past]
    if left and not any(is_eligible(spec, one.labels, one.slots) for one in members):
        return in_short(left, most)
    if not members:
        return "no worker is live"
    labelled = [one for one in members if fits(spec.workers, one.labels)]
    if not labelled:
        wanted = ", ".join(f"{name}={' or '.join(values)}" for name, values in spec.workers.items())
        return f"no live worker has the labels {wanted}"
    big = [one for one in labelled if one.slots >= spec.slots]
    if not big:
        largest = max(one.slots for one in labelled)
        return f"it takes {spec.slots} slots, and no worker that fits has more than {largest}"
    reasons = [f"{one.worker}: {one.not_accepting or 'its session is detached'}" for one in big]
    return f"no worker that fits takes fires: {in_short([*reasons, *left], most)}"


def _departure(spec: JobSpec, one: RosterEntry, now_ms: int) -> str:
    asked = ", ".join(f"{name}={one.labels[name]}" for name in spec.workers)
    how = "stopped" if one.left in ("stopped", "drained") else "gone"
    return away_since(f"{one.worker}{f' ({asked})' if asked else ''}", one.seen_ms, how=how, now_ms=now_ms)


def away_since(worker: str, seen_ms: int, *, now_ms: int, how: str = "gone") -> str:
    """That it is not here, and since when; with the day where that is a day ago."""
    seen = iso(seen_ms)
    when = seen[11:16] if 0 <= now_ms - seen_ms < _DAY_MS else f"{seen[:10]} {seen[11:16]}"
    return f"{worker} has been {how} since {when} UTC"


def in_short(reasons: Sequence[str], most: int = _SHOWN) -> str:
    """The first ones, and how many more there are."""
    more = f" and {len(reasons) - most} more" if len(reasons) > most else ""
    return "; ".join(reasons[:most]) + more
