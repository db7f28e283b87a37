"""Every page, walked once: it fits, at 200 % too, axe finds nothing, a screen reader is told what each thing is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final
from urllib.parse import quote

import pytest
import pytest_asyncio
from playwright.async_api import CDPSession, Page, expect

from tests.console.console import AXE, THEMES, WIDE, Console, findings, overflow, settled
from tests.support.cluster import EVERY_SECOND, Cluster
from tests.support.waiting import wait_until

PAGES: Final = {
    "overview": "/", "jobs": "/jobs?label=walked", "new": "/new", "crontab": "/crontab", "job": "/jobs/{name}",
    "edit": "/jobs/{name}/edit", "runs": "/runs", "run": "/runs/{run}", "timeline": "/timeline", "workers": "/workers",
    "worker": "/workers/worker-1", "alerts": "/alerts", "notifications": "/notifications", "system": "/system",
}  # fmt: skip
PARTS: Final = {
    "job-runs": "/jobs/{name}#runs", "job-schedule": "/jobs/{name}#schedule", "job-versions": "/jobs/{name}#versions",
    "job-definition": "/jobs/{name}#definition", "errors": "/runs?group=error", "no-job": "/jobs/nothing-like-it",
}  # fmt: skip
"""Of pages, and pages of nothing: axe is run on them in the tests of their own."""
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
  const shortens = (one) => styleOf(one).textOverflow === "ellipsis"; // what is in it may be longer
  const isShortened = (one) => one && (shortens(one) || isShortened(one.parentElement));
  const outside = all.filter((one) => (isText(one) || shortens(one)) && box(one).right > innerWidth + 1
    && !moves(one.parentElement) && !isShortened(one.parentElement));
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
async def paths(cluster: Cluster) -> AsyncIterator[dict[str, str]]:
    """Of pages that show something: jobs of every state, of another zone, changed; long texts; fires to come."""
    job, seen = "walked-through-by-the-test-of-every-page", {"labels": {"walked": "here"}}
    fields = {"labels": {"walked": "here", "team": "billing"}}
    await cluster.save(job, "echo one; echo two >&2; exit 3", EVERY_SECOND, **fields)
    await cluster.save(f"{job}-long", "exec sleep 1000", EVERY_SECOND, **seen)

    async def has_failed() -> bool:
        return len(await cluster.runs(job=job, status="failed")) > 2

    await wait_until(has_failed, description="it has failed")
    command = "echo one; echo two >&2; exit 3"
    await cluster.save(job, command, "0 30 2 1 * MON *", timezone="Asia/Tokyo", **fields)
    await cluster.save(f"{job}-not-now", "true", EVERY_SECOND, enabled=False, **seen)
    wordy, missing = f"{job}-of-long-texts", "/nowhere/" + "and-further/" * 10
    crons = ["0 15 2 1 1 * *", "0 0 3 L * * *", "0 45 23 * JUN MON#2 *"]
    await cluster.save(wordy, "true", crons, timezone="America/Argentina/Buenos_Aires", workdir=missing, **seen)
    await cluster.call("POST", f"/api/v1/jobs/{wordy}/run", {})

    async def could_not_start() -> bool:
        return bool(await cluster.runs(job=wordy, status="failed"))

    await wait_until(could_not_start, description="its directory is missing")
    await cluster.call("POST", f"/api/v1/jobs/{wordy}/pause", {"reason": "until the month is closed " * 8})
    await cluster.save(f"{job}-hourly", "true", "0 30 * * * * *", **seen)
    run = (await cluster.runs(job=job, status="failed"))[0]["id"]
    cluster.busy.remove(f"{job}-long")  # it goes on until the walk is over
    yield {what: path.format(name=job, run=quote(run, safe="")) for what, path in (PAGES | PARTS).items()}
    cluster.busy.add(f"{job}-long")
    await cluster.calm()


@pytest.mark.slow
async def test_each_page_fits_at_200_percent_too_and_says_to_everybody_what_each_thing_is(
    console: Console, paths: dict[str, str]
) -> None:
    page = await console.open("/livez")
    session = await page.context.new_cdp_session(page)
    found: dict[str, object] = {}
    for what, path in paths.items():
        if "#" in path:
            await page.goto("about:blank")  # a part of the page that one is on is another page here
        await page.goto(path)
        await settled(page)
        await expect(page.locator("#live")).to_have_text(" Live")
        if untold := await untold_on(page, session):
            found[what] = untold
        if what in PAGES:
            found |= {f"{what}, {theme}": violations async for theme, violations in violations_on(page)}
            await console.shoot_all(page, f"page-{what}", whole=True)
        for how, width, size in (("page", 640, 16), ("text alone", 1280, 32)):
            await show_at(page, session, width=width, size=size)
            await page.wait_for_function(f"getComputedStyle(document.documentElement).fontSize === '{size}px'")
            faults: list[str] = await page.evaluate(_FAULTS)
            if wider := await overflow(page):
                faults.append(f"{wider} px wider than the window")
            if faults:
                found[f"{what} at 200 %, {how}"] = faults
        if unseen := await page.evaluate(_UNSEEN_FOCUS):
            found[f"{what}, focus"] = unseen
        await show_at(page, session, width=WIDE, size=16)
    await session.detach()
    assert found == {}


async def violations_on(page: Page) -> AsyncIterator[tuple[str, list[str]]]:
    """What axe finds, in each theme where it finds something."""
    for theme in (*THEMES[1:], THEMES[0]) if AXE.exists() else ():
        await page.emulate_media(color_scheme=theme)
        await expect(page.locator("html")).to_have_attribute("data-bs-theme", theme)
        if violations := await findings(page, colours_alone=theme != THEMES[0]):
            yield theme, violations


async def show_at(page: Page, session: CDPSession, *, width: int, size: int) -> None:
    await page.set_viewport_size({"width": width, "height": 800})
    await session.send("Page.setFontSizes", {"fontSizes": {"standard": size, "fixed": size * 13 // 16}})


async def untold_on(page: Page, session: CDPSession) -> dict[str, object]:
    """What has no name, or that of another button; headings out of order; what changes and is not read aloud."""
    nodes = [one for one in (await session.send("Accessibility.getFullAXTree"))["nodes"] if not one["ignored"]]
    nameless = [role for role, name in map(_told, nodes) if role in _NAMED and not name]
    toggles = [name for role, name in map(_told, nodes) if role == "button"]
    twice = sorted({name for name in toggles if toggles.count(name) > 1})
    levels: list[int] = await page.evaluate(_HEADINGS)
    skips = [level for before, level in zip([0, *levels], levels, strict=False) if level > before + 1]
    assert await page.locator("#announcer[aria-live=polite], #toasts[aria-live=polite]").count() == 2
    assert await page.locator("#problem").and_(page.locator(_SAYS_BY_ITSELF)).count() == 1, page.url
    for chart in await page.locator(".chart-frame:has(svg.chart)").all():
        await expect(chart.locator(".chart-twin")).to_be_visible()  # the same as a table
    if nameless or twice or skips or levels.count(1) != 1:
        return {"without a name": nameless, "the same name": twice, "headings": levels}
    return {}


def _told(node: dict[str, Any]) -> tuple[str, str]:
    return str(node["role"]["value"]), str(node.get("name", {}).get("value", "")).strip()
