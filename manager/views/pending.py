"""Runs that have been asked for and not claimed yet: what they wait for, as far as that is cheaply known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from common.access.rights import Rights
from common.clock import Clock
from common.errors import EtcdError, UnavailableError
from common.etcd import EtcdClient
from common.jobs.job import JobSpec, Overlap
from common.protocol.edits import Stored
from common.protocol.keys import Keys, RunId, holder_of
from common.protocol.member import Beat, Member
from common.protocol.placement import is_eligible
from common.protocol.request import Request, read_request
from common.protocol.run import shown_command
from common.protocol.txn import Get, GetPrefix, KeyValue, Operation, Txn
from manager.views.inventory import Inventory
from manager.watch.eligibility import Eligibility

NO_FREE_SLOT: Final = "a free slot: no worker shows one"
"""What is waited for, in words."""


class FreeSlots:
    """Reads the beats when asked; none of it is remembered."""

    def __init__(
        self,
        inventory: Inventory,
        members: Callable[[], Sequence[Member]],
        *,
        standstill: Callable[[], str | None] = lambda: None,
    ) -> None:
        """``members``: the live workers. ``standstill``: why none of them can take anything, where that is known."""
        self._inventory = inventory
        self._members = members
        self.standstill = standstill

    async def are_taken(self, spec: JobSpec) -> bool:
        """Whether none of the workers that fit shows as many as the job takes; False, too, where nothing is known."""
        fitting = [one.worker for one in self._members() if one.accepts and is_eligible(spec, one.labels, one.slots)]
        try:
            beats = await self._inventory.beats()
        except (EtcdError, UnavailableError):
            return False
        free = []
        for beat in (beats[name] for name in fitting if name in beats):
            with suppress(ValueError):  # one that cannot be read tells nothing
                free.append(Beat.from_json(beat).free_slots)
        return bool(free) and max(free) < spec.slots


MOST_LISTED: Final = 100
_SOON_MS: Final = 1_500
"""A request that could be claimed for less than this is on its way, and not waiting for slots."""


class WaitKind(StrEnum):
    """What a run waits for, for programs."""

    TIME = "time"
    JOB = "job"
    """One that can be read."""
    LOCK = "lock"
    WORKER = "worker"
    SLOT = "slot"


@dataclass(frozen=True, slots=True)
class Wait:
    """What a run waits for: for programs, and in words."""

    kind: WaitKind
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A run as etcd knows it, all at one revision."""

    run: KeyValue | None
    request: Request | None
    lock: KeyValue | None
    """Of the job, or of the worker's own sequence."""
    job: KeyValue | None
    kill: KeyValue | None


