"""Giving up a run that its worker cannot settle: a wish in etcd, which the steward carries out. Never of a well run."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final

from common.access.rights import Rights
from common.clock import Clock
from common.errors import ConflictError, EtcronError, OvertakenError
from common.etcd import EtcdClient
from common.etcd.settle import Patience, growing_pause_s, settle
from common.jobs.reader import check_name
from common.protocol import give_up
from common.protocol.give_up import GiveUp
from common.protocol.keys import Keys, RunId
from common.protocol.kill import OVERDUE_MS, Kill, is_reached
from common.protocol.run import EntryState, RunEntry
from common.protocol.saved_job import SavedJob
from common.protocol.txn import Get, Guards, KeyValue, Txn
from manager.http.allowances import refuse_beyond
from manager.use_cases.jobs import trust_clock
from manager.use_cases.kills import KillOutcome
from manager.use_cases.run_rights import RunLabels, check_run
from manager.views.ending import EndingRunsView

_log = logging.getLogger(__name__)

MOST_GIVEN_UP: Final = 100
"""Wishes of one job that the steward has not carried out yet."""


class GiveUpService:
    """Asks for runs to be given up; whether they were is for the log to say."""

    def __init__(
        self,
        etcd: EtcdClient,
        keys: Keys,
        ending: EndingRunsView,
        *,
        clock: Clock,
        patience_s: float,
        refuse_wrong_clock: Callable[[], Awaitable[None]] = trust_clock,
    ) -> None:
        """``refuse_wrong_clock``: as for `JobService`; how long a kill has been pending depends on the clock."""
        self._etcd = etcd
        self._keys = keys
        self._ending = ending
        self._clock = clock
        self._patience_s = patience_s
        self._refuse_wrong_clock = refuse_wrong_clock
        self._labels = RunLabels(etcd, keys)

    async def of_run(self, run: RunId, *, by: str, rights: Rights, reason: str) -> KillOutcome:
        """Ask for it. ConflictError: the run is well, or may be; the message says what to do instead.

        NotFoundError: the caller may not know of it. ForbiddenError: they may, and may not end it.

        UnsettledError: it may have been asked for.
        """
        check_name(run.job_name)
        await self._refuse_wrong_clock()
        is_ending = await self._ending.of(run) is not None
        wish = GiveUp(run_id=run, by=by, at_ms=self._clock.wall_ms(), reason=reason, is_of_ending=is_ending)
        deadline, tries = self._clock.monotonic() + self._patience_s, 0

        def in_doubt(error: Exception) -> str:
            return f"{run} may or may not be given up: etcd gave no answer. ({error})"

        patience = Patience.until(deadline, self._clock, in_doubt)
        while True:
            there = await self._etcd.get(self._keys.run(run))
            if there is None:
                if (request := await self._etcd.get(self._keys.request(run))) is not None:
                    check_run(run, (await self._labels.of_request(run, request))[0], rights)
                    raise ConflictError(f"{run} has not begun, and holds nothing: kill it, then it never starts")
                return KillOutcome.NOT_THERE
            check_run(run, await self._labels.of(run, there), rights)
            try:
                entry = RunEntry.from_json(there.value)
            except ValueError:
                return KillOutcome.HAD_ENDED  # not ours; the steward quarantines it
            if entry.state is EntryState.FINAL:
                return KillOutcome.HAD_ENDED
            allowed: Guards | None = [] if is_ending else await self._allowed(run, entry, there)
            if allowed is None:
                return KillOutcome.HAD_ENDED
            refuse_beyond(
                MOST_GIVEN_UP, await self._etcd.count(self._keys.give_ups_of(run.job)), f"runs of {run.job} given up"
            )
            txn = give_up.ask(self._keys, wish, there, allowed)
            if (await settle(self._etcd, self._clock, txn, patience, partial(give_up.earlier, txn))).done:
                break
            if self._clock.monotonic() > deadline:
                raise OvertakenError(f"{run} was not given up: it changed again and again meanwhile; try again")
            tries += 1
            await asyncio.sleep(growing_pause_s(tries))
        extra = {"action": "run.give_up", "run": str(run), "by": by}
        _log.warning("%s is to be given up: %s", run, reason, extra=extra)
        return KillOutcome.ASKED

    async def _allowed(self, run: RunId, entry: RunEntry, there: KeyValue) -> Guards | None:
        """What has to stay true for it; None: it has ended, and its worker sees to its record."""
        keys = self._keys
        session = keys.worker(entry.worker, entry.session)
        found = await self._etcd.txn(Txn((), [Get(session), Get(keys.kill(run)), Get(keys.job(run.job_name))]))
        is_live, kill, job = found.one(0) is not None, found.one(1), found.one(2)
        if not is_live:
            return give_up.while_gone(session)
        if entry.state is EntryState.ENDED:
            return None
        if kill is None or not is_reached(there, kill):
            raise ConflictError(
                f"{run} runs on {entry.worker}, which is live: kill it instead; it can be given up where it has not "
                f"ended {OVERDUE_MS // 1000} s after that and its grace"
            )
        try:
            pending = Kill.from_json(kill.value, run_id=run, revision=kill.create_revision)
        except ValueError as error:
            raise ConflictError(f"{run} has a kill that cannot be read: kill it again ({error})") from error
        grace_s: float = 0
        if job is not None:
            with suppress(EtcronError):  # of the job as it is now, if it can be read
                grace_s = SavedJob.from_json(job.value, name=run.job_name).spec.kill_grace_s
        if (left_ms := pending.overdue_in_ms(self._clock.wall_ms(), grace_s=grace_s)) > 0:
            raise ConflictError(
                f"{run} was asked to end, and {entry.worker}, which is live, may still end it: "
                f"give it up in {math.ceil(left_ms / 1000)} s if it has not"
            )
        return give_up.while_pending(kill)
