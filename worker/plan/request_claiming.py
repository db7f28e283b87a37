"""Claims of requests on their way to etcd: each is sent, identical, until it is known what became of it.

A claim in doubt that was refused for a lock may still be carried out when that is free, so it is watched on; but not
being carried out so far, it takes no slot meanwhile, and stands in the way of no other claim. Should it be carried out
after all, its run waits for slots like any other, or is handed on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from common.clock import Clock
from common.errors import EtcdError, UnavailableError
from common.etcd import EtcdClient, Session
from common.etcd.settle import Bears, Patience, settle
from common.process import failpoints
from common.protocol.keys import Keys, read_mark
from common.protocol.member import WorkerIdentity
from common.protocol.planned_job import PlannedJob
from common.protocol.request import Request
from common.protocol.request_writes import NO_LIMIT_MS, RequestClaim, claim_of, is_overtaken
from common.protocol.txn import KeyValue
from worker.refusals import Refusals
from worker.runs import Run, RunTable

_RETRY_S: Final = 0.3
_LOOK_AGAIN_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What became of a try."""

    run: Run | None = None
    """The run that it has claimed."""
    met_lock: bool = False


NOTHING: Final = Tried()


class RequestClaiming:
    """Sends claims, and counts what they may turn into."""

    def __init__(
        self,
        *,
        client: EtcdClient,
        keys: Keys,
        identity: WorkerIdentity,
        lost_after_ms: int,
        table: RunTable,
        refusals: Refusals,
        clock: Clock,
        on_room: Callable[[], None],
    ) -> None:
        """``on_room``: one claim more may be sent."""
        self._client = client
        self._keys = keys
        self._identity = identity
        self._lost_after_ms = lost_after_ms
        self._refusals = refusals
        self._clock = clock
        self._on_room = on_room
        self._table = table
        self.unsettled = 0
        """Claims of which it is not known what becomes of them."""
        self.sending = 0
        """Of these, those that may be carried out right now."""
        self.lost = 0
        """Since this process began: those that came after another worker's."""

    def count(self, slots: int) -> Counted:
        """Have a claim count from now on, also before it is sent."""
        return Counted(self, slots)

    async def claim(self, request: Request, job: PlannedJob, session: Session, counted: Counted) -> Tried:
        """Try once; ends when the claim certainly was carried out, or certainly never will be."""
        try:
            mark = None
            if request.mark_ms is not None and job.takes_lock:
                mark = await self._client.get(self._keys.mark(job.sequence))
                if is_overtaken(request, job, read_mark(mark)):
                    return NOTHING  # the steward's to end
            claim = self._claim(request, job, session, mark)
            if failpoints.armed:
                failpoints.hit("before_claim")
            patience = Patience(
                bears=Bears.DOUBT, pause_s=lambda _: _RETRY_S, look_again_s=_LOOK_AGAIN_S, on_open=counted.leave
            )
            settled = await settle(self._client, self._clock, claim.transaction(), patience, claim.earlier)
            if failpoints.armed and settled.answer.succeeded:
                failpoints.hit("after_claim")
            if settled.done:
                return Tried(run=claimed_run(claim, session, fence=settled.revision, sent=settled.sent))
            self.lost += claim.comes_late(settled.answer)
            return Tried(met_lock=claim.meets_lock(settled.answer))
        except (EtcdError, UnavailableError) as error:  # certainly not carried out
            self._refusals.note(str(request.run_id), error)
            await asyncio.sleep(_RETRY_S)
            return NOTHING

    def _claim(self, request: Request, job: PlannedJob, session: Session, mark: KeyValue | None) -> RequestClaim:
        return claim_of(
            request, job, session, keys=self._keys, identity=self._identity, lost_after_ms=self._lost_after_ms,
            now_ms=self._clock.wall_ms(), mark=mark,
        )  # fmt: skip


def claimed_run(claim: RequestClaim, session: Session, *, fence: int, sent: float) -> Run:
    """The run that it has claimed."""
    request = claim.request
    expires_ms = None if request.is_chain else request.expires_ms
    return Run(
        run_id=request.run_id, job=claim.job, entry=claim.entry, fence=fence, mod_revision=fence,
        session=session, sent=sent, request=request,
        start_by_ms=NO_LIMIT_MS if expires_ms is None else expires_ms,
    )  # fmt: skip


class Counted:
    """The share of one claim in what is counted."""

    def __init__(self, claiming: RequestClaiming, slots: int) -> None:
        self._claiming = claiming
        self._slots = slots
        self._counts = True
        claiming.unsettled += 1
        claiming.sending += 1
        claiming._table.claiming(slots)

    def settle(self) -> None:
        """It is known what became of the claim."""
        self.leave()
        self._claiming.unsettled -= 1

    def leave(self) -> None:
        """It takes no slots, and stands in no other's way; once is enough."""
        if self._counts:
            self._counts = False
            self._claiming.sending -= 1
            self._claiming._table.claiming(-self._slots)
            self._claiming._on_room()
