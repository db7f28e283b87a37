"""A run that a kill does not end can be given up from its page, and from nowhere earlier."""

from __future__ import annotations

import time
from urllib.parse import quote

from playwright.async_api import expect

from common.etcd import EtcdClient
from common.protocol.keys import Keys, RunId
from common.protocol.kill import OVERDUE_MS, Kill
from common.protocol.member import Beat, EndingRun
from common.protocol.run import EntryState, RunEntry, RunRecord
from common.protocol.txn import Put, Txn
from common.runlog import RunLog
from common.verdicts import Verdict
from tests.console.console import Console
from tests.support.cluster import Cluster
from tests.support.waiting import wait_until


async def is_free(etcd: EtcdClient, job: str) -> None:
    """Nothing runs of the job by now."""

    async def has_no_lock() -> bool:
        return await etcd.get(Keys().lock(job)) is None

    await wait_until(has_no_lock, description="the lock is free")


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
        await etcd.txn(Txn((), [Put(keys.run(run), entry.to_json()), Put(keys.lock(name), str(run).encode())]))
        page = await console.open(f"/runs/{quote(str(run), safe='')}")
        await expect(page.locator("#state")).to_have_text(" running")
        await expect(page.locator("#give-up")).to_have_count(0)
        kill = Kill(run_id=run, by="ann", at_ms=now_ms - OVERDUE_MS)
        await etcd.put(keys.kill(run), kill.to_json())
        await page.reload()
        await page.get_by_role("button", name="Give up").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text(f"Frees the lock of {name}: burned has not ended this run.")
        await dialog.get_by_label("Reason (kept in the record)").fill("the machine burned")
        await dialog.get_by_role("button", name="Give up").click()
        await expect(page.locator("#state")).to_have_text(" lost")
        await expect(page.locator("#why")).to_contain_text("the machine burned")
        await is_free(etcd, name)


async def test_run_that_is_ending_shows_what_is_left_of_it_and_is_given_up(
    console: Console, cluster: Cluster, name: str
) -> None:
    await cluster.save(name, "true", "@yearly")
    keys, plan_ms = Keys(), time.time_ns() // 1_000_000 - 60_000
    run = RunId.planned(name, plan_ms)
    entry = RunEntry(state=EntryState.OPEN, worker="stuck", session="123abc", locked=True, plan_ms=plan_ms,
                     dispatch_ms=plan_ms)  # fmt: skip
    record = RunRecord(run_id=run, status=Verdict.KILLED, err="killed by ann", plan_ms=plan_ms, start_ms=plan_ms,
                       end_ms=plan_ms + 10_000, worker="stuck")  # fmt: skip
    left = EndingRun(run=str(run), since_ms=plan_ms + 10_000, processes=(41, 42))
    beat = Beat(kind="worker", wall_ms=plan_ms, ending_count=1, ending=(left,))
    async with EtcdClient([cluster.etcd.endpoint]) as etcd, RunLog(cluster.log_store.uri) as runlog:
        await runlog.write([record])
        await etcd.txn(Txn((), [
            Put(keys.run(run), entry.to_json()), Put(keys.lock(name), str(run).encode()),
            Put(keys.beat("stuck"), beat.to_json()),
        ]))  # fmt: skip
        page = await console.open(f"/jobs/{name}")
        await expect(page.locator("#facts")).to_contain_text("ending")
        await page.goto(f"/runs/{quote(str(run), safe='')}")
        await expect(page.locator("#state")).to_have_text(" ending")
        await expect(page.locator("#facts")).to_contain_text("Processes 41, 42 on stuck cannot be ended.")
        await expect(page.locator("#kill")).to_have_count(0)
        await console.shoot_all(page, "run-ending")
        await page.get_by_role("button", name="Give up").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Reason (kept in the record)").fill("they may go on")
        await dialog.get_by_role("button", name="Give up").click()
        # Its worker was never there, so the steward frees the lock; the beat is read anew in a while.
        await etcd.delete(keys.beat("stuck"))
        await expect(page.locator("#state")).to_have_text(" killed")
        await expect(page.locator("#give-up")).to_have_count(0)
        await is_free(etcd, name)
