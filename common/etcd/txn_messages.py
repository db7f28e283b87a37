"""A transaction as etcd's message, and etcd's answer as its result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

from common.etcd import _rpc
from common.etcd.types import key_revisions, key_value, range_of, to_bytes
from common.protocol.compares import Target
from common.protocol.txn import (
    MAX_COMPARES,
    MAX_OPS,
    MAX_READS,
    Delete,
    Get,
    GetKey,
    GetPrefix,
    KeyRead,
    KeyValue,
    Operation,
    Put,
    Read,
    Result,
    Txn,
    TxnResult,
)

_OPERAND_OF = {
    Target.CREATE_REVISION: "create_revision",
    Target.MOD_REVISION: "mod_revision",
    Target.VALUE: "value",
    Target.LEASE: "lease",
}


def txn_request(txn: Txn) -> Any:
    """etcd's message for a transaction. ValueError where etcd would refuse it whatever it holds."""
    _refuse_impossible(txn.then)
    _refuse_impossible(txn.otherwise)
    request = _rpc.messages.TxnRequest()
    for compare in txn.compares:
        key = to_bytes(compare.key)
        message = request.compare.add(result=compare.relation, target=compare.target, key=key)
        setattr(message, _OPERAND_OF[compare.target], compare.operand)
        if compare.prefix:
            message.key, message.range_end = range_of(compare.key)
    if len(request.compare) > MAX_COMPARES:
        raise ValueError(f"{len(request.compare)} compares in one transaction; etcd takes {MAX_COMPARES}")
    for operations, branch in ((request.success, txn.then), (request.failure, txn.otherwise)):
        for operation in branch:
            _add_operation(operations, operation)
    return request


def reading_request(txn: Txn) -> Any:
    """etcd's message for a transaction that reads only, with an empty transaction inside.

    One of reads alone is carried out in the call's own context, and etcd before 3.5.5 dies ("panic: unexpected error
    during txn", its issue 14110) where the caller goes away in the middle of it: a worker that is killed could take the
    member with it. 3.5.5 and 3.5.6 die of another fault there (issue 14891). One with anything else in it goes through
    the log, where no caller cancels it. The empty one does nothing, needs no permission and makes no revision.
    """
    if len(txn.then) > MAX_READS:
        raise ValueError(f"{len(txn.then)} operations in a transaction that reads only; it takes {MAX_READS}")
    request = txn_request(txn)
    if txn.then or txn.otherwise:
        request.success.add().request_txn.SetInParent()
    return request


def only_read(txn: Txn) -> Read | None:
    """The read that is all of the transaction, where it is no more than that."""
    if txn.compares or txn.otherwise or len(txn.then) != 1 or not isinstance(txn.then[0], Read):
        return None
    return txn.then[0]


def range_request(read: Read) -> Any:
    """etcd's message for this read alone."""
    request = _rpc.messages.RangeRequest()
    _fill_range(request, read)
    return request


def found(read: Read, answer: Any) -> tuple[KeyValue, ...] | KeyRead:
    """The result of the read, from etcd's answer to it alone."""
    if isinstance(read, GetKey):
        return KeyRead(key_revisions(answer.kvs[0]) if answer.kvs else None)
    return tuple(map(key_value, answer.kvs))


def txn_result(txn: Txn, response: Any) -> TxnResult:
    """The result of a transaction, from etcd's answer."""
    branch = txn.then if response.succeeded else txn.otherwise
    answers = response.responses[: len(branch)]  # one more where `reading_request` added one
    return TxnResult(
        succeeded=response.succeeded,
        revision=response.header.revision,
        results=tuple(_result(operation, answer) for operation, answer in zip(branch, answers, strict=True)),
    )


def _add_operation(operations: Any, operation: Operation) -> None:
    match operation:
        case Put():
            put = operations.add().request_put
            put.key, put.value = to_bytes(operation.key), operation.value
            if operation.lease:
                put.lease = operation.lease
        case Delete():
            operations.add().request_delete_range.key = to_bytes(operation.key)
        case Get() | GetKey() | GetPrefix():
            _fill_range(operations.add().request_range, operation)
        case _:
            assert_never(operation)


def _fill_range(request: Any, read: Read) -> None:
    match read:
        case Get():
            request.key = to_bytes(read.key)
        case GetKey():
            request.key, request.keys_only = to_bytes(read.key), True
        case GetPrefix():
            request.key, request.range_end = range_of(read.prefix)
            request.limit = read.limit
        case _:
            assert_never(read)


def _result(operation: Operation, answer: Any) -> Result:
    match operation:
        case Put():
            return None
        case Delete():
            return int(answer.response_delete_range.deleted)
        case Get() | GetKey() | GetPrefix():
            return found(operation, answer.response_range)
        case _:
            assert_never(operation)


def _refuse_impossible(branch: Sequence[Operation]) -> None:
    if len(branch) > MAX_OPS:
        raise ValueError(f"{len(branch)} operations in one branch of a transaction; etcd takes {MAX_OPS}")
    put = [operation.key for operation in branch if isinstance(operation, Put)]
    keys = set(put)
    if len(keys) != len(put):
        twice = sorted({key for key in put if put.count(key) > 1})
        raise ValueError(f"a transaction puts {', '.join(twice)} twice; etcd refuses that")
    if not 0 < len(put) < len(branch):
        return  # so it is with nearly all
    for operation in branch:
        if isinstance(operation, Delete) and operation.key in keys:
            raise ValueError(f"a transaction puts and deletes {operation.key}; etcd refuses that")
