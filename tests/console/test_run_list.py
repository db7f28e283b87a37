"""All runs: what is going stands above what has ended, and becomes a record by itself."""

from __future__ import annotations

import re

from playwright.async_api import expect

from tests.console.console import Console, settled
from tests.console.test_live import NO_SHARED_WORKER
from tests.support.cluster import Cluster
from tests.support.waiting import wait_until

HAND_MADE_EVENTS = """
window.EventSource = class extends EventTarget {
  constructor() { super(); window.tell = (name, data) => this.say(name, JSON.stringify(data)); }
  say(name, data) { this.dispatchEvent(new MessageEvent(name, { data })); }
  close() {}
};
"""
"""A stream of events that says what the test says."""


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
    await page.locator("[data-status=running]").click()
    await expect(rows.filter(has_text=name)).to_have_count(1)
    await expect(page).to_have_url(re.compile("status=running"))
    await expect(rows.locator(".status", has_not_text="running")).to_have_count(0)
    await cluster.post("/job/kill", name=name)
    await expect(rows.filter(has_text=name)).to_have_count(0)
    await page.locator("[data-status=running]").click()
    await expect(rows.filter(has_text=name).locator(".status")).to_contain_text("killed")


async def test_runs_of_so_many_jobs_that_nobody_names_them_are_looked_at(
    console: Console, cluster: Cluster, name: str
) -> None:
    await cluster.save(name, "true", "@yearly")
    page = await console.open("about:blank", script=NO_SHARED_WORKER + HAND_MADE_EVENTS)
    async with page.expect_response("**/api/v1/runs?*"):
        await page.goto(f"/runs?job={name}")
    async with page.expect_response("**/api/v1/runs?*"):
        await page.evaluate("tell('hello', {})")
    await settled(page)
    await expect(page.locator("#runs")).to_contain_text("No runs match")
    await cluster.call("POST", f"/api/v1/jobs/{name}/run", {})

    async def has_ended() -> bool:
        return bool(await cluster.runs(job=name, status="success"))

    await wait_until(has_ended, description="it has run")
    await page.evaluate("tell('jobs', { all: true })")
    await expect(page.locator("#runs tbody .status")).to_have_text(" success")


async def test_what_failed_is_asked_for_again_when_a_server_is_back(
    console: Console, cluster: Cluster, name: str
) -> None:
    await cluster.save(name, "true", "@yearly")
    away = {"status": 503, "content_type": "application/problem+json", "body": '{"detail": "the log store is away"}'}
    page = await console.open("about:blank", script=NO_SHARED_WORKER + HAND_MADE_EVENTS, watched=False)
    await page.route("**/api/v1/runs?*", lambda route: route.fulfill(**away))
    await page.route("**/api/v1/runs?*", lambda route: route.abort(), times=1)  # then nobody need tell of it
    await page.goto(f"/runs?job={name}")
    await expect(page.locator("#problem")).to_have_text("the log store is away")
    await page.unroute("**/api/v1/runs?*")
    await page.evaluate("tell('health', { etcd: 'ok', logStore: 'ok' })")
    await expect(page.locator("#problem")).to_be_empty()


async def test_runs_of_a_job_are_what_goes_once_and_what_waits(console: Console, cluster: Cluster, name: str) -> None:
    await cluster.save(name, "sleep 600", "@yearly")
    for _ in range(2):
        await cluster.call("POST", f"/api/v1/jobs/{name}/run", {})
    page = await console.open(f"/runs?job={name}")
    states = page.locator("#runs tbody .status")
    await expect(states).to_have_count(2)
    await expect(states.first).to_have_text(" running")
    await expect(states.last).to_contain_text("waiting for the end of")
    await cluster.post("/job/delete", name=name)
    await cluster.post("/job/kill", name=name)
    await expect(states.filter(has_text="killed")).to_have_count(1)
