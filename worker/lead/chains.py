"""The steward's care for ``after`` jobs: a chain that was broken goes on.

Whatever frees the lock of an ``after`` job puts the next link, so such a job always has a run or a request. A link can
be missing all the same: a user deleted a key, or a worker that had not seen the save yet ended a run of the job that
was no ``after`` job before. Only jobs without a request are looked at, with one batched read, some thousands at a time;
the transaction compares that there is neither a lock nor a request that is not known here. A run that a user has
asked for at a later time is none: the chain does not wait for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from common.clock import Clock
from common.etcd import EtcdClient
from common.protocol.chain import is_chained
from common.protocol.follow_ups import mend_chain, next_link
from common.protocol.keys import Keys
from common.protocol.planned_job import PlannedJob
from common.protocol.request import Origin, Request
from worker.catalog import Catalog
from worker.lead.leader import RoundRobin, Term
from worker.plan.request_queue import RequestQueue
from worker.quarantine import Quarantine

_log = logging.getLogger(__name__)

LOOK_S: Final = 5.0
_IN_A_TURN: Final = 5_000
_TURNS: Final = 12
"""However many chains there are, each is looked at within a minute."""
_YIELD_EVERY: Final = 500


class Chains:
    """Mends chains."""

    name = "looking after chains"
    every_s = LOOK_S

    def __init__(self, *, client: EtcdClient, keys: Keys, catalog: Catalog, queue: RequestQueue, clock: Clock) -> None:
        self._client = client
        self._keys = keys
        self._catalog = catalog
        self._queue = queue
        self._clock = clock
        self._quarantine = Quarantine("chain")
        self._leading = False
        self._chained: dict[str, None] = {}
        self._round_robin = RoundRobin(lambda: self._chained, at_least=_IN_A_TURN, turns=_TURNS)

    def begin(self) -> None:
        self._leading = True
        self._round_robin.begin()
        self._chained = {name: None for name, job in self._catalog.jobs.items() if is_chained(job.spec)}

    def end(self) -> None:
        self._leading = False
        self._chained.clear()

    def job_changed(self, name: str) -> None:
        """The catalog has another revision of the job."""
        job = self._catalog.jobs.get(name)
        if self._leading and job is not None and is_chained(job.spec):
            self._chained[name] = None
        else:
            self._chained.pop(name, None)

    async def perform(self, term: Term) -> None:
        suspects, now_ms = [], self._clock.wall_ms()
        for index, name in enumerate(self._round_robin.turn(), 1):
            if index % _YIELD_EVERY == 0:
                await asyncio.sleep(0)
            if not self._goes_on(name, now_ms):
                suspects.append(name)
        if not suspects:
            return
        held = await self._client.get_keys([self._keys.lock(name) for name in suspects])
        for name in suspects:
            job = self._catalog.jobs.get(name)
            if job is None or name not in self._chained or self._keys.lock(name) in held:
                continue
            with self._quarantine.isolate(name, job.revision):
                await self._mend(term, job)

    def _goes_on(self, name: str, now_ms: int) -> bool:
        """Whether a request that is there continues the chain: a link, an attempt, or any that ends before long."""
        return any(one.origin is not Origin.RUN_NOW or one.not_before_ms <= now_ms for one in self._requests(name))

    def _requests(self, name: str) -> Iterable[Request]:
        lineup = self._queue.by_job.get(name)
        return () if lineup is None else lineup.values()

    async def _mend(self, term: Term, job: PlannedJob) -> None:
        """Never sooner than its delay from now: when its last run ended is not known."""
        now_ms = self._clock.wall_ms()
        if self._goes_on(job.name, now_ms):
            return  # a run was going when it was suspected, and its end has put the link since
        link = next_link(self._keys, job, end_ms=now_ms, last_plan_ms=now_ms)
        if link.request is None:
            return  # its window is over
        known = max((one.revision for one in self._requests(job.name)), default=0)
        result = await self._client.txn(
            mend_chain(self._keys, job, link, known_revision=known, guards=term.holds)
        )  # fmt: skip
        if result.succeeded:
            extra = {"action": "chain.mended", "job": job.name, "plan_ms": link.request.plan_ms}
            _log.warning("the chain of %r had no next link; it goes on", job.name, extra=extra)
