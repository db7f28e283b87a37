"""A manager in the test's own process, on real servers, with its keys and documents apart from those of other tests."""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from copy import copy
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from aiohttp import ClientResponse, web_app
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import Application, BaseRequest, Request, Response, StreamResponse

from common.clock import Clock
from common.configuration.config import ManagerConfig, load_manager_config
from common.etcd import EtcdClient, EtcdUser
from common.protocol.keys import Keys, decode_mark
from common.protocol.run import RunRecord
from common.protocol.txn import KeyValue
from common.runlog import RunLog
from manager.app import create_app, loops_of
from manager.http.errors import UNLISTED
from manager.http.server import Runner
from manager.parts import PARTS, Parts
from manager.watch.events import Pace
from tests.support.background import running
from tests.support.clocks import OffClock, say_clocks
from tests.support.etcd_server import unused_prefix
from tests.support.log_store import new_database
from tests.support.waiting import PATIENCE_S, wait_until

_CODES = {"message": "code", "remedy": "remedyCode"}


ShiftedClock = OffClock


class _Server(TestServer):
    """Connections as in the manager's process."""

    def __init__(self, app: Application, config: ManagerConfig, port: int | None) -> None:
        super().__init__(app, port=port)
        self._config = config

    async def _make_runner(self, **options: Any) -> Runner:
        per_address, proxies = self._config.connections_per_address, self._config.proxies
        return Runner(self.app, per_address=per_address, proxies=proxies, **options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one test's servers are, and what there is its own."""

    etcd: str
    log_store: str
    prefix: str
    database: str

    @classmethod
    def new(cls, *, etcd: str, log_store: str) -> Place:
        return cls(etcd=etcd, log_store=log_store, prefix=unused_prefix("manager-test"), database=new_database())

    @property
    def keys(self) -> Keys:
        return Keys(self.prefix)


@dataclass(frozen=True, slots=True, kw_only=True)
class Managed:
    """One manager, and a look behind it."""

    http: TestClient[Request, Application]
    parts: Parts
    keys: Keys
    etcd: EtcdClient
    open_runlog: Callable[[], RunLog]
    answered: Collection[tuple[str, str, int]]
    """Each call that has been answered: method, path as in the OpenAPI document, status."""

    @property
    def runlog(self) -> RunLog:
        """The log store, by a client of the test's own."""
        return self.open_runlog()

    async def save(self, text: str, **headers: str) -> dict[str, Any]:
        """Save the job in this JSON text; the answer, which must be a success."""
        response = await self.http.post("/job/save", data={"job": text}, headers=headers)
        answer: dict[str, Any] = await response.json()
        assert response.status == 200, answer
        assert answer["errno"] == 0, answer
        return answer

    async def get(self, path: str, **query: str) -> Any:
        """What a GET answers, which must be a success."""
        response = await self.http.get(path, params=query)
        assert response.status == 200, await response.text()
        return await response.json()

    async def post(self, path: str, **form: str) -> Any:
        """What a form gets for an answer, which must be a success."""
        response = await self.http.post(path, data=form)
        assert response.status == 200, await response.text()
        return await response.json()

    async def call(self, method: str, path: str, body: object = None, **headers: str) -> Any:
        """What a call with a JSON body answers, which must be a success."""
        response = await self.http.request(method, path, json=body, headers=headers)
        assert response.status in (200, 201, 202), await response.text()
        return await response.json()

    async def watches(self) -> None:
        """It has read what there is in etcd."""
        await wait_until(lambda: self.parts.watching.all_read, description="all has been read")

    async def mark(self, job: str) -> int | None:
        """The job's mark in etcd."""
        kv = await self.etcd.get(self.keys.mark(job))
        return decode_mark(kv.value) if kv else None

    async def stored(self) -> dict[str, KeyValue]:
        """Everything that etcd holds of this test, beats apart."""
        found = {}
        async for page in self.etcd.read_prefix(self.keys.prefix):
            found.update({kv.key: kv for kv in page.kvs if not kv.key.startswith(self.keys.beats)})
        return found

    async def has_run_keys(self) -> bool:
        return await self.etcd.count(self.keys.runs) > 0

    async def record(self, run_id: str) -> dict[str, Any]:
        document = await self.runlog.run(run_id)
        assert document is not None, f"the log store has no record of {run_id}"
        return document

    async def write(self, records: Sequence[RunRecord]) -> None:
        result = await self.runlog.write(records)
        assert not result.rejected


_PATIENT_MS: Final = int(PATIENCE_S * 1000)
_PATIENT: Final = dict.fromkeys(("apiReadTimeout", "apiWriteTimeout", "etcdDialTimeout"), _PATIENT_MS)
"""Where etcd is what nobody comes between, a machine with much else to do is no fault either."""


@asynccontextmanager
async def managing(
    place: Place,
    *,
    clock: Clock | None = None,
    pace: Pace | None = None,
    loops: bool = False,
    etcd: str | None = None,
    others: bool = False,
    watches: bool = True,
    user: EtcdUser | None = None,
    port: int | None = None,
    patient: bool = True,
    **flags: object,
) -> AsyncIterator[Managed]:
    """A manager that serves and watches; with `loops` all its loops. `etcd`: another way to it than the test's own.

    `others`: whether there may be clocks to compare its own with; else a steward has said that there are none, and the
    test may set the clock as it likes. `watches`: whether it takes in what changes in etcd. `user`: of etcd, for
    the test itself. `port`: where it serves, None anywhere. `patient`: whether it waits for its servers
    for as long as a test does, and not for as long as its configuration says.
    """
    audit_dir = tempfile.TemporaryDirectory(prefix="etcron-audit-")
    config = load_manager_config(None, {}, {
        "etcdEndpoints": [etcd or place.etcd], "mongodbUri": place.log_store, "keyPrefix": place.prefix,
        "mongodbDatabase": place.database, "auth": "off", "auditDir": audit_dir.name,
        **(_PATIENT if patient and not etcd else {}), **flags,
    })  # fmt: skip
    app = create_app(config, clock=clock or ShiftedClock(), pace=pace)
    unlisted: list[str] = []
    answered = set[tuple[str, str, int]]()

    async def look_for_codes(request: BaseRequest, response: StreamResponse) -> None:
        resource = request.match_info.route.resource if isinstance(request, Request) else None
        answered.add((request.method, resource.canonical if resource is not None else "", response.status))
        if isinstance(response, Response) and response.content_type == "application/problem+json":
            unlisted.extend(without_code(json.loads(response.text or "{}")))

    app.on_response_prepare.append(look_for_codes)
    async with AsyncExitStack() as stack:
        stack.enter_context(audit_dir)
        http = await stack.enter_async_context(TestClient(_Server(app, config, port)))
        if etcd or user or not patient or any(name.startswith(("etcd", "api")) for name in flags):
            client = await stack.enter_async_context(EtcdClient([place.etcd], user=user))
        else:
            client = copy(app[PARTS].etcd)  # over one connection: what a test puts into the manager's own is not in it

        @cache
        def open_runlog() -> RunLog:
            runlog = RunLog(place.log_store, database=place.database, connect_timeout_ms=_PATIENT_MS)
            stack.push_async_callback(runlog.close)
            return runlog

        own = ("watching", "events", "users and rights", "sessions in use") if watches else ()
        wanted = [loop() for name, loop in loops_of(app).items() if loops or name in own]
        await stack.enter_async_context(running(*wanted))  # type: ignore[arg-type]
        if clock is not None and not others:
            await say_clocks(client, place.keys, count=1)
        yield Managed(
            http=http, parts=app[PARTS], keys=place.keys, etcd=client, open_runlog=open_runlog, answered=answered
        )
    web_app._cached_build_middleware.cache_clear()  # it keeps the last thousand handlers, each with its application
    assert not unlisted, f"these messages are not in the table (webroot/static/i18n/messages.json): {unlisted[:10]}"


def without_code(problem: dict[str, Any]) -> list[str]:
    """The texts of a problem document that are not in the table of messages."""
    texts = [problem["detail"]] if problem.get("detailCode") == UNLISTED else []
    for error in problem.get("errors", ()):
        texts += [error[text] for text, code in _CODES.items() if error[code] == UNLISTED]
    return texts


async def problem_of(response: ClientResponse, status: int) -> dict[str, Any]:
    """The problem document of an error of ours."""
    assert response.status == status, await response.text()
    assert response.content_type == "application/problem+json"
    document: dict[str, Any] = await response.json()
    assert document["status"] == status
    return document


async def refusal_of(response: ClientResponse, status: int) -> str:
    """The message of an error in the legacy API's shape."""
    assert response.status == status, await response.text()
    assert response.content_type == "application/json"
    document = await response.json()
    assert set(document) == {"errno", "msg", "data"}
    assert document["errno"] == -1
    assert document["data"] is None
    assert isinstance(document["msg"], str)
    return document["msg"]
