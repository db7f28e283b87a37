"""The faults: each breaks something for a while and mends it again, and is noted in the history with its times."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable

from common.errors import EtcronError
from common.etcd import Get, KeyValue
from common.keys import Keys
from tests.chaos.fleet import Fleet, Member
from tests.chaos.history import Fault, Stage, wall_ms
from tests.chaos.rules.leftovers import KILLED
from tests.support.etcd_server import EtcdServer
from tests.support.proxy import Mode, Proxy

KEYS = Keys()
_CUT = (Mode.SWALLOW, Mode.ONE_WAY, Mode.RESET, Mode.DELAY)


class Faults:
    """Draws and carries out faults, by a seed; several may be going at once, but only one on a target."""

    def __init__(self, fleet: Fleet, seed: int, only: Collection[str] = ()) -> None:
        """``only``: the names of those to draw from, as in the table; none: all."""
        self.fleet = fleet
        self.chance = random.Random(f"faults {seed}")
        self.until_s = 0.0
        self._busy: set[str] = set()
        table: dict[str, tuple[int, Callable[[], Awaitable[None]]]] = {
            "worker killed": (5, self._worker_killed),
            "worker frozen": (4, self._worker_frozen),
            "network to etcd": (5, self._network_to_etcd),
            "network to the log store": (3, self._network_to_the_log_store),
            "leader killed": (2, self._leader_killed),
            "leader frozen": (1, self._leader_frozen),
            "all of etcd away": (1, self._all_of_etcd_away),
            "compaction under a cut watch": (2, self._compaction_under_a_cut_watch),
            "log store frozen": (2, self._log_store_frozen),
            "log store killed": (2, self._log_store_killed),
            "manager killed": (2, self._manager_killed),
            "manager frozen": (1, self._manager_frozen),
            "worker stopped": (2, self._worker_stopped),
            "answers cut": (3, self._answers_cut),
            "garbage": (1, self._garbage),
            "session revoked": (2, self._session_revoked),
            "session detached": (1, self._session_detached),
        }
        unknown = set(only) - set(table)
        if unknown:
            raise ValueError(f"no fault is called {', '.join(sorted(unknown))}; there are: {', '.join(table)}")
        self._table = [row for name, row in table.items() if not only or name in only]

    async def run(self, until_s: float) -> None:
        """Faults until then (the loop's time); returns when the last one is mended."""
        loop = asyncio.get_running_loop()
        self.until_s = until_s
        weights = [weight for weight, _ in self._table]
        async with asyncio.TaskGroup() as going:
            while loop.time() < until_s:
                [(_, fault)] = self.chance.choices(self._table, weights)
                going.create_task(self._carried_out(fault))
                await asyncio.sleep(self.chance.uniform(2, 8))

    async def _carried_out(self, fault: Callable[[], Awaitable[None]]) -> None:
        """Also where etcd is away while the fault asks it for something: then it is not carried out."""
        with contextlib.suppress(EtcronError):
            await fault()

    async def _for(self, seconds: float) -> None:
        """So long, but not beyond the end."""
        left = self.until_s - asyncio.get_running_loop().time()
        await asyncio.sleep(max(0.0, min(seconds, left)))

    @contextlib.asynccontextmanager
    async def _noted(self, what: str, target: str) -> AsyncIterator[None]:
        self._busy.add(target)
        from_ms = wall_ms()
        try:
            yield
        finally:
            self._busy.discard(target)
            self.fleet.history.add(Fault(what=what, target=target, from_ms=from_ms, until_ms=wall_ms()))

    def _free(self, members: Iterable[Member]) -> Member | None:
        """One of them that no fault is on; None: another time."""
        free = [member for member in members if member.name not in self._busy and not member.is_held_down]
        return self.chance.choice(free) if free else None

    # Workers and managers

    async def _worker_killed(self) -> None:
        await self._killed(self._free(self.fleet.workers), self.chance.choice([0.5, 1, 3, 12]))

    async def _manager_killed(self) -> None:
        await self._killed(self._free(self.fleet.managers), self.chance.choice([0.5, 2, 5]))

    async def _killed(self, member: Member | None, seconds: float) -> None:
        if member is None:
            return
        async with self._noted(KILLED, member.name):
            await member.end(signal.SIGKILL)
            await self._for(seconds)
            member.revive()

    async def _worker_stopped(self) -> None:
        """SIGTERM, as by a deployment: it ends what runs after its grace, and is started again."""
        member = self._free(self.fleet.workers)
        if member is not None:
            async with self._noted("SIGTERM", member.name):
                if not await member.end(signal.SIGTERM):
                    self.fleet.history.add(Stage(name=member.name, at_ms=wall_ms(), failed="SIGTERM did not end it"))
                await self._for(0.5)
                member.revive()

    async def _worker_frozen(self) -> None:
        await self._frozen(self._free(self.fleet.workers), self.chance.choice([3, 8, 20, 60]))

    async def _manager_frozen(self) -> None:
        await self._frozen(self._free(self.fleet.managers), self.chance.choice([3, 8]))

    async def _frozen(self, member: Member | None, seconds: float) -> None:
        if member is None:
            return
        async with self._noted(f"SIGSTOP for {seconds:g} s", member.name):
            member.send(signal.SIGSTOP)
            await self._for(seconds)
            member.send(signal.SIGCONT)

    # The network

    async def _network_to_etcd(self) -> None:
        member = self._free(self.fleet.members)
        if member is not None:
            await self._cut(member, member.etcd, "etcd")

    async def _network_to_the_log_store(self) -> None:
        member = self._free(self.fleet.members)
        if member is not None:
            await self._cut(member, [member.log_store], "log store")

    async def _cut(self, member: Member, ways: list[Proxy], store: str) -> None:
        mode, seconds = self.chance.choice(_CUT), self.chance.choice([5, 12, 20, 30, 60])
        async with self._noted(f"{store}: {mode.name.lower()} for {seconds} s", member.name):
            for way in ways:
                way.delay_s = 0.4
                way.set(mode)
            await self._for(seconds)
            for way in ways:
                way.set(Mode.PASS)

    async def _answers_cut(self) -> None:
        """Again and again an answer is dropped after etcd has done what was asked."""
        member = self._free(self.fleet.members)
        if member is None:
            return
        async with self._noted("answers of etcd cut off", member.name):
            for _ in range(self.chance.randrange(5, 40)):
                for way in member.etcd:
                    way.set(Mode.CUT_REPLY)
                await self._for(0.3)
            for way in member.etcd:
                way.set(Mode.PASS)

    async def _compaction_under_a_cut_watch(self) -> None:
        member = self._free(self.fleet.members)
        if member is None:
            return
        async with self._noted("compaction while its watches are cut", member.name):
            for way in member.etcd:
                way.set(Mode.SWALLOW)
            await self._for(self.chance.uniform(2, 7))
            with contextlib.suppress(EtcronError):  # etcd may be away by another fault
                await self.fleet.client.compact((await self.fleet.client.txn((), [Get(KEYS.steward)])).revision)
            await self._for(1)
            for way in member.etcd:
                way.set(Mode.RESET)
                way.set(Mode.PASS)

    # etcd

    async def _leader_killed(self) -> None:
        leader = await self._leader()
        if leader is not None:
            async with self._noted("SIGKILL of the leader", "etcd"):
                await leader.kill()
                await self._for(self.chance.choice([1, 4, 10]))
                leader.launch()
                await leader.wait_ready(60)

    async def _leader_frozen(self) -> None:
        leader = await self._leader()
        if leader is not None:
            seconds = self.chance.choice([3, 8])
            async with self._noted(f"SIGSTOP of the leader for {seconds} s", "etcd"):
                await leader.pause()
                await self._for(seconds)
                leader.resume()

    async def _leader(self) -> EtcdServer | None:
        if "etcd" in self._busy:
            return None
        leader = await self.fleet.leader()
        return None if "etcd" in self._busy else leader

    async def _all_of_etcd_away(self) -> None:
        if "etcd" in self._busy:
            return
        seconds = self.chance.choice([3, 6, 12])
        async with self._noted(f"all of etcd stopped for {seconds} s", "etcd"):
            await asyncio.gather(*(server.kill() for server in self.fleet.etcd))
            await self._for(seconds)
            for server in self.fleet.etcd:
                server.launch()
            await asyncio.gather(*(server.wait_ready(60) for server in self.fleet.etcd))

    async def _session_revoked(self) -> None:
        session = await self._a_session()
        if session is not None:
            name, lease_hex = KEYS.session_of(session.key)
            async with self._noted("its lease is revoked", name):
                await self.fleet.client.lease_revoke(int(lease_hex, 16))

    async def _session_detached(self) -> None:
        session = await self._a_session()
        if session is not None:
            async with self._noted("its session key is put without the lease", KEYS.session_of(session.key)[0]):
                await self.fleet.client.put(session.key, session.value)

    async def _garbage(self) -> None:
        """Values that do not parse, under each prefix; taken away again."""
        tail, keys = f"garbage-{self.chance.getrandbits(30):x}", KEYS
        names = [keys.job(tail), keys.mark(tail), keys.lock(tail), keys.drain(tail), f"{keys.runs}{tail}"]
        names += [f"{keys.runs}{tail}/0000000000000001/1", f"{keys.requests}{tail}/x/1", f"{keys.kills}{tail}/x/y"]
        names += [f"{keys.workers}{tail}", f"{keys.beats}{tail}", f"{keys.dedupe}{tail}/x", f"{keys.versions}{tail}/x"]
        async with self._noted("garbage under each prefix", "keys"):
            for name in names:
                await self.fleet.client.put(name, b"{\xff")
            await self._for(15)
            for name in names:
                await self._deleted(name)

    async def _deleted(self, key: str) -> None:
        while True:
            try:
                await self.fleet.client.delete(key)
            except EtcronError:
                await asyncio.sleep(0.5)  # etcd is away, by another fault
            else:
                return

    async def _a_session(self) -> KeyValue | None:
        """Of a worker that no fault is on; None: none, or etcd is away."""
        member = self._free(self.fleet.workers)
        if member is None or "etcd" in self._busy:
            return None
        async for page in self.fleet.client.read_prefix(KEYS.worker_sessions(member.name)):
            return page.kvs[0] if page.kvs else None
        return None

    # The log store

    async def _log_store_frozen(self) -> None:
        if "log store" in self._busy:
            return
        seconds = self.chance.choice([4, 10, 20])
        async with self._noted(f"SIGSTOP for {seconds} s", "log store"):
            self.fleet.log_store.pause()
            await self._for(seconds)
            self.fleet.log_store.resume()

    async def _log_store_killed(self) -> None:
        if "log store" in self._busy:
            return
        async with self._noted("SIGKILL", "log store"):
            await self.fleet.log_store.kill()
            await self._for(self.chance.choice([1, 6, 15]))
            await self.fleet.log_store.start()
