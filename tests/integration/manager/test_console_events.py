"""Live events as a browser gets them: what has changed, in order, with heartbeats; slow browsers and the end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from common.verdicts import Verdict
from manager.watch.events import MAX_CLIENTS, Pace
from tests.support.event_stream import EventStream, listening
from tests.support.managing import Managed, Place, managing, problem_of
from tests.support.open_runs import claim, now_ms, record_of, settle
from tests.support.proxy import Mode, Proxy
from tests.support.waiting import wait_until

SPEC = {"command": "echo hello", "cronExpr": "0 * * * * * *"}
QUICK = Pace(gather_s=0.02, spacing_s=0.02, heartbeat_s=60, look_s=0.02)


@pytest.fixture
async def live(place: Place) -> AsyncIterator[Managed]:
    async with managing(place, pace=QUICK) as managed:
        await managed.watches()
        yield managed


async def greeted(stream: EventStream) -> None:
    assert [(await stream.until("hello")).kind, (await stream.until("health")).kind] == ["hello", "health"]


async def test_a_stream_begins_with_hello_and_the_state_of_the_servers(live: Managed) -> None:
    async with listening(live) as stream:
        hello, health = await stream.next(), await stream.next()
        assert hello is not None
        assert health is not None
        assert (hello.kind, set(hello.data), hello.data["manager"]) == (
            "hello", {"nowMs", "version", "manager"}, live.parts.name,
        )  # fmt: skip
        assert (health.kind, health.data) == (
            "health", {"etcd": "ok", "isOld": False, "logStore": "ok", "sinceMs": None, "problem": None,
                       "recovery": None, "fires": {"state": "unknown", "sinceMs": None, "why": None}},
        )  # fmt: skip
        assert hello.id is not None
        assert stream.response.headers["Cache-Control"] == "no-store"


async def test_changes_of_jobs_are_told_by_name(live: Managed) -> None:
    async with listening(live) as stream:
        await greeted(stream)
        await live.call("PUT", "/api/v1/jobs/a", SPEC)
        assert (await stream.until("jobs")).data == {"names": ["a"]}
        await live.call("DELETE", "/api/v1/jobs/a")
        assert (await stream.until("jobs")).data == {"names": ["a"]}


async def test_many_changes_are_told_as_all(live: Managed) -> None:
    async with listening(live) as stream:
        await greeted(stream)
        for number in range(300):
            live.parts.events.job_changed(f"j{number}", [{}])
        assert (await stream.until("jobs")).data == {"all": True}


async def test_a_run_is_told_when_it_begins_and_with_its_result_when_it_ends(live: Managed) -> None:
    async with listening(live) as stream:
        await greeted(stream)
        run = await claim(live, "j", now_ms() - 1_000)
        told = (await stream.until("runs")).data["jobs"]["j"]
        assert (told["running"][0]["id"], told["running"][0]["state"], told["last"]) == (str(run), "running", None)
        await settle(live, run, Verdict.FAILED, exit_code=3)
        told = (await stream.until("runs")).data["jobs"]["j"]
        assert told["running"] == []
        assert (told["last"]["runId"], told["last"]["status"], told["last"]["exitCode"]) == (str(run), "failed", 3)
        shown = {"status": "failed", "planTime": run.plan_ms, "runId": str(run), "durationMs": 5}
        assert told["recent"] == [shown]


async def test_a_result_is_told_though_the_list_of_last_results_comes_later(live: Managed) -> None:
    async with listening(live) as stream:
        await greeted(stream)
        run = await claim(live, "j", now_ms() - 1_000)
        await stream.until("runs")
        await live.runlog.write([record_of(run)], advance_last=False)
        await live.etcd.delete(live.keys.run(run))
        assert (await stream.until("runs")).data["jobs"]["j"]["last"]["status"] == "success"


async def test_a_document_that_is_no_record_ends_no_stream(live: Managed) -> None:
    async with listening(live) as stream:
        await greeted(stream)
        run = await claim(live, "j", now_ms() - 1_000)
        await stream.until("runs")
        await live.runlog._log.insert_one({**record_of(run).to_document(), "status": "of a later version"})
        await live.etcd.delete(live.keys.run(run))
        assert (await stream.until("runs")).data["jobs"]["j"]["last"] is None


async def test_changes_of_workers_are_told(live: Managed) -> None:
    async with listening(live) as stream:
        await greeted(stream)
        await live.etcd.put(live.keys.worker("w1", "7"), b"{}")
        assert (await stream.until("workers")).data == {}


async def test_events_come_in_order_to_everybody(live: Managed) -> None:
    async with listening(live) as one, listening(live) as other:
        await greeted(one)
        await greeted(other)
        for number in range(5):
            await live.call("PUT", f"/api/v1/jobs/j{number}", SPEC)
            first, second = await one.until("jobs"), await other.until("jobs")
            assert first == second
            assert first.data == {"names": [f"j{number}"]}


async def test_heartbeats_come_though_nothing_happens(place: Place) -> None:
    pace = Pace(gather_s=0.02, spacing_s=0.02, heartbeat_s=0.05, look_s=0.02)
    async with managing(place, pace=pace) as manager, listening(manager) as stream:
        for _ in range(3):
            assert abs((await stream.until("ping")).data["nowMs"] - now_ms()) < 60_000


async def test_an_etcd_that_goes_and_comes_is_told(place: Place) -> None:
    async with Proxy(place.etcd) as proxy, managing(place, etcd=proxy.endpoint, pace=QUICK) as manager:
        await manager.watches()
        async with listening(manager) as stream:
            await greeted(stream)
            proxy.set(Mode.SWALLOW)
            away = (await stream.until("health")).data
            assert away["etcd"] == "away"
            assert away["sinceMs"] <= now_ms()
            assert "nothing has been heard of it since" in away["problem"]
            proxy.set(Mode.PASS)
            proxy.reset()
            assert (await stream.until("health")).data["etcd"] == "ok"


async def test_answers_that_are_old_are_told_though_etcd_was_found_away_before(place: Place) -> None:
    """Pages look again where they are told to: one that had looked before would warn of nothing for ever."""
    async with Proxy(place.etcd) as proxy, managing(place, etcd=proxy.endpoint, pace=QUICK) as manager:
        await manager.watches()
        async with listening(manager) as stream:
            await greeted(stream)
            proxy.set(Mode.RESET)
            assert (await manager.http.get("/readyz")).status == 503  # it looks, sooner than the watch finds out
            answers = {False: list[str](), True: list[str]()}
            while not answers[True]:
                health = (await stream.until("health")).data
                assert health["etcd"] == "away"
                answers[health["isOld"]] = (await manager.get("/api/v1/jobs"))["warnings"]
            assert answers[True][0].startswith("etcd cannot be reached: jobs and runs are shown as they were at ")
            proxy.set(Mode.PASS)
            while (await stream.until("health")).data["isOld"]:
                pass
            assert (await manager.get("/api/v1/jobs"))["warnings"] == []


async def test_who_connects_again_is_greeted_again_and_misses_nothing_new(live: Managed) -> None:
    async with listening(live) as stream:
        await greeted(stream)
    await live.call("PUT", "/api/v1/jobs/a", SPEC)
    async with listening(live) as stream:
        await greeted(stream)
        await live.call("PUT", "/api/v1/jobs/b", SPEC)
        assert "b" in (await stream.until("jobs")).data["names"]


async def test_a_browser_that_has_gone_is_forgotten(place: Place) -> None:
    pace = Pace(gather_s=0.02, spacing_s=0.02, heartbeat_s=0.02, look_s=1)
    async with managing(place, pace=pace) as manager:
        async with listening(manager) as stream:
            await greeted(stream)
            assert len(manager.parts.events) == 1
        await wait_until(lambda: len(manager.parts.events) == 0, description="the client to be forgotten")


async def test_a_browser_that_takes_nothing_is_cut_off_and_disturbs_nobody(live: Managed) -> None:
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.setblocking(False)
    loop = asyncio.get_running_loop()
    port = live.http.port
    assert port is not None
    await loop.sock_connect(slow, ("127.0.0.1", port))
    with slow:
        await loop.sock_sendall(slow, b"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        async with listening(live) as stream:
            await greeted(stream)
            await wait_until(lambda: len(live.parts.events) == 2, description="both to be connected")

            async def flooded() -> bool:
                for number in range(150):
                    live.parts.events.job_changed(f"{number:03d}" + "x" * 2_000, [{}])
                await stream.until("jobs")
                clients = live.parts.events._clients
                return any(one._is_last for one in clients) or len(clients) == 1  # the kernel may be sooner

            await wait_until(flooded, description="the slow one to fall behind")
            live.parts.events.close()
            await stream.rest()
        await wait_until(lambda: len(live.parts.events) == 0, description="the slow one to be cut off")


async def test_every_stream_ends_when_the_manager_stops(place: Place) -> None:
    async with AsyncExitStack() as stack:
        manager = await stack.enter_async_context(managing(place, pace=QUICK))
        streams = [await stack.enter_async_context(listening(manager)) for _ in range(3)]
        manager.parts.events.close()
        for stream in streams:
            assert [event.kind for event in await stream.rest()] == ["hello", "health"]
        assert len(manager.parts.events) == 0


async def test_too_many_streams_are_refused(live: Managed) -> None:
    live.parts.events._max_clients = 2
    async with listening(live), listening(live) as second:
        problem = await problem_of(await live.http.get("/api/v1/events"), 503)
        assert problem["code"] == "too-many-clients"
        assert MAX_CLIENTS > 2
        await greeted(second)


async def test_head_of_the_stream_ends_at_once(live: Managed) -> None:
    answer = await live.http.head("/api/v1/events")
    assert (answer.status, answer.content_type) == (200, "text/event-stream")
    assert len(live.parts.events) == 0
