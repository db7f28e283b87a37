"""Opening the console's pages in a browser, and looking at them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from playwright.async_api import Browser, ConsoleMessage, Page, expect

Theme = Literal["light", "dark"]
THEMES: Final[tuple[Theme, ...]] = ("light", "dark")

ROOT = Path(__file__).parents[2]
AXE = ROOT / "node_modules/axe-core/axe.min.js"
SERIOUS = ("serious", "critical")
WIDE, NARROW = 1280, 360
# Answers that a page expects, and that a browser nevertheless calls an error.
_EXPECTED = re.compile(r"the server responded with a status of (400|404|409|412) ")
_WATCH_CSP = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`CSP: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
"""

expect.set_options(timeout=15_000)


@dataclass(kw_only=True)
class Console:
    """Opens pages; gathers what was wrong on them."""

    browser: Browser
    base: str
    screenshots: Path
    problems: list[str] = field(default_factory=list)

    async def open(
        self,
        path: str = "/",
        *,
        width: int = WIDE,
        theme: Theme = "light",
        script: str = "",
        watched: bool = True,
        **options: Any,
    ) -> Page:
        """A page in a context of its own. `script` runs before the page's; `watched`: whether errors fail the test."""
        context = await self.browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme=theme, base_url=self.base,
            **{"locale": "en-GB", "timezone_id": "Europe/Berlin", **options},
        )  # fmt: skip
        await context.add_init_script(_WATCH_CSP)
        if script:
            await context.add_init_script(script)
        page = await context.new_page()
        if watched:
            page.on("console", self._note)
            page.on("pageerror", lambda error: self.problems.append(f"{page.url}: {error}"))
        await page.goto(path)
        return page

    def _note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not _EXPECTED.search(message.text):
            self.problems.append(f"{message.location.get('url')}: {message.text}")

    async def shoot(self, page: Page, name: str, *, whole: bool = False) -> None:
        """A screenshot, for people to look at."""
        await page.screenshot(path=self.screenshots / f"{name}.png", full_page=whole)


async def settled(page: Page) -> None:
    """The page shows its data."""
    await expect(page.locator("[aria-busy=true]")).to_have_count(0)


async def overflow(page: Page) -> int:
    """By how many pixels the page is wider than its window."""
    width: int = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return width


async def findings(page: Page) -> list[str]:
    """What axe finds on the page that is serious, one line each."""
    session = await page.context.new_cdp_session(page)
    await session.send("Runtime.evaluate", {"expression": AXE.read_text()})
    found = await session.send(
        "Runtime.evaluate", {"expression": "axe.run(document)", "awaitPromise": True, "returnByValue": True}
    )
    await session.detach()
    violations = found["result"]["value"]["violations"]
    return [
        f"{one['id']}: {node['target']} {node.get('failureSummary', '')}"
        for one in violations
        if one["impact"] in SERIOUS
        for node in one["nodes"]
    ]
