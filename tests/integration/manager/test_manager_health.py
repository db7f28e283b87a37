"""What a manager says while its servers are away, and that it goes on by itself when they are back."""

from __future__ import annotations

import asyncio
import gc
import logging
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest

from common.access.rights import OWNER
from common.errors import EtcdAccessError, EtcdFullError, EtcdInDoubtError, Problem
from common.etcd import EtcdClient, Page, ask_for_password
from common.etcd.calls import Stream
from common.instants import iso
from common.jobs.reader import parse_job
from common.protocol.keys import encode_mark
from common.protocol.member import Beat
from common.protocol.roster import Left, RosterEntry
from common.protocol.saved_job import SavedJob
from common.protocol.txn import Get, Txn
from common.runlog import RetentionState, RunLog
from manager.api.metrics import measured
from manager.cluster.gateways import Gateways
from manager.cluster.health import ETCD_IS_FULL
from manager.parts import Parts
from tests.support.descriptors import no_descriptor_left
from tests.support.etcd_server import EtcdServer, fill, usual_etcd
from tests.support.fake_clock import FakeClock
from tests.support.joining import join, put_worker
from tests.support.log_store import LogStore
from tests.support.managing import Managed, Place, managing, problem_of, refusal_of
from tests.support.open_runs import claim, now_ms
from tests.support.waiting import PATIENCE_S, wait_until

JOB = '{"name":"j","command":"a","cronExpr":"@daily"}'


@pytest.fixture
def own_etcd(tmp_path: Path) -> EtcdServer:
    binary = usual_etcd()
    return EtcdServer(binary, tmp_path / "etcd")


@pytest.fixture
def manager(manager: Managed, monkeypatch: pytest.MonkeyPatch) -> Managed:
    """The usual one, whose servers are there: they may take their time on a busy machine."""
    monkeypatch.setattr("manager.cluster.health._ANSWER_S", PATIENCE_S)
    monkeypatch.setitem(cast(dict[str, object], RunLog.ping.__kwdefaults__), "deadline_seconds", PATIENCE_S)
    return manager


async def test_ready_with_every_server_in_sight(manager: Managed) -> None:
    answer = await manager.get("/readyz", verbose="")
    assert answer["status"] == "degraded"
    assert answer["problems"] == ["no worker is live: nothing fires until one starts"]
    (endpoint,) = answer["checks"]["etcd"]["endpoints"]
    assert endpoint["isLeader"] is True
    assert endpoint["dbSizeBytes"] < endpoint["quotaBytes"]
    assert answer["checks"]["logStore"]["state"] == "ok"
    assert answer["checks"]["workers"] == {"live": 0, "refusing": [], "left": []}


async def test_a_job_that_no_live_worker_fits_is_named_with_who_has_gone(manager: Managed) -> None:
    await join(manager, "w1", labels={"host": "w1"})
    seen_ms = manager.parts.clock.wall_ms() - 5000
    entry = RosterEntry(worker="w3", host="h", seen_ms=seen_ms, labels={"host": "w3"}, left=Left.GONE)
    await manager.etcd.put(manager.keys.roster_entry("w3"), entry.to_json())
    spec = {"name": "j", "command": "a", "cronExpr": "@daily"}
    done = {"name": "done", "command": "a", "at": "2020-01-01T00:00:00Z", "workers": {"host": "w3"}}
    saved = SavedJob(spec=parse_job(done), anchor_ms=1)
    await manager.etcd.put(manager.keys.job("done"), saved.to_json())
    await manager.call("PUT", "/api/v1/jobs/here", {**spec, "name": "here", "workers": {"host": "w1"}})
    assert (await manager.get("/readyz"))["problems"] == []
    await manager.call("PUT", "/api/v1/jobs/j", {**spec, "workers": {"host": "w3"}})
    await manager.call("PUT", "/api/v1/jobs/big", {**spec, "name": "big", "slots": 3})
    answer = await manager.get("/readyz", verbose="")
    why = f"no worker: w3 (host=w3) has been gone since {iso(seen_ms)[11:16]} UTC"
    too_big = "no worker: it takes 3 slots, and no worker that fits has more than 2"
    assert answer["status"] == "degraded"
    assert set(answer["problems"]) == {f"the job j cannot run: {why}", f"the job big cannot run: {too_big}"}
    assert answer["checks"]["workers"]["left"] == [{"name": "w3", "left": "gone", "seenMs": seen_ms}]
    assert answer["checks"]["jobs"]["withoutWorker"]["count"] == 2
    assert "etcron_jobs_without_worker 2.0" in await (await manager.http.get("/metrics")).text()
    await manager.call("POST", "/api/v1/jobs/j/pause", {})
    await manager.call("DELETE", "/api/v1/jobs/big")
    assert (await manager.get("/readyz"))["status"] == "ready"


