"""In words, what a change of the clocks does to one fire of a cron schedule, for previews and save responses. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from common.schedules.cron import DAY_SECONDS, Cron
from common.schedules.zones import Transition, Zone


def transition_note(cron: Cron, zone: Zone, after: int, at: int) -> str | None:
    """What a transition does to the fire at ``at``, when ``after`` (in UTC seconds) is where the fire before it was.

    E.g. ``02:30 does not exist on 2026-03-29 in Europe/Berlin; runs at 03:00``; None when no transition touches it.
    """
    notes = (_gap_note(cron, zone, transition, at) for transition in zone.transitions(after, at))
    return next((note for note in notes if note), None) or _fold_note(cron, zone, at)


def _gap_note(cron: Cron, zone: Zone, transition: Transition, at: int) -> str | None:
    """Names the planned times that the clocks jumped over at this transition, if there are any."""
    first = cron.next_local(transition.local_before - 1)
    last = cron.previous_local(transition.local_after)
    if first is None or last is None or not first <= last:
        return None
    does_not = "does not exist" if first == last else "do not exist"
    times = _time(first) if first == last else f"{_time(first)} to {_time(last)}"
    outcome = f"runs {_run_time(first, last, _local(zone, at))}" if cron.is_fixed_time else "no fire then"
    return f"{times} {does_not} on {_date(first)} in {zone.name}; {outcome}"


def _fold_note(cron: Cron, zone: Zone, at: int) -> str | None:
    """Says which of the two passes a fire in a repeated hour runs in."""
    local = _local(zone, at)
    for transition in zone.transitions(at - 2 * DAY_SECONDS, at + 2 * DAY_SECONDS):
        if transition.local_after <= local < transition.local_before:
            which = "first" if at < transition.at else "second"
            outcome = "the first time only" if cron.is_fixed_time else f"both times, this is the {which}"
            return f"{_time(local)} comes twice on {_date(local)} in {zone.name}; runs {outcome}"
    return None


def _run_time(first: int, last: int, local: int) -> str:
    once = "" if first == last else "once, "
    day = "" if _date(local) == _date(first) else f" on {_date(local)}"
    return f"{once}at {_time(local)}{day}"


def _local(zone: Zone, at: int) -> int:
    return at + zone.offsets[zone.segment(at)]


def _date(local: int) -> str:
    return f"{datetime.fromtimestamp(local, UTC):%Y-%m-%d}"


def _time(local: int) -> str:
    return f"{datetime.fromtimestamp(local, UTC):%H:%M:%S}".removesuffix(":00")
