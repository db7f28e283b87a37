"""What a caller may do with a run: judged by the labels that the run carries, never by the job that has its name now.

a record               its own labels
a run that is open     the labels that it was claimed with: its own, or those of the job at that revision
                       where a manager signs, also those of that job: a worker may have written the run's key
a request              the labels of the job that it was asked of, at the revision that is then compared
of none of these       known to those who may know of everything
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from common.access.rights import Rights, Role
from common.errors import EtcdCompactedError
from common.etcd import EtcdClient
from common.protocol.edits import Stored
from common.protocol.keys import Keys, RunId
from common.protocol.request import Request
from common.protocol.run import RunEntry
from common.protocol.txn import KeyValue

Labels = Mapping[str, str]


def no_run(run: RunId) -> str:
    """That there is no such run, in words; the same for one that the caller may not know of."""
    return f"no run {run}: it never was, it is not due yet, or its record was removed"


def check_run(run: RunId, labels: Labels | None, rights: Rights) -> None:
    """Return where the caller may end the run; NotFoundError, ForbiddenError."""
    rights.check(Role.OPERATOR, labels, f"run {run}", missing=no_run(run))


def check_record(run: RunId, record: Mapping[str, Any], rights: Rights) -> None:
    """The same of a run that is in the log store."""
    labels = record.get("labels")
    check_run(run, labels if isinstance(labels, Mapping) else {}, rights)


class RunLabels:
    """Finds the labels of runs that have a key in etcd."""

    def __init__(self, etcd: EtcdClient, keys: Keys) -> None:
        self._etcd = etcd
        self._keys = keys

    async def vouched_for(self, run: RunId, kv: KeyValue) -> Labels | None:
        """Those of the job that the run in this key was claimed of; of the job as it is now, where etcd keeps no more
        of it. Workers write the keys of runs, and no jobs. None: no job tells.
        """
        key = self._keys.job(run.job_name)
        job = await self._etcd.get(key)
        with suppress(ValueError, EtcdCompactedError):
            revision = RunEntry.from_json(kv.value).revision
            if revision and (job is None or job.mod_revision != revision):
                job = await self._etcd.get(key, revision=revision) or job
        return None if job is None else Stored.read(run.job_name, job, None).labels or {}

    async def of(self, run: RunId, kv: KeyValue) -> Labels | None:
        """Of the run in this key; None: it cannot be read."""
        try:
            entry = RunEntry.from_json(kv.value)
        except ValueError:
            return None
        if entry.record is not None:
            return entry.record.labels
        return entry.labels or await self._claimed(run.job_name, entry.revision)

    async def of_request(self, run: RunId, kv: KeyValue) -> tuple[Labels | None, int]:
        """Of the run that this key asks for, and the revision of the job that they were read at."""
        job = await self._etcd.get(self._keys.job(run.job_name))
        try:
            request = Request.from_json(kv.value, run_id=run, revision=kv.mod_revision)
        except ValueError:
            return None, job.mod_revision if job else 0
        if job is None:
            return {}, 0
        is_its_job = job.create_revision == (request.job_create_revision or kv.create_revision)
        labels = Stored.read(run.job_name, job, None).labels
        return (labels or {}) if is_its_job else {}, job.mod_revision

    async def _claimed(self, job: str, revision: int) -> Labels:
        """Those of the job at this revision; none where etcd does not keep it any more, and it has changed since."""
        key = self._keys.job(job)
        now = await self._etcd.get(key)
        if now is not None and now.mod_revision == revision:
            return Stored.read(job, now, None).labels or {}
        if not revision:
            return {}
        try:
            then = await self._etcd.get(key, revision=revision)
        except EtcdCompactedError:
            return {}
        return Stored.read(job, then, None).labels or {}
