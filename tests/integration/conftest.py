"""The servers of these tests; and of every write: who watches what it changes can find out by the sentinel."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pytest

from common.etcd import EtcdClient
from common.protocol.keys import CHAIN
from common.protocol.txn import Delete, Operation, Put, Txn, TxnResult
from tests.support.etcd_server import EtcdServer, serving_etcd
from tests.support.log_store import LogStore, serving_log_store

_WATCHED = re.compile(r"(?P<prefix>.*?)/(?P<name>jobs|requests|kills)/.+")


@pytest.fixture(scope="session")
def etcd_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    """For all that do not disturb it: each has a prefix of its own."""
    yield from serving_etcd(tmp_path_factory.mktemp("integration") / "etcd")


@pytest.fixture(scope="session")
def log_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LogStore]:
    """For all that do not disturb it: each has a database of its own."""
    yield from serving_log_store(tmp_path_factory.mktemp("integration") / "log-store")


@pytest.fixture(autouse=True)
def _sentinels_come_with_writes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ours are told from a test's own by their compares."""
    carry_out, missing = EtcdClient.txn, list[str]()

    async def txn(client: EtcdClient, transaction: Txn) -> TxnResult:
        missing.extend(_without_sentinel(transaction.then) if transaction.compares else ())
        return await carry_out(client, transaction)

    monkeypatch.setattr(EtcdClient, "txn", txn)
    yield
    assert missing == []


def _without_sentinel(operations: Sequence[Operation]) -> list[str]:
    """The keys written of which no sentinel tells, but those of which none has to (docs/internals/protocol.md)."""
    written = {operation.key: operation for operation in operations if isinstance(operation, Put | Delete)}
    starts = any("/runs/" in key for key in written)
    missing = []
    for key, operation in written.items():
        match = _WATCHED.fullmatch(key)
        if match is None or f"{match['prefix']}/seen/{match['name']}" in written:
            continue
        is_claimed_link = starts and key.endswith(f"/{CHAIN}/1")
        if not (isinstance(operation, Delete) and (match["name"] == "kills" or is_claimed_link)):
            missing.append(key)
    return missing
