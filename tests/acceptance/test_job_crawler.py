"""The job crawler of examples/, run against a whole etcron: each user is told of each posting once."""

from __future__ import annotations

import asyncio
import importlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.support.cluster import ROOT, Cluster, running_cluster
from tests.support.etcd_server import DYING_WITH_PARENT, free_port
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.etcd, pytest.mark.logstore, pytest.mark.slow]

FOLDER = ROOT / "examples" / "job_crawler"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Imports a module of the example, whose modules import each other by their bare names."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(FOLDER)):
            del sys.modules[name]


@asynccontextmanager
async def served(app: web.Application) -> AsyncIterator[str]:
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


class MailServerProcess:
    """mail_server.py behind a gate, which can kill it in the middle of a mail."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._port, self._page = free_port(), free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.kills_in_data = False

    async def start(self) -> None:
        environ = {
            "PATH": os.environ["PATH"], "MAILS": str(self.folder), "SMTP_PORT": str(self._port), "PORT": str(self._page)
        }  # fmt: skip
        self.process = subprocess.Popen(
            [*DYING_WITH_PARENT, sys.executable, str(FOLDER / "mail_server.py")], env=environ
        )
        await wait_until(self._is_there, description="the mail server is there")

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    async def _is_there(self) -> bool:
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", self._port)
            writer.close()
            return True
        return False

    @asynccontextmanager
    async def gate(self) -> AsyncIterator[int]:
        """The port of a way to the server that is closed when the server is."""
        server = await asyncio.start_server(self._pass, "127.0.0.1", 0)
        async with server:
            yield server.sockets[0].getsockname()[1]

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.close()
            return
        back = asyncio.ensure_future(self._copy(from_server, writer))
        is_data = False
        with suppress(OSError):
            while line := await reader.readline():
                if is_data and self.kills_in_data:
                    self.kills_in_data = False
                    self.kill()  # a mail has begun, and is not whole
                    break
                is_data = is_data or line.strip().upper() == b"DATA"
                to_server.write(line)
        await back
        to_server.close()
        writer.close()

    @staticmethod
    async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
        writer.close()


@pytest.fixture
def mail_server(tmp_path: Path) -> Iterator[MailServerProcess]:
    server = MailServerProcess(tmp_path / "mails")
    yield server
    server.kill()


@asynccontextmanager
async def crawler(
    cluster: Cluster, example: Any, database: Path, *, smtp_port: int, board: Any
) -> AsyncIterator[aiohttp.ClientSession]:
    """Board, service and jobs; a session with the service."""
    async with (
        served(board.app()) as board_url,
        served(example("service").create_app(database)) as service_url,
        aiohttp.ClientSession(service_url) as session,
    ):
        environ = {
            "CRAWLER_DATABASE": str(database), "BOARD_URL": board_url, "SMTP": f"127.0.0.1:{smtp_port}",
            "CRAWLER_ETCRON": f"http://127.0.0.1:{cluster.ports[0]}",
        }  # fmt: skip
        for name, document in example("start").jobs(("acme",), environ, fast=True).items():
            if "cronExpr" in document:
                document["cronExpr"] = "@yearly"  # the test asks for each run
            document["retry"]["delaySeconds"] = 1
            await cluster.call("PUT", f"/api/v1/jobs/{name}", document)
        yield session


async def test_each_match_is_mailed_once_though_the_mail_server_dies_in_the_middle_of_one(
    tmp_path: Path, example: Any, mail_server: MailServerProcess
) -> None:
    now_s = 60_000_000.0
    board = example("board").Board(step_s=60, faulty=False, now=lambda: now_s)
    database = tmp_path / "crawler.sqlite"
    async with running_cluster(tmp_path, workers=1, managers=1) as cluster, mail_server.gate() as smtp_port:
        cluster.add_worker("mail-sender", "--labels", "queue=mail").start()
        async with crawler(cluster, example, database, smtp_port=smtp_port, board=board) as session:
            for user in ("ada", "bob", "cy"):
                wanted = {"name": user, "email": f"{user}@example.com", "company": "acme", "words": "", "location": ""}
                async with session.post("/api/v1/register", json=wanted) as answer:
                    assert answer.status == 201, await answer.text()
            await mail_server.start()
            mail_server.kills_in_data = True
            await cluster.call("POST", "/api/v1/jobs/crawl-acme/run", {})
            await wait_until(lambda: mail_server.process is None, description="the mail server was killed")
            now_s += 5 * 60  # five new postings while it is away
            await cluster.call("POST", "/api/v1/jobs/crawl-acme/run", {})
            await wait_until(lambda: _statistics_say(session, success=2), description="two crawls")
            await mail_server.start()
            await wait_until(lambda: _statistics_say(session, waiting=0), description="all mails sent", timeout=90)
            async with session.get("/api/v1/tasks", params={"status": "success"}) as answer:
                tasks = (await answer.json())["items"]
            assert [(task["found"], task["new"]) for task in reversed(tasks)] == [(25, 25), (25, 5)]
            async with session.get("/") as answer:
                assert "Crawls by hour" in await answer.text()
    told = Counter(_told(mail_server.folder))
    assert len(told) == 3 * 30
    assert set(told.values()) == {1}


async def test_crawl_that_meets_a_broken_board_is_tried_again_and_notes_nothing_before(
    tmp_path: Path, example: Any, mail_server: MailServerProcess
) -> None:
    board = example("board").Board(step_s=60, now=lambda: 60_000_000.0)  # its eleventh answer is an error
    database = tmp_path / "crawler.sqlite"
    async with (
        running_cluster(tmp_path, workers=1, managers=1) as cluster,
        crawler(cluster, example, database, smtp_port=1, board=board) as session,
    ):
        await cluster.call("POST", "/api/v1/jobs/crawl-acme/run", {})
        await wait_until(lambda: _statistics_say(session, error=1), description="a failed crawl")
        await wait_until(lambda: _statistics_say(session, success=1), description="a good one", timeout=90)
        async with session.get("/api/v1/tasks") as answer:
            newest, *before = (await answer.json())["items"]
    assert (newest["status"], newest["found"], newest["new"]) == ("success", 25, 25)
    assert [task["found"] for task in before] == [0]
    assert "503" in before[0]["message"]


async def test_bad_input_names_each_field(tmp_path: Path, example: Any) -> None:
    async with (
        served(example("service").create_app(tmp_path / "crawler.sqlite")) as url,
        aiohttp.ClientSession(url) as session,
    ):
        for method, path, body, fields in (
            ("POST", "/api/v1/register", {"name": "", "email": "ada", "company": "none"}, {"name", "email", "company"}),
            ("POST", "/api/v1/register", {"name": "a\nb", "email": "a@b.c", "role": 1}, {"name", "role"}),
            ("POST", "/api/v1/register", ["ada"], {"body"}),
            ("GET", "/api/v1/tasks?limit=0&status=good", None, {"limit", "status"}),
            ("PATCH", "/api/v1/tasks/none", {"status": "good", "message": 1}, {"status", "message"}),
        ):
            async with session.request(method, path, json=body) as answer:
                assert (answer.status, set((await answer.json())["errors"])) == (400, fields)
        async with session.patch("/api/v1/tasks/none", json={"status": "error"}) as answer:
            assert answer.status == 404


async def _statistics_say(session: aiohttp.ClientSession, **wanted: int) -> bool:
    async with session.get("/api/v1/task_stats") as answer:
        statistics = await answer.json()
    of_acme: dict[str, int] = next((one for one in statistics["companies"] if one["company"] == "acme"), {})
    there = {**statistics["totals"], **of_acme}
    return all(there.get(name, 0) >= count if count else there.get(name) == 0 for name, count in wanted.items())


def _told(folder: Path) -> Iterator[tuple[str, str]]:
    """Who was told of which posting."""
    for path in folder.glob("*.eml"):
        text = path.read_text()
        user = next(line for line in text.splitlines() if line.startswith("To:"))
        for line in text.splitlines():
            if line.startswith("http"):
                yield user, line
