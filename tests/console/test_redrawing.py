"""What a page draws again by itself takes nothing from whoever reads it, and no answer is shown over a newer one."""

from __future__ import annotations

import asyncio
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

from playwright.async_api import Route, expect

from tests.console.console import Console, script_of_ours, settled
from tests.console.test_job_page import history, write
from tests.console.test_live import NO_SHARED_WORKER
from tests.console.test_run_list import HAND_MADE_EVENTS
from tests.support.cluster import Cluster

BY_HAND = NO_SHARED_WORKER + HAND_MADE_EVENTS
REDRAW_ROWS = """
async (folder) => {
  const { redraw } = await import(`${folder}redraw.js`);
  const { h } = await import(`${folder}dom.js`);
  const box = document.body.appendChild(h("div"));
  const row = ([key, text, href]) =>
    h("p", { "data-key": key }, text, h("a", { href }, "open"), h("button", {}, "act"));
  const draw = (...rows) => redraw(box, rows.map(row));
  const [link, text] = [() => box.querySelector("[data-key=b] a"), () => box.querySelector("[data-key=b]").firstChild];
  const seen = [];
  draw(["a", "1", "/a"], ["b", "2", "/b"], ["c", "3", "/c"]);
  const [before, button] = [link(), box.querySelector("[data-key=b] button")];
  window.getSelection().selectAllChildren(text().parentElement);
  before.focus();
  draw(["new", "0", "/new"], ["a", "1", "/a"], ["b", "2", "/b"], ["c", "4", "/c"]);
  seen.push(link() === before, document.activeElement === before, String(window.getSelection()).includes("2"));
  draw(["c", "4", "/c"], ["b", "2", "/b"]);
  seen.push([...box.children].map((one) => one.textContent).join());
  before.focus();
  draw(["c", "4", "/c"], ["b", "two", "/elsewhere"]);
  seen.push(text().data, link() !== before, document.activeElement === link());
  seen.push(box.querySelector("[data-key=b] button") === button);
  draw(["c", "4", "/c"]);
  seen.push(document.activeElement === box.querySelectorAll("a, button")[1]);
  return seen;
}
"""


async def test_what_is_drawn_again_stays_the_same_where_nothing_has_changed(console: Console) -> None:
    page = await console.open("/")
    await settled(page)
    folder = await script_of_ours(page, "")
    # A link that leads elsewhere is another one: a click that has begun does not end there.
    assert await page.evaluate(REDRAW_ROWS, folder) == [
        True,
        True,
        True,
        "4openact,2openact",
        "two",
        True,
        True,
        True,
        True,
    ]


def run_of(number: int) -> dict[str, Any]:
    """A row of the list, as wide as they come."""
    run = f"a-long-name-of-a-job@17000000000{number:02d}#1"
    return {"id": run, "jobName": "a-long-name-of-a-job", "state": "finished", "status": "success", "worker": "w",
            "planTime": 1_700_000_000_000 + number, "attempt": 1, "trigger": "schedule"}  # fmt: skip


async def test_list_that_moves_on_keeps_what_is_selected_and_where_it_was_moved_to(console: Console) -> None:
    page = await console.open("about:blank", script=BY_HAND)
    runs, cursors = [run_of(number) for number in range(5)], []

    async def answer(route: Route) -> None:
        cursors.append(parse_qs(urlsplit(route.request.url).query).get("cursor", [""])[0])
        await route.fulfill(json={"items": runs[::-1], "nextCursor": f"{cursors[-1]}>"})

    await page.route("**/api/v1/runs?*", answer)
    await page.set_viewport_size({"width": 700, "height": 800})  # narrower, rows are cards, and nothing moves aside
    await page.goto("/runs")
    rows, table = page.locator("#runs tbody tr"), page.locator("#runs .scroll-x")
    await expect(rows).to_have_count(5)
    await table.evaluate("(box) => { box.parentElement.style.width = '300px'; box.scrollLeft = 200 }")
    await rows.last.evaluate("(row) => window.getSelection().selectAllChildren(row.children[1])")
    selected = await page.evaluate("String(window.getSelection())")
    runs.append(run_of(5))
    await page.evaluate("tell('runs', { jobs: {} })")
    await expect(rows).to_have_count(6)
    assert await table.evaluate("(box) => box.scrollLeft") == 200
    assert await page.evaluate("String(window.getSelection())") == selected != ""

    # Two clicks before the next page is there lead to the next page.
    await page.get_by_role("button", name="Next page").evaluate("(button) => { button.click(); button.click(); }")
    await page.get_by_role("button", name="Previous page").click()
    await expect(page.get_by_role("button", name="Previous page")).to_have_count(0)
    assert set(cursors) == {"", ">"}
    assert cursors[-1] == ""


async def test_what_is_heard_while_the_list_loads_is_looked_at_again(
    console: Console, cluster: Cluster, name: str
) -> None:
    """The answer may be older than what was heard, and nothing else would tell of it."""
    await cluster.save(name, "true", "@yearly")
    page = await console.open("about:blank", script=BY_HAND, own_context=True)
    asked, heard = asyncio.Event(), asyncio.Event()

    async def late(route: Route) -> None:
        answer = await route.fetch()
        asked.set()
        await heard.wait()
        await route.fulfill(response=answer)

    await page.clock.install()
    await page.route("**/api/v1/jobs?*", late, times=1)
    await page.goto(f"/jobs?q={name}")
    await asked.wait()
    await page.evaluate("(name) => tell('runs', { jobs: { [name]: { running: [] } } })", name)
    heard.set()
    await settled(page)
    async with page.expect_request("**/api/v1/jobs?*"):  # in real time it asks anyway, after 25 s; not in this one
        await page.clock.run_for(2000)


async def test_period_that_is_being_drawn_across_a_chart_is_not_lost_when_a_run_ends(
    console: Console, cluster: Cluster, name: str
) -> None:
    await cluster.save(name, "true", "@yearly")
    await write(cluster, history(name, (await cluster.get(f"/api/v1/jobs/{name}"))["revision"], failed=0))
    page = await console.open("about:blank", script=BY_HAND, own_context=True)
    await page.clock.install()
    await page.goto(f"/jobs/{name}")
    await settled(page)
    chart = page.locator("#durations")
    await expect(chart.locator(".dots .mark")).to_have_count(75)
    svg = chart.locator("svg.chart").first
    await svg.scroll_into_view_if_needed()
    box = await svg.bounding_box()
    assert box is not None
    await page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 30)
    await page.mouse.down()
    await page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 30, steps=3)
    async with page.expect_response(f"**/api/v1/jobs/{name}/durations") as again:
        await page.evaluate("(name) => tell('runs', { jobs: { [name]: { running: [] } } })", name)
        await page.clock.run_for(12_000)
    await (await again.value).finished()
    await page.mouse.up()
    await expect(chart.locator(".chart-note")).to_contain_text(re.compile("^Between "))