@pytest.mark.parametrize("ask", [lambda parts: parts.health.look(OWNER), measured], ids=["health", "metrics"])
async def test_a_look_that_ends_before_its_questions_begin_asks_none(
    manager: Managed, ask: Callable[[Parts], Coroutine[Any, Any, object]]
) -> None:
    """A browser that goes away in between: no question is made that is never asked."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        look = asyncio.create_task(ask(manager.parts))
        await asyncio.sleep(0)  # its questions are tasks now, and none has begun
        look.cancel()
        with pytest.raises(asyncio.CancelledError):
            await look
        gc.collect()
    assert [str(one.message) for one in caught if "never awaited" in str(one.message)] == []


async def test_what_the_steward_may_not_do_is_a_note(manager: Managed) -> None:
    await join(manager, "w1", beat=Beat(kind="worker", wall_ms=1, not_permitted="sweeping: permission denied"))
    answer = await manager.get("/readyz", verbose="")
    assert answer["status"] == "ready"
    assert "what the steward, w1, may not do in etcd: sweeping: permission denied" in answer["notes"]
    assert answer["checks"]["steward"]["notPermitted"] == {"w1": "sweeping: permission denied"}


async def test_a_broken_job_is_named(manager: Managed) -> None:
    await join(manager, "w1")
    await manager.etcd.put(manager.keys.job("odd"), b'{"name":"odd"}')
    await wait_until(lambda: "odd" in manager.parts.watching.catalog, description="it is seen")
    answer = await manager.get("/readyz", verbose="")
    (problem,) = answer["problems"]
    assert problem.startswith("the job odd is broken: ")
    assert answer["checks"]["jobs"]["broken"]["count"] == 1
    await manager.call("DELETE", "/api/v1/jobs/odd")
    assert (await manager.get("/readyz"))["status"] == "ready"


async def test_etcd_that_can_lose_writes_is_named(manager: Managed) -> None:
    answer = await manager.get("/readyz")
    assert set(answer) == {"status", "problems", "notes"}
    if (await manager.parts.etcd.status()).version == "3.5.1":
        assert "can lose committed writes in a crash: use 3.5.3 or newer" in answer["notes"][0]


async def withheld(self: EtcdClient, endpoint: str | None = None) -> None:
    """What 3.5.28 to 3.5.30 and 3.6 say to who is not root."""
    raise EtcdAccessError(Problem(field="etcdUser", message="permission denied", remedy="grant the role root"))


async def test_etcd_that_tells_our_user_no_status_is_well_with_a_note(
    manager: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    await join(manager, "w")
    monkeypatch.setattr(EtcdClient, "status", withheld)
    answer = await manager.get("/readyz", verbose="")
    assert (answer["status"], answer["problems"]) == ("ready", [])
    assert "does not tell our user its version, size and alarms" in answer["notes"][0]
    assert answer["checks"]["etcd"]["state"] == "ok"
    (endpoint,) = answer["checks"]["etcd"]["endpoints"]
    assert endpoint["problem"] is None
    assert "permission denied" in endpoint["withheld"]


async def test_what_the_log_store_keeps_is_said_as_the_steward_says_it(manager: Managed) -> None:
    assert (await manager.get("/readyz", verbose=""))["checks"]["logStore"]["retention"] is None
    await manager.runlog.put_retention(RetentionState(days=90, per_job=0, worker="w1", at_ms=1234, removed=5))
    assert (await manager.get("/readyz", verbose=""))["checks"]["logStore"]["retention"] == {
        "days": 90, "perJob": None, "by": "w1", "atMs": 1234, "removed": 5,
    }  # fmt: skip


async def test_worker_that_takes_no_fires_is_named_with_its_reason(manager: Managed) -> None:
    await join(manager, "fine")
    assert (await manager.get("/readyz"))["status"] == "ready"
    await join(manager, "full", not_accepting="its disk is full")
    answer = await manager.get("/readyz", verbose="")
    assert answer["status"] == "degraded"
    assert answer["problems"] == ["the worker full takes no fires: its disk is full"]
    refusing = [{"name": "full", "reason": "its disk is full"}]
    assert answer["checks"]["workers"] == {"live": 2, "refusing": refusing, "left": []}


async def test_nobody_who_takes_fires_is_said_first_and_not_everybody_is_named(manager: Managed) -> None:
    for number in range(7):
        await join(manager, f"w{number}", not_accepting="its disk is full")
    problems = (await manager.get("/readyz"))["problems"]
    assert problems[0] == "no worker takes fires: nothing fires until one does"
    assert problems[1] == "the worker w0 takes no fires: its disk is full"
    assert problems[-1] == "2 more workers take no fires"
    assert len(problems) == 7


async def test_etcd_away_at_start_then_there(own_etcd: EtcdServer, log_store: LogStore) -> None:
    place = Place.new(etcd=own_etcd.endpoint, log_store=log_store.uri)
    async with managing(place, loops=True, apiWriteTimeout=1000) as manager:
        assert (await manager.http.get("/livez")).status == 200
        ready = await manager.http.get("/readyz?verbose")
        assert ready.status == 503
        document = await ready.json()
        assert document["status"] == "unready"
        assert f"etcd unreachable: looked at {own_etcd.endpoint}, since 20" in document["problems"][0]
        away = f"etcd ({own_etcd.endpoint}) does not answer: connection refused; try again"
        assert away in await refusal_of(await manager.http.get("/job/list"), 503)
        assert away in await refusal_of(await manager.http.post("/job/save", data={"job": JOB}), 503)
        assert (await problem_of(await manager.http.get("/api/v1/jobs"), 503))["code"] == "unavailable"
        async with own_etcd:

            async def is_ready() -> bool:
                return (await manager.http.get("/readyz")).status == 200

            await wait_until(is_ready, description="the manager to be ready")
            await manager.save(JOB)


@pytest.mark.parametrize("users", [False, True])
async def test_etcd_whose_json_gateway_lets_everybody_in_is_named_until_it_is_closed(
    users: bool, tmp_path: Path, log_store: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manager.cluster.health.PROBE_S", 0.05)
    binary = usual_etcd()
    assert binary is not None
    etcd = EtcdServer(binary, tmp_path / "etcd", arguments=("--enable-grpc-gateway=true",))
    place = Place.new(etcd=etcd.endpoint, log_store=log_store.uri)
    async with etcd, managing(place, loops=True) as manager:
        await join(manager, "w1")

        async def problems() -> list[str]:
            answer = await manager.http.get("/readyz")
            document = await answer.json()
            return [document["status"], *(one for one in document["problems"] if "gateway" in one)]

        async def is_named() -> bool:
            return (await problems())[1:] != []

        await wait_until(is_named, description="the gateway is named")
        state, problem = await problems()
        assert state == "degraded"
        assert f"etcd at {etcd.endpoint} answers without a password" in problem
        assert "start etcd with --enable-grpc-gateway=false" in problem
        if users:
            await ask_for_password(etcd.endpoint, "geheim")
        else:
            etcd.close_gateway()
            await etcd.restart()

        async def is_closed() -> bool:
            return not await is_named()

        await wait_until(is_closed, description="it is asked again")


async def test_etcd_without_its_json_gateway_is_well(
    own_etcd: EtcdServer, log_store: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    look = Gateways.look

    async def noted(self: Gateways) -> None:
        await look(self)
        asked.append(self.open)

    monkeypatch.setattr(Gateways, "look", noted)
    async with own_etcd, managing(Place.new(etcd=own_etcd.endpoint, log_store=log_store.uri), loops=True) as manager:
        await join(manager, "w1")
        await wait_until(lambda: asked == [()], description="the gateway has been asked")
        assert (await manager.get("/readyz"))["status"] == "ready"


async def test_etcd_that_is_full_is_why_nothing_is_saved_and_nothing_starts(
    tmp_path: Path, log_store: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manager.cluster.health.PROBE_S", 0.1)
    binary = usual_etcd()
    full = EtcdServer(binary, tmp_path / "etcd", arguments=("--quota-backend-bytes", str(1024 * 1024)))
    async with full, managing(Place.new(etcd=full.endpoint, log_store=log_store.uri), loops=True) as manager:
        await join(manager, "w1")
        await manager.save('{"name":"j","command":"a","every":"1s"}')
        await manager.etcd.put(manager.keys.mark("j"), encode_mark(0))
        with pytest.raises(EtcdInDoubtError, match="its alarm NOSPACE disarmed"):
            await fill(manager.etcd)
        answer = await manager.http.get("/readyz")
        assert answer.status == 503
        assert ETCD_IS_FULL in (await answer.json())["problems"]
        refusal = await refusal_of(await manager.http.post("/job/save", data={"job": JOB}), 503)
        assert "etcd takes no writes until" in refusal

        async def is_said() -> bool:
            return {fire["reason"] for fire in (await manager.get("/api/v1/jobs/j/fires"))["recent"]} == {ETCD_IS_FULL}

        await wait_until(is_said, description="the fire to say why it waits")
        assert (await manager.get("/api/v1/jobs/j"))["waiting"]["reason"] == ETCD_IS_FULL
        glance = manager.parts.health.glance(etcd_silent_since_ms=None)
        assert (glance["etcd"], glance["logStore"], glance["problem"]) == ("full", "ok", ETCD_IS_FULL)


async def make_room(etcd: EtcdServer, client: EtcdClient) -> None:
    """What an operator does."""
    await client.delete("0")
    revision = (await client.txn(Txn((), [Get("0")]))).revision
    async with aiohttp.ClientSession(f"http://{etcd.endpoint}/v3/", raise_for_status=True) as http:

        async def asked(what: str, body: dict[str, Any]) -> Any:
            async with http.post(what, json=body) as answer:
                return await answer.json()

        await asked("kv/compaction", {"revision": str(revision), "physical": True})
        await asked("maintenance/defragment", {})
        (alarm,) = (await asked("maintenance/alarm", {}))["alarms"]
        await asked("maintenance/alarm", {"action": "DEACTIVATE", **alarm})


async def test_etcd_that_is_full_and_shows_no_alarm_is_known_by_the_writes_that_it_refuses(
    tmp_path: Path, log_store: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manager.cluster.health.PROBE_S", 0.1)
    monkeypatch.setattr(EtcdClient, "status", withheld)
    flags = ("--quota-backend-bytes", str(1024 * 1024), "--enable-grpc-gateway=true")
    full = EtcdServer(usual_etcd(), tmp_path / "etcd", arguments=flags)
    async with full, managing(Place.new(etcd=full.endpoint, log_store=log_store.uri), loops=True) as manager:
        await join(manager, "w1")

        async def readyz() -> tuple[int, bool]:
            answer = await manager.http.get("/readyz")
            return answer.status, ETCD_IS_FULL in (await answer.json())["problems"]

        async def is_full() -> bool:
            return await readyz() == (503, True)

        async def is_well() -> bool:
            return await readyz() == (200, False)

        def full_as_told() -> list[object]:
            health = manager.parts.health
            return [health.fullness, health.standstill, health.glance(etcd_silent_since_ms=None)["problem"]]

        await wait_until(is_well, description="it is ready")
        with pytest.raises(EtcdFullError):
            await fill(manager.etcd)
        await wait_until(is_full, description="the beat of the manager to be refused")
        await wait_until(lambda: full_as_told() == [ETCD_IS_FULL] * 3, description="a look to find it full")
        assert "etcron_etcd_full 1.0" in await (await manager.http.get("/metrics")).text()
        await make_room(full, manager.etcd)
        await wait_until(is_well, description="a beat of the manager to be taken")
        await wait_until(lambda: full_as_told() == [None] * 3, description="a look to find room")
        assert "etcron_etcd_full 0.0" in await (await manager.http.get("/metrics")).text()


async def test_coming_and_going_is_logged_once(
    own_etcd: EtcdServer, log_store: LogStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "manager")

    def actions() -> list[str]:
        return [getattr(record, "action", "") for record in caplog.records if record.name == "manager.cluster.health"]

    place = Place.new(etcd=own_etcd.endpoint, log_store=log_store.uri)
    async with own_etcd, managing(place, apiWriteTimeout=1000) as manager:
        await manager.get("/readyz")
        assert actions() == []
        await own_etcd.stop()
        for _ in range(3):
            assert (await manager.http.get("/readyz")).status == 503
        assert actions() == ["etcd.unreachable"]
        await own_etcd.start()

        async def is_ready() -> bool:
            return (await manager.http.get("/readyz")).status == 200

        await wait_until(is_ready, description="the manager to be ready again")
        assert actions() == ["etcd.unreachable", "etcd.reachable"]


async def test_log_store_away_degrades_only(place: Place) -> None:
    away = Place(
        etcd=place.etcd, log_store="mongodb://user:secret@127.0.0.1:9", prefix=place.prefix, database=place.database
    )
    async with managing(away, apiWriteTimeout=1000) as manager:
        answer = await manager.get("/readyz", verbose="")
        assert answer["status"] == "degraded"
        assert "log store unreachable: looked at mongodb://user:***@127.0.0.1:9" in answer["problems"][0]
        assert "secret" not in str(answer)
        await manager.save(JOB)
        assert [job["name"] for job in (await manager.get("/job/list"))["data"]] == ["j"]


async def test_manager_beats_while_it_lives(place: Place) -> None:
    async with managing(place, loops=True) as manager:

        async def beats() -> list[Beat]:
            pages = [page async for page in manager.etcd.read_prefix(manager.keys.beats)]
            return [Beat.from_json(kv.value) for page in pages for kv in page.kvs]

        async def one() -> bool:
            return [beat.kind for beat in await beats()] == ["manager"]

        await wait_until(one, description="the manager's beat")


async def test_a_manager_without_a_descriptor_to_spare_beats_on(place: Place) -> None:
    async with managing(place, loops=True) as manager:
        key = manager.keys.beat(manager.parts.name)

        async def beats(more_than: int = 0) -> bool:
            kv = await manager.etcd.get(key)
            return kv is not None and kv.version > more_than

        await wait_until(beats, description="its first beat")
        kv = await manager.etcd.get(key)
        assert kv is not None
        with no_descriptor_left():
            await wait_until(lambda: beats(more_than=kv.version), description="another beat")


async def test_what_needs_the_workers_waits_until_they_have_been_read(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a manager that has just started would say that there are none."""
    monkeypatch.setattr("manager.watch.watching._FIRST_READING_S", 0.01)
    read_prefix, may_read = EtcdClient.read_prefix, asyncio.Event()

    async def held(self: EtcdClient, prefix: str, **options: Any) -> AsyncIterator[Page]:
        if prefix == place.keys.workers:
            await may_read.wait()
        async for page in read_prefix(self, prefix, **options):
            yield page

    monkeypatch.setattr(EtcdClient, "read_prefix", held)
    async with managing(place) as manager:
        watching = manager.parts.watching
        async with asyncio.timeout(PATIENCE_S):
            await watching.jobs_read.wait()
            await watching.runs_read.wait()
        await put_worker(manager, "w1", slots=4)
        assert (await manager.http.get("/api/v1/forecast")).status == 503
        may_read.set()
        await manager.watches()
        assert (await manager.get("/api/v1/forecast"))["slots"] == 4


