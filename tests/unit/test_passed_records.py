"""What is said of fires that are passed: that their deadline was over only where it was."""

from __future__ import annotations

from typing import Any

import pytest

from common.protocol.planner import decide
from common.protocol.records import passed_record
from tests.support.stored import planned, spec_of

NOW_MS = 1_790_000_000_000


def reason(late: str | None = None, *, behind_s: int, looked_afresh: bool = True, **fields: Any) -> str | None:
    """Of what is missed first, of a job with a fire each second that was decided last so many seconds ago."""
    job = planned(spec_of(**fields))
    decision = decide(
        job.fires, job.spec.misfire, mark_ms=NOW_MS - 1000 * behind_s, until_ms=NOW_MS, now_ms=NOW_MS,
        fresh_ms=NOW_MS if looked_afresh else None,
    )  # fmt: skip
    assert decision is not None
    record = passed_record(job, decision, now_ms=NOW_MS, late=late)
    assert record is not None
    assert record.status == "missed"
    return record.reason


AWAY = "no worker took it: w1: was started later"


@pytest.mark.parametrize("overlap", ["allow", "skip", "queue"])
@pytest.mark.parametrize("policy", ["latest", "skip"])
def test_newer_fire_that_took_the_place_of_those_within_their_grace_is_named(policy: str, overlap: str) -> None:
    fields: dict[str, Any] = {"overlap": overlap, "misfire": {"policy": policy, "graceSeconds": 60}}
    assert reason(behind_s=30, **fields) == f"misfire: {policy} kept a newer fire"
    assert reason(f"late: {AWAY}", behind_s=30, **fields) == f"misfire: {policy} kept a newer fire; {AWAY}"
    assert reason(behind_s=90, **fields) == f"misfire: {policy} kept a newer fire", "of some of them it was over"


def test_deadline_that_is_this_very_moment_is_not_over() -> None:
    fields: dict[str, Any] = {"cronExpr": "20 * * * *", "behind_s": 7200}
    age_s = (NOW_MS // 1000 - 20 * 60) % 3600 + 3600  # of the last fire but one
    at, past = (
        reason(misfire={"policy": "latest", "graceSeconds": grace_s}, **fields) for grace_s in (age_s, age_s - 1)
    )
    assert (at, past) == ("misfire: latest kept a newer fire", "late: a newer fire was due")


def test_fires_beyond_what_is_made_up_for_were_not_late() -> None:
    fields: dict[str, Any] = {"misfire": {"policy": "all", "limit": 5, "graceSeconds": 60}}
    assert reason(behind_s=30, **fields) == "misfire: all makes up for 5 at most"


def test_fires_past_their_grace_are_late() -> None:
    fields: dict[str, Any] = {"misfire": {"policy": "latest", "graceSeconds": 60}}
    assert reason(behind_s=90, looked_afresh=False, overlap="allow", **fields) == "late: a newer fire was due"
    assert reason(f"late: {AWAY}", behind_s=90, looked_afresh=False, **fields) == f"late: {AWAY}"
