"""A run that its worker has left gets its verdict, frees its lock and puts what follows, in one transaction."""

from __future__ import annotations

import logging

from common.clock import Clock
from common.etcd import EtcdClient
from common.protocol.keys import Keys
from common.protocol.records import lost_record
from common.protocol.run import RunRecord, final_entry
from common.protocol.run_writes import KeyAfter, LeftRun
from common.protocol.txn import Guards
from worker.settling.aftermath import Aftermath
from worker.settling.lost import end_run, read_command
from worker.settling.settlement import Settlement

_log = logging.getLogger(__name__)


class Verdicts:
    """Settles runs as the steward: by the record that the log store has, or else as lost."""

    def __init__(
        self,
        *,
        client: EtcdClient,
        keys: Keys,
        worker: str,
        aftermath: Aftermath,
        settlement: Settlement,
        clock: Clock,
    ) -> None:
        self._client = client
        self._keys = keys
        self._worker = worker
        self._aftermath = aftermath
        self._settlement = settlement
        self._clock = clock

    async def settle(self, run: LeftRun, found: RunRecord | None, *, why: str, only_if: Guards) -> None:
        """``found``: its record in the log store, which is the verdict; None: it is lost, for this reason.

        Changes nothing where the run is not as it was, or ``only_if`` is false.
        """
        if found is not None:
            await end_run(self._client, self._keys, self._aftermath, run, found, KeyAfter.GONE, only_if=only_if)
            return
        run_id, entry, kv = run.run_id, run.entry, run.kv
        command, labels = await read_command(self._client, self._keys, run_id, entry)
        record = lost_record(
            run_id, entry, fence=kv.create_revision, reason=why, now_ms=self._clock.wall_ms(),
            command=command, labels=labels,
        )  # fmt: skip
        final = final_entry(record, worker=self._worker)
        revision = await end_run(self._client, self._keys, self._aftermath, run, record, final, only_if=only_if)
        if revision is None:
            return
        self._settlement.deliver_final(record, revision)
        extra = {"action": "run.lost", "run": str(run_id), "worker": entry.worker, "reason": why}
        _log.warning("%s on worker %s is lost: %s", run_id, entry.worker, why, extra=extra)
