"""What a worker counts of its records."""

from __future__ import annotations

import pytest

from common.protocol.keys import RunId
from common.protocol.run import RunRecord, Trigger
from common.verdicts import Verdict
from worker.metrics import Counts


@pytest.mark.parametrize(
    ("due_ms", "trigger", "late_s"),
    [(None, Trigger.SCHEDULE, 7.0), (1_005_000, Trigger.RETRY, 2.0), (1_009_000, Trigger.SCHEDULE, 0.0)],
)
def test_a_run_is_late_by_what_lies_between_the_time_that_it_was_due_and_its_start(
    due_ms: int | None, trigger: Trigger, late_s: float
) -> None:
    counts = Counts()
    counts.recorded(
        RunRecord(
            run_id=RunId.planned("j", 1_000_000), status=Verdict.SUCCESS, trigger=trigger,
            plan_ms=1_000_000, due_ms=due_ms, schedule_ms=1_006_999, start_ms=1_007_000, end_ms=1_008_000,
        )
    )  # fmt: skip
    assert (counts.lateness[trigger].sum, counts.durations[Verdict.SUCCESS].sum) == (late_s, 1.0)
