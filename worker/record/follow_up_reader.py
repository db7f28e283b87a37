"""What follows the end of a run: from the catalog, or asked of etcd."""

from __future__ import annotations

from collections.abc import Sequence

from common.etcd import EtcdClient
from common.protocol.follow_ups import End, Facts, FollowUp, follow, may_be_tried_again, next_link_after
from common.protocol.keys import Keys
from worker.catalog import Catalog


class FollowUpReader:
    """Reads; writes nothing. What it gives goes into the caller's own transaction."""

    def __init__(self, client: EtcdClient, keys: Keys, catalog: Catalog) -> None:
        self._client = client
        self._keys = keys
        self._catalog = catalog

    def known(self, end: End) -> FollowUp | None:
        """What follows, by the catalog alone: so it is for nearly every run. None: etcd has to be asked."""
        if may_be_tried_again(end.record):
            return None
        return next_link_after(self._keys, end, self._catalog.of_run(end.run_id))

    async def asked(self, ends: Sequence[End]) -> list[FollowUp]:
        """What follows each of them, as etcd knows it. EtcdError, UnavailableError: it does not answer."""
        found = await self._client.get_many([key for end in ends for key in Facts.keys_of(self._keys, end)])
        return [follow(self._keys, end, Facts.found(self._keys, end, found)) for end in ends]
