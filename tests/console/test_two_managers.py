"""Two managers behind a proxy that knows nothing of them: whoever answers, nothing outdated is shown or edited."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import aiohttp
import pytest_asyncio
from playwright.async_api import Page, expect

from common.clock import SystemClock
from tests.console.console import PATIENT_MANAGER, Console, choose, settled
from tests.support.cluster import EVERY_SECOND, Cluster, Process
from tests.support.etcd_server import free_port
from tests.support.round_robin import RoundRobin, round_robin
from tests.support.waiting import wait_until


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def pair(cluster: Cluster) -> AsyncIterator[RoundRobin]:
    """In front of the cluster's manager and another one."""
    port = free_port()
    first, second = f"http://127.0.0.1:{cluster.ports[0]}", f"http://127.0.0.1:{port}"
    process = Process(
        "manager", "manager-2", cluster.directory / "manager-2",
        (*cluster.shared, "--api-port", str(port), "--auth", "off", *PATIENT_MANAGER),
    )  # fmt: skip
    process.start()
    try:
        await wait_until(lambda: _answers(cluster, second), description="the other manager answers")
        async with round_robin([first, second]) as proxy:
            yield proxy
    finally:
        process.destroy()


OUTDATED = 4  # a page asks for longer


async def _answers(cluster: Cluster, url: str) -> bool:
    assert cluster.http is not None
    try:
        async with cluster.http.get(f"{url}/readyz") as answer:
            return answer.status == 200
    except aiohttp.ClientConnectionError:
        return False


async def shown(page: Page, selector: str) -> str:
    """What stands there as soon as the page has its data: nothing is waited for that would come later."""
    await settled(page)
    return await page.locator(selector).inner_text()


async def act(page: Page, action: str, reason: str | None = None, *, job: str = "") -> None:
    """On a job's page, or (``job``) in the list of jobs."""
    if job:
        await choose(page, action, job)
    else:
        await page.get_by_role("button", name=action).click()
    dialog = page.get_by_role("dialog")
    if reason is not None:
        await dialog.get_by_role("textbox").fill(reason)
    await dialog.get_by_role("button", name=action, exact=True).click()
    await expect(dialog).to_have_count(0)


async def test_what_was_saved_is_shown_and_edited_whoever_answers(
    console: Console, pair: RoundRobin, name: str
) -> None:
    page = await console.open(f"{pair.url}/new")
    await settled(page)
    await page.get_by_label("Name").first.fill(name)
    await page.get_by_label("Command").fill("echo 0")
    await page.get_by_label("Expression").fill("@yearly")
    await page.get_by_role("button", name="Create the job").click()
    for number in range(3):
        await page.wait_for_url(f"**/jobs/{name}")
        assert f"echo {number}" in await shown(page, "#facts")
        assert await page.locator("#problem").inner_text() == ""
        await page.get_by_role("link", name="Edit").click()
        await page.wait_for_url("**/edit")
        await settled(page)
        await expect(page.locator("#job-form")).to_be_visible()
        assert await page.get_by_label("Command").input_value() == f"echo {number}"
        await page.get_by_label("Command").fill(f"echo {number + 1}")
        await page.get_by_role("button", name="Save").click()

    await page.wait_for_url(f"**/jobs/{name}")
    await act(page, "Pause", "holidays")
    await expect(page.locator("#state")).to_have_text(" paused")
    await page.get_by_role("button", name="Resume").click()
    await expect(page.locator("#toasts")).to_contain_text("resumed.")
    await page.reload()
    assert await shown(page, "#state") == " enabled"
    assert min(pair.answered.values()) > 20
    assert len(pair.answered) == 2


