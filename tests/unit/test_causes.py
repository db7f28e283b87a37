"""What runs that did not go well have in common."""

from __future__ import annotations

from typing import Any

import pytest

from common.runlog.causes import cause_of


@pytest.mark.parametrize(
    ("record", "cause"),
    [
        ({"status": "success", "exitCode": 0}, ""),
        ({"jobName": "of the legacy system"}, ""),
        ({"status": "failed", "exitCode": 3, "err": "exit status 3"}, "failed: exit status 3"),
        ({"status": "failed", "signal": 9}, "failed: signal 9"),
        ({"status": "failed", "err": "no such file\nat line 3"}, "failed: no such file"),
        ({"status": "timeout", "err": "timeout: after 5 s", "signal": 15}, "timeout"),
        ({"status": "killed", "reason": "it hangs, says alice"}, "killed"),
        ({"status": "killed", "reason": "worker shutdown"}, "killed: worker shutdown"),
        ({"status": "lost", "reason": "given up by alice: gone"}, "lost: given up by alice"),
        ({"status": "skipped", "reason": "overlap: skip"}, "skipped: overlap"),
        ({"status": "missed", "reason": "late"}, "missed: late"),
        ({"status": "failed", "err": "x" * 500}, f"failed: {'x' * 192}"),
    ],
)
def test_details_that_differ_from_run_to_run_are_no_part_of_it(record: dict[str, Any], cause: str) -> None:
    assert cause_of(record) == cause
