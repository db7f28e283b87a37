"""How records are ordered: for pages by plan time and run id, for the last result by plan time, attempt and verdict."""

from __future__ import annotations

import random

from common.protocol.keys import RunId
from common.protocol.run import RunRecord, last_order, plan_key
from common.runlog import OwedResults
from common.runlog.documents import last_document, page_key
from common.runlog.last import advances_of
from common.verdicts import Verdict
from tests.support.records import record


def attempt(number: int, *, plan: int = 1, status: Verdict = Verdict.SUCCESS) -> RunRecord:
    return record(plan, run_id=RunId.planned("backup", record(plan).plan_ms, number), status=status)


def test_page_keys_sort_by_plan_time_first() -> None:
    records = [record(number, plan_ms=plan_ms) for number, plan_ms in enumerate([0, 9, 10, 1_790_000_000_000])]
    keys = [page_key(one) for one in records]
    assert keys == sorted(keys)
    assert plan_key(10) <= page_key(records[2]) < plan_key(11)
    assert plan_key(-5) == plan_key(0)


def test_a_later_fire_a_later_attempt_and_a_verdict_after_lost_are_newer() -> None:
    ascending = [
        attempt(2, plan=0),
        attempt(1, status=Verdict.LOST),
        attempt(1),
        attempt(2),
        attempt(10),
        record(2, status=Verdict.SKIPPED),
    ]
    orders = [last_order(one) for one in ascending]
    assert orders == sorted(orders)


def test_of_each_job_the_newest_is_taken_wherever_it_stands() -> None:
    batch = [record(2), record(1), record(0, job="other"), record(3), record(1)]
    found = {one.job: one.result["runId"] for one in advances_of(batch)}
    assert found == {"backup": str(record(3).run_id), "other": str(record(0, job="other").run_id)}


def test_what_is_owed_says_the_same_however_the_records_came() -> None:
    skipped = [record(number, status=Verdict.SKIPPED) for number in range(40, 44)]
    records = [*(record(number, job=job) for number in range(40) for job in ("backup", "other")), *skipped, attempt(2)]
    whole = {one.job: one for one in advances_of(records)}
    for shuffle in range(5):
        mixed = random.Random(shuffle).sample(records, len(records))
        owed = OwedResults()
        for start in range(0, len(mixed), 7):
            owed.add(mixed[start : start + 7])
        owed.add(mixed[:3])
        assert {one.job: one for one in owed} == whole
        assert (len(owed), owed.records) == (2, len(records) + 3)
        owed.clear()
        assert (list(owed), owed.records) == ([], 0)


def test_long_texts_are_cut_in_the_last_result() -> None:
    last = last_document(record(1, err="e" * 10_000, reason="r" * 10_000))
    assert (len(last["err"]), len(last["reason"])) == (500, 500)
