"""The manager as a process: how it starts, what it says when it cannot, how it stops."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
from aiohttp import ClientSession
from yarl import URL

from common.access.rights import Role
from common.etcd import EtcdClient
from common.notices.events import Event
from common.notices.forms import Stored
from common.notices.rules import RULE
from common.runlog import AuditFilter, RunLog
from common.runlog.outbox import outbox_documents
from common.verdicts import EventKind
from tests.support.access import Accessing
from tests.support.managing import Place, managing
from tests.support.waiting import wait_until
from tests.support.warm import WARM, WarmProcess

REPOSITORY = Path(__file__).resolve().parents[3]


@asynccontextmanager
async def process(place: Place, directory: Path, *flags: str) -> AsyncIterator[tuple[WarmProcess, Path]]:
    """A manager and the file that it logs to; killed at the end."""
    log = directory / "manager.log"
    arguments = [
        "--etcd-endpoints", place.etcd, "--key-prefix", place.prefix,
        "--mongodb-uri", place.log_store, "--mongodb-database", place.database,
        *(() if "--auth" in flags else ("--auth", "off")),
        "--audit-dir", str(directory / "audit"), *flags,
    ]  # fmt: skip
    with log.open("wb") as stream:
        environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY)}
        started = WARM.start("manager", arguments, directory=directory, environ=environ, log=stream.fileno())
    try:
        yield started, log
    finally:
        started.kill()
        await started.ended()


async def address_of(log: Path) -> str:
    def found() -> re.Match[str] | None:
        return re.search(r"serving at (http://\S+)", log.read_text())

    await wait_until(lambda: found() is not None, description="the manager to serve", timeout=60)
    match = found()
    assert match is not None
    return match[1]


async def test_serves_until_it_is_asked_to_stop(place: Place, tmp_path: Path) -> None:
    async with process(place, tmp_path, "--api-port", "0") as (manager, log), ClientSession() as http:
        address = await address_of(log)
        async with http.get(f"{address}/readyz") as answer:
            assert answer.status == 200
        manager.send_signal(signal.SIGTERM)
        assert await manager.ended() == 0
        assert "Traceback" not in log.read_text()


async def test_open_event_streams_do_not_hold_up_the_stop(place: Place, tmp_path: Path) -> None:
    async with process(place, tmp_path, "--api-port", "0") as (manager, log), ClientSession() as http:
        async with http.get(f"{await address_of(log)}/api/v1/events") as stream:
            assert b"event: hello" in await stream.content.readuntil(b"\n\n")
            manager.send_signal(signal.SIGTERM)
            await stream.content.read()  # what is cut, as a request that takes too long, has no end
            assert await manager.ended() == 0
        assert "Traceback" not in log.read_text()


async def test_client_that_goes_in_the_middle_of_its_body_is_no_fault_of_the_manager(
    place: Place, tmp_path: Path
) -> None:
    async with process(place, tmp_path, "--api-port", "0") as (manager, log):
        url = URL(await address_of(log))
        reader, writer = await asyncio.open_connection(url.host, url.port)
        head = "POST /api/v1/jobs/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: 10\r\nExpect: 100-continue\r\n\r\n".encode())
        assert await reader.readline() == b"HTTP/1.1 100 Continue\r\n"  # it waits for the body now
        writer.close()
        manager.send_signal(signal.SIGTERM)  # requests that are going come to their end first
        assert await manager.ended() == 0
        assert "ERROR" not in log.read_text()


async def test_port_that_is_taken_is_named(place: Place, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        async with process(place, tmp_path, "--api-port", str(port)) as (manager, log):
            assert await manager.ended() == 1, "it may be free the next time"
            said = log.read_text()
    assert f"apiPort: port {port} of 127.0.0.1 is taken; stop what listens there, or give another one" in said
    assert "Traceback" not in said


async def test_host_that_is_not_of_this_machine_is_named(place: Place, tmp_path: Path) -> None:
    flags = ("--api-port", "0", "--host", "192.0.2.1", "--allow-unauthenticated", "true")
    async with process(place, tmp_path, *flags) as (manager, log):
        assert await manager.ended() == 1, "it may come"
        assert "host: cannot listen on 192.0.2.1" in log.read_text()


async def test_mistake_in_the_configuration_starts_nothing(place: Place, tmp_path: Path) -> None:
    (tmp_path / "manager.json").write_text('{"apiprot": 1}')
    async with process(place, tmp_path) as (manager, log):
        assert await manager.ended() == 2
        assert "apiPort" in log.read_text()
        assert "Traceback" not in log.read_text()


async def test_says_where_it_looks_for_an_etcd_that_is_away(place: Place, tmp_path: Path) -> None:
    away = Place(etcd="127.0.0.1:9", log_store=place.log_store, prefix=place.prefix, database=place.database)
    async with process(away, tmp_path, "--api-port", "0") as (manager, log):
        await address_of(log)

        def said() -> bool:
            return "action=etcd.unreachable where=127.0.0.1:9" in log.read_text()

        await wait_until(said, description="the log to say where etcd was looked for")
        manager.send_signal(signal.SIGINT)
        assert await manager.ended() == 0


async def test_change_that_was_answered_is_in_the_audit_although_the_manager_is_killed_at_once(
    place: Place, tmp_path: Path
) -> None:
    job = {"command": "true", "cronExpr": "0 0 0 * * * *"}
    async with managing(place) as other, ClientSession() as http:
        headers = await Accessing(other).user("alice", Role.ADMIN)
        async with process(place, tmp_path, "--api-port", "0", "--auth", "required") as (manager, log):
            address = await address_of(log)
            for number in range(20):
                async with http.put(f"{address}/api/v1/jobs/j{number}", json=job, headers=headers) as answer:
                    assert answer.status == 201, await answer.text()
            manager.kill()
            await manager.ended()
        async with process(place, tmp_path, "--api-port", "0", "--auth", "required"):

            async def all_are_there() -> bool:
                page = await other.runlog.audit(AuditFilter(action="job.save"), cursor=None, limit=100)
                return {entry.note.object for entry, _ in page.items} == {f"job j{number}" for number in range(20)}

            await wait_until(all_are_there, description="the audit has each of them")


async def test_notifier_of_its_own_tells_and_listens_nowhere(place: Place, tmp_path: Path) -> None:
    log = tmp_path / "notifier.log"
    arguments = [
        "--etcd-endpoints", place.etcd, "--key-prefix", place.prefix,
        "--mongodb-uri", place.log_store, "--mongodb-database", place.database, "--audit-dir", str(tmp_path / "audit"),
    ]  # fmt: skip
    with log.open("wb") as stream:
        environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY)}
        command = ("start", "notifier", *arguments)
        notifier = WARM.start("cli", command, directory=tmp_path, environ=environ, log=stream.fileno())
    try:
        async with EtcdClient([place.etcd]) as etcd, RunLog(place.log_store, database=place.database) as runlog:
            rule = RULE.read({"labels": "all", "to": ["ops"]})
            await etcd.put(place.keys.rule("all"), RULE.to_json(Stored(record=rule)))
            await runlog.outbox.put(outbox_documents([Event(kind=EventKind.FAILED, at_ms=1, job="report")], 1))

            async def is_told() -> bool:
                return bool((await runlog.notices.page()).items)

            await wait_until(is_told, description="a notice is made")
        assert "serving at" not in log.read_text()
        assert not [one for one in psutil.Process(notifier.pid).net_connections() if one.status == psutil.CONN_LISTEN]
        notifier.send_signal(signal.SIGTERM)
        assert await notifier.ended() == 0, log.read_text()
    finally:
        notifier.kill()
        await notifier.ended()
