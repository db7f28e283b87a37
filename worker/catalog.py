"""The jobs as this worker has seen them in etcd, each parsed once; a bad one is set aside and disturbs no other."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from common.errors import EtcronError
from common.etcd import Change
from common.protocol.keys import Keys, RunId
from common.protocol.planned_job import PlannedJob
from common.protocol.saved_job import SavedJob
from common.protocol.txn import KeyValue
from worker.verifier import Verifier

_log = logging.getLogger(__name__)


class Catalog:
    """Name to job, kept in step by a mirror of ``jobs/``; tells its listener of every change."""

    def __init__(self, keys: Keys, *, on_changed: Callable[[str], None], verifier: Verifier | None = None) -> None:
        """``verifier``: what is set aside for want of a signature; None: nothing."""
        self._verifier = verifier
        self._keys = keys
        self._on_changed = on_changed
        self.jobs: dict[str, PlannedJob] = {}
        self.set_aside: dict[str, str] = {}
        """The jobs that cannot be read, or are not believed, with the reason."""
        self.sequences: dict[str, PlannedJob] = {}
        """Of broadcast jobs: this worker's own sequences, as far as their marks are in place."""

    def planned(self, name: str) -> PlannedJob | None:
        """The job as this worker decides its fires: of a broadcast job, its own sequence; None: it decides none."""
        job = self.jobs.get(name)
        if job is None or not job.spec.broadcast:
            return job
        own = self.sequences.get(name)
        return own if own is not None and own.revision == job.revision else None

    def of_run(self, run_id: RunId) -> PlannedJob | None:
        """The job of a run, as the sequence that the run is one of."""
        job = self.jobs.get(run_id.job_name)
        return job if job is None or run_id.of_worker is None else replace(job, of_worker=run_id.of_worker)

    def on_changes(self, changes: Sequence[Change]) -> None:
        """The mirror's changes, taken in; each key's error is its own."""
        for change in changes:
            name = self._keys.job_of(change.key)
            self.jobs.pop(name, None)
            self.set_aside.pop(name, None)
            if self._verifier is not None:
                self._verifier.forget(name)
            if change.new is not None:
                try:
                    self._take(name, change.new, replaces=change.old_mod is not None)
                except EtcronError as error:
                    self.set_aside[name] = str(error)
                    extra = {"action": "job.set_aside", "job": name}
                    _log.warning("job %r cannot be read and is set aside: %s", name, error, extra=extra)
            self._on_changed(name)

    def doubt(self, job: PlannedJob, fault: str) -> None:
        """A job that was taken in is not what was signed; where it still is the one that is known, it is set aside."""
        known = self.jobs.get(job.name)
        if known is None or known.revision != job.revision or self._verifier is None or not self._verifier.is_required:
            return
        del self.jobs[job.name]
        self.set_aside[job.name] = fault
        self._on_changed(job.name)

    def _take(self, name: str, kv: KeyValue, *, replaces: bool) -> None:
        saved = SavedJob.from_json(kv.value, name=name)
        if self._verifier is None:
            self.jobs[name] = PlannedJob.of(saved, kv)
            return
        job = PlannedJob.of(saved, kv, proof=self._verifier.proof_of(saved, kv.value))
        fault = self._verifier.at_sight(job, replaces=replaces)
        if fault is not None and self._verifier.is_required:
            self.set_aside[name] = fault
        else:
            self.jobs[name] = job
