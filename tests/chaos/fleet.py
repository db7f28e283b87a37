"""All processes of a chaos run, each worker and manager behind proxies of its own; a supervisor that restarts them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from common.etcd import EtcdClient
from tests.chaos.history import Exit, HistoryFile, wall_ms
from tests.chaos.witness import Witness
from tests.support.cluster import Process
from tests.support.etcd_server import EtcdServer, cluster, etcd35, free_port
from tests.support.log_store import LogStoreServer
from tests.support.proxy import Mode, Proxy
from tests.support.waiting import wait_until

_SUPERVISED_EVERY_S = 0.2
_RESTARTED_AFTER_S = 1.0
_ENDS_WITHIN_S = 60.0


@dataclass(slots=True, eq=False)
class Member:
    """One worker or manager, and the ways to its stores."""

    process: Process
    etcd: list[Proxy]
    log_store: Proxy
    port: int = 0
    """Of a manager: where it serves."""
    is_held_down: bool = False
    """A fault has ended it; the supervisor leaves it alone until the fault is over."""

    @property
    def name(self) -> str:
        return self.process.name

    @property
    def is_worker(self) -> bool:
        return self.process.program == "worker"

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, where it runs."""
        if self.process.popen is not None and self.process.popen.poll() is None:
            os.kill(self.process.popen.pid, number)

    async def end(self, number: signal.Signals) -> bool:
        """End it; it stays down until `revive`. False: it did not end by this signal, and got SIGKILL."""
        self.is_held_down = True
        popen, self.process.popen = self.process.popen, None
        if popen is None:
            return True
        popen.send_signal(number)
        try:
            await wait_until(lambda: popen.poll() is not None, description=self.name, timeout=_ENDS_WITHIN_S)
        except AssertionError:
            popen.kill()
            popen.wait()
            return False
        return True

    def revive(self) -> None:
        """The supervisor may have it back."""
        self.is_held_down = False
        if self.process.popen is None:
            self.process.start()


@dataclass(slots=True, eq=False)
class Fleet:
    """See the module. Use :func:`running_fleet`."""

    directory: Path
    history: HistoryFile
    etcd: list[EtcdServer]
    log_store: LogStoreServer
    client: EtcdClient
    """The harness's own way to etcd, past the proxies."""
    witness: Witness
    members: list[Member] = field(default_factory=list)

    @property
    def workers(self) -> list[Member]:
        return [member for member in self.members if member.is_worker]

    @property
    def managers(self) -> list[Member]:
        return [member for member in self.members if not member.is_worker]

    async def leader(self) -> EtcdServer | None:
        """The member that leads, where one does and answers."""
        for server in self.etcd:
            try:
                async with asyncio.timeout(2):
                    status = await self.client.status(server.endpoint)
            except Exception:  # whatever it says, it is not the one
                continue
            if status.member == status.leader:
                return server
        return None

    async def heal(self) -> None:
        """Everything runs and everything passes."""
        for member in self.members:
            for proxy in (*member.etcd, member.log_store):
                proxy.set(Mode.PASS)
            member.send(signal.SIGCONT)
            member.revive()
        await asyncio.gather(*(server.wait_ready(60) for server in self.etcd))

    async def supervise(self) -> None:
        """Restart what ended by itself, as a service manager would, and note it."""
        loop = asyncio.get_running_loop()
        due: dict[str, float] = {}
        while True:
            await asyncio.sleep(_SUPERVISED_EVERY_S)
            for member in self.members:
                popen = member.process.popen
                if member.is_held_down:
                    due.pop(member.name, None)
                elif popen is not None and popen.poll() is not None:
                    self.history.add(Exit(process=member.name, status=popen.returncode, at_ms=wall_ms()))
                    member.process.popen = None
                    due[member.name] = loop.time() + _RESTARTED_AFTER_S
                elif popen is None and loop.time() >= due.get(member.name, 0.0):
                    member.process.start()


@asynccontextmanager
async def running_fleet(
    directory: Path,
    history: HistoryFile,
    *,
    workers: int = 3,
    managers: int = 2,
    etcd: int = 3,
    flags_of: Mapping[str, tuple[str, ...]] | None = None,
    environ_of: Mapping[str, Mapping[str, str]] | None = None,
) -> AsyncIterator[Fleet]:
    """Servers, then workers and managers; all gone afterwards. ``flags_of``: more of each, by program.

    ``environ_of``: more variables of single ones, by name.
    """
    binary = etcd35()
    assert binary is not None, "the extra `embedded` is installed with the tests"
    servers, log_store = cluster(binary, directory / "etcd", etcd), LogStoreServer(directory / "logs" / "data")
    async with AsyncExitStack() as stack:
        for server in servers:
            stack.callback(server.destroy)
            server.launch()
        stack.callback(log_store.destroy)
        await asyncio.gather(log_store.start(), *(server.wait_ready(60) for server in servers))
        client = await stack.enter_async_context(EtcdClient([server.endpoint for server in servers]))
        fleet = Fleet(directory, history, servers, log_store, client, Witness(directory / "evidence"))
        names = [("worker", f"worker-{number + 1}") for number in range(workers)]
        names += [("manager", f"manager-{number + 1}") for number in range(managers)]
        for program, name in names:
            member = await _member(stack, fleet, program, name)
            member.process.flags += (flags_of or {}).get(program, ())
            member.process.environ.update((environ_of or {}).get(name, {}))
            fleet.members.append(member)
            stack.callback(member.process.destroy)
            member.process.start()
        yield fleet


async def _member(stack: AsyncExitStack, fleet: Fleet, program: str, name: str) -> Member:
    ways = [await stack.enter_async_context(Proxy(server.endpoint)) for server in fleet.etcd]
    logs = await stack.enter_async_context(Proxy(f"127.0.0.1:{fleet.log_store.port}", http2=False))
    directory, port = fleet.directory / name, free_port()
    endpoints = ",".join(way.endpoint for way in ways)
    shared = ("--etcd-endpoints", endpoints, "--mongodb-uri", f"mongodb://{logs.endpoint}/")
    own: tuple[str, ...] = ("--api-port", str(port))
    if program == "worker":
        own = ("--worker-name", name, "--data-dir", str(directory / "data"), "--lost-after-seconds", "20")
        own += ("--shutdown-grace-seconds", "2")
    return Member(Process(program, name, directory, (*shared, *own)), ways, logs, port)
