"""All processes of a chaos run, each worker and manager behind proxies of its own; a supervisor that restarts them."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from common.etcd import EtcdClient
from tests.chaos.history import Exit, Fault, HistoryFile, wall_ms
from tests.chaos.jobs import MACHINE
from tests.chaos.member import ChaosProcess, Member
from tests.chaos.special import LINGERING, Special
from tests.chaos.witness import Witness
from tests.support.etcd_server import EtcdServer, cluster, free_port, usual_etcd
from tests.support.log_store import LogStoreServer
from tests.support.proxy import Mode, Proxy

SLOTS = 16
"""Of each worker: few enough that fires wait for them now and then."""
_SUPERVISED_EVERY_S = 0.2
_SERVES_WITHIN_S = 45.0
_RESTARTED_AFTER_S = 1.0

__all__ = ["SLOTS", "Fleet", "Member", "running_fleet"]


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
    mount: Path | None = None
    """A directory that a mount may hang over; None: not on this machine."""

    @property
    def lingering(self) -> Path | None:
        """Likewise, for what runs leave behind."""
        return self.mount.with_name(LINGERING) if self.mount is not None else None

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
        await asyncio.gather(*(self._serving(server) for server in self.etcd))

    async def _serving(self, server: EtcdServer) -> None:
        """A member of etcd 3.5.1 may hang for good (seen once, on a busy machine): it is started again, and noted."""
        try:
            await server.wait_ready(_SERVES_WITHIN_S)
        except AssertionError:
            began_ms = wall_ms()
            await server.kill()
            server.launch()
            await server.wait_ready(_SERVES_WITHIN_S)
            what = "a member of etcd hung, and was started again"
            self.history.add(Fault(name=what, what=what, target="etcd", from_ms=began_ms, until_ms=wall_ms()))

    async def supervise(self) -> None:
        """Restart what ended by itself, as a service manager would, and note it."""
        loop = asyncio.get_running_loop()
        due: dict[str, float] = {}
        while True:
            await asyncio.sleep(_SUPERVISED_EVERY_S)
            self._look_after_etcd()
            for member in self.members:
                popen = member.process.popen
                if member.is_held_down:
                    due.pop(member.name, None)
                elif popen is not None and popen.poll() is not None:
                    self.history.add(Exit(process=member.name, status=popen.wait(), at_ms=wall_ms()))
                    member.process.popen = None
                    due[member.name] = loop.time() + _RESTARTED_AFTER_S
                elif popen is None and loop.time() >= due.get(member.name, 0.0):
                    member.process.start()

    def _look_after_etcd(self) -> None:
        """A member that ended by itself (3.5.1 has faults of its own) goes on, and the history says so."""
        for server in self.etcd:
            if server.has_ended:
                server.forget_process()
                server.launch()
                what = "a member of etcd ended by itself, and was started again"
                self.history.add(Fault(name=what, what=what, target="etcd", from_ms=wall_ms(), until_ms=wall_ms()))


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
    special: Special | None = None,
) -> AsyncIterator[Fleet]:
    """Servers, then workers and managers; all gone afterwards. ``flags_of``: more of each, by program.

    ``environ_of``: more variables of single ones, by name.
    ``special``: what is particular about some of them.
    """
    arguments = special.etcd_arguments if special is not None else ()
    servers = cluster(usual_etcd(), directory / "etcd", etcd, arguments=arguments)
    log_store = LogStoreServer(directory / "logs" / "data")
    if special is not None:
        special.settle_servers(servers, log_store)
    async with AsyncExitStack() as stack:
        for server in servers:
            stack.callback(server.destroy)
            server.launch()
        stack.callback(log_store.destroy)
        await asyncio.gather(log_store.start(), *(server.wait_ready(60) for server in servers))
        client = await stack.enter_async_context(EtcdClient([server.endpoint for server in servers]))
        witness = Witness(directory / "evidence")
        fleet = Fleet(directory, history, servers, log_store, client, witness)
        names = [("worker", f"worker-{number + 1}") for number in range(workers)]
        names += [("manager", f"manager-{number + 1}") for number in range(managers)]
        for program, name in names:
            port = special.ground.port() if special is not None else free_port()
            member = await _member(stack, fleet, program, name, port)
            member.process.flags += (flags_of or {}).get(program, ())
            member.process.environ.update((environ_of or {}).get(name, {}))
            fleet.members.append(member)
            stack.callback(member.process.destroy)
        if special is not None:
            special.settle_members(fleet.members, witness.path, history)
            fleet.mount = special.mount(history)
        for member in fleet.members:
            member.process.start()
        yield fleet


async def _member(stack: AsyncExitStack, fleet: Fleet, program: str, name: str, port: int) -> Member:
    ways = [await stack.enter_async_context(Proxy(server.endpoint)) for server in fleet.etcd]
    logs = await stack.enter_async_context(Proxy(f"127.0.0.1:{fleet.log_store.port}", http2=False))
    directory = fleet.directory / name
    endpoints = ",".join(way.endpoint for way in ways)
    shared = ("--etcd-endpoints", endpoints, "--mongodb-uri", f"mongodb://{logs.endpoint}/")
    own: tuple[str, ...] = ("--api-port", str(port), "--auth", "off", "--audit-dir", str(directory / "audit"))
    if program == "worker":
        own = ("--worker-name", name, "--data-dir", str(directory / "data"), "--lost-after-seconds", "20")
        own += ("--shutdown-grace-seconds", "2", "--labels", f"{MACHINE}={name}", "--slots", str(SLOTS))
    return Member(ChaosProcess(program, name, directory, (*shared, *own)), ways, logs, port)
