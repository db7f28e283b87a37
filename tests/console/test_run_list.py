"""All runs: what is going stands above what has ended, and becomes a record by itself."""

from __future__ import annotations

from playwright.async_api import expect

from tests.console.console import Console, settled
from tests.support.cluster import Cluster


async def test_what_is_going_stands_first_and_can_be_asked_for(console: Console, cluster: Cluster, name: str) -> None:
    await cluster.save(name, "sleep 600", "@yearly")
    await cluster.call("POST", f"/api/v1/jobs/{name}/run", {})
    page = await console.open(f"/runs?job={name}")
    rows = page.locator("#runs tbody tr")
    await expect(rows).to_have_count(1)
    await expect(rows.locator(".status")).to_have_text(" running")
    await page.goto("/runs")
    await settled(page)
    await expect(rows.first.locator(".status")).to_have_text(" running")
    await console.shoot(page, "runs-going")
    await page.get_by_label("Status").select_option("running")
    await expect(rows.filter(has_text=name)).to_have_count(1)
    assert "status=running" in page.url
    await expect(rows.locator(".status", has_not_text="running")).to_have_count(0)
    await cluster.post("/job/kill", name=name)
    await expect(rows.filter(has_text=name)).to_have_count(0)
    await page.get_by_label("Status").select_option("")
    await expect(rows.filter(has_text=name).locator(".status")).to_contain_text("killed")


async def test_the_page_of_a_job_shows_what_is_going_once(console: Console, cluster: Cluster, name: str) -> None:
    await cluster.save(name, "sleep 600", "@yearly")
    for _ in range(2):
        await cluster.call("POST", f"/api/v1/jobs/{name}/run", {})
    page = await console.open(f"/jobs/{name}")
    states = page.locator("#runs tbody .status")
    await expect(states).to_have_count(2)
    await expect(states.first).to_have_text(" running")
    await expect(states.last).to_contain_text("waits for the end of")
    await cluster.post("/job/delete", name=name)
    await cluster.post("/job/kill", name=name)
    await expect(states.filter(has_text="killed")).to_have_count(1)
