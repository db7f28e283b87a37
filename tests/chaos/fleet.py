"""All processes of a chaos run, each worker and manager behind proxies of its own; a supervisor that restarts them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from common.etcd import EtcdClient
from tests.chaos.ground import Ground
from tests.chaos.history import Exit, Fault, HistoryFile, Note, wall_ms
from tests.chaos.member import ChaosProcess, Member, can_be_user, faketime
from tests.chaos.witness import Witness
from tests.support.etcd_server import EtcdServer, cluster, etcd35
from tests.support.log_store import LogStoreServer
from tests.support.proxy import Mode, Proxy

_SUPERVISED_EVERY_S = 0.2
_RESTARTED_AFTER_S = 1.0
_DISK_MIB = 48
_QUOTA_BYTES = 64 * 1024 * 1024
"""Of etcd: enough for all that a run does between two compactions, and soon filled."""


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
            self._look_after_etcd()
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

    def _look_after_etcd(self) -> None:
        """etcd 3.5.1 panics where a client cancels a transaction that only reads : mended in later ones."""
        for server in self.etcd:
            if server.has_ended:
                server.forget_process()
                server.launch()
                what = "a member of etcd ended by itself, and was started again"
                self.history.add(Fault(name=what, what=what, target="etcd", from_ms=wall_ms(), until_ms=wall_ms()))


@asynccontextmanager
async def running_fleet(
    ground: Ground, history: HistoryFile, seed: int, *, workers: int = 3, managers: int = 2
) -> AsyncIterator[Fleet]:
    """Servers, then workers and managers; all gone afterwards.

    By the seed one worker has a clock of its own, and another one a user of its own; so has the last manager a clock.
    """
    servers, log_store = _servers(ground), LogStoreServer(ground.directory / "logs" / "data")
    log_store.port = ground.port()
    async with AsyncExitStack() as stack:
        for server in servers:
            stack.callback(server.destroy)
            server.launch()
        stack.callback(log_store.destroy)
        await asyncio.gather(log_store.start(), *(server.wait_ready(60) for server in servers))
        client = await stack.enter_async_context(EtcdClient([server.endpoint for server in servers]))
        fleet = Fleet(ground.directory, history, servers, log_store, client, Witness(ground.directory / "evidence"))
        fleet.witness.path.touch()
        fleet.witness.path.chmod(0o666)  # not all of its writers are of one user
        makes = _Makes(ground, fleet)
        for number in range(workers):
            special = (number + seed) % workers
            member = makes.worker(f"worker-{number + 1}", has_clock=special == 0, is_other_user=special == 1)
            fleet.members.append(member)
        for number in range(managers):
            fleet.members.append(makes.manager(f"manager-{number + 1}", has_clock=number == managers - 1))
        for member in fleet.members:
            await _connected(stack, fleet, member)
            stack.callback(member.process.destroy)
            member.process.start()
        yield fleet


def _servers(ground: Ground) -> list[EtcdServer]:
    binary = etcd35()
    assert binary is not None, "the extra `embedded` is installed with the tests"
    limits = ("--quota-backend-bytes", str(_QUOTA_BYTES))
    servers = cluster(binary, ground.directory / "etcd", arguments=limits)
    for server in servers:
        server.port, server.peer_port = ground.port(), ground.port()
    for server in servers:
        server.members = {other.name: other.peer_port for other in servers}
    return servers


class _Makes:
    """The members, each with what is special about it; what cannot be had here is noted."""

    def __init__(self, ground: Ground, fleet: Fleet) -> None:
        self._ground = ground
        self._directory = fleet.directory
        self._history = fleet.history

    def worker(self, name: str, *, has_clock: bool, is_other_user: bool) -> Member:
        process = ChaosProcess("worker", name, self._directory / name, ())
        data = process.directory / "data"
        process.flags = ("--worker-name", name, "--data-dir", str(data), "--lost-after-seconds", "20",
                         "--shutdown-grace-seconds", "2")  # fmt: skip
        member = Member(process)
        if self._ground.has_disks:
            self._ground.disk(data, _DISK_MIB)
            member.disk = data
        else:
            self._history.add(Note(text=f"{name}: no disk of its own (mounting is not allowed): it is never full"))
        if is_other_user:
            self._as_another(member, data)
        if has_clock:
            self._with_clock(member)
        return member

    def manager(self, name: str, *, has_clock: bool) -> Member:
        member = Member(ChaosProcess("manager", name, self._directory / name, ()), port=self._ground.port())
        member.process.flags = ("--api-port", str(member.port))
        if has_clock:
            self._with_clock(member)
        return member

    def _with_clock(self, member: Member) -> None:
        if faketime() is None:
            self._history.add(Note(text=f"{member.name}: no libfaketime (make faketime): its clock is never wrong"))
            return
        member.process.directory.mkdir(parents=True, exist_ok=True)
        member.process.clock = self._directory / f"{member.name}.clock"
        member.set_clock("+0s")

    def _as_another(self, member: Member, data: Path) -> None:
        if os.geteuid() != 0 or not can_be_user(self._ground.uid):
            self._history.add(Note(text=f"{member.name}: cannot have a user of its own: it is never out of processes"))
            return
        member.process.uid = self._ground.uid
        data.mkdir(parents=True, exist_ok=True)
        for path in (member.process.directory, data):
            os.chown(path, self._ground.uid, self._ground.uid)


async def _connected(stack: AsyncExitStack, fleet: Fleet, member: Member) -> None:
    """Its own ways to the stores."""
    member.etcd = [await stack.enter_async_context(Proxy(server.endpoint)) for server in fleet.etcd]
    logs = Proxy(f"127.0.0.1:{fleet.log_store.port}", http2=False)
    member.log_store = await stack.enter_async_context(logs)
    endpoints = ",".join(way.endpoint for way in member.etcd)
    stores = ("--etcd-endpoints", endpoints, "--mongodb-uri", f"mongodb://{member.log_store.endpoint}/")
    member.process.flags = (*stores, *member.process.flags)
