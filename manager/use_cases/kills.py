"""Kills: a user's wish to end runs, written to etcd for the workers to see. A kill never reaches a later fire."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from functools import partial

from common.access.rights import Rights, Role
from common.clock import Clock
from common.errors import EtcronError, ForbiddenError, OvertakenError
from common.etcd import EtcdClient
from common.etcd.settle import Patience, UnsettledError, settle
from common.jobs.reader import check_name
from common.protocol.edits import Stored
from common.protocol.keys import Keys, RunId
from common.protocol.kill import Kill, ask, earlier, look
from common.protocol.request import is_request_of
from common.protocol.run import EntryState, RunEntry
from common.protocol.signatures import Seal
from common.protocol.txn import KeyValue
from manager.use_cases.jobs import trust_clock
from manager.use_cases.run_rights import Labels, RunLabels, check_run

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

        ``refuse_wrong_clock``: as for `JobService`; which runs have begun depends on the clock, one run is named."""
        self._refuse_wrong_clock = refuse_wrong_clock
        self._seal = seal
        self._etcd = etcd
        self._keys = keys
        self._clock = clock
        self._patience_s = patience_s
        self._labels = RunLabels(etcd, keys)

    async def of_job(self, name: str, *, by: str, rights: Rights, reason: str | None = None) -> tuple[RunId, ...]:
        """Ask for the end of every run of this name that has begun; a later fire is never reached. Which these are.

        Only of those that the caller may end, by the labels that each carries. ForbiddenError: they may know of some,
        or of the job, and may end none. UnsettledError: some are asked to end, or may be, and not all.
        """
        check_name(name)
        await self._refuse_wrong_clock()
        now_ms = self._clock.wall_ms()
        runs = await self._endable(name, now_ms, rights)
        limit = asyncio.Semaphore(_KILLS_AT_ONCE)
        deadline = self._clock.monotonic() + self._patience_s

        async def ask(run: RunId, there: KeyValue) -> bool:
            async with limit:
                return await self._put_kill(self._kill(run, by=by, at_ms=now_ms, reason=reason), deadline, there)

        asked = await asyncio.gather(*(ask(*one) for one in runs), return_exceptions=True)
        killed = tuple(run for (run, _), put in zip(runs, asked, strict=True) if put is True)
        for run in killed:
            _log.info("%s is to be killed", run, extra={"action": "run.kill", "run": str(run), "by": by})
        errors = sorted((one for one in asked if isinstance(one, BaseException)), key=_rank)
        if not errors:
            return killed
        if not killed or not isinstance(errors[0], EtcronError):
            raise errors[0]
        is_doubt = isinstance(errors[0], UnsettledError)
        others = "; whether the others are is not known" if is_doubt else ", and not the others"
        message = f"{len(killed)} of {len(runs)} runs of {name} are asked to end{others}: {errors[0]}"
        raise UnsettledError(message) from errors[0]

    async def check(self, run: RunId, *, rights: Rights) -> bool:
        """Whether etcd knows this run, which the caller may end then; NotFoundError, ForbiddenError."""
        if (there := await self._where(run)) is None:
            return False
        await self._checked(run, there, rights)
        return True

    async def of_run(self, run: RunId, *, by: str, rights: Rights, reason: str | None = None) -> KillOutcome:
        """Ask for the end of one run, where it is going; of one that waits to be claimed, that it never starts.

        NotFoundError: the caller may not know of it. ForbiddenError: they may, and may not end it.
        """
        check_name(run.job_name)
        kill = self._kill(run, by=by, at_ms=self._clock.wall_ms(), reason=reason)
        deadline = self._clock.monotonic() + self._patience_s
        while True:
            there = await self._where(run)
            if there is None:
                return KillOutcome.NOT_THERE
            job_revision = await self._checked(run, there, rights)
            is_claimed = there.key == self._keys.run(run)
            if is_claimed and not _is_open(there.value):
                return KillOutcome.HAD_ENDED
            if await self._put_kill(kill, deadline, there, job_revision):
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
        link = chain if is_request_of(self._keys, chain, run) else None
        return found.one(0) or found.one(1) or link

    async def _checked(self, run: RunId, there: KeyValue, rights: Rights) -> int | None:
        """The revision at which the job has to be still, where the caller has the right by its labels."""
        if there.key == self._keys.run(run):
            for labels in await self._labels_of(run, there):
                check_run(run, labels, rights)
            return None
        labels, revision = await self._labels.of_request(run, there)
        check_run(run, labels, rights)
        return revision

    async def _labels_of(self, run: RunId, there: KeyValue) -> list[Labels | None]:
        """What a caller needs their right on. Where this manager signs, what a worker has written is not enough."""
        carried = await self._labels.of(run, there)
        vouched_for = None if self._seal is None else await self._labels.vouched_for(run, there)
        return [carried] if vouched_for is None else [carried, vouched_for]

    async def _endable(self, name: str, now_ms: int, rights: Rights) -> list[tuple[RunId, KeyValue]]:
        """The runs of the job that have begun, and that the caller may end."""
        begun = await self._running(name, now_ms)
        if rights.has_everywhere(Role.OPERATOR):
            return begun
        judged = [(one, await self._labels_of(*one)) for one in begun]
        endable = [one for one, labels in judged if all(rights.may(Role.OPERATOR, each) for each in labels)]
        if not endable:
            job = Stored.read(name, await self._etcd.get(self._keys.job(name)), None)
            may_end = job.job is not None and rights.may(Role.OPERATOR, job.labels)
            is_known = any(all(map(rights.sees, labels)) for _, labels in judged)
            if (is_known or (job.job is not None and rights.sees(job.labels))) and not may_end:
                raise ForbiddenError(f"job {name}: this needs the role operator on it; ask an administrator of etcron")
        return endable

    async def _running(self, name: str, now_ms: int) -> list[tuple[RunId, KeyValue]]:
        """The runs of the job that have begun, also those of a broadcast job's workers."""
        runs: list[tuple[RunId, KeyValue]] = []
        for prefix in (self._keys.runs_of(name), self._keys.own_runs_of(name)):
            async for page in self._etcd.read_prefix(prefix):
                for kv in page.kvs:
                    try:
                        run, entry = self._keys.run_of(kv.key), RunEntry.from_json(kv.value)
                    except ValueError:
                        continue  # not ours; the steward quarantines it
                    if entry.state is EntryState.OPEN and entry.dispatch_ms <= now_ms:
                        runs.append((run, kv))
        return runs

    async def _put_kill(self, kill: Kill, deadline: float, there: KeyValue, job_revision: int | None = None) -> bool:
        """Whether the run was as it was read, and the job too. UnsettledError: it may be killed, or not."""

        def in_doubt(error: Exception) -> str:
            return f"{kill.run_id} may or may not be killed: etcd gave no answer. ({error})"

        txn = ask(self._keys, kill, there, job_revision=job_revision)
        patience = Patience.until(deadline, self._clock, in_doubt)
        return (await settle(self._etcd, self._clock, txn, patience, partial(earlier, txn, there))).done


def _rank(error: BaseException) -> int:
    """First what was not foreseen, then what is in doubt."""
    return 2 - isinstance(error, UnsettledError) - 2 * (not isinstance(error, EtcronError))


def _is_open(value: bytes) -> bool:
    try:
        return RunEntry.from_json(value).state is EntryState.OPEN
    except ValueError:
        return False  # not ours; the steward quarantines it
