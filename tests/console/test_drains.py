"""A worker is drained with a reason and taken back, also one that is not live."""

from __future__ import annotations

import re

from playwright.async_api import expect

from common.etcd import EtcdClient
from common.protocol.keys import Keys
from common.protocol.roster import Left, RosterEntry
from tests.console.console import AXE, Console, findings, settled
from tests.support.cluster import EVERY_SECOND, Cluster
from tests.support.waiting import wait_until


async def test_drain_says_who_and_why_and_undrain_takes_it_back(console: Console, cluster: Cluster, name: str) -> None:
    await cluster.save(name, "true", "@hourly")
    await cluster.save(f"{name}-due", "true", EVERY_SECOND)
    await cluster.save(f"{name}-there", "true", "@yearly", slots=2)
    page = await console.open("/workers")
    await settled(page)
    row, dialog = page.locator("#workers tbody tr"), page.get_by_role("dialog")

    async def has_fired() -> bool:
        return bool(await cluster.runs(job=f"{name}-due"))

    await wait_until(has_fired, description="it fires")  # what never ran is due, and not overdue
    await row.get_by_role("button", name="Drain: worker-1").click()
    await dialog.get_by_role("textbox").fill("new disks")
    await expect(dialog).to_contain_text("No other worker takes fires: nothing fires until you undrain it")
    alone = (await cluster.get("/api/v1/workers/worker-1"))["onlyThere"]["count"]  # with what other tests have left
    assert alone > 0
    await expect(dialog).to_contain_text(f"{alone} job{'s' if alone > 1 else ''} can run only there")
    await console.shoot(page, "drain-dialog")
    await dialog.get_by_role("button", name="Drain", exact=True).click()
    try:
        # Draining for as long as something that an earlier test has left goes on there.
        await expect(row).to_contain_text(re.compile(r" drain(ed|ing)"))
        await expect(row).to_contain_text("new disks")
        await expect(row).to_contain_text("by console 127.0.0.1 since")
        await expect(row.get_by_role("button", name="Undrain: worker-1")).to_be_focused()
        if AXE.exists():
            assert await findings(page) == []
        await console.shoot_all(page, "workers-drained")
        system = await console.open("/system")
        await expect(system.locator("[data-key=workers]")).to_contain_text("0 of 1 worker takes fires")
        await system.goto("/jobs")
        await expect(system.locator("#healthy")).to_contain_text("0 of 1 worker takes fires")
        job = await console.open(f"/jobs/{name}#schedule")
        await expect(job.locator("#upcoming .note")).to_contain_text(
            re.compile("no matching worker takes fires.*worker-1 drained", re.DOTALL)
        )
        await expect(job.locator("#upcoming .note")).to_contain_text("new disks")
        await console.shoot_all(job, "fires-drained")
        await job.goto(f"/jobs/{name}-due#schedule")
        await expect(job.locator("#overdue")).to_contain_text(
            re.compile(r"overdue since .*: no matching worker takes fires.*new disks", re.DOTALL)
        )
        await expect(job.locator("#health")).to_contain_text(re.compile("Overdue since .*new disks"))
        await console.shoot_all(job, "fires-overdue")
        await row.get_by_role("button", name="Undrain: worker-1").click()
        await expect(row).to_contain_text("healthy")
    finally:
        await cluster.call("POST", "/api/v1/workers/worker-1/undrain", {})
        for other in ("due", "there"):
            await cluster.call("DELETE", f"/api/v1/jobs/{name}-{other}")


async def test_drained_worker_that_is_not_live_is_still_there(console: Console, cluster: Cluster) -> None:
    async with cluster.another_worker("worker-away") as away:
        await cluster.call("POST", "/api/v1/workers/worker-away/drain", {"reason": "is replaced"})
        await away.end()
        page = await console.open("/workers")
        row = page.locator("#workers tbody tr").filter(has_text="worker-away")
        await expect(row).to_contain_text("not live")
        await expect(row).to_contain_text("is replaced")
        await console.shoot_all(page, "workers-away")
        asked: list[str] = []
        console.listen(page, "request", lambda request: asked.append(request.url))
        await row.get_by_role("button", name="Undrain").evaluate("(button) => { button.click(); button.click(); }")
        await expect(row).to_contain_text("stopped")
        await expect(row).not_to_contain_text("is replaced")
        assert sum(url.endswith("/undrain") for url in asked) == 1

        await row.get_by_role("link", name="worker-away").click()
        await expect(page.locator("#notice")).to_contain_text("Stopped")
        events = page.locator("#events tbody tr")

        async def is_told() -> bool:
            await page.reload()
            await settled(page)
            return await events.filter(has_text=re.compile("^.*undrained")).count() == 1

        await wait_until(is_told, description="the audit has come to the log store")
        await expect(events.filter(has_text="is replaced")).to_contain_text("api 127.0.0.1")
        await console.shoot_all(page, "worker-away", whole=True)
        await page.get_by_role("button", name="Forget").click()
        await page.get_by_role("dialog").get_by_role("button", name="Forget", exact=True).click()
        await page.wait_for_url("**/workers")
        await settled(page)
        await expect(page.locator("#workers tbody tr")).to_have_count(1)
        await page.goto("/workers/worker-away")
        await expect(page.locator("#problem")).to_contain_text("there is no worker 'worker-away'")
        await expect(page.locator("#facts")).to_be_hidden()
        entry = RosterEntry(
            worker="worker-away", host="h", seen_ms=1, left=Left.STOPPED
        )  # who leaves the block forgets it
        async with EtcdClient([cluster.etcd.endpoint]) as etcd:
            await etcd.put(Keys("/etcron").roster_entry("worker-away"), entry.to_json())
