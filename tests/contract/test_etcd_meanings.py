"""What each answer of etcd says about the request; above all, what is *not* certain."""

from __future__ import annotations

import grpc
import grpc.aio
import pytest

from common.errors import EtcdCompactedError, EtcdLeaseGoneError, EtcdRefusedError
from common.etcd.failures import Meaning, meaning_of, refusal


def failure(code: str, details: str) -> Exception:
    return grpc.aio.AioRpcError(grpc.StatusCode[code], grpc.aio.Metadata(), grpc.aio.Metadata(), details=details)


@pytest.mark.parametrize(
    ("code", "details", "meaning"),
    [
        ("INVALID_ARGUMENT", "etcdserver: request is too large", Meaning.REFUSED),
        ("INVALID_ARGUMENT", "etcdserver: duplicate key given in txn request", Meaning.REFUSED),
        ("NOT_FOUND", "etcdserver: requested lease not found", Meaning.REFUSED),
        ("OUT_OF_RANGE", "etcdserver: mvcc: required revision has been compacted", Meaning.REFUSED),
        ("RESOURCE_EXHAUSTED", "etcdserver: too many requests", Meaning.REFUSED),
        ("RESOURCE_EXHAUSTED", "grpc: received message larger than max (5000 vs. 4000)", Meaning.REFUSED),
        ("PERMISSION_DENIED", "etcdserver: permission denied", Meaning.REFUSED),
        ("UNAVAILABLE", "etcdserver: no leader", Meaning.TURNED_AWAY),
        ("UNAVAILABLE", "etcdserver: not capable", Meaning.TURNED_AWAY),
        ("UNAVAILABLE", "etcdserver: rpc not supported for learner", Meaning.TURNED_AWAY),
        ("RESOURCE_EXHAUSTED", "etcdserver: mvcc: database space exceeded", Meaning.IN_DOUBT),
        ("RESOURCE_EXHAUSTED", "CLIENT: Received message larger than max (5000 vs. 4000)", Meaning.IN_DOUBT),
        ("RESOURCE_EXHAUSTED", "", Meaning.IN_DOUBT),
        ("UNAVAILABLE", "etcdserver: leader changed", Meaning.IN_DOUBT),
        ("UNAVAILABLE", "etcdserver: request timed out", Meaning.IN_DOUBT),
        ("UNAVAILABLE", "etcdserver: request timed out, possibly due to previous leader failure", Meaning.IN_DOUBT),
        ("UNAVAILABLE", "etcdserver: server stopped", Meaning.IN_DOUBT),
        ("UNAVAILABLE", "Socket closed", Meaning.IN_DOUBT),
        ("UNAVAILABLE", "failed to connect to all addresses", Meaning.IN_DOUBT),
        ("DEADLINE_EXCEEDED", "Deadline Exceeded", Meaning.IN_DOUBT),
        ("UNKNOWN", "context deadline exceeded", Meaning.IN_DOUBT),
        ("CANCELLED", "", Meaning.IN_DOUBT),
        ("INTERNAL", "", Meaning.IN_DOUBT),
        ("DATA_LOSS", "etcdserver: corrupt cluster", Meaning.IN_DOUBT),
        ("ABORTED", "", Meaning.IN_DOUBT),
    ],
)
def test_only_what_is_certain_is_called_not_carried_out(code: str, details: str, meaning: Meaning) -> None:
    assert meaning_of(failure(code, details)) is meaning


@pytest.mark.parametrize(
    ("details", "kind"),
    [
        ("etcdserver: requested lease not found", EtcdLeaseGoneError),
        ("etcdserver: mvcc: required revision has been compacted", EtcdCompactedError),
        ("etcdserver: mvcc: required revision is a future revision", EtcdRefusedError),
    ],
)
def test_a_refusal_is_raised_as_its_own_class(details: str, kind: type[EtcdRefusedError]) -> None:
    error = refusal(failure("NOT_FOUND", details), what="put a", address="127.0.0.1:2379")
    assert type(error) is kind
    assert str(error) == f"etcd at 127.0.0.1:2379 refused put a: {details}"
