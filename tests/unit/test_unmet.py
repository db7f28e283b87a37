"""The jobs that are due, and that no worker may take."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any, cast

from common.access.rights import OWNER
from common.etcd import Change
from common.protocol.keys import Keys
from common.protocol.txn import KeyValue
from manager.cluster.unmet import Unmet
from manager.watch.catalog import Catalog
from tests.support.fake_clock import FakeClock

KEYS = Keys("/test")


async def test_others_use_the_loop_while_jobs_that_ask_for_the_same_are_gone_through() -> None:
    clock, catalog = FakeClock(), Catalog(KEYS, on_changed=lambda name, labels: None)
    job = {"command": "true", "every": "1h", "timezone": "UTC", "workers": {"gpu": ["a100"]}}
    for name in map(str, range(500)):
        value = json.dumps({**job, "name": name, "anchorMs": clock.wall_ms()}).encode()
        kv = KeyValue(key=KEYS.job(name), value=value, create_revision=1, mod_revision=1, version=1, lease=0)
        catalog.on_changes([Change(key=kv.key, old_mod=None, new=kv)])
    watching: Any = SimpleNamespace(catalog=catalog, members=())
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(others())
    assert await Unmet(watching, cast(Any, None), KEYS, clock=clock).count(OWNER) == 0, "none is due"
    other.cancel()
    assert turns >= 5
