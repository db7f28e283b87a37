"""A run that a kill does not end can be given up from its page, and from nowhere earlier."""

from __future__ import annotations

import time
from urllib.parse import quote

from playwright.async_api import expect

from common.etcd import EtcdClient, Put
from common.stored.keys import Keys, RunId
from common.stored.kill import OVERDUE_MS, Kill
from common.stored.run import EntryState, RunEntry
from tests.console.console import Console
from tests.support.cluster import Cluster


async def test_run_whose_kill_is_pending_for_a_minute_is_given_up(
    console: Console, cluster: Cluster, name: str
) -> None:
    await cluster.save(name, "true", "@yearly")
    keys, now_ms = Keys(), time.time_ns() // 1_000_000
    run = RunId.planned(name, now_ms - 1000)
    entry = RunEntry(
        state=EntryState.OPEN, worker="burned", session="123abc", locked=True, plan_ms=now_ms - 1000,
        dispatch_ms=now_ms - 1000,
    )  # fmt: skip
    async with EtcdClient([cluster.etcd.endpoint]) as etcd:
        await etcd.txn((), [Put(keys.run(run), entry.to_json()), Put(keys.lock(name), str(run).encode())])
        page = await console.open(f"/runs/{quote(str(run), safe='')}")
        await expect(page.locator("#state")).to_have_text(" running")
        await expect(page.locator("#give-up")).to_have_count(0)
        kill = Kill(run_id=run, by="ann", at_ms=now_ms - OVERDUE_MS)
        await etcd.put(keys.kill(run), kill.to_json())
        await page.reload()
        await page.get_by_role("button", name="Give up").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text(f"Frees the lock of {name}, which burned does not end.")
        await dialog.get_by_label("Why? The record has it.").fill("the machine burned")
        await dialog.get_by_role("button", name="Give up").click()
        await expect(page.locator("#state")).to_have_text(" lost")
        await expect(page.locator("#facts")).to_contain_text("the machine burned")
        assert await etcd.get(keys.lock(name)) is None
