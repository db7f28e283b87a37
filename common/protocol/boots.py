"""A run of a job for the boot of one machine: asked for once, by a worker there, whatever becomes of that worker.

The kernel names each boot (``boot_id``). The key for it stands beside the dedupe keys, and outlives the run:

    if   my session is alive
    and  the job is at the revision that I know
    and  there is no key of this job for this boot
    then put the request, in this worker's own sequence, and the key
    else read the key

So a second ask finds the key: of the same worker started again, of another one on this machine, of one that was in
doubt, and whatever the clock shows by then. Pure: standard library and its neighbours.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from common.protocol.compares import absent, mod_revision_is
from common.protocol.dedupe import Remembered, digest_of
from common.protocol.keys import Keys, RunId, Watched, sequence_name
from common.protocol.planned_job import PlannedJob
from common.protocol.request import Origin, Request
from common.protocol.txn import Get, Owner, Put, Txn, TxnResult

STARTS_WITHIN_MS: Final = 86_400_000
"""A worker that is full, drained or away has so long."""
_LONGER_THAN_ANY_BOOT_MS: Final = 10 * 366 * 86_400_000


class Asked(StrEnum):
    """What became of an ask."""

    NOW = "now"
    BEFORE = "before"
    """For this boot the job was asked for already."""
    NOT = "not"
    """The job, or the session, is another one by now: look again."""


def ask(keys: Keys, job: PlannedJob, *, worker: str, boot_id: str, now_ms: int, session: Owner) -> Txn:
    """For this boot the job runs once, on this worker. Its origin is that of a fire that is caught up with: every
    version knows it, and it needs no grant."""
    request = Request(
        run_id=RunId.planned(sequence_name(job.name, worker), now_ms), origin=Origin.CATCH_UP,
        job_create_revision=job.create_revision, plan_ms=now_ms, dispatch_ms=now_ms, not_before_ms=now_ms,
        expires_ms=now_ms + STARTS_WITHIN_MS, create_ms=now_ms,
    )  # fmt: skip
    remembered = Remembered(
        expires_ms=now_ms + _LONGER_THAN_ANY_BOOT_MS, job_create_revision=job.create_revision, token=boot_id
    )
    key = keys.deduped(job.name, digest_of("boot", boot_id))
    return Txn(
        [session.alive, mod_revision_is(keys.job(job.name), job.revision), absent(key)],
        [
            Put(request.key(keys), request.to_json()),
            Put(key, remembered.to_json()),
            Put(keys.seen(Watched.REQUESTS), b""),
        ],
        [Get(key)],
    )


def read(answer: TxnResult) -> Asked:
    """What the answer says."""
    if answer.succeeded:
        return Asked.NOW
    return Asked.NOT if answer.one(0) is None else Asked.BEFORE
