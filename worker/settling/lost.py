"""Ending a run in its worker's place: the one transaction for it, and the record of one of whose end nobody knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from common.errors import EtcronError
from common.etcd import EtcdClient
from common.protocol.follow_ups import NOTHING, End
from common.protocol.keys import Keys, RunId
from common.protocol.run import EntryState, RunEntry, RunRecord
from common.protocol.saved_job import SavedJob
from common.protocol.txn import (
    Compare,
    Delete,
    KeyRevisions,
    KeyValue,
    Operation,
    Txn,
    create_revision_is,
    mod_revision_is,
)
from worker.settling.aftermath import Aftermath

_TRIES: Final = 20
"""How often what follows is read again because it has changed meanwhile."""


class RecordFinder(Protocol):
    """Where delivered records can be looked up."""

    async def find(self, run_ids: Sequence[RunId], *, deadline_seconds: float) -> Mapping[str, RunRecord]:
        """Those that exist, by run id; UnavailableError where the store does not answer in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftRun:
    """A run that its worker has left in etcd, and whether it holds its job's lock there."""

    run_id: RunId
    entry: RunEntry
    kv: KeyValue
    holds_lock: bool

    @property
    def has_ended(self) -> bool:
        """Whether its processes are known to be gone: what follows it is there, and its record on the way or lost."""
        return self.entry.state is EntryState.ENDED or (self.entry.locked and not self.holds_lock)


async def end_run(
    client: EtcdClient,
    keys: Keys,
    aftermath: Aftermath,
    run: LeftRun,
    record: RunRecord,
    *,
    then: Operation | None,
    only_if: Sequence[Compare] = (),
) -> int | None:
    """End the run with this record: ``then`` on its key, its lock freed where it holds it, and what follows, in one.

    The new revision, or None where the run key or the lock is not as it was, or ``only_if`` is false: look again.
    """
    kv, lock = run.kv, keys.lock(run.run_id.job)
    compares = [*only_if, mod_revision_is(kv.key, kv.mod_revision)]
    operations = [] if then is None else [then]
    if run.holds_lock:
        compares.append(create_revision_is(lock, kv.create_revision))
        operations.append(Delete(lock))
    for _ in range(_TRIES):
        following = NOTHING
        if not run.has_ended:
            [following] = await aftermath.asked([End.by(run.entry, record, frees_lock=run.holds_lock)])
        result = await client.txn(Txn([*compares, *following.compares], [*operations, *following.then]))
        if result.succeeded:
            return result.revision
        if not following.compares:
            break  # nothing but its own: the run is not as it was
    return None


def holds_its_lock(entry: RunEntry, kv: KeyValue, lock: KeyRevisions | None) -> bool:
    """Whether the job's lock is the one that this run's claim took."""
    return entry.locked and lock is not None and lock.create_revision == kv.create_revision


async def read_command(client: EtcdClient, keys: Keys, run_id: RunId, entry: RunEntry) -> tuple[str, Mapping[str, str]]:
    """The command and labels that the run was claimed with, as far as etcd still knows them."""
    try:
        kv = await client.get(keys.job(run_id.job_name), revision=entry.revision)
        spec = SavedJob.from_json(kv.value, name=run_id.job_name).spec if kv is not None else None
    except EtcronError:  # compacted, or unreadable: the record does without
        spec = None
    return (spec.command_line, spec.labels) if spec is not None else ("", {})
