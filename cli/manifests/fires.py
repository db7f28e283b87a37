"""The next fires of a job that need not be saved, by the engine that every worker has. Offline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from common.errors import EtcronError, InvalidInputError
from common.instants import from_ms
from common.jobs.job import JobSpec
from common.jobs.reader import parse_job


def read_spec(document: Mapping[str, Any]) -> JobSpec | None:
    """The job in the document; None where this command does not understand what a newer manager may."""
    try:
        return parse_job({field: value for field, value in document.items() if value is not None})
    except InvalidInputError:
        return None


def next_fires(spec: JobSpec | None, *, now_ms: int, n: int) -> tuple[str, ...]:
    """Local times with their offsets, and what a change of the clocks does to them; none while it is paused.

    Those that its calendar closes are left out: they do not run.
    """
    if spec is None or not spec.enabled:
        return ()
    try:
        fires = spec.schedule.open_fires.upcoming(from_ms(now_ms), n)
    except EtcronError:
        return ()
    return tuple(fire.local.isoformat(sep=" ") + (f" ({fire.note})" if fire.note else "") for fire in fires)
