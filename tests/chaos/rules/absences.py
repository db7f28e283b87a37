"""G2: a fire is recorded as passed for want of its worker only once that has been away for a minute."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator

from tests.chaos.view import View, Violation

_GONE = re.compile(r"no worker: (\S+) \(.*\) has been (?:gone|stopped) since")
_AWAY_MS = 60_000
_JUST_BACK_MS = 5_000
"""What was decided while it was away may be recorded when it has just come back."""


def check(view: View) -> Iterator[Violation]:
    """Every record that names one worker as gone, against what that one has started."""
    starts: dict[str, list[int]] = defaultdict(list)
    for run in view.runs.values():
        for start in run.starts:
            starts[start.worker].append(start.wall_ms)
    for of_worker in starts.values():
        of_worker.sort()
    for run, record in view.records():
        found = _GONE.match(record.get("reason") or "")
        if found is None:
            continue
        between = [
            _between(starts[found[1]], at_ms - _AWAY_MS, at_ms - _JUST_BACK_MS)
            for at_ms in view.written_at(record["endTime"])
        ]
        if all(between):
            text = f"recorded at {record['endTime']} ({record['reason']}), which started a command at {between[0]}"
            yield Violation("G2", str(run.id), text)


def _between(times_ms: list[int], lo_ms: int, hi_ms: int) -> int | None:
    index = bisect_left(times_ms, lo_ms)
    return times_ms[index] if index < len(times_ms) and times_ms[index] <= hi_ms else None
