"""A watch that died silently is found out by what it should have shown: within 40 s of the write that it missed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from common.errors import EtcdError, UnavailableError
from common.etcd import EtcdClient, Mirror
from common.protocol.keys import Keys, Watched
from common.protocol.txn import GetKey, Txn

LOOK_S: Final = 30.0


class Sentinels:
    """Reads the sentinels, each as it is, and has a mirror that missed a write read its prefix again."""

    def __init__(self, client: EtcdClient, keys: Keys, mirrors: Mapping[Watched, Mirror]) -> None:
        self._client = client
        self._mirrors = {keys.seen(watched): mirror for watched, mirror in mirrors.items()}

    async def run(self) -> None:
        """Looks until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.look()
            except (EtcdError, UnavailableError):
                continue  # the mirrors notice that themselves

    async def look(self) -> None:
        """What has just been written is given the mirror's own grace before it counts as missed."""
        answers = await asyncio.gather(*(self._client.txn(Txn((), [GetKey(key)])) for key in self._mirrors))
        for mirror, answer in zip(self._mirrors.values(), answers, strict=True):
            sentinel = answer.key(0)
            if mirror.missed(sentinel.mod_revision if sentinel is not None else 0, answer.revision):
                mirror.resync("a sentinel was missed")
