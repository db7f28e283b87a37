"""One etcd and one log store for all situations; each has keys and documents of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.golden.stage import Stage
from tests.support.etcd_server import EtcdServer, serving_etcd, unused_prefix
from tests.support.log_store import LogStore, serving_log_store


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    yield from serving_etcd(tmp_path_factory.mktemp("golden") / "etcd")


@pytest.fixture(scope="session")
def log_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LogStore]:
    yield from serving_log_store(tmp_path_factory.mktemp("golden") / "log-store")


@pytest.fixture
def stage(etcd: EtcdServer, log_store: LogStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(
        etcd=etcd.endpoint, log_store=log_store.uri, directory=tmp_path, patch=monkeypatch,
        prefix=unused_prefix("golden"),
    )  # fmt: skip
