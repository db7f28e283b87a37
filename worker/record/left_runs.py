"""Runs that another process, or an earlier life of this worker, has left: each is ended in its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from common.errors import EtcdCompactedError, EtcronError
from common.etcd import EtcdClient
from common.protocol.follow_ups import NOTHING, End
from common.protocol.keys import Keys, RunId
from common.protocol.run import RunEntry, RunRecord
from common.protocol.run_writes import KeyAfter, LeftRun, end
from common.protocol.saved_job import SavedJob
from common.protocol.txn import Guards
from worker.record.follow_up_reader import FollowUpReader

_TRIES: Final = 20
"""How often what follows is read again because it has changed meanwhile."""


class RecordFinder(Protocol):
    """Where delivered records can be looked up."""

    async def find(self, run_ids: Sequence[RunId], *, deadline_seconds: float) -> Mapping[str, RunRecord]:
        """Those that exist, by run id; UnavailableError where the store does not answer in time."""


async def end_run(
    client: EtcdClient,
    keys: Keys,
    follow_ups: FollowUpReader,
    run: LeftRun,
    record: RunRecord,
    becomes: RunEntry | KeyAfter,
    *,
    only_if: Guards = (),
) -> int | None:
    """End the run with this record: its key ``becomes`` this, its lock goes, and what follows comes, in one.

    The new revision, or None where the run key or the lock is not as it was, or ``only_if`` is false: look again.
    """
    for _ in range(_TRIES):
        follow_up = NOTHING
        if not run.has_ended:
            [follow_up] = await follow_ups.asked([End(entry=run.entry, record=record, frees_lock=run.holds_lock)])
        result = await client.txn(end(keys, run, becomes, follow_up, only_if=only_if))
        if result.succeeded:
            return result.revision
        if not follow_up.compares:
            break  # nothing but its own: the run is not as it was
    return None


async def read_command(client: EtcdClient, keys: Keys, run_id: RunId, entry: RunEntry) -> tuple[str, Mapping[str, str]]:
    """The command and labels that the run was claimed with, as far as etcd still knows them.

    etcd forgets within minutes what was. A job that has not changed since the claim is read as it is now. The labels
    stand in the entry, unless an older version has written it.
    """
    key = keys.job(run_id.job_name)
    try:
        try:
            kv = await client.get(key, revision=entry.revision)
        except EtcdCompactedError:
            kv = await client.get(key)
            if kv is not None and kv.mod_revision != entry.revision:
                kv = None
        spec = SavedJob.from_json(kv.value, name=run_id.job_name).spec if kv is not None else None
    except EtcronError:  # no answer, or unreadable: the record does without
        spec = None
    return ("", entry.labels) if spec is None else (spec.command_line, entry.labels or spec.labels)
