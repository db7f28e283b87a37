"""The strip of a job beside former versions', of 32 verdicts without durations, and of 64 with durations in a list
of their own: each reads and writes on."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import bson

from common.runlog.last import KEPT, SHOWN, Advance, advances_of, came_to_in, results_in
from common.verdicts import Verdict
from tests.support.records import record

FORMER_KEPT: Final = 32
SAMPLE: Final = Path(__file__).parents[1] / "golden" / "records" / "what_a_job_came_to.json"
"""As this version writes it."""
FORMER: Final[dict[str, Any]] = {
    "order": "0001790000002000/000001/1/backup@1790000002000#1", "failing": False, "writes": 3,
    "recent": [
        "0001790000000000/100001/1/backup@1790000000000#1 success 1790000000000",
        "0001790000001000/100001/0/backup@1790000001000#1 lost 1790000001000",
        "0001790000002000/000001/1/backup@1790000002000#1 skipped 1790000002000",
    ],
}  # fmt: skip
"""As the first of them wrote it."""
WITH_TOOK: Final[dict[str, Any]] = {
    **FORMER,
    "recent": [
        *FORMER["recent"][:2],
        "0001790000002000/100001/1/backup~w-2@1790000002000#1 success 1790000002000",
        "0001790000003000/100001/1/backup@r-1790000003000-x#1 killed 1790000003000",
    ],
    "took": ["@1790000000000#1 12000", "~w-2@1790000002000#1 13000", "@r-1790000003000-x#1 7"],
}
"""As the second one did."""


def former_merge(*strips: Iterable[str]) -> list[str]:
    entries = sorted({one for strip in strips for one in strip})
    by_fire = {entry.rsplit(" ", 2)[0].split("/", 3)[-1].rpartition("#")[0]: entry for entry in entries}
    return sorted(by_fire.values())[-FORMER_KEPT:]


def former_reading(document: dict[str, Any]) -> list[tuple[str, int, str]]:
    parts = [entry.rsplit(" ", 2) for entry in former_merge(document["recent"])[-20:]]
    return [(status, int(plan), order.split("/", 3)[-1]) for order, status, plan in parts]


def written_by_former(document: dict[str, Any], entries: Iterable[str]) -> dict[str, Any]:
    """Its update: it pushes what is newer, and leaves what it does not know."""
    return {**document, "recent": [*document["recent"], *entries][-FORMER_KEPT:]}


def written(document: dict[str, Any], advance: Advance) -> dict[str, Any]:
    """This version's merge, which comes to what its update does."""
    return {**document, **advance.beyond(document)}


def ids(document: dict[str, Any]) -> list[str]:
    return [str(one["runId"]).partition("@")[2] for one in results_in(document, "backup").recent]


def advance_of(*numbers: int) -> Advance:
    [advance] = advances_of([record(number) for number in numbers])
    return advance


def test_former_version_reads_what_this_one_has_written() -> None:
    [sample] = json.loads(SAMPLE.read_text())
    assert former_reading(sample) == [
        ("success", 1790000000000, "@1790000000000#1"), ("failed", 1790000001000, "@1790000001000#1"),
        ("skipped", 1790000002000, "@1790000002000#1"),
    ], "all but the job, which its links lack"  # fmt: skip
    full = written(sample, advance_of(*range(3, 3 + KEPT)))
    assert [plan for _, plan, _ in former_reading(full)] == [record(KEPT - 17 + n).plan_ms for n in range(20)]
    entries = [entry.split(" ") for entry in full["recent"]]
    assert all(len(parts) == 3 and parts[1] == Verdict.SUCCESS for parts in entries), "alerts read them so"


def test_this_version_reads_what_a_former_one_has_written_and_goes_on_from_it() -> None:
    assert [(one["status"], "durationMs" in one) for one in results_in(FORMER, "backup").recent] == [
        ("success", False), ("lost", False), ("skipped", False),
    ]  # fmt: skip
    assert came_to_in(FORMER, "backup").successes == ("0001790000000000/100001/1/backup@1790000000000#1",)
    after = written(FORMER, advance_of(1, 3))
    assert [(one["status"], one.get("durationMs")) for one in results_in(after, "backup").recent] == [
        ("success", None), ("success", 5), ("skipped", None), ("success", 5),
    ]  # fmt: skip


def test_durations_that_stand_in_a_list_of_their_own_are_read_and_move_with_the_next_merge() -> None:
    expected = [
        ("backup@1790000000000#1", "success", 12000), ("backup@1790000001000#1", "lost", None),
        ("backup~w-2@1790000002000#1", "success", 13000), ("backup@r-1790000003000-x#1", "killed", 7),
    ]  # fmt: skip

    def read(document: dict[str, Any]) -> list[tuple[str, str, int | None]]:
        return [(one["runId"], one["status"], one.get("durationMs")) for one in results_in(document, "backup").recent]

    assert read(WITH_TOOK) == expected
    successes = came_to_in(WITH_TOOK, "backup").successes
    assert [order.rpartition("/")[2] for order in successes] == [expected[0][0], expected[2][0]]
    after = written(WITH_TOOK, advance_of(0, 4))
    assert read(after) == [
        ("backup@1790000000000#1", "success", 5), *expected[1:], ("backup@1790000004000#1", "success", 5)
    ], "of the same run ours counts"  # fmt: skip
    assert after["took"] == []
    assert came_to_in(after, "backup").successes[:2] == successes


def test_full_strip_is_small() -> None:
    full = written(json.loads(SAMPLE.read_text())[0], advance_of(*range(KEPT)))
    assert len(full["recent"]) == KEPT
    assert len(bson.encode(full)) < 6_000


def test_versions_that_write_in_turn_lose_only_what_the_former_keeps_no_room_for() -> None:
    document = written({}, advance_of(*range(SHOWN)))
    assert len(ids(document)) == SHOWN
    former_entry = f"{record(SHOWN).plan_ms:016d}/100001/1/{record(SHOWN).run_id} success {record(SHOWN).plan_ms}"
    document = written_by_former(document, [former_entry])
    assert len(ids(document)) == FORMER_KEPT
    found = results_in(document, "backup").recent
    assert (found[-1]["runId"], "durationMs" in found[-1]) == (str(record(SHOWN).run_id), False)
    assert found[-2]["durationMs"] == 5
    document = written(document, advance_of(SHOWN + 1))
    assert written(document, advance_of(SHOWN + 1)) == document
