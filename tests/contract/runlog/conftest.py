"""What the suite of the run log stands on: a real log store.

A test that disturbs its server asks for `own_store`; all others share one, with a database each.
"""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from common.runlog import RunLog
from tests.support.log_store import LogStore, LogStoreServer, has_log_store, new_database, serving_log_store


@pytest.fixture(autouse=True)
def no_garbage_for_the_next_test() -> Iterator[None]:
    """What pymongo has dropped goes while the filters of this test hold."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LogStore]:
    """A server for all tests that do not disturb it."""
    yield from serving_log_store(tmp_path_factory.mktemp("runlog") / "shared")


@pytest.fixture
async def own_store(tmp_path: Path) -> AsyncIterator[LogStoreServer]:
    """A server for one test, to do with as it likes."""
    if not has_log_store():
        pytest.skip("no log store: pip install nx-27017")
    async with LogStoreServer(tmp_path / "own") as server:
        yield server


@pytest.fixture
def database() -> str:
    """The name of a database that nobody else uses."""
    return new_database()


@pytest.fixture
async def runlog(shared_store: LogStore, database: str) -> AsyncIterator[RunLog]:
    """An empty run log, prepared."""
    async with RunLog(shared_store.uri, database=database) as log:
        await log.prepare()
        yield log
