"""Whose lock is wanted at once, and whose may go with those of others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from common.etcd import Session
from common.protocol.keys import RunId
from common.protocol.request import Request
from common.protocol.run import EntryState, RunEntry, RunRecord
from common.verdicts import Verdict
from tests.support.stored import planned, spec_of
from worker.pacing import is_wanted_soon
from worker.runs import Run

PLAN = 1_800_000_000_000
HOURLY = {"cronExpr": "0 0 * * * * *"}
ENDED = PLAN + 700


def ended(trigger: dict[str, Any] | None = None, *, verdict: Verdict = Verdict.SUCCESS, **fields: Any) -> Run:
    """A run of the fire of a whole hour."""
    job = planned(spec_of(**(HOURLY if trigger is None else trigger), **fields))
    run_id = RunId.planned("job", PLAN)
    return Run(
        run_id=run_id, job=job, entry=RunEntry(state=EntryState.OPEN), fence=1, mod_revision=1,
        session=cast(Session, None), sent=0.0, start_by_ms=0, record=RunRecord(run_id=run_id, status=verdict),
    )  # fmt: skip


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(ended(), id="its next fire is an hour away"),
        pytest.param(ended({"at": "2027-01-15T08:00:00Z"}), id="it has no other fire"),
        pytest.param(ended({"cronExpr": "*/2 * * * * * *"}), id="its next fire is more than a second away"),
        pytest.param(ended({"cronExpr": "* * * * * * *"}, overlap="allow"), id="it has no lock"),
    ],
)
def test_may_go_with_others(run: Run) -> None:
    assert not is_wanted_soon(run, ENDED)


def _asked_for() -> Run:
    run = ended()
    return replace(run, run_id=RunId("job", "r-1800000000000-0123456789", 1))


def _claimed_from_a_request() -> Run:
    return replace(ended(), request=cast(Request, object()))


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(ended({"cronExpr": "* * * * * * *"}), id="its next fire comes within a second"),
        pytest.param(ended({"cronExpr": "0 * * * * * *"}, overlap="queue"), id="a fire may be queued behind it"),
        pytest.param(ended(overlap="replace"), id="a fire may be there to replace it"),
        pytest.param(ended(verdict=Verdict.FAILED), id="it may be tried again"),
        pytest.param(ended({"after": "10s"}), id="the next link of its chain follows"),
        pytest.param(_asked_for(), id="somebody asked for it"),
        pytest.param(_claimed_from_a_request(), id="it was claimed from a request"),
    ],
)
def test_is_wanted_at_once(run: Run) -> None:
    assert is_wanted_soon(run, ENDED)


def test_a_fire_that_is_overdue_counts_not_the_next_one_to_come() -> None:
    late = ended()
    assert is_wanted_soon(late, PLAN + 5 * 3_600_000), "four fires may be waiting to be made up for"
