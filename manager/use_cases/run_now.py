"""Asking for a run beside the schedule: one etcd transaction, whatever else asks, and however often it is sent.

Each call has a key of its own under ``dedupe/``: the client's ``Idempotency-Key`` for a day, else a random one for a
minute. The transaction is :mod:`common.protocol.request_writes`.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final
from urllib.parse import quote

from common.access.rights import Rights, Role
from common.clock import Clock
from common.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    OvertakenError,
    Problem,
)
from common.etcd import EtcdClient
from common.etcd.settle import Patience, settle
from common.instants import iso
from common.jobs.job import JobSpec
from common.jobs.reader import check_name
from common.protocol.dedupe import Remembered, digest_of, live
from common.protocol.edits import Stored
from common.protocol.keys import Keys, RunId, sequence_name
from common.protocol.request import Origin, Request, scope_of
from common.protocol.request_writes import CallKeys, Found, ask, remember
from common.protocol.run import Trigger
from common.protocol.signatures import Seal
from common.protocol.txn import Txn
from manager.http import allowances
from manager.http.allowances import Allowance, refuse_beyond
from manager.http.idempotency import KEPT_MS, Idempotency, refuse_another_request
from manager.use_cases.jobs import trust_clock

_log = logging.getLogger(__name__)

DEFAULT_DEDUPE_S: Final = 300
MAX_PAST_MS: Final = 3_600_000
"""An `at` that is past by no more means: at once."""
_OWN_KEY_MS: Final = 60_000
"""Longer than any call lasts."""
GRANTED_MS: Final = 86_400_000
"""How long after its time a run that was signed, or an attempt that follows it, may still start."""
MOST_WORKERS: Final = 100
"""Of a broadcast job: so many requests, and the rest, fit into one transaction."""


class NoWorkerError(ConflictError):
    """No worker that is live fits the job now. Start one, or ask again when one is back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The run that is asked for."""

    args: tuple[str, ...] = ()
    env: Mapping[str, str] | None = None
    at_ms: int | None = None
    """Not before this; None, or an instant that is past: at once."""
    dedupe_key: str | None = None
    dedupe_s: int = DEFAULT_DEDUPE_S
    reason: str | None = None
    is_by_hand: bool = False
    """In a browser: else by a program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a call is answered."""

    status: int
    answer: Mapping[str, Any]
    headers: Mapping[str, str]
    is_replayed: bool = False
    """It is what the first call with the same Idempotency-Key was answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """One call; what is written for it is the same however often it is planned anew."""

    name: str
    wanted: Wanted
    by: str
    now_ms: int
    fire: str
    keys: CallKeys
    idempotency: Idempotency | None

    @property
    def plan_ms(self) -> int:
        return max(self.now_ms, self.wanted.at_ms or 0)


