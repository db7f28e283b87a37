"""Requests that cannot run any more get their record from the steward; those that no worker sees are put again.

Only the steward turns a request into a final run key: expired, its job gone, made again or paused, killed before its
claim, (a retry) overtaken by a newer fire, or not believed for a day. One that was claimable for 5 s without being
claimed is put again with a new not-before, so that every worker tries it anew.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Final

from common.clock import Clock
from common.etcd import EtcdClient
from common.protocol.absence import why_no_worker
from common.protocol.follow_ups import NOTHING, FollowUp, next_link
from common.protocol.keys import Keys, read_mark
from common.protocol.planned_job import PlannedJob
from common.protocol.records import request_record
from common.protocol.request import Origin, Request
from common.protocol.request_writes import RequestEnd, end_request, is_overtaken, put_again
from common.protocol.txn import KeyValue
from worker.catalog import Catalog
from worker.kills import Kills
from worker.lead.leader import RoundRobin, Term
from worker.members import Beats, Members
from worker.plan.pending_requests import Lineup, order_of
from worker.plan.request_queue import AT_ONCE, RequestQueue
from worker.quarantine import Quarantine
from worker.record.settlement import Settlement

_log = logging.getLogger(__name__)

CLAIMABLE_FOR_MS: Final = 5000
"""Then the steward puts a request again. As long as `OFFER_AFTER_MS`, and not bound to it."""
_IN_A_TURN: Final = 1_000
"""Each `after` job has a request that waits for its time: of those jobs the steward looks at so many in one turn."""
_TURNS: Final = 60
"""Within so many it has looked at all."""
_DOUBTED_FOR_MS: Final = 86_400_000
"""After so long no worker that asks for signatures runs what was asked for: no grant is good for longer."""
_RENEWED_IN_ONE_TURN: Final = 200
_ENDED_IN_ONE_TURN: Final = 200
"""One after the other: the steward's other duties wait as long."""
_YIELD_EVERY: Final = 50
_PASSED_BY: Final = 500
"""So many jobs are passed by, or looked at, before others have their turn."""
_IN_VAIN: Final = "late: no worker started it in time"
_LATE: Final[Mapping[Origin, str]] = {
    Origin.OFFERED: "late: it was offered to all workers, and none started it in time",
    Origin.HANDED_ON: "late: its worker could not start it and handed it on, and none started it in time",
    Origin.CATCH_UP: "late: it was to be made up for, and no worker started it in time",
}
"""Why a request was there that has expired."""


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
        fault_of: Callable[[Request], str | None] = lambda _: None,
    ) -> None:
        """``fault_of``: why a worker with this one's configuration would never run it; None: it would."""
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
        self._fault_of = fault_of
        self._quarantine = Quarantine("stuck request")
        self._claimable_since: dict[str, int] = {}
        self._round_robin = RoundRobin(lambda: self._queue.by_job, at_least=_IN_A_TURN, turns=_TURNS)
        self._to_end: dict[str, tuple[Request, RequestEnd]] = {}
        """By run, those that have not had their turn."""
        self._ending = RoundRobin(lambda: self._to_end, at_least=_ENDED_IN_ONE_TURN, turns=sys.maxsize)

    def begin(self) -> None:
        self._claimable_since.clear()
        self._to_end.clear()
        self._queue.due_jobs.begin()
        self._round_robin.begin()
        self._ending.begin()

    def end(self) -> None:
        self._claimable_since.clear()
        self._to_end.clear()
        self._queue.due_jobs.end()

    async def perform(self, term: Term) -> None:
        now_ms = self._clock.wall_ms()
        waiting: list[Request] = []
        looked_at = 0
        lineups = await self._lineups(now_ms)
        self._to_end.clear()
        marks = await self._marks(lineups)
        for index, requests in enumerate(lineups, 1):
            if index % _PASSED_BY == 0:
                await asyncio.sleep(0)
            in_order = sorted(requests.values(), key=order_of)
            before = len(self._to_end)
            for request in in_order:
                looked_at += 1
                if looked_at % _YIELD_EVERY == 0:
                    await asyncio.sleep(0)
                with self._quarantine.isolate(str(request.run_id), request.revision):
                    job = self._catalog.of_run(request.run_id)
                    if (end := self._end_of(request, job, marks, now_ms)) is not None:
                        self._to_end[str(request.run_id)] = request, end
            if len(self._to_end) == before:  # those of the job's requests that a worker should be claiming
                ready = [one for one in in_order if one.not_before_ms <= now_ms]
                job = self._catalog.of_run(ready[0].run_id) if ready else None
                waiting += ready[: AT_ONCE if job is not None and not job.takes_lock else 1]
        await self._find_doubted(now_ms)
        await self._end_some(term, now_ms)
        await self._renew(term, waiting, now_ms)

    async def _find_doubted(self, now_ms: int) -> None:
        """Those that this worker has set aside, and none will run any more."""
        for index, request in enumerate(list(self._queue.set_aside.values()), 1):
            if index % _PASSED_BY == 0:
                await asyncio.sleep(0)
            with self._quarantine.isolate(str(request.run_id), request.revision):
                if (end := self._doubted(request, now_ms)) is not None:
                    self._to_end[str(request.run_id)] = request, end

    async def _end_some(self, term: Term, now_ms: int) -> None:
        """In rounds: those that etcd does not let it end hold up no others."""
        for name in self._ending.turn():
            if (found := self._to_end.pop(name, None)) is not None:
                request, end = found
                with self._quarantine.isolate(name, request.revision):
                    await self._end(term, request, end, now_ms=now_ms)

    async def _lineups(self, now_ms: int) -> list[Lineup]:
        """Of the jobs that have something due, killed or left to be ended; and of some others, which may have been
        deleted or paused.
        """
        due = await self._queue.due_jobs.at(now_ms)
        killed = (run_id.job for run_id in self._kills.by_run)
        left = (request.run_id.job for request, _ in self._to_end.values())
        lineups = []
        for index, job in enumerate(dict.fromkeys([*due, *killed, *left, *self._round_robin.turn()]), 1):
            if index % _PASSED_BY == 0:
                await asyncio.sleep(0)
            if (lineup := self._queue.by_job.get(job)) is not None:
                lineups.append(lineup)
        return lineups

    async def _marks(self, lineups: Iterable[Lineup]) -> Mapping[str, KeyValue]:
        """The marks of those jobs that have a retry waiting which a newer fire may overtake."""
        wanted: set[str] = set()
        for index, requests in enumerate(lineups, 1):
            if index % _PASSED_BY == 0:
                await asyncio.sleep(0)
            wanted.update(self._keys.mark(one.run_id.job) for one in requests.values() if one.mark_ms is not None)
        return await self._client.get_many(list(wanted)) if wanted else {}

    def _end_of(
        self, request: Request, job: PlannedJob | None, marks: Mapping[str, KeyValue], now_ms: int
    ) -> RequestEnd | None:
        """How a request ends that cannot run any more; what this worker believes for it, etcd has to confirm."""
        name = request.run_id.job_name
        if (kill := self._kills.believed(request.run_id)) is not None:
            return RequestEnd.killed(self._keys, kill)
        if job is None and name not in self._catalog.set_aside:
            return RequestEnd.deleted(self._keys, name, None)
        if job is not None and job.create_revision != request.job_create_revision:
            return RequestEnd.deleted(self._keys, name, job)
        if job is not None and not request.is_of_scope(job.spec):
            return RequestEnd.out_of_scope(self._keys, job)
        if job is not None and not job.spec.enabled and not request.is_asked_for:
            return RequestEnd.paused(self._keys, job)
        if request.is_expired(now_ms):
            is_in_vain = not (self._members.accepting() if job is None else self._members.eligible(job))
            return RequestEnd.missed(self._no_worker(job) if is_in_vain else _LATE.get(request.origin, _IN_VAIN))
        # One worker's alone, of a broadcast job, which has been of no use for longer than the window: it may never come
        # back under this name, and such a request need not expire.
        if job is not None and job.of_worker is not None and not self._members.eligible(job):
            due_ms = max(request.dispatch_ms, request.not_before_ms)
            if now_ms > due_ms + job.spec.misfire.window_ms:
                return RequestEnd.missed(self._no_worker(job))
        # A retry whose place a newer fire has taken; a mark never goes back: only the job has to stay.
        mark_ms = read_mark(marks.get(self._keys.mark(request.run_id.job)))
        if job is not None and is_overtaken(request, job, mark_ms):
            return RequestEnd.overtaken(self._keys, job)
        return self._doubted(request, now_ms)

    def _doubted(self, request: Request, now_ms: int) -> RequestEnd | None:
        """No worker believes it, for so long that none will: it would lie there for ever."""
        times = [request.run_id.asked_or_planned_ms, request.dispatch_ms]
        if request.grant is not None:
            times.append(request.grant.not_before_ms)
        fault = self._fault_of(request) if now_ms > max(times) + _DOUBTED_FOR_MS else None
        return None if fault is None else RequestEnd.missed(f"not believed: it {fault}")

    def _no_worker(self, job: PlannedJob | None) -> str:
        """Why no worker could take it, as far as the job can be read; of a broadcast job, why its worker could not."""
        if job is None:
            return "no eligible worker"
        members = [one for one in self._members.by_key.values() if job.of_worker in (None, one.worker)]
        if job.of_worker is not None and not members:
            return f"no eligible worker: {job.of_worker} is not live"
        return f"no eligible worker: {why_no_worker(job.spec, members)}"

    async def _end(self, term: Term, request: Request, end: RequestEnd, *, now_ms: int) -> None:
        job = self._catalog.of_run(request.run_id)
        record = request_record(
            request, job, status=end.status, reason=end.reason, err=end.err, by=end.by, now_ms=now_ms
        )  # fmt: skip
        # What goes on with the chain of an `after` job, of which this request was to be a run.
        in_chain = request.origin in (Origin.CHAIN, Origin.HANDED_ON, Origin.RETRY, Origin.RERUN)
        follow_up: FollowUp = NOTHING
        if job is not None and in_chain and job.create_revision == request.job_create_revision:
            follow_up = next_link(self._keys, job, end_ms=now_ms, last_plan_ms=request.plan_ms)
        result = await self._client.txn(
            end_request(self._keys, request, end, record, follow_up, worker=self._worker, guards=term.holds)
        )
        if result.succeeded:
            self._settlement.deliver_final(record, result.revision)

    async def _renew(self, term: Term, waiting: list[Request], now_ms: int) -> None:
        """Puts again what was claimable for 5 s: its lock free, its time come, a worker with a free slot there."""
        candidates = [
            one for one in waiting
            if one.not_before_ms + CLAIMABLE_FOR_MS <= now_ms
            and (job := self._catalog.of_run(one.run_id)) is not None
            and self._beats.any_free(self._members.eligible(job), job.spec.slots)
        ]  # fmt: skip
        if not candidates:
            self._claimable_since.clear()
            return
        held = await self._client.get_keys([self._keys.lock(one.run_id.job) for one in candidates])
        claimable = {
            str(one.run_id): one for one in candidates
            if (job := self._catalog.of_run(one.run_id)) is not None
            and not (job.takes_lock and self._keys.lock(job.sequence) in held)
        }  # fmt: skip
        self._claimable_since = {name: self._claimable_since.get(name, now_ms) for name in claimable}
        overdue = (name for name, since in self._claimable_since.items() if now_ms - since >= CLAIMABLE_FOR_MS)
        for name in list(islice(overdue, _RENEWED_IN_ONE_TURN)):
            result = await self._client.txn(put_again(self._keys, claimable[name], now_ms=now_ms, guards=term.holds))
            self._claimable_since.pop(name, None)
            if result.succeeded:
                extra = {"action": "request.renewed", "run": name}
                _log.info("%s is put again: nobody has claimed it", name, extra=extra)
