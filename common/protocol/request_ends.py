"""How a request ends that cannot run any more, or is put again: what the steward writes of requests.

What the steward believes for it, etcd has to confirm: see the constructors of `RequestEnd`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from common.protocol.compares import Compare, absent, create_revision_is, mod_revision_is
from common.protocol.follow_ups import FollowUp, merged
from common.protocol.keys import Keys, Watched
from common.protocol.kill import Kill
from common.protocol.planned_job import PlannedJob
from common.protocol.request import Request
from common.protocol.run import RunRecord, Verdict, final_entry
from common.protocol.txn import Delete, Put, Txn


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEnd:
    """The end of a request that cannot run any more."""

    status: Verdict
    reason: str
    by: str | None = None
    err: str | None = None
    """In words, where the verdict and its reason leave something out."""
    confirm: Compare | None = None
    """What has to be true in etcd for it."""

    @classmethod
    def killed(cls, keys: Keys, kill: Kill) -> Self:
        """While the kill is there."""
        there = create_revision_is(keys.kill(kill.run_id), kill.revision)
        return cls(status=Verdict.KILLED, reason="before start", by=kill.by, err=kill.before_start, confirm=there)

    @classmethod
    def deleted(cls, keys: Keys, name: str, job: PlannedJob | None) -> Self:
        """While there is no job of this name, or the one that was made since."""
        key = keys.job(name)
        confirm = absent(key) if job is None else create_revision_is(key, job.create_revision)
        return cls(status=Verdict.SKIPPED, reason="deleted", confirm=confirm)

    @classmethod
    def paused(cls, keys: Keys, job: PlannedJob) -> Self:
        """While the job is as it is."""
        return cls(status=Verdict.SKIPPED, reason="paused", confirm=mod_revision_is(keys.job(job.name), job.revision))

    @classmethod
    def overtaken(cls, keys: Keys, job: PlannedJob) -> Self:
        """Of a retry whose place a newer fire has taken; a mark never goes back: only the job has to stay."""
        as_known = mod_revision_is(keys.job(job.name), job.revision)
        return cls(status=Verdict.SKIPPED, reason="overlap: a newer fire was decided", confirm=as_known)

    @classmethod
    def missed(cls, reason: str) -> Self:
        """Its time is over, by the clock alone."""
        return cls(status=Verdict.MISSED, reason=reason)


def end(
    keys: Keys, request: Request, ending: RequestEnd, record: RunRecord, follow_up: FollowUp, *, worker: str,
    guards: Sequence[Compare],
) -> Txn:  # fmt: skip
    """The request goes, its final record comes, and with it what follows."""
    key, request_key = keys.run(request.run_id), request.key(keys)
    writes: list[Put | Delete] = [
        Delete(request_key),
        Put(keys.seen(Watched.REQUESTS), b""),
        Put(key, final_entry(record, worker=worker).to_json()),
    ]
    compares = [*guards, mod_revision_is(request_key, request.revision), absent(key), *follow_up.compares]
    if ending.confirm is not None and ending.confirm not in follow_up.compares:
        compares.append(ending.confirm)
    return Txn(compares, merged(writes, follow_up))


def renew(keys: Keys, request: Request, *, now_ms: int, guards: Sequence[Compare]) -> Txn:
    """Put again, so that every worker hears of it once more."""
    key, renewed = request.key(keys), replace(request, not_before_ms=now_ms)
    puts = [Put(key, renewed.to_json()), Put(keys.seen(Watched.REQUESTS), b"")]
    return Txn([*guards, mod_revision_is(key, request.revision)], puts)
