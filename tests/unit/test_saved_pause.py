"""What lies beside a paused job's spec, and what becomes of nonsense there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from common.jobs.job import JobSpec
from common.protocol.saved_job import Pause, SavedJob

OFF = JobSpec(name="j", command="a", cron_exprs=("@daily",), enabled=False)


@pytest.mark.parametrize("pause", [None, Pause(since_ms=5), Pause(since_ms=5, by="me", reason="ä <b>")])
def test_a_pause_is_read_back(pause: Pause | None) -> None:
    saved = SavedJob(spec=OFF, anchor_ms=7, saved_ms=8, saved_by="x", pause=pause)
    assert SavedJob.from_json(saved.to_json(), name="j") == saved


@pytest.mark.parametrize(
    ("changes", "pause"),
    [
        ({"pausedMs": "5"}, None),
        ({"pausedMs": True}, None),
        ({"pausedBy": "me"}, None),
        ({"pausedMs": 5, "pausedBy": 1, "pausedReason": []}, Pause(since_ms=5)),
        ({"pausedMs": 5, "enabled": True}, None),
    ],
)
def test_nonsense_says_nothing_and_harms_nobody(changes: dict[str, Any], pause: Pause | None) -> None:
    document = json.loads(SavedJob(spec=OFF, anchor_ms=7).to_json()) | changes
    assert SavedJob.from_json(json.dumps(document).encode(), name="j").pause == pause
