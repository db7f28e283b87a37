"""Which jobs are due while no worker takes fires."""

from __future__ import annotations

import asyncio
import json
from typing import Any

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


def save(catalog: Catalog, name: str, **fields: Any) -> dict[str, Any]:
    document = {"name": name, "command": "true", "cronExpr": "@hourly", "timezone": "UTC", **fields}
    value = json.dumps({**document, "anchorMs": 1}).encode()
    kv = KeyValue(key=KEYS.job(name), value=value, create_revision=1, mod_revision=1, version=1, lease=0)
    catalog.on_changes([Change(key=KEYS.job(name), old_mod=None, new=kv)])
    return document


@pytest.mark.parametrize("jitter_s", [0, 3000])
async def test_a_job_is_due_once_its_random_delay_is_over(jitter_s: int) -> None:
    catalog = Catalog(KEYS, on_changed=lambda name, labels: None)
    document = save(catalog, "j", jitterSeconds=jitter_s)
    due_ms = dispatch_ms("j", parse_job(document).schedule, jitter_s, HOUR_MS)
    assert (due_ms > HOUR_MS) is (jitter_s > 0)
    assert await overdue(catalog, due_ms - 1) == []
    assert await overdue(catalog, due_ms) == ["j"]


async def test_all_that_are_due_are_counted_after_a_call_was_given_up_half_way() -> None:
    catalog, names = Catalog(KEYS, on_changed=lambda name, labels: None), [f"j{number:03}" for number in range(300)]
    for name in names:
        save(catalog, name)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):  # a time, not a deadline: it is over
            await overdue(catalog, HOUR_MS)
    assert await overdue(catalog, HOUR_MS) == names
    catalog.on_changes([Change(key=KEYS.job("j007"), old_mod=1, new=None)])
    assert await overdue(catalog, HOUR_MS) == [name for name in names if name != "j007"]
