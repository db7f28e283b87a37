"""The watched catalog: as fast with 10,000 jobs, alike on every manager, and honest while etcd is away."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.console_data import fill_etcd, job_name
from common.protocol.member import Member
from tests.support.etcd_server import EtcdServer, usual_etcd
from tests.support.log_store import LogStore
from tests.support.managing import Place, managing, problem_of
from tests.support.open_runs import claim, now_ms
from tests.support.proxy import Mode, Proxy
from tests.support.waiting import wait_until

SPEC = {"command": "echo hello", "cronExpr": "0 * * * * * *"}
MANY = 2_000


@pytest.fixture
def own_etcd(tmp_path: Path) -> Iterator[EtcdServer]:
    server = EtcdServer(usual_etcd(), tmp_path / "etcd")
    yield server
    server.destroy()


async def test_many_jobs_are_listed_without_asking_etcd(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    await fill_etcd(place.etcd, place.prefix, MANY, now_ms())
    async with managing(place) as manager:

        async def complete() -> bool:
            answer = await manager.http.get("/api/v1/jobs", params={"limit": "1"})
            return answer.status == 200 and (await answer.json())["total"] == MANY

        await wait_until(complete, description="all jobs to be known")
        await manager.parts.etcd.close()  # whoever asks etcd now gets an error
        for query in ({}, {"q": "shard 77"}, {"label": "team=media", "state": "paused"}, {"q": "nothing like it"}):
            began = time.perf_counter()
            page = await manager.get("/api/v1/jobs", **query)
            took_ms = (time.perf_counter() - began) * 1000
            with capsys.disabled():
                print(f"\n  {query}: {page['total']} jobs, {took_ms:.1f} ms", end="")  # noqa: T201 - to be looked at
        seen: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = await manager.get("/api/v1/jobs", limit="500", **cursor)
            seen += [item["name"] for item in page["items"]]
            if page["nextCursor"] is None:
                break
            cursor = {"cursor": page["nextCursor"]}
        assert seen == sorted(job_name(number) for number in range(MANY))


async def test_two_managers_answer_alike(place: Place) -> None:
    async with managing(place) as one, managing(place) as other:
        await one.call("PUT", "/api/v1/jobs/a", SPEC)
        await other.call("PUT", "/api/v1/jobs/b", SPEC)
        await other.call("POST", "/api/v1/jobs/a/pause", {"reason": "r"})
        run = await claim(one, "b", now_ms() - 1_000)

        async def alike() -> bool:
            first, second = [await manager.get("/api/v1/jobs") for manager in (one, other)]
            complete = [row["name"] for row in first["items"]] == ["a", "b"] and first["items"][1]["running"]
            return bool(complete) and first == second and first["items"][0]["state"] == "paused"

        await wait_until(alike, description="both to answer alike")
        assert (await other.get("/api/v1/jobs/b"))["running"][0]["id"] == str(run)
        first = await one.get("/api/v1/jobs", limit="1")
        rest = await other.get("/api/v1/jobs", cursor=first["nextCursor"])
        assert [row["name"] for row in rest["items"]] == ["b"], "a cursor of one is good for the other"


async def test_edit_on_a_manager_that_lags_is_based_on_etcd(place: Place) -> None:
    async with Proxy(place.etcd) as proxy, managing(place, etcd=proxy.endpoint) as lagging, managing(place) as other:
        await lagging.call("PUT", "/api/v1/jobs/j", SPEC)
        etag = (await lagging.get("/api/v1/jobs/j"))["etag"]
        lagging.parts.watching.catalog.on_changes = lambda changes: None  # type: ignore[method-assign]
        await other.call("PUT", "/api/v1/jobs/j", {**SPEC, "command": "echo theirs"})
        problem = await problem_of(await lagging.http.put("/api/v1/jobs/j", json=SPEC, headers={"If-Match": etag}), 412)
        assert problem["current"]["spec"]["command"] == "echo theirs"
        paused = await lagging.call("POST", "/api/v1/jobs/j/pause", {})
        assert paused["job"]["spec"]["command"] == "echo theirs"


async def test_while_etcd_is_away_it_shows_what_it_last_knew_and_since_when(place: Place) -> None:
    async with Proxy(place.etcd) as proxy, managing(place, etcd=proxy.endpoint, apiWriteTimeout=1000) as manager:
        await manager.call("PUT", "/api/v1/jobs/j", SPEC)
        member = Member(worker="w1", session="7", instance="i", host="h", address="1.2.3.4", slots=4, attached=False)
        await manager.etcd.put(manager.keys.worker("w1", "7"), member.to_json())
        await wait_until(lambda: bool(manager.parts.watching.workers), description="the watch has shown the worker")
        proxy.set(Mode.SWALLOW)

        async def warned() -> bool:
            return bool((await manager.get("/api/v1/jobs"))["warnings"])

        await wait_until(warned, description="a warning")
        page = await manager.get("/api/v1/jobs")
        assert [row["name"] for row in page["items"]] == ["j"]
        assert "jobs and runs are shown as they were at 20" in page["warnings"][0]
        row = await manager.get("/api/v1/jobs/j")
        assert row["warnings"] == page["warnings"]
        assert (await problem_of(await manager.http.get("/api/v1/jobs/k"), 503))["code"] == "unavailable"
        workers = await manager.get("/api/v1/workers")
        assert ([worker["name"] for worker in workers["items"]], len(workers["warnings"])) == (["w1"], 1)
        assert (await manager.http.put("/api/v1/jobs/j", json=SPEC)).status == 503
        proxy.set(Mode.PASS)
        proxy.reset()

        async def well() -> bool:
            return not (await manager.get("/api/v1/jobs"))["warnings"]

        await wait_until(well, description="the catalog to be in step")


async def test_before_etcd_has_been_read_there_is_no_empty_list(own_etcd: EtcdServer, log_store: LogStore) -> None:
    place = Place.new(etcd=own_etcd.endpoint, log_store=log_store.uri)
    async with managing(place) as manager:
        problem = await problem_of(await manager.http.get("/api/v1/jobs"), 503)
        assert "have not been read from etcd" in problem["detail"]
        async with own_etcd:

            async def listed() -> bool:
                return (await manager.http.get("/api/v1/jobs")).status == 200

            await wait_until(listed, description="the list")


async def test_log_store_away_leaves_the_list(place: Place) -> None:
    away = Place(etcd=place.etcd, log_store="mongodb://127.0.0.1:9", prefix=place.prefix, database=place.database)
    async with managing(away, apiWriteTimeout=1000, mongodbConnectTimeout=200) as manager:
        await manager.call("PUT", "/api/v1/jobs/j", SPEC)
        page = await manager.get("/api/v1/jobs")
        assert (page["total"], page["items"][0]["lastResult"]) == (1, None)
        assert "last results are not shown" in page["warnings"][0]
        await problem_of(await manager.http.get("/api/v1/jobs", params={"state": "failing"}), 503)


async def test_system_says_what_there_is(place: Place) -> None:
    async with managing(place, loops=True, leaseTtlSeconds=20) as manager:

        async def beats() -> bool:
            return bool((await manager.get("/api/v1/system"))["managers"])

        await wait_until(beats, description="the manager's own beat")
        document = await manager.get("/api/v1/system")
        (beat,) = document["managers"]
        assert (beat["id"], beat["version"]) == (document["manager"], document["version"])
        assert document["ready"]["checks"]["etcd"]["state"] == "ok"
        configuration = {entry["key"]: entry for entry in document["configuration"]}
        assert (configuration["leaseTtlSeconds"]["value"], configuration["apiPort"]["origin"]) == ("20", "default")
        assert configuration["leaseTtlSeconds"]["origin"] != "default"
        assert document["unauthenticatedBeyondLoopback"] is False


async def test_system_tells_no_secret(place: Place) -> None:
    secret = Place(
        etcd=place.etcd, log_store="mongodb://me:hunter2@127.0.0.1:9", prefix=place.prefix, database=place.database
    )
    async with managing(secret, apiWriteTimeout=1000, host="0.0.0.0", allowUnauthenticated=True) as manager:
        answer = await manager.http.get("/api/v1/system")
        assert "hunter2" not in await answer.text()
        assert (await answer.json())["unauthenticatedBeyondLoopback"] is True
