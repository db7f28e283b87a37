"""What follows the end of a run, with the facts that it takes: from the catalog, or asked of etcd."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from common.errors import EtcronError
from common.etcd import EtcdClient
from common.protocol.follow_ups import End, Facts, FollowUp, another_attempt, follow
from common.protocol.keys import Keys
from common.protocol.planned_job import PlannedJob, read_job
from common.protocol.txn import KeyValue
from worker.catalog import Catalog


class Aftermath:
    """Reads; writes nothing. What it gives goes into the caller's own transaction."""

    def __init__(self, client: EtcdClient, keys: Keys, catalog: Catalog) -> None:
        self._client = client
        self._keys = keys
        self._catalog = catalog

    def known(self, end: End) -> FollowUp | None:
        """What follows, by the catalog alone: so it is for nearly every run. None: etcd has to be asked."""
        job = self._catalog.of_run(end.run_id)
        return None if another_attempt(end, job) else follow(self._keys, end, Facts(job=job))

    async def asked(self, ends: Sequence[End]) -> list[FollowUp]:
        """What follows each of them, as etcd knows it. EtcdError, UnavailableError: it does not answer."""
        wanted = [key for end in ends for key in self._keys_of(end)]
        found = await self._client.get_many(wanted)
        return [follow(self._keys, end, self._facts(end, found)) for end in ends]

    def _keys_of(self, end: End) -> tuple[str, ...]:
        keys = self._keys
        return (
            keys.job(end.run_id.job_name), keys.mark(end.run_id.job), keys.kill(end.run_id),
            keys.run(end.next_attempt), keys.request(end.next_attempt),
        )  # fmt: skip

    def _facts(self, end: End, found: Mapping[str, KeyValue]) -> Facts:
        job, mark, kill, run, request = (found.get(key) for key in self._keys_of(end))
        return Facts(
            job=_readable(end.run_id.job_name, job), mark=mark, is_killed=kill is not None,
            has_next=run is not None or request is not None,
        )  # fmt: skip


def _readable(name: str, kv: KeyValue | None) -> PlannedJob | None:
    try:
        return None if kv is None else read_job(name, kv)
    except EtcronError:
        return None
