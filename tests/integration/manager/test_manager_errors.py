"""What nobody expected: an answer in JSON with a reference, no traceback, and no half a list for a whole one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import aiohttp
import pytest

from common.errors import EtcdInDoubtError, UnavailableError
from common.etcd.settle import UnsettledError
from common.protocol.edits import Stored
from manager.http.errors import failure_of
from tests.support.managing import Managed, Place, managing, problem_of, refusal_of
from tests.support.proxy import Mode, Proxy
from tests.support.waiting import wait_until


async def test_unexpected_error_has_a_reference_and_no_traceback(
    manager: Managed, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken() -> None:
        raise RuntimeError("a secret detail")

    for read in ("live", "fleet"):
        monkeypatch.setattr(type(manager.parts.inventory), read, lambda _: broken())
    message = await refusal_of(await manager.http.get("/worker/list"), 500)
    problem = await problem_of(await manager.http.get("/api/v1/workers"), 500)
    assert problem["code"] == "internal-error"
    for text in (message, str(problem)):
        assert "secret" not in text
        assert "Traceback" not in text
    logged = [record for record in caplog.records if getattr(record, "action", "") == "request.failed"]
    assert [record.levelno for record in logged] == [logging.ERROR] * 2
    assert getattr(logged[0], "reference", "none") in message


def test_failure_says_where_the_call_may_have_been_carried_out() -> None:
    for error in (UnsettledError("look before you repeat it"), EtcdInDoubtError("no answer")):
        assert failure_of(error).members == {"inDoubt": True}
    assert failure_of(UnavailableError("etcd is away")).members == {}


@pytest.mark.parametrize("is_begun", [False, True], ids=["before its first piece", "after it"])
async def test_list_that_breaks_off_is_not_taken_for_a_whole_one(
    manager: Managed, is_begun: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def jobs(*_: object) -> AsyncIterator[list[Stored]]:
        yield [Stored(name="x" * 100_000 if is_begun else "one", job=None, mark=None)]
        raise RuntimeError("in the middle")

    monkeypatch.setattr(type(manager.parts.inventory), "jobs", jobs)
    response = await manager.http.get("/job/list")
    if is_begun:
        with pytest.raises(aiohttp.ClientError):
            await response.read()
    else:
        assert "reference" in await refusal_of(response, 500)


async def test_client_that_leaves_in_the_middle_of_a_list_is_no_error(
    manager: Managed, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    left = asyncio.Event()

    async def jobs(*_: object) -> AsyncIterator[list[Stored]]:
        try:
            while True:
                yield [Stored(name="x" * 10_000, job=None, mark=None)]
        finally:
            left.set()

    monkeypatch.setattr(type(manager.parts.inventory), "jobs", jobs)
    response = await manager.http.get("/job/list")
    await response.content.readany()
    response.close()
    await asyncio.wait_for(left.wait(), 60)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []
    head = await manager.http.head("/job/list")
    assert (head.status, await head.read()) == (200, b"")


async def test_call_that_etcd_does_not_answer_ends_in_time(place: Place) -> None:
    async with Proxy(place.etcd) as proxy, managing(place, etcd=proxy.endpoint, apiWriteTimeout=500) as manager:
        await manager.get("/job/list")
        proxy.set(Mode.SWALLOW)
        await refusal_of(await manager.http.get("/job/list"), 503)
        response = await manager.http.post("/job/save", data={"job": '{"name":"j","command":"a","cronExpr":"@daily"}'})
        await refusal_of(response, 503)
        proxy.set(Mode.PASS)

        async def saves() -> bool:
            job = '{"name":"k","command":"a","cronExpr":"@daily"}'
            return (await manager.http.post("/job/save", data={"job": job})).status == 200

        await wait_until(saves, description="it saves again")


async def test_handler_that_hangs_is_ended(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    async with managing(place, apiReadTimeout=100, apiWriteTimeout=100) as manager:
        monkeypatch.setattr(type(manager.parts.inventory), "fleet", hang)
        monkeypatch.setattr(type(manager.parts.kills), "of_job", hang)
        problem = await problem_of(await manager.http.get("/api/v1/workers"), 503)
        assert (problem["code"], problem.get("inDoubt")) == ("timeout", None)
        problem = await problem_of(await manager.http.post("/api/v1/jobs/j/kill", json={}), 503)
        assert (problem["code"], problem.get("inDoubt")) == ("timeout", True)
        message = await refusal_of(await manager.http.post("/job/kill", data={"name": "j"}), 503)
        assert "it may or may not have been carried out" in message
