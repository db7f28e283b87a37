"""The log store forgets what is too old, or too much of one job: by the steward, in steps too small to disturb.

    records before (now - days), oldest first  ->  each job in turn: its oldest beyond the limit  ->  rest  ->  again

A step takes what one deletion of some hundred documents takes; after it, this rests for many times as long; less long
after a long pass, so that what goes keeps up with what comes. It runs beside the steward's duties, not among them: a
slow log store holds up no lost run. Two at once do no harm. What runs printed while a user looked goes after an hour.

A record whose run key is still in etcd stays (!): it is what settles that run. Without it the run of a worker that has
died after the delivery would be lost, and run again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from common.clock import Clock
from common.errors import EtcdError, UnavailableError
from common.etcd import EtcdClient
from common.jobs.values import is_job_name
from common.protocol.keys import Keys, RunId
from common.runlog import KeptJob, OldRecord, RetentionState, RunLog

_log = logging.getLogger(__name__)

STEP: Final = 200
"""Records, or jobs, in one step."""
REST: Final = 20.0
"""How many times as long as a step took, it rests after it."""
_LEAST_REST_S: Final = 0.05
_LONGEST_REST_S: Final = 30.0
_SHORTEST: Final = 1.0
"""And that many times at least, however far it has fallen behind."""
PASS_EVERY_S: Final = 600.0
"""From the end of a pass to the beginning of the next."""
_AWAY_S: Final = 30.0
_DAY_MS: Final = 86_400_000
_UNCOUNTED_MS: Final = 2 * 3_600_000
"""How long ago records were planned that go by number: the statistics have counted their hour when it was over."""
_LEFT_ALONE_MS: Final = 30 * _DAY_MS
"""How long the results of a deleted job stay where records go at no age."""
LIVE_MS: Final = 3_600_000
"""How long live output stays of a run whose worker has died."""


class Retention:
    """Passes through the log store for as long as this worker is steward."""

    def __init__(
        self,
        *,
        store: RunLog,
        client: EtcdClient,
        keys: Keys,
        worker: str,
        days: int,
        per_job: int,
        is_clock_off: Callable[[], bool],
        clock: Clock,
    ) -> None:
        """``days``, ``per_job``: 0 for no limit. ``is_clock_off``: by a wrong clock nothing is too old."""
        self._store = store
        self._client = client
        self._keys = keys
        self._worker = worker
        self._days = days
        self._per_job = per_job
        self._is_clock_off = is_clock_off
        self._clock = clock
        self._removed = 0
        self._rests = REST
        """How many times as long as a step it rests in this pass."""

    async def run(self) -> None:
        """Pass after pass, until cancelled; waits while the log store, or etcd, is away.

        What else it meets ends the pass, and not the term: one steward after the other would meet it, and stand down.
        """
        is_logged = False
        while True:
            began = self._clock.monotonic()
            try:
                await self._pass()
            except (EtcdError, UnavailableError) as error:
                level, is_logged = (logging.DEBUG if is_logged else logging.WARNING), True
                _log.log(level, "retention is postponed: %s", error, extra={"action": "retention.postponed"})
                await asyncio.sleep(_AWAY_S)
            except Exception:
                _log.exception("retention has failed, and is tried again", extra={"action": "retention.failed"})
                await asyncio.sleep(PASS_EVERY_S)
            else:
                is_logged = False
                self._rests = rests_after(self._clock.monotonic() - began)
                await asyncio.sleep(PASS_EVERY_S)

    async def _pass(self) -> None:
        await self._forget_live_output()
        if not self._days and not self._per_job:
            await self._store.put_retention(None)
            return
        if self._is_clock_off():
            return
        self._removed = 0
        if self._days:
            before_ms = self._clock.wall_ms() - self._days * _DAY_MS
            await self._remove(lambda after: self._store.old_records(before_ms, after=after, limit=STEP), before_ms)
        await self._look_at_jobs()
        if self._removed:
            extra = {"action": "retention.removed", "records": self._removed}
            _log.info("%s records were removed from the log store", self._removed, extra=extra)
        await self._store.put_retention(
            RetentionState(
                days=self._days, per_job=self._per_job, worker=self._worker, at_ms=self._clock.wall_ms(),
                removed=self._removed,
            )
        )  # fmt: skip

    async def _forget_live_output(self) -> None:
        """A user of the log store who may not write it has none: the console shows that, and nothing else does."""
        if self._is_clock_off():
            return
        try:
            await self._store.tails.forget(self._clock.wall_ms() - LIVE_MS)
        except UnavailableError as error:
            _log.debug("live output is left: %s", error, extra={"action": "retention.live_left"})

    async def _look_at_jobs(self) -> None:
        after = ""
        while True:
            began = self._clock.monotonic()
            page = await self._store.kept_jobs(after=after, limit=STEP)
            if not page:
                return
            await self._forget_deleted(page)
            await self._rest(began)
            for job in page if self._per_job else ():
                await self._trim(job.name)
            after = page[-1].name

    async def _trim(self, job: str) -> None:
        keep, before_ms = self._per_job, self._clock.wall_ms() - _UNCOUNTED_MS
        await self._remove(lambda after: self._store.records_beyond(job, keep, before_ms, after=after, limit=STEP))

    async def _remove(self, find: Callable[[str], Awaitable[list[OldRecord]]], before_ms: int | None = None) -> None:
        """What is found, step by step, but for the records that some run still waits for.

        ``before_ms``: a record of several fires goes when all of them were planned before.
        """
        after, more = "", True
        while more and not self._is_clock_off():
            began = self._clock.monotonic()
            found = await find(after)
            if found:
                past = [one.run_id for one in found if before_ms is None or (one.range_end_ms or 0) < before_ms]
                keys = {run_id: key for run_id in past if (key := self._key_of(run_id)) is not None}
                still_open = await self._client.get_keys(list(keys.values()))
                over = [run_id for run_id in past if keys.get(run_id) not in still_open]
                await self._store.remove(over)
                self._removed += len(over)
                after = found[-1].page_key
            more = len(found) == STEP
            await self._rest(began, least_s=_LEAST_REST_S if found else 0)

    def _key_of(self, run_id: str) -> str | None:
        """None: not one of ours, so that there is no run key."""
        try:
            return self._keys.run(RunId.parse(run_id))
        except ValueError:
            return None

    async def _forget_deleted(self, page: Sequence[KeptJob]) -> None:
        """What a job came to goes when the job is gone, and its newest record as old as records get."""
        if self._is_clock_off():
            return
        before_ms = self._clock.wall_ms() - (self._days * _DAY_MS or _LEFT_ALONE_MS)
        old = {self._keys.job(job.name): job for job in page if job.newest_ms < before_ms and is_job_name(job.name)}
        there = await self._client.get_keys(list(old)) if old else {}
        gone = [job for key, job in old.items() if key not in there]
        if gone:
            await self._store.forget_jobs(gone)

    async def _rest(self, began: float, *, least_s: float = _LEAST_REST_S) -> None:
        took_s = self._clock.monotonic() - began
        await asyncio.sleep(min(_LONGEST_REST_S, max(least_s, self._rests * took_s)))


def rests_after(pass_s: float) -> float:
    """How many times as long as a step to rest in the pass after one that took so many seconds.

    What a pass has to remove has come since the one before began: with rests of one length, passes would grow for ever.
    """
    return min(REST, max(_SHORTEST, REST * PASS_EVERY_S / max(PASS_EVERY_S, pass_s)))