async def test_runs_kills_and_deletes_are_live_whoever_answers(
    console: Console, cluster: Cluster, pair: RoundRobin, name: str
) -> None:
    page = await console.open(f"{pair.url}/jobs?q={name}")
    row = page.locator("#jobs tbody tr")
    await expect(page.locator("#live")).to_have_text(" Live")
    await cluster.save(name, "echo done", EVERY_SECOND)
    await expect(row.locator(".strip .is-success").first).to_be_visible()
    await cluster.save(name, "echo begun; exec sleep 1000", EVERY_SECOND)
    # A second at least: it is not the last run of the former command, which would have ended before it is killed.
    await expect(row.locator(".c-state")).to_contain_text(re.compile(r"\b[1-9]\d* s"))
    await act(page, "Kill", "seen enough", job=name)
    await expect(row.locator(".strip .is-killed")).to_have_count(1)
    await expect(row.locator(".c-state")).to_contain_text(re.compile(r"\b[1-9]\d* s"))  # the next one has begun
    await cluster.save(name, "true", "@yearly")
    await expect(row.locator(".c-schedule")).to_contain_text("@yearly")
    await act(page, "Kill", job=name)
    await expect(row.locator(".c-state")).to_have_text(" enabled")

    await choose(page, "Runs", name)
    runs = page.locator("#recent tbody tr")
    await expect(runs.filter(has_text="seen enough")).to_have_count(1)
    await runs.get_by_role("link", name="success").last.click()
    await expect(page.locator("#output")).to_have_text("done")

    await page.goto(f"{pair.url}/jobs?q={name}")
    await act(page, "Delete", job=name)
    await expect(page.locator("#toasts")).to_contain_text("deleted.")
    await expect(row).to_have_count(0)
    await page.reload()
    await settled(page)
    assert await row.count() == 0


async def test_answer_from_before_the_own_change_is_not_shown(console: Console, pair: RoundRobin, name: str) -> None:
    """As where the manager that answers has not heard of the change yet."""

    async def outdated_ones_have_been_answered(path: str, status: int) -> None:
        def twice() -> bool:
            return pair.answers[before:].count(("GET", path, status)) >= 2

        await wait_until(twice, description=f"{path} was answered twice with {status}")

    path, before = f"/api/v1/jobs/{name}", len(pair.answers)
    page = await console.open(f"{pair.url}/livez", own_context=True)
    await page.clock.set_fixed_time(SystemClock().wall_ms())  # the page knows for 10 s what it has written
    await page.goto(f"{pair.url}/new")
    await settled(page)
    await page.get_by_label("Name").first.fill(name)
    await page.get_by_label("Command").fill("echo old")
    await page.get_by_label("Expression").fill("@yearly")
    await pair.outdate(path, times=OUTDATED)
    await page.get_by_role("button", name="Create the job").click()
    await page.wait_for_url(f"**/jobs/{name}")
    await outdated_ones_have_been_answered(path, 404)
    assert await page.locator("#problem, #missing").all_text_contents() == ["", ""]
    await expect(page.locator("#facts")).to_contain_text("echo old")

    await page.get_by_role("link", name="Edit").click()
    await page.wait_for_url("**/edit")
    await settled(page)
    await page.get_by_label("Command").fill("echo new")
    await pair.outdate(path, times=OUTDATED)
    before = len(pair.answers)
    await page.get_by_role("button", name="Save").click()
    await page.wait_for_url(f"**/jobs/{name}")
    await outdated_ones_have_been_answered(path, 200)
    assert "echo old" not in (await page.locator("#facts").text_content() or "")
    await expect(page.locator("#facts")).to_contain_text("echo new")

    await page.goto(f"{pair.url}/jobs?q={name}")
    row = page.locator("#jobs tbody tr")
    await choose(page, "Delete", name)
    await expect(page.get_by_role("dialog")).to_be_visible()
    await pair.outdate("/api/v1/jobs", times=OUTDATED, q=name)
    before = len(pair.answers)
    await page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    await outdated_ones_have_been_answered("/api/v1/jobs", 200)
    await expect(row).to_have_count(0)
