"""A job's fires by day, in its own zone, and what the next changes of its clocks do to them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from common.instants import from_ms
from common.jobs.job import JobSpec
from common.schedules.schedule import Schedule
from common.schedules.zones import Transition, load_zone
from manager.views.advice import fire_view

MOST_DAYS: Final = 42
MOST_OF_A_DAY: Final = 25
"""Fires of a day are counted up to here."""
_DAY_S: Final = 86_400
_AHEAD_S: Final = 400 * _DAY_S
"""So far one looks for changes of the clocks; at most two are shown."""


def calendar_of(spec: JobSpec, days: int, *, now_ms: int) -> dict[str, Any]:
    """From today on, in the zone of the schedule; of today what is still to come."""
    zone, schedule, now_s = load_zone(spec.timezone), spec.schedule, now_ms // 1000
    today, items = zone.local_day(now_s), list[dict[str, Any]]()
    for day in range(today, today + days):
        low_ms, high_ms = (zone.first_instant(one * _DAY_S) * 1000 for one in (day, day + 1))
        planned = schedule.fires_between_ms(max(low_ms - 1, now_ms), high_ms - 1, MOST_OF_A_DAY)
        fires = [one for one in planned if schedule.is_open(one)]
        date = datetime.fromtimestamp(day * _DAY_S, UTC).date().isoformat()
        item = {"date": date, "fires": len(fires), "closed": len(planned) - len(fires)}
        items.append({**item, "isMore": True} if len(planned) == MOST_OF_A_DAY else item)
    changes = list(zone.transitions(now_s, now_s + _AHEAD_S))[:2] if spec.cron_exprs or spec.at is not None else []
    return {"timezone": zone.name, "days": items, "clocks": [_clocks(schedule, change) for change in changes]}


def _clocks(schedule: Schedule, change: Transition) -> dict[str, Any]:
    """A change of the clocks, and the fires that it touches, three of them at most."""
    repeated_s = max(0, change.local_before - change.local_after)
    near = schedule.upcoming(from_ms((change.at - repeated_s - 1) * 1000), 5)
    touched = [fire for fire in near if fire.note is not None and fire.at.timestamp() < change.at + _DAY_S]
    return {
        "ms": change.at * 1000, "beforeS": change.local_before - change.at, "afterS": change.local_after - change.at,
        "fires": [fire_view(fire, schedule) for fire in touched[:3]],
    }  # fmt: skip
