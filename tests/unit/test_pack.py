"""Writes of many in one transaction: within etcd's limits, and none in the way of the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from common.errors import EtcdBusyError, EtcdRefusedError
from common.etcd.pack import Step, apart, together
from common.etcd.settle import Bears, Patience
from common.protocol.compares import absent
from common.protocol.txn import MAX_BYTES, Get, Put, Txn, TxnResult, packed

PATIENCE = Patience(bears=Bears.ABSENCE, pause_s=lambda _: 0)


def share(*, compares: int = 1, puts: int = 1, reads: int = 0, size: int = 1) -> Txn:
    return Txn(
        [absent(f"a{number}") for number in range(compares)],
        [Put(f"p{number}", b"x" * size) for number in range(puts)],
        [Get(f"g{number}") for number in range(reads)],
    )


@pytest.mark.parametrize(
    ("shares", "most", "beside", "sizes"),
    [
        pytest.param([share()] * 250, 120, 0, [120, 120, 10], id="their number"),
        pytest.param([share(compares=2)] * 70, 120, 0, [64, 6], id="compares"),
        pytest.param([share(puts=3)] * 50, 120, 0, [42, 8], id="operations"),
        pytest.param([share(reads=3)] * 50, 120, 0, [42, 8], id="reads of a refusal"),
        pytest.param([share(compares=4)] * 40, 120, 1, [31, 9], id="what every transaction has of its own"),
        pytest.param([share(size=300_000)] * 5, 120, 0, [3, 2], id="bytes"),
        pytest.param([share(), share(size=MAX_BYTES + 1), share()], 120, 0, [1, 1, 1], id="one that is too large"),
        pytest.param([], 120, 0, [], id="none"),
    ],
)
def test_as_few_transactions_as_the_limits_allow(shares: list[Txn], most: int, beside: int, sizes: list[int]) -> None:
    batches = list(packed(enumerate(shares), lambda one: one[1], most=most, beside=beside))
    assert [len(batch) for batch in batches] == sizes
    assert [number for batch in batches for number, _ in batch] == list(range(len(shares))), "in their order"


class Etcd:
    """Refuses transactions with some of these keys: for good, or by a compare."""

    def __init__(self, *, forbidden: str = "", stale: str = "") -> None:
        self.forbidden = forbidden
        self.stale = stale
        self.sent: list[int] = []

    async def txn(self, txn: Txn) -> TxnResult:
        keys = [compare.key for compare in txn.compares]
        self.sent.append(len(keys))
        if self.forbidden in keys:
            raise EtcdRefusedError("not that one")
        return TxnResult(succeeded=self.stale not in keys, revision=5, results=())


async def test_one_that_is_refused_holds_up_none_of_the_others() -> None:
    etcd, told = Etcd(forbidden="7", stale="3"), dict[str, str]()

    def step(name: str) -> Step:
        def done(revision: int) -> None:
            told[name] = f"done at {revision}"

        return Step(Txn([absent(name)], []), done, lambda: told.update({name: "stale"}), name)

    def put_aside(step: Step, error: EtcdRefusedError) -> None:
        told[step.of] = str(error)

    await together(cast(Any, etcd), [step(str(number)) for number in range(60)], PATIENCE, put_aside)
    others = {str(number): "done at 5" for number in range(60)}
    assert told == others | {"7": "not that one", "3": "stale"}
    assert len(etcd.sent) < 25


@pytest.mark.parametrize("at_once", [False, True])
async def test_what_is_refused_is_set_apart_in_few_steps_and_the_rest_is_done_once(at_once: bool) -> None:
    done: list[int] = []
    refused: list[int] = []
    calls = 0

    async def work(items: Sequence[int]) -> bool:
        nonlocal calls
        calls += 1
        if 37 in items:
            raise EtcdRefusedError("not that one")
        if 5 in items and len(items) > 1:
            return False
        done.extend(items)
        return True

    await apart(range(60), work, lambda item, _: refused.append(item), at_once=at_once)
    assert (sorted([*done, *refused]), refused) == (list(range(60)), [37])
    assert calls < 25


async def test_an_error_that_passes_by_itself_is_passed_on() -> None:
    async def busy(items: Sequence[int]) -> bool:
        raise EtcdBusyError

    with pytest.raises(EtcdBusyError):
        await apart([1], busy, lambda item, _: None)
