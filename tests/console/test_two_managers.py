"""Two managers behind a proxy that knows nothing of them: whoever answers, nothing outdated is shown or edited."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from playwright.async_api import Page, expect

from tests.console.console import Console, choose, settled
from tests.support.cluster import EVERY_SECOND, Cluster, Process
from tests.support.etcd_server import free_port
from tests.support.proxy import Mode, Proxy
from tests.support.round_robin import RoundRobin, round_robin
from tests.support.waiting import wait_until


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The cluster's manager and another one, which can be made deaf, and the proxy in front of both."""

    proxy: RoundRobin
    prompt: str
    late: str
    etcd_of_the_late: Proxy


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def pair_of_managers(cluster: Cluster) -> AsyncIterator[Pair]:
    port = free_port()
    prompt, late = f"http://127.0.0.1:{cluster.ports[0]}", f"http://127.0.0.1:{port}"
    async with Proxy(cluster.etcd.endpoint) as etcd, round_robin([prompt, late]) as proxy:
        flags = (
            "--etcd-endpoints", etcd.endpoint, "--mongodb-uri", cluster.log_store.uri, "--api-port", str(port),
            "--auth", "off",
        )  # fmt: skip
        process = Process("manager", "manager-late", cluster.directory / "manager-late", flags)
        process.start()
        try:
            await wait_until(lambda: _answers(cluster, late), description="the other manager answers")
            yield Pair(proxy=proxy, prompt=prompt, late=late, etcd_of_the_late=etcd)
        finally:
            process.destroy()


async def _answers(cluster: Cluster, url: str) -> bool:
    assert cluster.http is not None
    try:
        async with cluster.http.get(f"{url}/readyz") as answer:
            return answer.status == 200
    except aiohttp.ClientConnectionError:
        return False


@pytest.fixture
def pair(pair_of_managers: Pair) -> Iterator[Pair]:
    """The two of them, as they usually are."""
    yield pair_of_managers
    pair_of_managers.proxy.rule = lambda _: None
    pair_of_managers.etcd_of_the_late.set(Mode.PASS)


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


async def test_what_was_saved_is_shown_and_edited_whoever_answers(console: Console, pair: Pair, name: str) -> None:
    page = await console.open("/new", base_url=pair.proxy.url)
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
    assert min(pair.proxy.answered.values()) > 20
    assert len(pair.proxy.answered) == 2


async def test_runs_kills_and_deletes_are_live_whoever_answers(
    console: Console, cluster: Cluster, pair: Pair, name: str
) -> None:
    page = await console.open(f"/jobs?q={name}", base_url=pair.proxy.url)
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

    await page.goto(f"/jobs?q={name}")
    await act(page, "Delete", job=name)
    await expect(page.locator("#toasts")).to_contain_text("deleted.")
    await expect(row).to_have_count(0)
    await page.reload()
    await settled(page)
    assert await row.count() == 0


async def test_answer_from_before_the_own_change_is_not_shown(
    console: Console, cluster: Cluster, pair: Pair, name: str
) -> None:
    """One manager answers every change; the other one every question on jobs, and does not hear of the change yet."""

    def rule(request: web.Request) -> str:
        asks = request.method == "GET" and request.path.startswith("/api/v1/jobs")
        asks = asks and not request.path.endswith("/notifications")
        return pair.late if asks else pair.prompt

    async def late_has_answered(path: str, status: int) -> None:
        before = len(pair.proxy.answers)

        def twice() -> bool:
            return pair.proxy.answers[before:].count(("GET", path, status)) >= 2

        await wait_until(twice, description=f"{path} was answered twice with {status}")

    pair.proxy.rule = rule
    path = f"/api/v1/jobs/{name}"
    page = await console.open("/new", base_url=pair.proxy.url)
    await settled(page)
    await page.get_by_label("Name").first.fill(name)
    await page.get_by_label("Command").fill("echo old")
    await page.get_by_label("Expression").fill("@yearly")
    pair.etcd_of_the_late.set(Mode.SWALLOW)
    await page.get_by_role("button", name="Create the job").click()
    await late_has_answered(path, 404)
    await expect(page.locator("#problem")).to_be_empty()
    pair.etcd_of_the_late.set(Mode.PASS)
    await expect(page.locator("#facts")).to_contain_text("echo old")

    await page.get_by_role("link", name="Edit").click()
    await settled(page)
    await page.get_by_label("Command").fill("echo new")
    pair.etcd_of_the_late.set(Mode.SWALLOW)
    await page.get_by_role("button", name="Save").click()
    await late_has_answered(path, 200)
    await expect(page.locator("#facts")).not_to_contain_text("echo old")
    pair.etcd_of_the_late.set(Mode.PASS)
    await expect(page.locator("#facts")).to_contain_text("echo new")

    await page.goto(f"/jobs?q={name}")
    row = page.locator("#jobs tbody tr")
    await choose(page, "Delete", name)
    await expect(page.get_by_role("dialog")).to_be_visible()
    pair.etcd_of_the_late.set(Mode.SWALLOW)
    await page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    await late_has_answered("/api/v1/jobs", 200)
    pair.etcd_of_the_late.set(Mode.PASS)
    await expect(row).to_have_count(0)