class RunNow:
    """Asks for runs; any number of managers may do so at once."""

    def __init__(
        self,
        etcd: EtcdClient,
        keys: Keys,
        *,
        clock: Clock,
        workers_for: Callable[[JobSpec], Awaitable[Sequence[str]]],
        patience_s: float,
        remembered: Allowance,
        refuse_wrong_clock: Callable[[], Awaitable[None]] = trust_clock,
        seal: Seal | None = None,
    ) -> None:
        """``seal``: signs them, for workers that believe nothing else; such a run expires (`GRANTED_MS`).

        ``workers_for``: asks etcd for the live workers that would run a job now. ``refuse_wrong_clock``: as for
        `JobService`."""
        self._refuse_wrong_clock = refuse_wrong_clock
        self._seal = seal
        self._remembered = remembered
        self._later = Allowance("at: runs for later")
        self._later_of_job = Allowance("at: runs of this job for later")
        self._etcd = etcd
        self._keys = keys
        self._clock = clock
        self._workers_for = workers_for
        self._patience_s = patience_s

    async def ask(
        self, name: str, wanted: Wanted, *, by: str, rights: Rights, address: str,
        idempotency: Idempotency | None = None,
    ) -> Asked:  # fmt: skip
        """Ask for one run of the job; of a broadcast job, for one on each worker that fits it now.

        A caller has to be the job's operator; `args` and `env` choose what runs, so they need the right to save the job
        as it is: its editor, with a right to its user and its workers.
        NotFoundError, ForbiddenError, ConflictError: there is no such job, or none that can be run. RequestError: the
        Idempotency-Key
        was used for another request, or there are too many runs that wait or keys that are remembered, of the job or of
        this caller. UnavailableError: its text says whether the run may have been asked for.
        """
        check_name(name)
        await self._refuse_wrong_clock()
        call = self._call(name, wanted, by, idempotency)
        deadline = self._clock.monotonic() + self._patience_s
        there = call.keys.found(await self._etcd.txn(call.keys.look))
        is_allowed = False
        while True:
            self._check(call, there, rights)
            known = self._known(call, there)
            if known is not None and (idempotency is None or known.is_replayed):
                return known
            if known is None and there.job is None:  # before all else, as where the caller may not know of it
                raise NotFoundError(f"there is no job {name}")
            if not is_allowed:
                await self._refuse_too_many(call, address)
                is_allowed = True
            asked, txn = await self._plan(call, there, known)
            found = await self._send(call, asked, txn, deadline)
            if found is None:
                self._count(call, address, is_new=known is None)
                if known is None:
                    run = str(asked.answer.get("runId"))
                    extra = {"action": "run.asked_for", "job": name, "run": run, "by": by, "reason": wanted.reason}
                    _log.info("%s is asked for by %s", run, by, extra=extra)
                return asked
            there = found
            if self._clock.monotonic() > deadline:
                raise OvertakenError(
                    f"no run of {name!r} was asked for: it changed each time before etcd had answered; try again"
                )

    def _check(self, call: _Call, there: Found, rights: Rights) -> None:
        """On the job that the transaction compares, before the answer says anything of it or of its runs."""
        if there.job is None:
            return
        chooses_code = bool(call.wanted.args or call.wanted.env)
        stored = Stored.read(call.name, there.job, None)
        rights.check(Role.EDITOR if chooses_code else Role.OPERATOR, stored.labels, f"job {call.name}")
        if chooses_code and stored.saved is not None:
            rights.check_spec(Role.EDITOR, stored.saved.spec)

    async def _refuse_too_many(self, call: _Call, address: str) -> None:
        if call.idempotency is not None or call.keys.dedupe is not None:
            self._remembered.check(address, allowances.MOST_REMEMBERED, now_ms=call.now_ms)
        if call.plan_ms > call.now_ms:
            self._later.check(address, allowances.MOST_WAITING, now_ms=call.now_ms)
            self._later_of_job.check(address, allowances.MOST_LATER, now_ms=call.now_ms, job=call.name)
        remembered, waiting, of_workers = await asyncio.gather(
            self._etcd.count(self._keys.deduped(call.name, "")),
            self._etcd.count(self._keys.requests_of(call.name)),
            self._etcd.count(self._keys.own_requests_of(call.name)),
        )
        what = f"calls for a run of {call.name!r} that are remembered"
        refuse_beyond(allowances.MOST_REMEMBERED_OF_ALL, remembered, what)
        refuse_beyond(allowances.MOST_WAITING, waiting, f"runs of {call.name!r} that wait")
        refuse_beyond(allowances.MOST_WAITING * 10, of_workers, f"runs of {call.name!r} that wait, on all workers")

    def _count(self, call: _Call, address: str, *, is_new: bool) -> None:
        if call.idempotency is not None:
            self._remembered.take(address, until_ms=call.now_ms + KEPT_MS, now_ms=call.now_ms)
        if is_new and call.keys.dedupe is not None:
            self._remembered.take(address, until_ms=call.now_ms + call.wanted.dedupe_s * 1000, now_ms=call.now_ms)
        if is_new and call.plan_ms > call.now_ms:
            self._later.take(address, until_ms=call.plan_ms, now_ms=call.now_ms)
            self._later_of_job.take(address, until_ms=call.plan_ms, now_ms=call.now_ms, job=call.name)

    def _call(self, name: str, wanted: Wanted, by: str, idempotency: Idempotency | None) -> _Call:
        now_ms, keys = self._clock.wall_ms(), self._keys
        # The time sorts them; the rest makes two of one millisecond differ, on any manager.
        fire = f"r-{now_ms:013d}-{secrets.token_hex(5)}"
        own = digest_of("run", fire) if idempotency is None else digest_of("idempotency", idempotency.scoped)
        dedupe = None if wanted.dedupe_key is None else keys.deduped(name, digest_of("dedupe", wanted.dedupe_key))
        return _Call(
            name=name, wanted=wanted, by=by, now_ms=now_ms, fire=fire, idempotency=idempotency,
            keys=CallKeys(job=keys.job(name), own=keys.deduped(name, own), dedupe=dedupe),
        )  # fmt: skip

    # What is there

    def _known(self, call: _Call, there: Found) -> Asked | None:
        """The answer, where this very request or one with its dedupe key has been answered before."""
        own = live(there.own, call.now_ms)
        if own is not None and own.answer is not None and own.status is not None:
            refuse_another_request(own, call.idempotency)
            return Asked(status=own.status, answer=own.answer, headers=own.headers, is_replayed=True)
        first = live(there.dedupe, call.now_ms)
        revision = there.job.create_revision if there.job is not None else 0
        if first is None or first.answer is None or first.job_create_revision != revision:
            return None
        return Asked(status=200, answer={**first.answer, "deduplicated": True}, headers=first.headers)

    # What is written

    async def _plan(self, call: _Call, there: Found, known: Asked | None) -> tuple[Asked, Txn]:
        """The answer, and what is put for it."""
        if known is not None:  # only the Idempotency-Key is new: it is answered the same from now on
            return known, remember(call.keys, there, self._own(call, known, 0))
        at_ms = call.wanted.at_ms
        # Not where the call is read: one that is sent again gets its first answer, however late.
        if at_ms is not None and at_ms < call.now_ms - MAX_PAST_MS:
            remedy = "leave it out to run at once"
            raise InvalidInputError([Problem(field="at", message=f"is {iso(at_ms)}, which is past", remedy=remedy)])
        stored, job = Stored.read(call.name, there.job, None), there.job
        if job is None:
            raise NotFoundError(f"there is no job {call.name}")
        if stored.saved is None:
            raise ConflictError(f"job {call.name!r} cannot be read ({stored.problem}): save it anew, or delete it")
        requests = await self._requests(call, stored.saved.spec, job.create_revision)
        asked = _answer(call, requests)
        own = self._own(call, asked, job.create_revision)
        window = replace(own, expires_ms=call.now_ms + call.wanted.dedupe_s * 1000, fingerprint="")
        return asked, ask(self._keys, call.keys, there, requests, own, window)

    def _own(self, call: _Call, asked: Asked, job_create_revision: int) -> Remembered:
        kept_ms = _OWN_KEY_MS if call.idempotency is None else KEPT_MS
        return Remembered(
            expires_ms=call.now_ms + kept_ms, job_create_revision=job_create_revision, token=call.fire,
            fingerprint="" if call.idempotency is None else call.idempotency.fingerprint,
            status=asked.status, answer=asked.answer, headers=asked.headers,
        )  # fmt: skip

    async def _requests(self, call: _Call, spec: JobSpec, job_create_revision: int) -> list[Request]:
        wanted, sequences = call.wanted, [spec.name]
        scope = scope_of(spec) if wanted.args or wanted.env else None
        if spec.broadcast:
            workers = await self._workers_for(spec)
            if not workers:
                raise NoWorkerError(f"no worker that is live fits job {spec.name!r}: there is none to run it on")
            if len(workers) > MOST_WORKERS:
                raise ConflictError(
                    f"{len(workers)} workers fit job {spec.name!r}; one call asks at most {MOST_WORKERS}"
                )
            sequences = [sequence_name(spec.name, worker) for worker in sorted(workers)]
        requests = [
            Request(
                run_id=RunId(sequence, call.fire), origin=Origin.RUN_NOW, job_create_revision=job_create_revision,
                plan_ms=call.plan_ms, dispatch_ms=call.plan_ms, not_before_ms=call.plan_ms, create_ms=call.now_ms,
                trigger=Trigger.MANUAL if wanted.is_by_hand else Trigger.API, by=call.by,
                note=wanted.reason, args=wanted.args, env=wanted.env or {}, scope=scope,
            )
            for sequence in sequences
        ]  # fmt: skip
        return requests if self._seal is None else [granted(request, self._seal) for request in requests]

    async def _send(self, call: _Call, asked: Asked, txn: Txn, deadline: float) -> Found | None:
        """None once it is carried out; else what is there instead, and it certainly is not."""

        def in_doubt(error: Exception) -> str:
            return (
                f"a run of {call.name!r} may or may not have been asked for: etcd took it and gave no answer. "
                f"It would be {asked.answer.get('runId')}; with the same Idempotency-Key or dedupeKey you may ask "
                f"again. ({error})"
            )

        patience = Patience.until(deadline, self._clock, in_doubt)
        settled = await settle(self._etcd, self._clock, txn, patience, partial(call.keys.earlier, txn))
        return None if settled.done else call.keys.found(settled.answer)


def granted(request: Request, seal: Seal) -> Request:
    """The same, signed, and with an end."""
    expires_ms = request.not_before_ms + GRANTED_MS
    grant = seal.run(request.asked_run, not_before_ms=request.not_before_ms, expires_ms=expires_ms)
    return replace(request, grant=grant, expires_ms=expires_ms)


def _answer(call: _Call, requests: Sequence[Request]) -> Asked:
    first = str(requests[0].run_id)
    answer: dict[str, Any] = {
        "runId": first, "deduplicated": False, "jobName": call.name, "state": "created", "planTime": call.plan_ms,
        "createTime": call.now_ms,
    }  # fmt: skip
    if len(requests) > 1 or requests[0].run_id.of_worker is not None:
        answer["runIds"] = [str(request.run_id) for request in requests]
    return Asked(status=202, answer=answer, headers={"Location": f"/api/v1/runs/{quote(first, safe='@~')}"})
