"""Files of pages are fetched once, from the manager alone; an address without a page leads back."""

from __future__ import annotations

from playwright.async_api import expect

from tests.console.console import Console, settled


async def test_everything_that_is_hashed_is_kept_and_nothing_comes_from_elsewhere(console: Console) -> None:
    page = await console.open("about:blank")
    answers = []
    console.listen(page, "response", lambda answer: answers.append(answer))
    await page.goto("/")
    await settled(page)
    assert {answer.url.split("/")[2] for answer in answers} == {console.base.split("/")[2]}
    for answer in answers:
        if "/static/" in answer.url:
            assert "immutable" in (await answer.all_headers())["cache-control"], answer.url


async def test_an_address_without_a_page_leads_back(console: Console) -> None:
    page = await console.open("/nosuchpage")
    await console.shoot(page, "missing")
    await page.get_by_role("link", name="To the overview").click()
    await expect(page).to_have_url(f"{console.base}/")
    await settled(page)
    await expect(page.locator("#all-well")).to_be_visible()


async def test_records_that_wait_are_unknown_where_the_workers_cannot_be_asked_for(console: Console) -> None:
    page = await console.open()
    refused = {"code": "unavailable", "detail": "etcd does not answer"}
    await page.route("**/api/v1/workers", lambda route: route.fulfill(status=409, json=refused))
    await page.goto("/system")
    spool = page.locator("#checks [data-key=spool]")
    await expect(spool).to_contain_text("unknown")
    await expect(spool).not_to_contain_text("0")
