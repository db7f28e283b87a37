"""Opening the console's pages in a browser, and looking at them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Error, Page, ViewportSize, expect

from tests.support.waiting import PATIENCE_S

Theme = Literal["light", "dark"]
THEMES: Final[tuple[Theme, ...]] = ("light", "dark")

ROOT = Path(__file__).parents[2]
AXE = ROOT / "node_modules/axe-core/axe.min.js"
_WITHOUT: Final = (
    "RenderDocument", "PartitionAllocBackupRefPtr",  # a page costs an eighth less
    # What playwright disables, whose flag no longer counts.
    "AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades",
    "HttpsFirstBalancedModeAutoEnable", "MediaRouter", "PaintHolding", "ThirdPartyStoragePartitioning",
    "AvoidCorsURLLoaderRestartOnRedirect", "OptimizationHints", "NetworkTimeServiceQuerying",
)  # fmt: skip
CHROMIUM: Final = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--process-per-site",
    "--js-flags=--no-flush-bytecode", f"--disable-features={','.join(_WITHOUT)}",
]  # fmt: skip
"""What it is started with."""
SAME_SCRIPT: Final = Path(__file__).with_name("same_script.cjs")
"""What Playwright's driver reads first."""
PATIENT_MANAGER: Final = ("--api-write-timeout", "20000")
"""A record of 6 MB, or 10,000 jobs, take seconds on a busy machine; a page notes what is answered with 503."""
WIDE, NARROW = 1280, 360
USUAL_LOCALE: Final = "en-GB"
# Answers that a page expects, and that a browser nevertheless calls an error.
_EXPECTED = re.compile(r"the server responded with a status of (400|401|403|404|409|412) ")
_WATCH_CSP = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`CSP: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
"""
# A page waits 2 s to hear who it is, and 5 s for the words of its language, and then shows itself without them.
_PATIENT = "AbortSignal.timeout = () => new AbortController().signal;"
WATCH_INPUTS = """
window.inputs = [];
new PerformanceObserver((list) => window.inputs.push(...list.getEntries().map((one) => one.duration)))
  .observe({ type: "event", durationThreshold: 16, buffered: true });
"""
"""Gathers how long the browser takes from each input to the next frame, in ms."""

_KEEP_STREAM: Final = """
async () => {
  const page = new DOMParser().parseFromString(await (await fetch("/")).text(), "text/html");
  window.stream = new SharedWorker(page.body.dataset.liveWorker, { type: "module", name: "etcron" });
  window.stream.port.onmessage = () => {};
}
"""
_PATIENCE_MS: Final = PATIENCE_S * 1000
expect.set_options(timeout=_PATIENCE_MS)

_KEPT: Final[list[BrowserContext]] = []
"""Those of `Usual`, which outlast a test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usual:
    """A context for most pages of all tests, and pages of it that are shown again and again: a new one costs 0.1 s.

    One page of it stays open, so that the process that shows it (`--process-per-site`) does: a process for each page
    would start, and compile all scripts, for half of what the tests of the console cost.
    """

    context: BrowserContext
    kept: Page
    base: str
    free: list[Page] = field(default_factory=list)
    lent: list[Page] = field(default_factory=list)
    scripts: AsyncExitStack = field(default_factory=AsyncExitStack)
    """What lent pages run before their own scripts."""
    headed: list[Page] = field(default_factory=list)
    """Those that send headers of a test."""
    others: dict[str, Usual] = field(default_factory=dict)
    """The same for pages in other languages."""

    @classmethod
    async def new(cls, browser: Browser, base: str, locale: str = USUAL_LOCALE) -> Usual:
        """The page that stays runs no scripts yet, and asks no manager for anything: there may be none."""
        context = await new_context(browser, base, locale=locale)
        _KEPT.append(context)
        kept = await context.new_page()
        await kept.route("**/*", lambda route: route.fulfill(body="kept"))
        await kept.goto("/")
        await kept.unroute_all()
        return cls(context=context, kept=kept, base=base)

    async def keep_stream(self) -> None:
        """The manager's stream stays for all pages, as in a browser with one more tab: a page costs a tenth less."""
        await self.kept.evaluate(_KEEP_STREAM)

    @property
    def port(self) -> int:
        """Where the manager of its pages serves."""
        port = urlsplit(self.base).port
        assert port is not None, self.base
        return port

    async def speaking(self, locale: str) -> Usual:
        """The one for pages in this language."""
        if locale == USUAL_LOCALE:
            return self
        if locale not in self.others:
            browser = self.context.browser
            assert browser is not None
            self.others[locale] = await Usual.new(browser, self.base, locale)
        return self.others[locale]

    async def page(self, script: str, headers: Mapping[str, str] | None) -> Page:
        """An empty one, which runs this before its own scripts; `clear` takes it back."""
        page = self.free.pop() if self.free else await self.context.new_page()
        self.lent.append(page)
        if script:
            await self.scripts.enter_async_context(await page.add_init_script(script))
        if headers:
            await page.set_extra_http_headers(dict(headers))
            self.headed.append(page)
        return page

    async def close(self) -> None:
        """Closes all of it."""
        for one in (*self.others.values(), self):
            _KEPT.remove(one.context)
            await one.context.close()

    async def clear(self) -> None:
        """Closes what tests have opened themselves, and forgets what all pages have kept."""
        for other in self.others.values():
            await other.clear()
        if not self.lent:
            return
        await self.scripts.aclose()
        for page in self.context.pages:
            if page is self.kept or page in self.free:
                continue
            await let_go(page)
            if page in self.lent and await self._is_empty_again(page):
                self.free.append(page)
            else:
                await page.close()
        self.lent.clear()
        self.headed.clear()
        await self.kept.evaluate("localStorage.clear()")  # last: a page that shows may still write
        await self.context.clear_cookies()

    async def _is_empty_again(self, page: Page) -> bool:
        """As if it were new; False: it has been left elsewhere, or shows why it could not be loaded."""
        if not page.url.startswith(self.base):
            return False
        try:
            await page.evaluate("sessionStorage.clear()")
        except Error:
            return False
        if page in self.headed:
            await page.set_extra_http_headers({})
        await page.goto("about:blank")
        await page.mouse.move(-1, -1)
        return True


@dataclass(kw_only=True)
class Console:
    """Opens pages; gathers what was wrong on them."""

    browser: Browser
    base: str
    screenshots: Path | None
    """Where they are kept; None: nobody wants to look."""
    usual: Usual
    """One for all tests, so that its cache is warm; pages that need something special get a context of their own."""
    problems: list[str] = field(default_factory=list)
    _listening: list[tuple[Page, Any, Callable[..., None]]] = field(default_factory=list)

    async def open(
        self,
        path: str = "/",
        *,
        width: int = WIDE,
        theme: Theme = "light",
        script: str = "",
        headers: Mapping[str, str] | None = None,
        watched: bool = True,
        locale: str = USUAL_LOCALE,
        own_context: bool = False,
        **options: Any,
    ) -> Page:
        """A page. `script` runs before the page's; `headers`: of all that it asks for; `watched`: whether errors fail
        the test; `own_context`: a new one, which costs a second, as it does with `options`. A test that sets a clock
        needs it, as the clock is the context's.
        """
        if options or own_context:
            context = await new_context(
                self.browser, self.base, locale=locale, extra_http_headers=dict(headers or {}), **options
            )
            if script:
                await context.add_init_script(script)
            page = await context.new_page()
        else:
            page = await (await self.usual.speaking(locale)).page(script, headers)
        if page.viewport_size != (size := ViewportSize(width=width, height=800)):
            await page.set_viewport_size(size)
        await page.emulate_media(media="screen", color_scheme=theme)
        if watched:
            self.listen(page, "console", self._note)
            self.listen(page, "pageerror", self._note_error)
        await page.goto(path)
        return page

    def listen(self, page: Page, event: str, listener: Callable[..., None]) -> None:
        """Until the test is over: the page is shown to others then, and would tell of all that these ask for."""
        heard: Any = event
        page.on(heard, listener)
        self._listening.append((page, heard, listener))

    def _note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not _EXPECTED.search(message.text):
            self.problems.append(f"{message.location.get('url')}: {message.text}")

    def _note_error(self, error: Error) -> None:
        self.problems.append(f"{error.name}: {error.message} {error.stack}")

    async def close(self) -> None:
        """Closes all pages, or empties them for the next test, and forgets what they have kept."""
        for page, event, listener in self._listening:  # what a page says while it is left belongs to no test
            page.remove_listener(event, listener)
        self._listening.clear()
        await self.usual.clear()
        for context in self.browser.contexts:
            if context not in _KEPT:
                for page in context.pages:
                    await let_go(page)
                await context.close()

    async def shoot_all(self, page: Page, name: str, *, whole: bool = False) -> None:
        """The page fits into both widths; it is kept in these and in both themes where somebody wants to look."""
        for width in (NARROW, WIDE):
            await page.set_viewport_size({"width": width, "height": 800})
            assert await overflow(page) == 0, f"{name} is wider than {width} px"
            for theme in THEMES if self.screenshots else ():
                await page.emulate_media(color_scheme=theme)
                await self.shoot(page, f"{name}-{width}-{theme}", whole=whole and width == NARROW)

    async def shoot(self, page: Page, name: str, *, whole: bool = False) -> None:
        """A screenshot, where somebody wants to look."""
        if self.screenshots:
            await page.screenshot(path=self.screenshots / f"{name}.png", full_page=whole)


async def new_context(browser: Browser, base: str, **options: Any) -> BrowserContext:
    """What a user in Berlin has; in it, violations of the Content-Security-Policy are errors of the console."""
    usual = {"locale": USUAL_LOCALE, "timezone_id": "Europe/Berlin", "base_url": base}
    context = await browser.new_context(**{**usual, **options})
    context.set_default_timeout(_PATIENCE_MS)
    await context.add_init_script(_WATCH_CSP + _PATIENT)
    return context


async def let_go(page: Page) -> None:
    """It may be closed: an answer that a test gives in the manager's place may be under way."""
    await page.unroute_all(behavior="ignoreErrors")


async def settled(page: Page) -> None:
    """The page shows its data."""
    await expect(page.locator("[aria-busy=true]")).to_have_count(0)


async def script_of_ours(page: Page, path: str) -> str:
    """Where the page could import one of our scripts from; what it has in its own script is another instance."""
    source = await page.locator("script[type=module]").first.get_attribute("src")
    assert source is not None
    return re.sub(r"/(js|vendor)/.*", f"/js/{path}", source)


async def overflow(page: Page) -> int:
    """By how many pixels the page is wider than its window."""
    width: int = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return width


_OF_WHOLE_PAGES: Final = ("landmark-one-main", "page-has-heading-one", "region")


async def findings(page: Page, *, colours_alone: bool = False, is_mail: bool = False) -> list[str]:
    """What axe finds on the page, one line each. `colours_alone`: what a theme changes. A mail has no landmarks."""
    session = await page.context.new_cdp_session(page)
    if not await page.evaluate("'axe' in window"):
        await session.send("Runtime.evaluate", {"expression": AXE.read_text()})
    options: dict[str, Any] = {"resultTypes": ["violations"], "preload": False}
    if colours_alone:
        options["runOnly"] = ["color-contrast"]
    elif is_mail:
        options["rules"] = {rule: {"enabled": False} for rule in _OF_WHOLE_PAGES}
    found = await session.send(
        "Runtime.evaluate",
        {
            "expression": f"axe.run(document, {json.dumps(options)}).then(({{ violations }}) => violations)",
            "awaitPromise": True,
            "returnByValue": True,
        },
    )
    await session.detach()
    violations = found["result"]["value"]
    return [
        f"{one['id']}: {node['target']} {node.get('failureSummary', '')}" for one in violations for node in one["nodes"]
    ]


async def choose(page: Page, action: str, job: str) -> None:
    """What a row of the list of jobs has behind its button."""
    await page.get_by_role("button", name=f"Actions: {job}", exact=True).click()
    await page.locator(".dropdown-menu.show").get_by_label(f"{action}: {job}", exact=True).click()
