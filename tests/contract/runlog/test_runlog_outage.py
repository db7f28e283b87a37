"""A log store that is away, frozen or restarted: said in time, in plain words, and over without a restart of ours."""

from __future__ import annotations

import asyncio
import re
import resource
from collections.abc import Awaitable, Callable

import pytest

from common.errors import InvalidInputError, UnavailableError
from common.runlog import RunLog, WriteResult
from tests.support.etcd_server import free_port
from tests.support.log_store import PYMONGO_DROPS_A_SOCKET, LogStoreServer
from tests.support.records import record
from tests.support.waiting import wait_until

pytestmark = pytest.mark.filterwarnings(PYMONGO_DROPS_A_SOCKET)

Call = Callable[[RunLog, float], Awaitable[object]]
CALLS: dict[str, Call] = {
    "ping": lambda log, seconds: log.ping(deadline_seconds=seconds),
    "prepare": lambda log, seconds: log.prepare(deadline_seconds=seconds),
    "write": lambda log, seconds: log.write([record(1)], deadline_seconds=seconds),
    "advance_last": lambda log, seconds: log.advance_last([record(1)], deadline_seconds=seconds),
    "find": lambda log, seconds: log.find([record(1).run_id], deadline_seconds=seconds),
    "job_log": lambda log, seconds: log.job_log("backup", deadline_seconds=seconds),
    "documents": lambda log, seconds: log.documents(["x"], deadline_seconds=seconds),
    "runs": lambda log, seconds: log.runs(deadline_seconds=seconds),
    "run": lambda log, seconds: log.run("x", deadline_seconds=seconds),
    "job_results": lambda log, seconds: log.job_results(["backup"], deadline_seconds=seconds),
}


@pytest.mark.parametrize("call", list(CALLS.values()), ids=list(CALLS))
async def test_a_log_store_that_is_away_is_unavailable(call: Call) -> None:
    async with RunLog(f"mongodb://user:very-secret@127.0.0.1:{free_port()}/", connect_timeout_ms=200) as log:
        with pytest.raises(UnavailableError) as caught:
            await call(log, 5)
    assert "very-secret" not in str(caught.value)


async def test_a_frozen_log_store_is_unavailable_within_the_deadline(own_store: LogStoreServer) -> None:
    async with RunLog(own_store.uri, connect_timeout_ms=600_000) as log:
        await log.prepare()
        own_store.pause()
        patient = [asyncio.ensure_future(call(log, 3600)) for call in CALLS.values()]
        async with asyncio.timeout(60):
            results = await asyncio.gather(*(call(log, 0.3) for call in CALLS.values()), return_exceptions=True)
        assert not any(one.done() for one in patient), "each has the deadline that it is given"
        for one in patient:
            one.cancel()
        await asyncio.gather(*patient, return_exceptions=True)
        assert [type(result) for result in results] == [UnavailableError] * len(CALLS)
        own_store.resume()
        # What was in flight may have been stored meanwhile: either way it is there once.
        result = await log.write([record(1)])
        assert result.inserted + result.already_there == 1


async def test_goes_on_by_itself_after_the_log_store_was_killed(own_store: LogStoreServer) -> None:
    async with RunLog(own_store.uri, connect_timeout_ms=500) as log:
        await log.prepare()
        await log.write([record(1)])
        await own_store.kill()
        with pytest.raises(UnavailableError):
            await log.write([record(2)])
        await own_store.start()

        async def written() -> bool:
            try:
                return await log.write([record(1), record(2)]) == WriteResult(inserted=1, already_there=1)
            except UnavailableError:
                return False  # it has not looked for the server again yet

        await wait_until(written, description="it writes again")


async def test_indexes_may_be_prepared_again_and_on_an_empty_store(own_store: LogStoreServer) -> None:
    async with RunLog(own_store.uri) as log:
        await log.prepare()
        await log.write([record(1)])
        await log.prepare()
        assert len((await log.job_log("backup")).sizes) == 1


async def test_says_the_version_of_the_server(own_store: LogStoreServer) -> None:
    async with RunLog(own_store.uri) as log:
        assert re.fullmatch(r"\d+\.\d+\.\d+ \(nx_27017\)", await log.ping())  # the version is that of its model


@pytest.mark.parametrize("uri", ["", "postgres://x", "mongodb://u:very-secret@/", "mongodb://u:very-se:cret@h/"])
def test_a_uri_that_is_none_is_refused_without_repeating_it(uri: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        RunLog(uri)
    assert "mongodbUri" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None or caught.value.__suppress_context__


async def test_a_full_disk_of_the_log_store_is_not_the_fault_of_the_records(own_store: LogStoreServer) -> None:
    async with RunLog(own_store.uri) as log:
        await log.prepare()
        await log.write([record(number) for number in range(50)])
        full = max(path.stat().st_size for path in own_store.data_dir.rglob("*")) + 4096
        unlimited = resource.prlimit(own_store.pid, resource.RLIMIT_FSIZE, (full, resource.RLIM_INFINITY))
        batch = [record(number, output="x" * 10_000) for number in range(50, 150)]
        with pytest.raises(UnavailableError):
            await log.write(batch)
        resource.prlimit(own_store.pid, resource.RLIMIT_FSIZE, unlimited)
        result = await log.write(batch)
        assert result.inserted + result.already_there == len(batch)
