"""A write in doubt: sent again, identical, until it is known what became of it; and what a sender bears meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import EtcdBusyError, EtcdInDoubtError, EtcdRefusedError, UnavailableError
from common.etcd.settle import Bears, Patience, UnsettledError, answered, growing_pause_s, settle
from common.protocol.txn import Earlier, Fate, Txn, TxnResult
from tests.support.fake_clock import FakeClock

DOUBT, AWAY = EtcdInDoubtError("no answer"), UnavailableError("away")
BUSY, NO = EtcdBusyError("too much to do"), EtcdRefusedError("no permission")
DONE = TxnResult(succeeded=True, revision=7, results=())


def refused(earlier: Earlier = Fate.NEVER) -> TxnResult:
    """A refusal that shows this of the sendings before."""
    return cast(TxnResult, SimpleNamespace(succeeded=False, revision=9, earlier=earlier))


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("common.etcd.settle.AGAIN_S", 0)


@dataclass(slots=True)
class Etcd:
    """Answers so, one after the other; then it is in doubt, and the patience is over."""

    answers: Sequence[TxnResult | Exception]
    clock: FakeClock = field(default_factory=FakeClock)
    sent: list[Txn] = field(default_factory=list)

    async def txn(self, txn: Txn) -> TxnResult:
        answer = self.answers[len(self.sent)] if len(self.sent) < len(self.answers) else DOUBT
        self.sent.append(txn)
        self.clock.advance(1_000)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def is_over(self) -> bool:
        return len(self.sent) > len(self.answers)


async def settled(answers: Sequence[TxnResult | Exception], bears: Bears = Bears.DOUBT) -> tuple[object, list[str]]:
    """What is told in the end, and what was told meanwhile."""
    etcd, told, txn = Etcd(answers), list[str](), Txn([], [])
    patience = Patience(
        bears=bears, pause_s=lambda _: 0, is_over=lambda: etcd.is_over, in_doubt="it may be done ({})".format,
        note=lambda error: told.append(str(error)), on_open=lambda: told.append("open"),
    )  # fmt: skip
    try:
        found = await settle(cast(Any, etcd), etcd.clock, txn, patience, lambda refusal: cast(Any, refusal).earlier)
    except Exception as error:
        return error, told
    finally:
        assert all(one is txn for one in etcd.sent), "the same each time"
    return (found.done, found.revision, found.sent), told


LONG_AGO: Final = float("-inf")


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        pytest.param([DONE], (True, 7, 1000.0), id="at once"),
        pytest.param([refused(3)], (False, 0, LONG_AGO), id="refused, and no doubt: nothing is read from it"),
        pytest.param([DOUBT, DONE], (True, 7, 1001.0), id="it had not arrived"),
        pytest.param([DOUBT, refused(3)], (True, 3, LONG_AGO), id="it had arrived"),
        pytest.param([DOUBT, refused()], (False, 0, LONG_AGO), id="it never will arrive"),
        pytest.param([DOUBT, refused(Fate.OPEN), DONE], (True, 7, 1002.0), id="open, then carried out"),
        pytest.param([DOUBT, refused(Fate.OPEN), refused(3)], (True, 3, LONG_AGO), id="open, then it had arrived"),
        pytest.param([DOUBT, AWAY, BUSY, NO, refused(3)], (True, 3, LONG_AGO), id="asked in vain meanwhile"),
    ],
)
async def test_tells_what_became_of_a_write_and_since_when_that_is_certain(
    answers: Sequence[TxnResult | Exception], found: object
) -> None:
    assert (await settled(answers))[0] == found


@pytest.mark.parametrize("answers", [[DOUBT], [DOUBT, AWAY], [DOUBT, NO, BUSY], [DOUBT, refused(Fate.OPEN)]])
async def test_a_doubt_that_lasts_is_an_error_of_its_own(answers: Sequence[TxnResult | Exception]) -> None:
    error, _ = await settled(answers)
    assert isinstance(error, UnsettledError)
    assert str(error) == "it may be done (no answer)"
    assert error.refusal is None


async def test_what_nobody_can_tell_any_more_comes_with_what_is_there() -> None:
    there = refused(Fate.UNKNOWN)
    error, _ = await settled([DOUBT, AWAY, there])
    assert isinstance(error, UnsettledError)
    assert str(error) == "it may be done (no answer)"
    assert error.refusal is there


@pytest.mark.parametrize(
    ("bears", "answers", "raised"),
    [
        (Bears.DOUBT, [AWAY], AWAY), (Bears.DOUBT, [BUSY], BUSY), (Bears.DOUBT, [NO], NO),
        (Bears.ABSENCE, [AWAY, BUSY, NO], NO), (Bears.ABSENCE, [DOUBT, NO], NO),
    ],
)  # fmt: skip
async def test_raises_what_it_does_not_bear(bears: Bears, answers: Sequence[Exception], raised: Exception) -> None:
    assert (await settled(answers, bears))[0] is raised


@pytest.mark.parametrize(
    ("bears", "answers", "told"),
    [
        (Bears.DOUBT, [DOUBT, AWAY, NO, DONE], ["no answer", "away", "no permission"]),
        (Bears.DOUBT, [DOUBT, refused(Fate.OPEN), refused(Fate.OPEN), DONE], ["no answer", "open", "open"]),
        (Bears.ABSENCE, [AWAY, BUSY, DONE], ["away", "too much to do"]),
        (Bears.ALL, [AWAY, NO, NO, DONE], ["away", "no permission", "no permission"]),
    ],
)
async def test_says_what_it_bears(bears: Bears, answers: Sequence[TxnResult | Exception], told: list[str]) -> None:
    found, heard = await settled(answers, bears)
    assert found == (True, 7, 1000.0 + len(answers) - 1)
    assert heard == told


@given(st.lists(st.sampled_from([DOUBT, AWAY, BUSY, NO, refused(Fate.OPEN), refused(Fate.UNKNOWN)]), max_size=6))
async def test_after_a_doubt_nothing_is_told_as_not_done(answers: list[TxnResult | Exception]) -> None:
    found, _ = await settled([DOUBT, *answers])
    assert isinstance(found, UnsettledError)


async def test_an_answer_is_waited_for_by_who_reads_it_alike_in_doubt_and_without() -> None:
    etcd, there = Etcd([DOUBT, AWAY, there_is := refused()]), list[TxnResult]()
    patience = Patience(bears=Bears.ABSENCE, pause_s=lambda _: 0)
    there.append(await answered(lambda: etcd.txn(Txn([], [])), patience))
    assert there == [there_is]


@pytest.mark.parametrize(("answers", "kind"), [([DOUBT, AWAY], UnsettledError), ([AWAY], UnavailableError)])
async def test_an_answer_that_does_not_come_in_time_is_in_doubt_only_where_something_was_taken(
    answers: list[TxnResult | Exception], kind: type[Exception]
) -> None:
    etcd = Etcd(answers)
    patience = Patience(bears=Bears.ABSENCE, pause_s=lambda _: 0, is_over=lambda: len(etcd.sent) == len(answers))
    with pytest.raises(UnavailableError) as raised:
        await answered(lambda: etcd.txn(Txn([], [])), patience)
    assert type(raised.value) is kind


def test_pauses_grow_up_to_half_a_second() -> None:
    assert all(0.025 <= growing_pause_s(tries) <= 0.5 for tries in range(50))
    assert growing_pause_s(50) >= 0.25