class Muted:
    """A stream of a watch; if it is of that prefix, nothing comes by it any more once it is told so."""

    def __init__(self, stream: Stream, prefix: str, is_silent: asyncio.Event) -> None:
        self._stream = stream
        self._prefix = prefix.encode()
        self._is_silent = is_silent
        self._is_meant = False
        self.close = stream.close

    async def write(self, message: Any) -> None:
        self._is_meant |= message.create_request.key == self._prefix
        await self._stream.write(message)

    async def read(self) -> Any:
        message = await self._stream.read()
        if self._is_meant and self._is_silent.is_set():
            await asyncio.Event().wait()
        return message


async def test_workers_that_nothing_is_heard_of_are_said_to_be_old_though_jobs_and_runs_are_new(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch_stream, is_silent = EtcdClient.watch_stream, asyncio.Event()

    async def muted(self: EtcdClient) -> Any:
        return Muted(await watch_stream(self), place.keys.workers, is_silent)

    monkeypatch.setattr(EtcdClient, "watch_stream", muted)
    clock = FakeClock(now_ms())
    async with managing(place, clock=clock) as manager:
        await join(manager, "w1")
        await manager.watches()
        assert (await manager.get("/api/v1/jobs"))["warnings"] == []
        is_silent.set()
        clock.advance(6_000)
        await manager.etcd.put(manager.keys.job("j"), b"")
        run = await claim(manager, "j", clock.wall_ms())
        watching = manager.parts.watching
        await wait_until(
            lambda: "j" in watching.catalog and watching.open_runs.has(run), description="jobs and runs are new"
        )
        (warning,) = (await manager.get("/api/v1/jobs"))["warnings"]
        assert warning.startswith("etcd cannot be reached")
