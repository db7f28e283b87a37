"""The chain of an ``after`` job: each run's end asks for the next run, under one fixed key.

    save, resume   --lock free-->  first link, at once        --claimed-->  run, with the job's lock
    run ends       ------------->  next link, end + delay     --claimed-->  ...
    pause, delete, another trigger: the link is deleted

At any moment an enabled ``after`` job has a run that holds its lock, or a request. So at most one link is enough, and
a writer of one may write over another. An edit writes it in its own transaction:

    the job is (now) an enabled `after` job
        its lock is free    the first link, at once; one that is there stays where the edit does not touch the trigger
        its lock is held    nothing: the end of the run puts the next link, by the new spec
    it is not               its link is deleted

Which of the first two it is, the transaction compares. Pure. Source: ``docs/internals/protocol.md``, *after*.
"""

from __future__ import annotations

from dataclasses import dataclass

from common.jobs.job import JobSpec
from common.protocol.compares import absent, create_revision_is
from common.protocol.keys import Keys, RunId, Watched
from common.protocol.request import Origin, Request
from common.protocol.saved_job import SavedJob
from common.protocol.txn import Delete, KeyRevisions, KeyValue, Operation, Put, Share

MADE_WITH_ITS_JOB = 0
"""In place of the job's create revision, in a link that is put by the transaction that makes the job: its own."""


def is_chained(spec: JobSpec) -> bool:
    """Whether the job has, or should have, a next link."""
    return spec.after is not None and spec.enabled and not spec.broadcast


def link_at(spec: JobSpec, from_ms: int, *, job_create_revision: int) -> Request | None:
    """The request for the job's next run, at the first instant from this one on that its window and calendar allow.

    None where there is none, or the job is no (enabled) ``after`` job.
    """
    plan_ms = spec.schedule.opens_ms(from_ms) if is_chained(spec) else None
    if plan_ms is None:
        return None
    return Request(
        run_id=RunId.planned(spec.name, plan_ms), origin=Origin.CHAIN, job_create_revision=job_create_revision,
        plan_ms=plan_ms, dispatch_ms=plan_ms, not_before_ms=plan_ms,
    )  # fmt: skip


def link_after(spec: JobSpec, end_ms: int, *, last_plan_ms: int, job_create_revision: int) -> Request | None:
    """The next link after a run that has ended: its delay later, and under a plan time of its own."""
    if spec.after is None:
        return None
    return link_at(spec, max(end_ms + spec.after.ms, last_plan_ms + 1), job_create_revision=job_create_revision)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chained:
    """What etcd holds of a job's chain, read together with the job."""

    lock: KeyRevisions | None = None
    """Without its value."""
    link: KeyValue | None = None


def edit_chain(
    keys: Keys, job: KeyValue | None, saved: SavedJob | None, there: Chained, spec: JobSpec | None, *, now_ms: int,
    name: str,
) -> Share:  # fmt: skip
    """The chain's share in an edit's transaction: from the job as it is (``saved`` None: unreadable) to this spec.

    ``spec`` None: the job is deleted.
    """
    if spec is None or not is_chained(spec):
        was_chained = saved is None or is_chained(saved.spec)
        has_link = job is not None and (was_chained or there.link is not None)
        return Share((), _without_link(keys, name) if has_link else ())
    if there.lock is not None:
        return Share((create_revision_is(keys.lock(name), there.lock.create_revision),), ())
    free = absent(keys.lock(name))
    if job is not None and saved is not None and _stays(job, saved.spec, there.link, spec):
        return Share((free,), ())
    created = MADE_WITH_ITS_JOB if job is None else job.create_revision
    link = link_at(spec, now_ms, job_create_revision=created)
    if link is None:
        return Share((free,), _without_link(keys, name))
    return Share((free,), (Put(keys.chain(name), link.to_json()), _sentinel(keys)))


def _stays(job: KeyValue, was: JobSpec, link: KeyValue | None, spec: JobSpec) -> bool:
    """Whether the link that is there is as good under the new spec: its trigger is the same."""
    if link is None or not is_chained(was) or (was.after, was.schedule) != (spec.after, spec.schedule):
        return False
    try:
        request = Request.from_json(link.value, run_id=RunId.planned(spec.name, 0), revision=link.mod_revision)
    except ValueError:
        return False
    return request.job_create_revision == job.create_revision


def _without_link(keys: Keys, name: str) -> tuple[Operation, ...]:
    return Delete(keys.chain(name)), _sentinel(keys)


def _sentinel(keys: Keys) -> Put:
    return Put(keys.seen(Watched.REQUESTS), b"")
