"""A whole etcron of real processes: etcd, log store, workers, managers; jobs that leave evidence in a file.

What ran is read from the evidence, which etcron cannot write itself; what etcron says of it, through its managers.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import secrets
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from tests.support.etcd_server import DYING_WITH_PARENT, EtcdServer, free_port, usual_etcd
from tests.support.log_store import LogStoreServer
from tests.support.waiting import PATIENCE_S, wait_until
from tests.support.warm import WARM, WarmProcess

ROOT = Path(__file__).parents[2]
PAGE = 500
EVERY_SECOND = "* * * * * * *"
NONE_LEFT_OUT = {"policy": "all", "limit": 100}
"""A misfire policy by which each fire starts, also where a busy machine comes to several of a job at once."""


@dataclass(frozen=True, slots=True, order=True)
class Start:
    """One line of evidence: a command has started."""

    job: str
    plan_ms: int
    attempt: int
    worker: str
    fence: int


@dataclass(slots=True, eq=False)
class Process:
    """One worker or manager, that can be started again as the same."""

    program: str
    name: str
    directory: Path
    flags: tuple[str, ...]
    popen: subprocess.Popen[bytes] | WarmProcess | None = None
    environ: dict[str, str] = field(default_factory=dict)
    """More variables, from the next start on."""
    is_cold: bool = False
    """Started by itself, which takes longer: for who looks at its command line, at its environment from outside, or at
    what it costs."""

    @property
    def log(self) -> str:
        """What it has printed."""
        path = self.directory / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def start(self) -> None:
        assert self.popen is None, f"{self.name} runs already"
        self.directory.mkdir(parents=True, exist_ok=True)
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.directory), "PYTHONPATH": str(ROOT), **self.environ}
        with (self.directory / "log").open("ab") as log:
            if not self.is_cold:
                self.popen = WARM.start(
                    self.program, self.flags, directory=self.directory, environ=environ, log=log.fileno()
                )
                return
            self.popen = subprocess.Popen(
                [*DYING_WITH_PARENT, sys.executable, "-P", "-m", self.program, *self.flags],
                cwd=self.directory,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    async def end(self, number: signal.Signals = signal.SIGTERM, *, timeout: float = 60) -> int:
        """End it; its exit status."""
        popen, self.popen = self.popen, None
        assert popen is not None, f"{self.name} does not run"
        popen.send_signal(number)
        await wait_until(lambda: popen.poll() is not None, description=f"{self.name} has ended", timeout=timeout)
        return popen.wait()

    def destroy(self) -> None:
        popen, self.popen = self.popen, None
        if popen is not None:
            popen.kill()
            popen.wait()


@dataclass(slots=True, eq=False)
class Cluster:
    """See the module. Use :func:`running_cluster`."""

    directory: Path
    etcd: EtcdServer
    log_store: LogStoreServer
    workers: list[Process] = field(default_factory=list)
    managers: list[Process] = field(default_factory=list)
    ports: list[int] = field(default_factory=list)
    is_cold: bool = False
    """Whether its workers and managers are started by themselves."""
    http: aiohttp.ClientSession | None = None
    shared: tuple[str, ...] = ()
    """Flags of every process: where the servers are."""
    busy: set[str] = field(default_factory=set)
    """Jobs that were saved to fire every second. See :meth:`calm`."""
    _turn: Iterator[int] = field(default_factory=itertools.count)
    _away_since: float | None = None
    _starts: list[Start] = field(default_factory=list)
    _read_to: int = 0
    """Of the evidence file."""

    def add_worker(self, name: str, *flags: str) -> Process:
        """One more worker, that is not started yet."""
        directory = self.directory / name
        own = ("--worker-name", name, "--data-dir", str(directory / "data"))
        self.workers.append(Process("worker", name, directory, (*self.shared, *own, *flags), is_cold=self.is_cold))
        return self.workers[-1]

    @asynccontextmanager
    async def another_worker(self, name: str) -> AsyncIterator[Process]:
        """One more worker for a while, which takes fires; nothing of it is left for another test."""
        worker = self.add_worker(name)
        worker.start()
        try:
            await self.ready()
            yield worker
        finally:
            if worker.popen is not None:
                await worker.end()
            self.workers.remove(worker)
        await self.call("DELETE", f"/api/v1/workers/{name}")

    @property
    def evidence_file(self) -> Path:
        return self.directory / "evidence"

    def evidence_command(self, then: str = "") -> str:
        """A command that writes one line when it starts, in one append, then goes on."""
        line = '"$ETCRON_JOB $ETCRON_PLAN_MS $ETCRON_ATTEMPT $ETCRON_WORKER $ETCRON_FENCE"'
        return f"echo {line} >> {self.evidence_file}{'; ' + then if then else ''}"

    def starts(self) -> list[Start]:
        """All evidence so far. It is read as it grows: tests that wait read it often."""
        if self.evidence_file.exists():
            with self.evidence_file.open("rb") as file:
                file.seek(self._read_to)
                *lines, rest = file.read().split(b"\n")
                self._read_to = file.tell() - len(rest)
            for line in lines:
                job, plan, attempt, worker, fence = line.decode().split()
                self._starts.append(Start(job, int(plan), int(attempt), worker, int(fence)))
        return list(self._starts)

    def second_from_now(self, seconds: int) -> datetime:
        """A whole second in the future, by the wall clock that the workers plan by."""
        return datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=seconds)

    def etcd_has_been_away(self, seconds: float) -> bool:
        """Whether etcd does not run, for so long since this was first asked."""
        now = asyncio.get_running_loop().time()
        self._away_since = self._away_since if self._away_since is not None else now
        return now - self._away_since >= seconds

    # Speaking to the managers, in turn

    def _url(self, path: str, manager: int | None = None) -> str:
        """Of this manager; None: of the next one."""
        number = next(self._turn) if manager is None else manager
        return f"http://127.0.0.1:{self.ports[number % len(self.ports)]}{path}"

    async def get(self, path: str, **query: str | int) -> Any:
        status, answer = await self._asked("GET", path, params=query)
        assert status == 200, answer
        return answer

    async def post(self, path: str, **form: str) -> Any:
        """The answer to a form of the legacy API, which must be a success. A form says what is to be."""
        status, answer = await self._asked("POST", path, data=form)
        assert status == 200, answer
        assert answer["errno"] == 0, answer
        return answer

    async def call(self, method: str, path: str, body: object = None, **headers: str) -> Any:
        """The answer to a call of ours with a JSON body, which must be a success."""
        return await self.call_of(None, method, path, body, **headers)

    async def call_of(self, manager: int | None, method: str, path: str, body: object = None, **headers: str) -> Any:
        """The same of one manager, by its number."""
        if method == "POST" and path.endswith("/run"):  # one run, however often it is asked for
            headers = {"Idempotency-Key": secrets.token_hex(8), **headers}
        status, answer = await self._asked(method, path, manager=manager, json=body, headers=headers)
        assert status in (200, 201, 202), answer
        return answer

    async def _asked(
        self, method: str, path: str, *, is_once: bool = False, manager: int | None = None, **more: Any
    ) -> tuple[int, Any]:
        """Status and answer; asked again (not ``is_once``) while a busy server does not answer in time."""
        assert self.http is not None
        http, found = self.http, list[tuple[int, Any]]()

        async def has_answered() -> bool:
            async with http.request(method, self._url(path, manager), **more) as answer:
                found[:] = [(answer.status, await answer.json())]
            return is_once or answer.status != 503

        try:
            await wait_until(has_answered, description=f"{method} {path} is answered", at_most_every_s=0.2)
        except AssertionError as error:
            raise AssertionError(f"{error}: {found}") from None
        return found[0]

    async def save(self, name: str, command: str, cron_expr: str | list[str], **fields: Any) -> Any:
        job = {"name": name, "command": command, "cronExpr": cron_expr, **fields}
        if cron_expr == EVERY_SECOND and fields.get("enabled", True):
            self.busy.add(name)
        else:
            self.busy.discard(name)
        return await self.post("/job/save", job=json.dumps(job))

    async def calm(self) -> None:
        """Pauses what fires every second: for who has been the last to look at it, on a cluster that others use too."""
        assert self.http is not None
        for name in self.busy:
            reason = {"reason": "its test is over"}
            async with self.http.post(self._url(f"/api/v1/jobs/{name}/pause"), json=reason) as answer:
                assert answer.status in (200, 404), await answer.text()
        self.busy.clear()

    async def runs(self, **query: str | int) -> list[dict[str, Any]]:
        """Every record that matches, page by page."""
        items: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            more = {"cursor": cursor} if cursor else {}
            page = await self.get("/api/v1/runs", limit=PAGE, **query, **more)
            items += [run for run in page["items"] if run["state"] == "finished"]
            cursor = page["nextCursor"]
            if cursor is None:
                return items

    async def ready(self) -> None:
        """Every manager answers, and every worker is listed."""
        # Nothing takes a busy machine as long as to start many processes.
        await wait_until(self._is_ready, description="the cluster is ready", timeout=3 * PATIENCE_S)

    async def _is_ready(self) -> bool:
        self._check_alive()
        running = [worker for worker in self.workers if worker.popen is not None]
        try:
            for _ in self.ports:
                status, listed = await self._asked("GET", "/worker/list", is_once=True)
                if status != 200 or len(listed["data"]) != len(running):
                    return False
        except aiohttp.ClientError:
            return False
        return True

    def _check_alive(self) -> None:
        for process in (*self.workers, *self.managers):
            if process.popen is not None and process.popen.poll() is not None:
                raise RuntimeError(f"{process.name} has ended: {process.log[-3000:]}")


@asynccontextmanager
async def running_cluster(
    directory: Path,
    *,
    workers: int = 3,
    managers: int = 2,
    worker_flags: tuple[str, ...] = (),
    flags_of: Mapping[str, tuple[str, ...]] | None = None,
    code_of: Mapping[str, Path] | None = None,
    is_cold: bool = False,
) -> AsyncIterator[Cluster]:
    """All of it, ready; everything is gone afterwards. ``flags_of``: more flags of single processes, by name;
    ``code_of``: where the code of single ones lies, else it is this checkout's.
    """
    etcd, log_store = EtcdServer(usual_etcd(), directory / "etcd"), LogStoreServer(directory / "logs" / "data")
    cluster = Cluster(directory, etcd, log_store, is_cold=is_cold)
    try:
        await asyncio.gather(etcd.start(), log_store.start())
        cluster.shared = shared = ("--etcd-endpoints", etcd.endpoint, "--mongodb-uri", log_store.uri)
        for number in range(1, managers + 1):
            port = free_port()
            cluster.ports.append(port)
            name = f"manager-{number}"
            audit = ("--audit-dir", str(directory / name / "audit"))
            flags = (*shared, *audit, "--auth", "off", "--api-port", str(port), *(flags_of or {}).get(name, ()))
            cluster.managers.append(Process("manager", name, directory / name, flags, is_cold=is_cold))
        for number in range(1, workers + 1):
            name = f"worker-{number}"
            cluster.add_worker(name, *worker_flags, *(flags_of or {}).get(name, ()))
        for process in (*cluster.managers, *cluster.workers):
            if (code := (code_of or {}).get(process.name)) is not None:
                process.environ, process.is_cold = {"PYTHONPATH": str(code)}, True
            process.start()
        # A connection each: a manager closes what is idle, and nobody may be there to notice while other tests go.
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as cluster.http:
            await cluster.ready()
            yield cluster
    finally:
        for process in (*cluster.workers, *cluster.managers):
            process.destroy()
        log_store.destroy()
        etcd.destroy()


def check_skipped(record: Any, records: Iterable[Any]) -> None:
    """The run for which this fire was skipped was going on then, as its own record says, too.

    Its lock is free when its record is on the disk, and where its worker is killed in that moment, when it would be
    lost: neither is to the second on a busy machine, but no lock stays.
    """
    run_id = record["reason"].removeprefix("overlap: ").split()[0]
    run = next(other for other in records if other["id"] == run_id)
    assert run["planTime"] < record["planTime"] <= run["endTime"] + 30_000, (record, run)


def planned_between(first_ms: int, last_ms: int, step_ms: int = 1000) -> list[int]:
    """The plan times of a job that is due every second, first and last included."""
    return list(range(-(-first_ms // step_ms) * step_ms, last_ms + 1, step_ms))


def covered(records: Iterable[dict[str, Any]], job: str, step_ms: int = 1000) -> Counter[int]:
    """How many records there are for each plan time of the job; one of a range counts for each of its fires."""
    counts: Counter[int] = Counter()
    for record in records:
        if record["jobName"] == job:
            last_ms = record.get("rangeEndTime") or record["planTime"]
            counts.update(range(record["planTime"], last_ms + 1, step_ms))
    return counts


def sleep_of(seconds: int) -> str:
    """A command that takes so long, and that no other test on this machine has: `processes_with` finds it alone."""
    return f"sleep {seconds}.{os.getpid():07}"


def processes_with(text: str) -> list[psutil.Process]:
    """The living processes whose command line has this text."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and text in " ".join(process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found
