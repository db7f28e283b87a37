"""Whether a worker takes fires, and who has to know first."""

from __future__ import annotations

import pytest

from worker.admission import Admission, Reason


def test_reason_holds_at_once() -> None:
    admission = Admission()
    assert admission.takes_fires
    admission.set(Reason.SPOOL, "its disk is full")
    assert not admission.takes_fires
    assert admission.starts_claimed


def test_fires_are_taken_again_only_when_the_others_have_been_told() -> None:
    admission = Admission()
    admission.set(Reason.DRAIN, "drained by me")
    admission.announced()
    admission.set(Reason.DRAIN, None)
    assert (admission.why_not, admission.takes_fires, admission.starts_claimed) == (None, False, True)
    admission.announced()
    assert admission.takes_fires


def test_announcement_opens_nothing_while_another_reason_holds() -> None:
    admission = Admission()
    admission.set(Reason.DRAIN, "drained by me")
    admission.set(Reason.SPOOL, "its disk is full")
    assert admission.why_not == "drained by me; its disk is full"
    admission.set(Reason.DRAIN, None)
    admission.announced()
    assert not admission.takes_fires


@pytest.mark.parametrize("reason", list(Reason))
def test_what_is_claimed_is_handed_on_where_it_should_not_start_here(reason: Reason) -> None:
    admission = Admission()
    admission.set(reason, "why")
    assert admission.starts_claimed is (reason in (Reason.SPOOL, Reason.GUARDIAN))
