"""Giving up a run of whose end nobody knows: its record, and the one transaction that writes it and frees the lock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from common.errors import EtcronError
from common.etcd import Compare, Delete, EtcdClient, KeyValue, Put, create_revision_is, mod_revision_is
from common.keys import Keys, RunId
from common.run import RunEntry, RunRecord, Verdict
from common.saved_job import SavedJob


class RecordFinder(Protocol):
    """Where delivered records can be looked up."""

    async def find(self, run_ids: Sequence[RunId], *, deadline_seconds: float) -> Mapping[str, RunRecord]:
        """Those that exist, by run id; UnavailableError where the store does not answer in time."""


async def put_lost(
    client: EtcdClient,
    keys: Keys,
    run_id: RunId,
    entry: RunEntry,
    kv: KeyValue,
    final: RunEntry,
    *,
    holds_lock: bool,
    only_if: Sequence[Compare] = (),
) -> int | None:
    """Put the final entry, and free the run's own lock where it holds it (a lock that is not its own never will be).

    The new revision, or None where the run key or the lock has changed: look again.
    """
    compares, then = [*only_if, mod_revision_is(kv.key, kv.mod_revision)], [Put(kv.key, final.to_json())]
    if holds_lock:
        compares.append(create_revision_is(keys.lock(run_id.job), kv.create_revision))
        result = await client.txn(compares, [*then, Delete(keys.lock(run_id.job))])
    else:
        result = await client.txn(compares, then)
    return result.revision if result.succeeded else None


def holds_its_lock(entry: RunEntry, kv: KeyValue, lock: KeyValue | None) -> bool:
    """Whether the job's lock is the one that this run's claim took."""
    return entry.locked and lock is not None and lock.create_revision == kv.create_revision


async def read_command(client: EtcdClient, keys: Keys, run_id: RunId, entry: RunEntry) -> tuple[str, Mapping[str, str]]:
    """The command and labels that the run was claimed with, as far as etcd still knows them."""
    try:
        kv = await client.get(keys.job(run_id.job), revision=entry.revision)
        spec = SavedJob.from_json(kv.value, name=run_id.job).spec if kv is not None else None
    except EtcronError:  # compacted, or unreadable: the record does without
        spec = None
    return (spec.command_line, spec.labels) if spec is not None else ("", {})


def lost_record(
    run_id: RunId,
    entry: RunEntry,
    *,
    fence: int,
    reason: str,
    now_ms: int,
    command: str = "",
    labels: Mapping[str, str],
) -> RunRecord:
    """The record of a run of whose end nobody knows."""
    return RunRecord(
        run_id=run_id,
        status=Verdict.LOST,
        reason=reason,
        err=f"lost: {reason}",
        command=command,
        labels=labels,
        plan_ms=entry.plan_ms,
        schedule_ms=entry.dispatch_ms,
        create_ms=entry.claim_ms,
        claim_ms=entry.claim_ms,
        end_ms=now_ms,
        worker=entry.worker,
        trigger=entry.trigger,
        revision=entry.revision,
        fence=fence,
    )
