"""Kills: a user's wish to end runs, written to etcd for the workers to see. A kill never reaches a later fire."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from functools import partial

from common.clock import Clock
from common.errors import OvertakenError
from common.etcd import EtcdClient
from common.etcd.settle import Patience, settle
from common.jobs.reader import check_name
from common.protocol.keys import Keys, RunId
from common.protocol.kill import Kill, ask, earlier, look
from common.protocol.run import EntryState, RunEntry
from common.protocol.signatures import Seal
from common.protocol.txn import KeyValue
from manager.use_cases.jobs import trust_clock
from manager.views.pending import is_request_of

_log = logging.getLogger(__name__)

_KILLS_AT_ONCE = 16


class KillOutcome(Enum):
    """What asking for the end of one run found."""

    ASKED = auto()
    HAD_ENDED = auto()
    """Its record is on its way to the log."""
    NOT_THERE = auto()
    """It has no key: its record is in the log, or there never was such a run, or it is not due yet."""


class KillService:
    """Asks for the end of runs; whether and how they ended is for the log to say."""

    def __init__(
        self,
        etcd: EtcdClient,
        keys: Keys,
        *,
        clock: Clock,
        patience_s: float,
        refuse_wrong_clock: Callable[[], Awaitable[None]] = trust_clock,
        seal: Seal | None = None,
    ) -> None:
        """``seal``: signs them, for workers that believe nothing else.

        ``refuse_wrong_clock``: as for `JobService`; which runs have begun is told by the clock, one run is named."""
        self._refuse_wrong_clock = refuse_wrong_clock
        self._seal = seal
        self._etcd = etcd
        self._keys = keys
        self._clock = clock
        self._patience_s = patience_s

    async def of_job(self, name: str, *, by: str, reason: str | None = None) -> tuple[RunId, ...]:
        """Ask for the end of every run of this name that has begun; a later fire is never reached. Which these are."""
        check_name(name)
        await self._refuse_wrong_clock()
        now_ms = self._clock.wall_ms()
        runs = await self._running(name, now_ms)
        limit = asyncio.Semaphore(_KILLS_AT_ONCE)
        deadline = self._clock.monotonic() + self._patience_s

        async def ask(run: RunId) -> bool:
            async with limit:
                return await self._put_kill(self._kill(run, by=by, at_ms=now_ms, reason=reason), deadline)

        asked = await asyncio.gather(*map(ask, runs))
        killed = tuple(run for run, put in zip(runs, asked, strict=True) if put)
        for run in killed:
            _log.info("%s is to be killed", run, extra={"action": "run.kill", "run": str(run), "by": by})
        return killed

    async def of_run(self, run: RunId, *, by: str, reason: str | None = None) -> KillOutcome:
        """Ask for the end of one run, where it is going; of one that waits to be claimed, that it never starts."""
        check_name(run.job_name)
        kill = self._kill(run, by=by, at_ms=self._clock.wall_ms(), reason=reason)
        deadline = self._clock.monotonic() + self._patience_s
        while True:
            there = await self._where(run)
            if there is None:
                return KillOutcome.NOT_THERE
            is_claimed = there.key == self._keys.run(run)
            if is_claimed and not _is_open(there.value):
                return KillOutcome.HAD_ENDED
            if await self._put_kill(kill, deadline, there):
                break
            # It has been claimed, or handed on, meanwhile: then it lies under its other key.
            if self._clock.monotonic() > deadline:
                raise OvertakenError(f"{run} was not asked to end: it went from worker to worker meanwhile; try again")
        _log.info("%s is to be killed", run, extra={"action": "run.kill", "run": str(run), "by": by})
        return KillOutcome.ASKED

    def _kill(self, run: RunId, *, by: str, at_ms: int, reason: str | None) -> Kill:
        kill = Kill(run_id=run, by=by, at_ms=at_ms, reason=reason)
        return kill if self._seal is None else kill.sealed(self._seal)

    async def _where(self, run: RunId) -> KeyValue | None:
        """The run's key, or else its request's; a claim turns one into the other, so both are read at one revision."""
        found = await self._etcd.txn(look(self._keys, run))
        chain = found.one(2)
        link = chain if chain is not None and is_request_of(self._keys, chain, run) else None
        return found.one(0) or found.one(1) or link

    async def _running(self, name: str, now_ms: int) -> list[RunId]:
        """The runs of the job that have begun, also those of a broadcast job's workers."""
        runs: list[RunId] = []
        for prefix in (self._keys.runs_of(name), self._keys.own_runs_of(name)):
            async for page in self._etcd.read_prefix(prefix):
                for kv in page.kvs:
                    try:
                        run, entry = self._keys.run_of(kv.key), RunEntry.from_json(kv.value)
                    except ValueError:
                        continue  # somebody else's; the steward sets it aside
                    if entry.state is EntryState.OPEN and entry.dispatch_ms <= now_ms:
                        runs.append(run)
        return runs

    async def _put_kill(self, kill: Kill, deadline: float, there: KeyValue | None = None) -> bool:
        """Whether the run was still open, or as it was read. UnsettledError: it may be killed, or not."""

        def in_doubt(error: Exception) -> str:
            return f"{kill.run_id} may or may not be killed: etcd gave no answer. ({error})"

        txn, patience = ask(self._keys, kill, there), Patience.until(deadline, self._clock, in_doubt)
        return (await settle(self._etcd, self._clock, txn, patience, partial(earlier, txn, there))).done


def _is_open(value: bytes) -> bool:
    try:
        return RunEntry.from_json(value).state is EntryState.OPEN
    except ValueError:
        return False  # somebody else's; the steward sets it aside
