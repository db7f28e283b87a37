"""What a chart of a job's durations shows of its runs."""

from __future__ import annotations

from typing import Any

import pytest

from common.verdicts import Verdict
from manager.views.durations import MOST_POINTS, Began, TimedRun, chart_of


def run(number: int, took_ms: int = 1000, status: str = Verdict.SUCCESS, revision: int = 1) -> TimedRun:
    return TimedRun(
        run_id=f"j@{number}#1", status=status, plan_ms=number, took_ms=took_ms, late_ms=number % 7, revision=revision
    )


def test_few_runs_are_a_point_each() -> None:
    chart = chart_of([run(1), run(2, 5, Verdict.FAILED)], [])
    assert chart["points"] == [
        {"runId": "j@1#1", "status": "success", "planTime": 1, "durationMs": 1000, "lateMs": 1},
        {"runId": "j@2#1", "status": "failed", "planTime": 2, "durationMs": 5, "lateMs": 2},
    ]
    assert (chart["runs"], chart["bands"], "medianMs" in chart) == (2, [], False)
    assert chart_of([], [])["points"] == []


def test_of_many_runs_a_point_stands_for_several_and_none_that_failed_is_hidden_by_a_longer_success() -> None:
    runs = [run(number, 1000 + number) for number in range(2000)]
    runs[1002] = run(1002, 3, Verdict.FAILED)
    points = chart_of(runs, [])["points"]
    assert len(points) == MOST_POINTS
    assert points[0] == {
        "runId": "j@4#1", "status": "success", "planTime": 4, "durationMs": 1004, "lateMs": 4, "runs": 5,
    }  # fmt: skip
    assert points[200]["runId"] == "j@1002#1"


def test_usual_is_of_those_that_succeeded() -> None:
    runs = [*(run(number, 10 * number) for number in range(1, 21)), run(21, 10**6, Verdict.TIMEOUT)]
    chart = chart_of(runs, [])
    assert (chart["medianMs"], chart["p95Ms"]) == (105, 190)
    assert [(band["from"], band["to"]) for band in chart["bands"]] == [(1, 10), (11, 20)]


def test_version_since_which_it_is_slower_is_marked_with_what_was_usual_before_and_after() -> None:
    runs = [*(run(number) for number in range(40)), *(run(number, 9000, revision=7) for number in range(40, 50))]
    first, saved = (Began(revision=revision, saved_ms=9, changed=["command"]) for revision in (1, 5))
    (mark,) = chart_of(runs, [first, saved])["versions"]
    assert mark == {
        "revision": 5, "savedMs": 9, "planTime": 40, "changed": ["command"], "beforeMs": 1000, "afterMs": 9000,
    }  # fmt: skip
    assert all(band["to"] < 40 or band["from"] >= 40 for band in chart_of(runs, [])["bands"])
    assert "beforeMs" not in chart_of(runs[39:42], [saved])["versions"][0], "too few to say so"


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            {"status": "success", "planTime": 1, "startTime": 501, "endTime": 2501, "trigger": "schedule"},
            (2000, 500),
        ),
        ({"status": "success", "planTime": 1000, "startTime": 1500, "endTime": 1400, "trigger": "manual"}, (0, None)),
        ({"status": "failed", "planTime": 1, "startTime": 9, "endTime": 10, "attempt": 2}, (1, None)),
        ({"status": "lost", "planTime": 1, "startTime": 9, "endTime": 10}, None),
        ({"status": "skipped", "planTime": 1000}, None),
        ({"status": "success", "planTime": "x", "startTime": [], "endTime": 10}, None),
    ],
)
def test_record_is_a_timed_run_where_it_started_and_ended(
    document: dict[str, Any], expected: tuple[int, int | None] | None
) -> None:
    found = TimedRun.of({"_id": "j@1000#1", **document})
    assert (found and (found.took_ms, found.late_ms)) == expected
