"""The steward's third duty: requests that cannot run any more get their record; those that nobody sees are put again.

Only the steward turns a request into a final run key: expired, its job gone, made again or paused, or killed before
its claim. A request that was claimable for 5 s without being claimed is put again with a new not-before, so that every
worker tries it anew.
"""

from __future__ import annotations

import logging
from collections.abc import Container
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from common.clock import Clock
from common.etcd import Compare, Delete, EtcdClient, Operation, Put, absent, create_revision_is, mod_revision_is
from common.keys import Keys, Watched
from common.request import Request
from common.run import RunRecord, Trigger, Verdict, final_entry
from worker.aside import Aside
from worker.catalog import Catalog
from worker.kills import Kills
from worker.members import Beats, Members
from worker.request_queue import RequestQueue, order_of
from worker.settlement import Settlement
from worker.steward import Term

_log = logging.getLogger(__name__)

CLAIMABLE_FOR_MS: Final = 5000
_RENEWED_IN_ONE_TURN: Final = 200
_COMMAND_SHOWN: Final = 1000
"""Of the command, in a record that lies in etcd until it is delivered."""


@dataclass(frozen=True, slots=True)
class _End:
    """The end of a request that cannot run any more."""

    status: Verdict
    reason: str
    by: str | None = None
    confirm: Compare | None = None
    """What has to be true in etcd for it."""


class StuckRequests:
    """Ends or renews requests that wait in vain."""

    name = "looking after stuck requests"
    every_s = 1.0

    def __init__(
        self,
        *,
        client: EtcdClient,
        keys: Keys,
        worker: str,
        catalog: Catalog,
        members: Members,
        beats: Beats,
        kills: Kills,
        queue: RequestQueue,
        settlement: Settlement,
        clock: Clock,
    ) -> None:
        self._client = client
        self._keys = keys
        self._worker = worker
        self._catalog = catalog
        self._members = members
        self._beats = beats
        self._kills = kills
        self._queue = queue
        self._settlement = settlement
        self._clock = clock
        self._aside = Aside("stuck request")
        self._claimable_since: dict[str, int] = {}

    def begin(self) -> None:
        self._claimable_since.clear()

    def end(self) -> None:
        self._claimable_since.clear()

    async def perform(self, term: Term) -> None:
        now_ms = self._clock.wall_ms()
        waiting: list[Request] = []
        for requests in list(self._queue.by_job.values()):
            in_order = sorted(requests.values(), key=order_of)
            ended = 0
            for request in in_order:
                with self._aside.apart(str(request.run_id), request.revision):
                    ended += await self._end_if_hopeless(term, request, now_ms)
            if in_order and not ended:
                waiting.append(in_order[0])
        await self._renew(term, waiting, now_ms)

    async def _end_if_hopeless(self, term: Term, request: Request, now_ms: int) -> bool:
        end = self._end_of(request, now_ms)
        if end is not None:
            await self._end(term, request, end, now_ms=now_ms)
        return end is not None

    def _end_of(self, request: Request, now_ms: int) -> _End | None:
        """How a request ends that cannot run any more; what this worker believes for it, etcd has to confirm."""
        name = request.run_id.job
        job_key, job = self._keys.job(name), self._catalog.jobs.get(name)
        if (kill := self._kills.by_run.get(request.run_id)) is not None:
            there = create_revision_is(self._keys.kill(request.run_id), kill.revision)
            return _End(Verdict.KILLED, "before start", by=kill.by, confirm=there)
        if job is None and name not in self._catalog.set_aside:
            return _End(Verdict.SKIPPED, "deleted", confirm=absent(job_key))
        if job is not None and job.create_revision != request.job_create_revision:
            return _End(Verdict.SKIPPED, "deleted", confirm=create_revision_is(job_key, job.create_revision))
        if job is not None and not job.spec.enabled and request.trigger is Trigger.SCHEDULE:
            return _End(Verdict.SKIPPED, "paused", confirm=mod_revision_is(job_key, job.revision))
        if request.expires_ms is not None and now_ms > request.expires_ms:
            nobody = not self._members.accepting()
            return _End(Verdict.MISSED, "no eligible worker" if nobody else f"expired: {request.origin}")
        return None

    async def _end(self, term: Term, request: Request, end: _End, *, now_ms: int) -> None:
        job = self._catalog.jobs.get(request.run_id.job)
        record = RunRecord(
            run_id=request.run_id, status=end.status, reason=end.reason, err=f"{end.status}: {end.reason}",
            by=end.by or request.by, command=job.spec.command_line[:_COMMAND_SHOWN] if job else "",
            labels=job.spec.labels if job else {}, plan_ms=request.plan_ms,
            create_ms=now_ms, end_ms=now_ms, trigger=request.trigger,
        )  # fmt: skip
        key, request_key = self._keys.run(request.run_id), self._keys.request(request.run_id)
        operations: list[Operation] = [
            Delete(request_key),
            Put(self._keys.seen(Watched.REQUESTS), b""),
            Put(key, final_entry(record, worker=self._worker).to_json()),
        ]
        compares = [*term.holds, mod_revision_is(request_key, request.revision), absent(key)]
        compares += [end.confirm] if end.confirm is not None else []
        result = await self._client.txn(compares, operations)
        if result.succeeded:
            self._settlement.deliver_final(record, result.revision)

    async def _renew(self, term: Term, waiting: list[Request], now_ms: int) -> None:
        """Puts again what was claimable for 5 s: its lock free, its time come, a worker with a free slot there."""
        candidates = [one for one in waiting if one.not_before_ms + CLAIMABLE_FOR_MS <= now_ms]
        if not candidates or not self._beats.any_free(list(self._members.accepting())):
            self._claimable_since.clear()
            return
        held = await self._client.get_many([self._keys.lock(one.run_id.job) for one in candidates], keys_only=True)
        claimable = {str(one.run_id): one for one in candidates if self._may_start(one, held)}
        self._claimable_since = {name: self._claimable_since.get(name, now_ms) for name in claimable}
        overdue = (name for name, since in self._claimable_since.items() if now_ms - since >= CLAIMABLE_FOR_MS)
        for name in list(islice(overdue, _RENEWED_IN_ONE_TURN)):
            await self._put_again(term, claimable[name], now_ms)

    def _may_start(self, request: Request, held: Container[str]) -> bool:
        job = self._catalog.jobs.get(request.run_id.job)
        return job is not None and not (job.takes_lock and self._keys.lock(job.sequence) in held)

    async def _put_again(self, term: Term, request: Request, now_ms: int) -> None:
        key = self._keys.request(request.run_id)
        renewed = replace(request, not_before_ms=now_ms)
        result = await self._client.txn(
            [*term.holds, mod_revision_is(key, request.revision)],
            [Put(key, renewed.to_json()), Put(self._keys.seen(Watched.REQUESTS), b"")],
        )
        self._claimable_since.pop(str(request.run_id), None)
        if result.succeeded:
            extra = {"action": "request.renewed", "run": str(request.run_id)}
            _log.info("%s is put again: nobody has claimed it", request.run_id, extra=extra)
