"""Which jobs are due while no worker takes fires."""

from __future__ import annotations

import json

import pytest

from common.etcd import Change
from common.jobs.reader import parse_job
from common.protocol.keys import Keys
from common.protocol.txn import KeyValue
from common.schedules.schedule import dispatch_ms
from manager.watch.catalog import Catalog

KEYS = Keys("/test")
HOUR_MS = 3_600_000


async def overdue(catalog: Catalog, now_ms: int) -> list[str]:
    return await catalog.overdue.names(since_ms=HOUR_MS - 1, now_ms=now_ms)


@pytest.mark.parametrize("jitter_s", [0, 3000])
async def test_a_job_is_due_once_its_random_delay_is_over(jitter_s: int) -> None:
    catalog = Catalog(KEYS, on_changed=lambda name, labels: None)
    document = {"name": "j", "command": "true", "cronExpr": "@hourly", "timezone": "UTC", "jitterSeconds": jitter_s}
    value = json.dumps({**document, "anchorMs": 1}).encode()
    kv = KeyValue(key=KEYS.job("j"), value=value, create_revision=1, mod_revision=1, version=1, lease=0)
    catalog.on_changes([Change(key=KEYS.job("j"), old_mod=None, new=kv)])
    due_ms = dispatch_ms("j", parse_job(document).schedule, jitter_s, HOUR_MS)
    assert (due_ms > HOUR_MS) is (jitter_s > 0)
    assert await overdue(catalog, due_ms - 1) == []
    assert await overdue(catalog, due_ms) == ["j"]
