"""The steward's third duty: requests that cannot run any more get their record; those that nobody sees are put again.

Only the steward turns a request into a final run key: expired, its job gone, made again or paused, or killed before
its claim. A request that was claimable for 5 s without being claimed is put again with a new not-before, so that every
worker tries it anew.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

from common.clock import Clock
from common.etcd import Delete, EtcdClient, Operation, Put, absent, mod_revision_is
from common.keys import Keys, Watched
from common.request import Request
from common.run import RunRecord, Trigger, Verdict, final_entry
from worker.catalog import Catalog
from worker.kills import Kills
from worker.members import Members
from worker.request_queue import RequestQueue
from worker.settlement import Settlement
from worker.steward import Term

_log = logging.getLogger(__name__)

CLAIMABLE_FOR_MS: Final = 5000


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
        self._kills = kills
        self._queue = queue
        self._settlement = settlement
        self._clock = clock
        self._claimable_since: dict[str, int] = {}

    def begin(self) -> None:
        self._claimable_since.clear()

    async def perform(self, term: Term) -> None:
        now_ms = self._clock.wall_ms()
        waiting: list[Request] = []
        for request in [one for requests in self._queue.by_job.values() for one in requests.values()]:
            verdict = self._verdict(request, now_ms)
            if verdict is not None:
                await self._end(term, request, *verdict, now_ms=now_ms)
            elif request is min(self._queue.by_job[request.run_id.job].values(), key=lambda one: one.plan_ms):
                waiting.append(request)
        await self._renew(term, waiting, now_ms)

    def _verdict(self, request: Request, now_ms: int) -> tuple[Verdict, str, str | None] | None:
        """How a request ends that cannot run any more."""
        kill = self._kills.by_run.get(request.run_id)
        job = self._catalog.jobs.get(request.run_id.job)
        if kill is not None:
            return Verdict.KILLED, "before start", kill.by
        if request.run_id.job in self._catalog.set_aside:
            return None
        if job is None or job.create_revision != request.job_create_revision:
            return Verdict.SKIPPED, "deleted", None
        if not job.spec.enabled and request.trigger is Trigger.SCHEDULE:
            return Verdict.SKIPPED, "paused", None
        if request.expires_ms is not None and now_ms > request.expires_ms:
            nobody = not self._members.accepting()
            return Verdict.MISSED, "no eligible worker" if nobody else f"expired: {request.origin}", None
        return None

    async def _end(
        self, term: Term, request: Request, status: Verdict, reason: str, by: str | None, *, now_ms: int
    ) -> None:
        job = self._catalog.jobs.get(request.run_id.job)
        record = RunRecord(
            run_id=request.run_id, status=status, reason=reason, err=f"{status}: {reason}", by=by or request.by,
            command=job.spec.command if job else "", labels=job.spec.labels if job else {}, plan_ms=request.plan_ms,
            create_ms=now_ms, end_ms=now_ms, trigger=request.trigger,
        )  # fmt: skip
        key, request_key = self._keys.run(request.run_id), self._keys.request(request.run_id)
        operations: list[Operation] = [
            Delete(request_key),
            Put(self._keys.seen(Watched.REQUESTS), b""),
            Put(key, final_entry(record, worker=self._worker).to_json()),
        ]
        compares = [*term.holds, mod_revision_is(request_key, request.revision), absent(key)]
        result = await self._client.txn(compares, operations)
        if result.succeeded:
            self._settlement.deliver_final(record, result.revision)

    async def _renew(self, term: Term, waiting: list[Request], now_ms: int) -> None:
        """Puts again what was claimable for 5 s: its lock free, its time come, a worker there."""
        candidates = [one for one in waiting if one.not_before_ms + CLAIMABLE_FOR_MS <= now_ms]
        if not candidates or not self._members.accepting():
            self._claimable_since.clear()
            return
        held = await self._client.get_many([self._keys.lock(one.run_id.job) for one in candidates], keys_only=True)
        claimable = {
            str(one.run_id): one for one in candidates if self._keys.lock(one.run_id.job) not in held
        }
        self._claimable_since = {name: self._claimable_since.get(name, now_ms) for name in claimable}
        for name, request in claimable.items():
            if now_ms - self._claimable_since[name] >= CLAIMABLE_FOR_MS:
                await self._put_again(term, request, now_ms)

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
