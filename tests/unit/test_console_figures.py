"""What the console reckons from what a manager tells."""

from __future__ import annotations

from typing import Any

from tests.support.scripts import evaluate


def newest(*verdicts: str) -> str:
    return str([{"status": verdict, "planTime": place} for place, verdict in enumerate(verdicts)]).replace("'", '"')


def tallied(*verdicts: str) -> dict[str, Any]:
    script = f'const {{ tally }} = await js("job/tally.js"); return tally({newest(*verdicts)});'
    found: dict[str, Any] = evaluate(script)
    return found


def test_fires_that_were_missed_count_against_a_job() -> None:
    found = tallied("success", "skipped", "missed", "success", "skipped", "success")
    assert (found["good"], found["owed"], found["missed"], found["missedMs"]) == (3, 4, 1, 2)
    assert (found["streak"], found["since"]) == (2, 3), "of those that ran: skipped ones are none"
    assert tallied("success", "failed", "missed")["streak"] == 2
