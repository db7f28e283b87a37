"""What etcd refuses for good is told from what passes, and said once a minute."""

from __future__ import annotations

import pytest

from common.errors import EtcdBusyError, EtcdInDoubtError, EtcdRefusedError, UnavailableError
from common.etcd import failures
from common.etcd.settle import is_for_good
from tests.support.fake_clock import FakeClock
from worker.refusals import Refusals


class FailedError(Exception):
    """As grpc says it."""

    def __init__(self, code: str, details: str) -> None:
        self._code, self._details = code, details

    def code(self) -> object:
        return type("Code", (), {"name": self._code})

    def details(self) -> str:
        return self._details


@pytest.mark.parametrize(
    ("code", "details", "for_good"),
    [
        ("RESOURCE_EXHAUSTED", "etcdserver: too many requests", False),
        ("PERMISSION_DENIED", "etcdserver: permission denied", True),
        ("INVALID_ARGUMENT", "etcdserver: request is too large", True),
        ("RESOURCE_EXHAUSTED", "grpc: received message larger than max (3 vs. 2)", True),
        ("FAILED_PRECONDITION", "etcdserver: something that is new to us", True),
    ],
)
def test_what_passes_is_told_from_what_somebody_has_to_mend(code: str, details: str, for_good: bool) -> None:
    error = FailedError(code, details)
    assert failures.meaning_of(error) is failures.Meaning.REFUSED
    assert is_for_good(failures.refusal(error, what="a transaction", address="x")) is for_good


@pytest.mark.parametrize("details", ["etcdserver: request timed out", "etcdserver: mvcc: database space exceeded"])
def test_what_may_have_been_carried_out_is_no_refusal(details: str) -> None:
    assert failures.meaning_of(FailedError("UNAVAILABLE", details)) is failures.Meaning.IN_DOUBT
    assert not is_for_good(EtcdInDoubtError(details))
    assert not is_for_good(UnavailableError(details))


def test_refusals_are_said_at_once_and_then_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    refusals = Refusals(clock)
    assert refusals.problem is None
    refusals.note("a@1#1", EtcdBusyError())
    assert (refusals.problem, caplog.records) == (None, [])
    for second in range(61):
        for name in ("a@1#1", "b@1#1"):
            refusals.note(name, EtcdRefusedError("no permission"))
        clock.advance(1000 if second < 60 else 0)
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    assert "a@1#1" in caplog.records[0].getMessage()
    assert "1 others" in caplog.records[1].getMessage()
    assert "no permission" in str(refusals.problem)
    clock.advance(11_000)
    assert refusals.problem is None, "it is refused no more"
