"""The steward's care for what got stuck, on a catalog, members and requests that a test fills."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

from common.etcd import Change
from common.protocol.keys import RunId, decode_mark, encode_mark
from common.protocol.member import Beat, Member
from common.protocol.request import Request
from common.protocol.roster import RosterEntry
from common.protocol.run import RunRecord
from common.protocol.txn import KeyValue
from common.timings import Timings
from tests.support.working import SteppingClock, World
from worker.absences import Absences
from worker.catalog import Catalog
from worker.kills import Kills
from worker.lead.leader import Term
from worker.lead.roster import Roster
from worker.lead.stuck_fires import StuckFires
from worker.lead.stuck_requests import StuckRequests
from worker.members import Beats, Members
from worker.plan.pending_requests import DueJobs, Lineup
from worker.plan.request_queue import RequestQueue
from worker.record.settlement import Settlement

SECOND, HOUR = "* * * * * * *", "0 0 * * * * *"


class Queue:
    """The requests as the steward's own queue knows them."""

    def __init__(self) -> None:
        self.by_job: dict[str, Lineup] = {}
        self.set_aside: dict[str, Request] = {}
        self.due_jobs = DueJobs(self.by_job)

    def take(self, key: str, request: Request) -> None:
        self.by_job.setdefault(request.run_id.job, Lineup()).put(key, request)
        self.due_jobs.expect(request.run_id.job, request.not_before_ms)


class Office:
    """Both duties, on a catalog and members that the test fills."""

    def __init__(self, world: World, term: Term) -> None:
        self.world, self.term, self.keys = world, term, world.keys
        self.clock = SteppingClock()
        self.delivered: list[RunRecord] = []
        self.catalog = Catalog(self.keys, on_changed=lambda _name: None)
        self.absences, self.beats = Absences(worker="w1", clock=self.clock), Beats(self.keys)
        self.roster = Roster(self.keys, self.clock)
        self.members = Members(self.keys, "w1", on_changed=lambda: None, on_seen=self._saw)
        self.kills, self.queue = Kills(self.keys, on_kill=lambda _kill: None), Queue()
        shared: dict[str, Any] = {
            "keys": self.keys, "worker": "w1", "catalog": self.catalog, "members": self.members,
            "beats": self.beats, "settlement": cast(Settlement, self), "clock": self.clock,
        }  # fmt: skip
        self.fires = StuckFires(
            client=world.etcd, timings=Timings(), absences=self.absences, roster=self.roster, **shared
        )
        self.requests = StuckRequests(
            client=world.etcd, kills=self.kills, queue=cast(RequestQueue, self.queue), **shared
        )
        self.requests.begin()

    def _saw(self, members: Collection[Member]) -> None:
        self.absences.saw(members)
        self.roster.saw(members)

    def leave(self, *names: str) -> None:
        """Their sessions have ended."""
        for name in names:
            self.members.on_changes([Change(key=self.keys.worker(name, "a"), old_mod=1, new=None)])

    def remember(self, name: str, **labels: str) -> None:
        """It is on the roster as one that is here."""
        entry = RosterEntry(worker=name, host="h", seen_ms=self.now_ms, labels=labels)
        key = self.keys.roster_entry(name)
        self.roster.on_changes([Change(key=key, old_mod=None, new=key_value(key, entry.to_json()))])

    def deliver_final(self, record: RunRecord, revision: int) -> None:
        self.delivered.append(record)

    @property
    def now_ms(self) -> int:
        return self.clock.wall_ms()

    async def save(self, cron: str = HOUR, *, mark_ms: int, name: str = "job", **fields: Any) -> KeyValue:
        kv = await self.world.save(name, cron=cron, mark_ms=mark_ms, **fields)
        self.catalog.on_changes([Change(key=kv.key, old_mod=None, new=kv)])
        return kv

    def join(self, *names: str, free: int = 1, not_accepting: str | None = None, **labels: str) -> None:
        for name in names:
            member = Member(
                worker=name, session="a", instance="i", host="h", address="a", slots=1,
                not_accepting=not_accepting, labels=labels,
            )  # fmt: skip
            key = self.keys.worker(name, "a")
            self.members.on_changes([Change(key=key, old_mod=None, new=key_value(key, member.to_json(), lease=10))])
            self.beats.by_process[name] = Beat(kind="worker", wall_ms=0, free_slots=free)

    async def look(self, after_s: float = 0) -> None:
        self.clock.advance(after_s)
        await self.fires.perform(self.term)

    async def take_all(self, name: str = "job") -> None:
        """Its worker has decided every fire until now."""
        await self.world.etcd.put(self.keys.mark(name), encode_mark(self.now_ms))

    async def mark(self, name: str = "job") -> int:
        kv = await self.world.etcd.get(self.keys.mark(name))
        assert kv is not None
        return decode_mark(kv.value)

    async def asked(self) -> list[RunId]:
        pages = self.world.etcd.read_prefix(self.keys.requests)
        return [self.keys.run_of(kv.key) async for page in pages for kv in page.kvs]

    async def see_requests(self) -> None:
        self.queue.by_job.clear()
        async for page in self.world.etcd.read_prefix(self.keys.requests):
            for kv in page.kvs:
                run_id = self.keys.run_of(kv.key)
                request = Request.from_json(kv.value, run_id=run_id, revision=kv.mod_revision)
                self.queue.take(kv.key, request)


def key_value(key: str, value: bytes, *, lease: int = 0) -> KeyValue:
    return KeyValue(key=key, value=value, create_revision=1, mod_revision=1, version=1, lease=lease)
