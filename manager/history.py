"""Runs: those with a verdict from the log store, those still going from etcd."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from common.clock import Clock
from common.errors import InvalidInputError, NotFoundError, Problem, UnavailableError
from common.etcd import EtcdClient
from common.keys import Keys, RunId
from common.run import RunEntry
from common.runlog import RunFilter, RunLog, RunPage
from manager.edits import Stored
from manager.views import open_run_view, run_view


class History:
    """Reads runs; whatever the log store cannot be asked for is said to be unavailable, not absent."""

    def __init__(self, etcd: EtcdClient, runlog: RunLog, keys: Keys, *, clock: Clock, deadline_s: float) -> None:
        self._etcd = etcd
        self._runlog = runlog
        self._keys = keys
        self._clock = clock
        self._deadline_s = deadline_s

    async def job_log(self, job: str, *, skip: int, limit: int) -> list[dict[str, Any]]:
        """The log documents of the job's runs that started, newest start first."""
        return await self._runlog.job_log(job, skip=skip, limit=limit, deadline_seconds=self._deadline_s)

    async def runs(self, wanted: RunFilter, *, cursor: str | None, limit: int) -> RunPage:
        """A page of records, newest plan time first."""
        return await self._runlog.runs(wanted, cursor=cursor, limit=limit, deadline_seconds=self._deadline_s)

    async def last_results(self, jobs: Iterable[Stored]) -> Mapping[str, Mapping[str, Any]] | None:
        """The last result of each job that has one; None: the log store is away."""
        # What is not a job may have any bytes for a name, and never ran.
        names = [job.name for job in jobs if job.saved is not None]
        if not names:
            return {}
        try:
            return await self._runlog.last_results(names, deadline_seconds=self._deadline_s)
        except UnavailableError:
            return None

    async def run(self, text: str) -> dict[str, Any]:
        """The run of this id, finished or not. NotFoundError where neither store knows it."""
        run = _run_id(text)
        # etcd first: a key that is gone by now was deleted after the log store had the record, so that is found below.
        kv = await self._etcd.get(self._keys.run(run))
        try:
            document = await self._runlog.run(str(run), deadline_seconds=self._deadline_s)
        except UnavailableError:
            if kv is None:
                raise
            document = None
        if document is not None:
            return run_view(document)
        if kv is None:
            raise NotFoundError(f"no run {run}: it never was, it is not claimed yet, or its record has been removed")
        try:
            entry = RunEntry.from_json(kv.value)
        except ValueError as error:
            raise NotFoundError(f"the run key of {run} in etcd is not one of ours: {error}") from error
        return open_run_view(run, entry, fence=kv.create_revision, now_ms=self._clock.wall_ms())


def _run_id(text: str) -> RunId:
    try:
        return RunId.parse(text)
    except ValueError as error:
        remedy = "<job>@<plan time in ms>#<attempt>, with # written as %23 in an address"
        raise InvalidInputError([Problem(field="id", message=f"is {text[:80]!r}", remedy=remedy)]) from error