class Pending:
    """Looks at requests; none of it is remembered."""

    def __init__(
        self,
        etcd: EtcdClient,
        keys: Keys,
        *,
        clock: Clock,
        members: Callable[[], Sequence[Member]],
        slots: FreeSlots,
    ) -> None:
        """``members``: the live workers."""
        self._etcd = etcd
        self._keys = keys
        self._clock = clock
        self._members = members
        self._slots = slots

    async def look(self, run: RunId) -> Seen:
        """The run's key and its request: a claim turns one into the other, so no run is overlooked between them."""
        keys = self._keys
        reads = [
            keys.run(run), keys.request(run), keys.chain(run.job), keys.lock(run.job), keys.job(run.job_name),
            keys.kill(run),
        ]  # fmt: skip
        found = await self._etcd.txn(Txn((), [Get(key) for key in reads]))
        requests = (read_request(keys, found.one(index)) for index in (1, 2))
        request = next((one for one in requests if one is not None and one.run_id == run), None)
        return Seen(run=found.one(0), request=request, lock=found.one(3), job=found.one(4), kill=found.one(5))

    async def view(self, seen: Seen) -> dict[str, Any]:
        """A run that waits, as ``/api/v1`` shows it."""
        assert seen.request is not None, "asked of a run that waits"
        request, spec = seen.request, _spec(seen.request.run_id.job_name, seen.job)
        slots_taken = await self._slots_taken([request], spec, seen.lock)
        view = request_view(request, self._wait(request, spec, seen.lock, slots_taken=slots_taken))
        return view if spec is None else view | {"command": shown_command(spec.command_line, request.args)}

    def is_seen(self, seen: Seen, rights: Rights) -> bool:
        """Whether a caller may know of a run that waits: it will be one of the job that it was asked of."""
        return seen.request is not None and _sees(seen.request, seen.job, rights)

    async def of_job(self, job: str, rights: Rights) -> list[dict[str, Any]]:
        """The job's runs that wait, in their order, not more than a hundred; where etcd is away, none is known."""
        keys = self._keys
        prefixes = (keys.requests_of(job), keys.own_requests_of(job))
        reads: list[Operation] = [GetPrefix(prefix, limit=MOST_LISTED) for prefix in prefixes]
        reads += [Get(keys.lock(job)), Get(keys.job(job))]
        try:
            found = await self._etcd.txn(Txn((), reads))
        except (EtcdError, UnavailableError):
            return []
        requests = [one for index in (0, 1) for kv in found.kvs(index) if (one := read_request(keys, kv)) is not None]
        requests = [one for one in requests if _sees(one, found.one(3), rights)]
        requests.sort(key=lambda one: (one.plan_ms, one.run_id))
        spec, lock = _spec(job, found.one(3)), found.one(2)
        slots_taken = await self._slots_taken(requests, spec, lock)
        return [
            request_view(one, self._wait(one, spec, lock, slots_taken=slots_taken)) for one in requests[:MOST_LISTED]
        ]

    async def _slots_taken(self, requests: Sequence[Request], spec: JobSpec | None, lock: KeyValue | None) -> bool:
        """Whether it may be slots that they wait for, and none are shown; asked only where one could be claimed."""
        now_ms = self._clock.wall_ms()
        is_due = any(now_ms - request.not_before_ms > _SOON_MS for request in requests)
        return is_due and lock is None and spec is not None and await self._slots.are_taken(spec)

    def _wait(self, request: Request, spec: JobSpec | None, lock: KeyValue | None, *, slots_taken: bool) -> Wait:
        if request.not_before_ms > self._clock.wall_ms():
            return Wait(WaitKind.TIME, "its time")
        if spec is None:
            words = "a job that can be read; one that was deleted has it recorded as skipped"
            return Wait(WaitKind.JOB, words)
        if lock is not None and spec.overlap is not Overlap.ALLOW:
            return Wait(WaitKind.LOCK, f"the end of {holder_of(lock)}, which holds the job's lock")
        takers = Eligibility(spec, self._members()).takers(request.run_id.fire)
        if takers.reason is not None:
            return Wait(WaitKind.WORKER, f"a worker: {takers.reason}")
        if slots_taken:
            return Wait(WaitKind.SLOT, NO_FREE_SLOT)
        return Wait(WaitKind.WORKER, "a worker to take it")


def request_view(request: Request, wait: Wait) -> dict[str, Any]:
    """A run that has been asked for and not claimed."""
    return {
        "id": str(request.run_id), "state": "created", "jobName": request.run_id.job_name,
        "attempt": request.run_id.attempt, "createTime": request.create_ms, "planTime": request.plan_ms,
        "notBefore": request.not_before_ms, "expiresTime": request.expires_ms, "waitsFor": wait.words,
        "waitsForKind": str(wait.kind), "origin": str(request.origin), "trigger": str(request.trigger),
        "by": request.by, "note": request.note, "args": list(request.args),
    }  # fmt: skip


def _sees(request: Request, job: KeyValue | None, rights: Rights) -> bool:
    """By the labels of the job that was asked; of one that is gone, or was made anew, none are known."""
    if rights.sees_all:
        return True
    spec = _spec(request.run_id.job_name, job)
    is_its_job = job is not None and job.create_revision == request.job_create_revision
    return rights.sees(spec.labels if spec is not None and is_its_job else {})


def _spec(name: str, kv: KeyValue | None) -> JobSpec | None:
    saved = Stored.read(name, kv, None).saved
    return None if saved is None else saved.spec
