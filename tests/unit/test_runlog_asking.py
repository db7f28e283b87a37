"""What pymongo itself stumbles over is the log store's absence, and no reason for a process to end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pymongo import ReadPreference
from pymongo._asyncio_lock import Condition, Lock
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import (
    BulkWriteError,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
    WriteConcernError,
    WTimeoutError,
)

from common.errors import UnavailableError
from common.etcd.settle import UnsettledError
from common.notices.notice import Notice, NoticeKind
from common.runlog import RunLog
from common.runlog.client import Client, asking
from common.runlog.notices import Notices


class Found:
    """A client that has found its server."""

    options = SimpleNamespace(server_selection_timeout=1.0)

    @property
    async def is_primary(self) -> Any:
        return True


class Stumbling:
    """A client whose wait for a server ends as pymongo's does when it is over in the moment in which it is woken."""

    options = SimpleNamespace(server_selection_timeout=1.0)

    @property
    async def is_primary(self) -> Any:
        return await Condition(Lock()).wait()


async def test_a_wait_that_pymongo_loses_is_a_store_that_does_not_answer() -> None:
    with pytest.raises(UnavailableError, match="no server was found in time"):
        async with asking(cast(Client, Stumbling()), 1):
            pytest.fail("nothing is asked of it")


async def test_a_machine_without_threads_left_is_a_store_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    class Resolving(Stumbling):
        @property
        async def is_primary(self) -> Any:
            return await asyncio.get_running_loop().getaddrinfo("127.0.0.1", 27017)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(UnavailableError, match="no thread could be started"):
            async with asking(cast(Client, Resolving()), 1):
                pytest.fail("nothing is asked of it")


def no_thread(_thread: threading.Thread) -> None:
    """As the interpreter says it where the kernel refuses one."""
    raise RuntimeError("can't start new thread")


async def test_a_cancellation_that_pymongo_swallows_is_one_all_the_same() -> None:
    class Swallowing(Stumbling):
        @property
        async def is_primary(self) -> Any:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            return True

    async def ask() -> None:
        async with asking(cast(Client, Swallowing()), 10):
            pass

    asked = asyncio.ensure_future(ask())
    await asyncio.sleep(0)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked


@pytest.mark.parametrize("rest", [", Timeout: 5s, Topology Description: <...>", ", full error: {'writeErrors': [...]}"])
async def test_of_what_pymongo_says_the_first_part_is_told(rest: str) -> None:
    with pytest.raises(UnavailableError) as caught:
        async with asking(cast(Client, Found()), 1):
            raise PyMongoError("it is away" + rest)
    assert str(caught.value).endswith(": it is away")


DOUBTS = [
    (WTimeoutError("waiting for replication timed out", 64), True),
    (WriteConcernError("a majority is not there", 100), True),
    (NetworkTimeout("timed out"), True),
    (NotPrimaryError("interrupted at shutdown"), True),
    (OperationFailure("operation exceeded time limit", 262), True),
    (ServerSelectionTimeoutError("no servers"), False),
    (OperationFailure("not authorized", 13), False),
]


@pytest.mark.parametrize(("error", "is_doubt"), DOUBTS)
@pytest.mark.parametrize("writes", [True, False])
async def test_write_that_the_store_may_have_taken_is_in_doubt(
    error: PyMongoError, is_doubt: bool, writes: bool
) -> None:
    with pytest.raises(UnavailableError) as caught:
        async with asking(cast(Client, Found()), 1, writes=writes):
            raise error
    assert isinstance(caught.value, UnsettledError) is (writes and is_doubt)


async def test_notice_whose_write_was_not_confirmed_may_be_there() -> None:
    class Unconfirmed:
        async def insert_many(self, *_: Any, **__: Any) -> None:
            concern = {"code": 64, "errmsg": "waiting for replication timed out"}
            raise BulkWriteError({"writeErrors": [], "writeConcernErrors": [concern]})

    store: Any = SimpleNamespace(get_collection=lambda _: Unconfirmed())
    notices = Notices(cast(Client, Found()), store)
    with pytest.raises(UnsettledError, match="did not confirm the write: waiting for replication timed out"):
        await notices.put([Notice(id="1", channel="ops", kind=NoticeKind.PROBLEM, created_ms=1)])


async def test_other_errors_of_the_caller_stay_what_they_are() -> None:
    with pytest.raises(RuntimeError, match="mine"):
        async with asking(cast(Client, Found()), 1):
            raise RuntimeError("mine")


async def test_all_is_read_from_the_primary_whatever_the_uri_says() -> None:
    uri = "mongodb://a,b,c/?replicaSet=rs&readPreference=secondaryPreferred"
    async with RunLog(uri, database="of_this_test"):
        found = [one for one in gc.get_objects() if type(one) is AsyncCollection]
        used = {one.full_name: one.read_preference for one in found if one.full_name.startswith("of_this_test")}
    assert len(used) > 8
    assert {name for name, preference in used.items() if preference != ReadPreference.PRIMARY} == set()
