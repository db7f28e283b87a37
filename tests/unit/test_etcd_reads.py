"""How transactions that only read are put to etcd."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from common.etcd.txn_messages import only_read, reading_request
from common.protocol.compares import Compare, present
from common.protocol.txn import Delete, Get, GetKey, GetPrefix, Operation, Read, Txn


@pytest.mark.parametrize(
    ("compares", "then", "otherwise"),
    [
        pytest.param([], [Get("a"), Get("b")], [], id="several reads"),
        pytest.param([present("a")], [Get("a")], [], id="one that depends on something"),
        pytest.param([present("a")], [], [GetPrefix("a")], id="only where that is not so"),
    ],
)
def test_reads_are_never_alone_in_their_transaction(
    compares: Sequence[Compare], then: Sequence[Operation], otherwise: Sequence[Operation]
) -> None:
    transaction = Txn(compares, then, otherwise)
    assert only_read(transaction) is None
    request = reading_request(transaction)
    assert [one.WhichOneof("request") for one in request.success] == ["request_range"] * len(transaction.then) + [
        "request_txn"
    ]
    assert not request.success[-1].request_txn.ByteSize()
    assert [one.WhichOneof("request") for one in request.failure] == ["request_range"] * len(transaction.otherwise)


@pytest.mark.parametrize("read", [Get("a"), GetKey("a"), GetPrefix("a", limit=1)], ids=repr)
def test_one_read_that_depends_on_nothing_needs_no_transaction(read: Read) -> None:
    assert only_read(Txn([], [read])) is read


def test_one_write_is_no_read() -> None:
    assert only_read(Txn([], [Delete("a")])) is None
