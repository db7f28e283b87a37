"""Every page, walked once: at 200 % nothing is cut or lies on another; a screen reader is told what each thing is."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from tests.console.console import Console, overflow, settled
from tests.support.cluster import EVERY_SECOND, Cluster
from tests.support.waiting import wait_until

PATHS: Final = (
    "/", "/jobs", "/new", "/crontab", "/jobs/{name}", "/jobs/{name}#runs", "/jobs/{name}#schedule",
    "/jobs/{name}#versions", "/jobs/{name}#definition", "/jobs/{name}/edit", "/runs", "/runs?group=error",
    "/runs/{run}", "/timeline", "/workers", "/workers/worker-1", "/alerts", "/notifications", "/system",
    "/jobs/nothing-like-it",
)  # fmt: skip
_FAULTS: Final = r"""
() => {
  const isSeen = (one) => one.checkVisibility({ visibilityProperty: true }) && !one.closest("svg, [aria-hidden=true]");
  const all = [...document.querySelectorAll("body *")].filter(isSeen);
  const told = (one) => `${one.tagName}.${one.className} ${(one.textContent || one.ariaLabel).trim().slice(0, 20)}`;
  const styleOf = (one) => getComputedStyle(one);
  const box = (one) => one.getBoundingClientRect();
  const hasText = (one) => [...one.childNodes].some(({ nodeType, data }) => nodeType === Node.TEXT_NODE && data.trim());
  const isText = (one) => box(one).width > 1 && hasText(one);
  const isCut = (value, size, room) => ["hidden", "clip"].includes(value) && size > room + 2;
  const cut = all.filter((one) => {
    const { overflowX, overflowY, textOverflow } = styleOf(one);
    const isCutAcross = textOverflow !== "ellipsis" && isCut(overflowX, one.scrollWidth, one.clientWidth);
    return isText(one) && (isCutAcross || isCut(overflowY, one.scrollHeight, one.clientHeight));
  });
  const moves = (one) => one && (["auto", "scroll"].includes(styleOf(one).overflowX) || moves(one.parentElement));
  const outside = all.filter((one) => isText(one) && box(one).right > innerWidth + 1 && !moves(one.parentElement));
  const controls = all.filter((one) => one.matches("a, button, input, select, textarea, summary") && box(one).width > 1
    && !moves(one.parentElement) && !one.closest(".bar, .form-end")); // these stay while the page moves under them
  const over = controls.flatMap((one, at) => controls.slice(at + 1).filter((other) => {
    const [a, b] = [box(one), box(other)];
    return !one.contains(other) && !other.contains(one) && Math.min(a.right, b.right) - Math.max(a.left, b.left) > 3
      && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;
  }).map((other) => `${told(one)} lies on ${told(other)}`));
  const unsaid = document.body.innerText.match(/.*(\[object|undefined|NaN).*/g) ?? [];
  const mute = unsaid.map((one) => `unsaid: ${one}`);
  return [...mute, ...cut.map((one) => `cut: ${told(one)}`), ...outside.map((one) => `outside: ${told(one)}`), ...over];
}
"""
_UNSEEN_FOCUS: Final = """
() => {
  const isSeen = (one) => one.checkVisibility({ visibilityProperty: true }) && one.getBoundingClientRect().width > 1;
  const styleOf = (one) => getComputedStyle(one);
  const ring = (one) => one && (styleOf(one).outlineStyle !== "none" || styleOf(one).boxShadow !== "none");
  const all = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")];
  const unseen = all.filter(isSeen).filter((one) => {
    one.focus({ focusVisible: true, preventScroll: true });
    return one === document.activeElement && !ring(one) && !(one.type === "radio" && ring(one.nextElementSibling));
  });
  return [...new Set(unseen.map((one) => `${one.tagName}.${one.className}`))];
}
"""
_NAMED: Final = frozenset({
    "button", "link", "textbox", "searchbox", "combobox", "checkbox", "radio", "slider", "spinbutton", "tab", "option",
    "listbox", "menuitem", "switch", "image", "progressbar", "table", "navigation", "region", "dialog",
    "DisclosureTriangle",
})  # fmt: skip
_HEADINGS: Final = """
[...document.querySelectorAll("h1, h2, h3, h4")].filter((one) => one.checkVisibility())
  .map((one) => Number(one.tagName[1]))
"""
_SAYS_BY_ITSELF: Final = "[role=alert], [role=status], [aria-live]"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def paths(cluster: Cluster) -> list[str]:
    """Of pages that show something: a job that failed, was changed, is of another zone; long texts; fires to come."""
    job = "walked-through-by-each-test-of-every-page"
    await cluster.save(job, "echo one; exit 3", EVERY_SECOND, labels={"team": "billing"})

    async def has_failed() -> bool:
        return len(await cluster.runs(job=job, status="failed")) > 1

    await wait_until(has_failed, description="it has failed")
    await cluster.save(job, "echo one; exit 3", "0 30 2 1 * MON *", labels={"team": "billing"}, timezone="Asia/Tokyo")
    wordy, missing = f"{job}-of-long-texts", "/nowhere/" + "and-further/" * 10
    crons = ["0 15 2 1 1 * *", "0 0 3 L * * *", "0 45 23 * JUN MON#2 *"]
    await cluster.save(wordy, "true", crons, timezone="America/Argentina/Buenos_Aires", workdir=missing)
    await cluster.call("POST", f"/api/v1/jobs/{wordy}/run", {})

    async def could_not_start() -> bool:
        return bool(await cluster.runs(job=wordy, status="failed"))

    await wait_until(could_not_start, description="its directory is missing")
    await cluster.call("POST", f"/api/v1/jobs/{wordy}/pause", {"reason": "until the month is closed " * 8})
    await cluster.save(f"{job}-hourly", "true", "0 30 * * * * *")
    run = (await cluster.runs(job=job, status="failed"))[0]["id"]
    return [path.format(name=job, run=quote(run, safe="")) for path in PATHS]


async def go(page: Page, path: str) -> None:
    await page.goto("about:blank")  # a part of the page that one is on is another page here
    await page.goto(path)
    await settled(page)
    await expect(page.locator("#live")).not_to_be_empty()


async def test_at_200_percent_nothing_is_cut_and_where_the_focus_is_can_be_seen(
    console: Console, paths: list[str]
) -> None:
    page = await console.open("/livez", device_scale_factor=2)
    session = await page.context.new_cdp_session(page)
    found: dict[str, list[str]] = {}
    for path in paths:
        await go(page, path)
        for what, width, size in (("page", 640, 16), ("text alone", 1280, 32)):
            await page.set_viewport_size({"width": width, "height": 800})
            await session.send("Page.setFontSizes", {"fontSizes": {"standard": size, "fixed": size}})
            await page.wait_for_function(f"getComputedStyle(document.documentElement).fontSize === '{size}px'")
            faults: list[str] = await page.evaluate(_FAULTS)
            if wider := await overflow(page):
                faults.append(f"{wider} px wider than the window")
            if faults:
                found[f"{path}, {what}"] = faults
        if unseen := await page.evaluate(_UNSEEN_FOCUS):
            found[f"{path}, focus"] = unseen
    assert found == {}


@pytest.mark.parametrize("language", ["en-GB", "zh-CN"])
async def test_screen_reader_is_told_names_headings_and_what_happens(
    console: Console, paths: list[str], language: str
) -> None:
    page = await console.open("/livez", locale=language)
    session = await page.context.new_cdp_session(page)
    found: dict[str, object] = {}
    for path in paths:
        await go(page, path)
        nodes = [one for one in (await session.send("Accessibility.getFullAXTree"))["nodes"] if not one["ignored"]]
        nameless = [role for role, name in map(_told, nodes) if role in _NAMED and not name]
        toggles = [name for role, name in map(_told, nodes) if role == "button"]
        twice = sorted({name for name in toggles if toggles.count(name) > 1})
        levels: list[int] = await page.evaluate(_HEADINGS)
        skips = [level for before, level in zip([0, *levels], levels, strict=False) if level > before + 1]
        if nameless or twice or skips or levels.count(1) != 1:
            found[path] = {"without a name": nameless, "the same name": twice, "headings": levels}
        assert await page.locator("#announcer[aria-live=polite], #toasts[aria-live=polite]").count() == 2
        assert await page.locator("#problem").and_(page.locator(_SAYS_BY_ITSELF)).count() == 1, path
        for chart in await page.locator(".chart-frame:has(svg.chart)").all():
            await expect(chart.locator(".chart-twin")).to_be_visible()  # the same as a table
    assert found == {}


def _told(node: dict[str, Any]) -> tuple[str, str]:
    return str(node["role"]["value"]), str(node.get("name", {}).get("value", "")).strip()
