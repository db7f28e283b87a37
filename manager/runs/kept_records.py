"""Records that wait in etcd for the log store: all that is known of the past while that is away."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from common.errors import EtcdError, UnavailableError
from common.etcd import EtcdClient
from common.protocol.keys import Keys, RunId
from common.protocol.run import RunEntry

MOST: Final = 500
NO_RECORDS: Final = (
    "the log store cannot be reached: of fires that are over only what etcd still knows is shown, and runs that have "
    "ended meanwhile may be shown as running"
)


async def kept_records(etcd: EtcdClient, keys: Keys, runs: Iterable[RunId]) -> list[dict[str, Any]]:
    """The log documents that are in the keys of these runs, of the newest 500 at most; where etcd is away, none.

    Skipped and missed fires have one there, and runs that were settled by others than their worker.
    """
    newest = sorted((run for run in runs if run.plan_ms is not None), key=lambda run: run.plan_ms or 0)[-MOST:]
    try:
        found = await etcd.get_many([keys.run(run) for run in newest]) if newest else {}
    except (EtcdError, UnavailableError):
        return []
    documents = []
    for kv in found.values():
        try:
            record = RunEntry.from_json(kv.value).record
        except ValueError:
            continue
        if record is not None:
            documents.append(record.to_document())
    return documents
