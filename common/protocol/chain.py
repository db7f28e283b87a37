"""The chain of an ``after`` job: each run's end asks for the next run, under one fixed key.

    save, resume   --lock free-->  first link, at once        --claimed-->  run, with the job's lock
    run ends       ------------->  next link, end + delay     --claimed-->  ...
    pause, delete, another trigger: the link is deleted

At any moment an enabled ``after`` job has a run that holds its lock, or a request. So at most one link is enough, and
whoever writes one may write over another. Pure: standard library and its neighbours. Source: ``docs/protocol.md``.
"""

from __future__ import annotations

from common.jobs.job import JobSpec
from common.protocol.keys import RunId
from common.protocol.request import Origin, Request

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
