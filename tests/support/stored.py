"""Keys as etcd gives them, and jobs as a worker knows them."""

from __future__ import annotations

from typing import Any

from common.jobs.job import TRIGGERS, JobSpec
from common.jobs.reader import parse_job
from common.protocol.planned_job import PlannedJob
from common.protocol.txn import KeyValue


def kv(key: str, value: bytes, revision: int = 7, *, created: int | None = None, lease: int = 0) -> KeyValue:
    """Written once, at this revision, or created at another one."""
    return KeyValue(
        key=key, value=value, create_revision=created or revision, mod_revision=revision, version=1, lease=lease
    )  # fmt: skip


def spec_of(name: str = "job", **fields: Any) -> JobSpec:
    """A job with these fields; it fires every second where they have no trigger."""
    trigger = {} if fields.keys() & set(TRIGGERS) else {"cronExpr": "* * * * * * *"}
    return parse_job({"name": name, "command": "true", **trigger, **fields})


def planned(
    spec: JobSpec, *, anchor_ms: int = 0, revision: int = 1, created: int = 1, of_worker: str | None = None
) -> PlannedJob:
    """It as it was read of its key."""
    return PlannedJob(
        spec=spec, schedule=spec.schedule, anchor_ms=anchor_ms, revision=revision, create_revision=created,
        of_worker=of_worker,
    )  # fmt: skip
