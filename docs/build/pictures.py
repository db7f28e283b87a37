"""``make screenshots``: the pictures in ``docs/pictures``, taken from a running `etcron up` by Chromium.

A few jobs run for a minute and a half, then each page is looked at in the light theme, 1280 pixels wide.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import aiohttp
from playwright.async_api import Page, async_playwright

from cli.processes.ports import free_loopback_port

PICTURES: Final = Path(__file__).parents[1] / "pictures"
_RUN_S: Final = 90
_STARTS_WITHIN_S: Final = 120
_LARGEST: Final = 150_000
"""Bytes of a picture."""
_JOBS: Final[dict[str, dict[str, Any]]] = {
    "db-backup": {
        "command": "echo '4 tables, 312 MB'; sleep 6", "every": "20s", "labels": {"team": "ops"}, "priority": 10,
        "description": "Dumps the shop's database. The restore is drilled each quarter.",
    },
    "import-orders": {"command": "echo \"$((RANDOM % 90 + 10)) orders\"; sleep 2", "every": "8s", "shell": "/bin/bash",
                      "labels": {"team": "shop"}},
    "send-invoices": {"command": "echo 'smtp.example.org: connection refused' >&2; exit 75", "every": "30s",
                      "labels": {"team": "billing"}},
    "sync-stock": {"command": "echo \"$((RANDOM % 900)) items\"; sleep $((RANDOM % 3 + 1))", "every": "10s", "shell": "/bin/bash",
                   "labels": {"team": "shop"}},
    "thumbnails": {"command": "sleep 25", "every": "15s", "labels": {"team": "shop"}},
    "renew-certificates": {"command": "echo 'nothing to renew'", "cronExpr": "0 30 3 * * MON *", "timezone": "Europe/Berlin",
                           "labels": {"team": "ops"}},
    "close-the-books": {"command": "/usr/local/bin/close-the-books", "cronExpr": "0 0 18 LW * * *", "timezone": "Europe/Paris",
                        "labels": {"team": "billing"}},
}  # fmt: skip


async def main() -> int:
    """Take them all; 1 where one is too large."""
    with TemporaryDirectory(prefix="etcron-pictures-") as home:
        url = f"http://127.0.0.1:{(port := free_loopback_port())}"
        command = (
            sys.executable,
            "-m",
            "cli",
            "up",
            "--data-dir",
            f"{home}/data",
            "--port",
            str(port),
            "--no-fetch-etcd",
        )
        up = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            async with aiohttp.ClientSession() as http:
                await _ready(http, url)
                for name, job in _JOBS.items():
                    async with http.put(f"{url}/api/v1/jobs/{name}", json=job) as answer:
                        answer.raise_for_status()
                await asyncio.sleep(_RUN_S)
            await _take(url)
        finally:
            up.terminate()
            up.wait()
    sizes = {one.name: one.stat().st_size for one in sorted(PICTURES.glob("*.png"))}
    print("\n".join(f"{size:>8}  {name}" for name, size in sizes.items()))
    return int(any(size > _LARGEST for size in sizes.values()))


async def _ready(http: aiohttp.ClientSession, url: str) -> None:
    until = time.monotonic() + _STARTS_WITHIN_S
    while time.monotonic() < until:
        try:
            async with http.get(f"{url}/readyz") as answer:
                if answer.status == 200:
                    return
        except aiohttp.ClientError:
            pass
        await asyncio.sleep(0.5)
    raise TimeoutError(f"no etcron at {url} within {_STARTS_WITHIN_S} s")


async def _take(url: str) -> None:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=_chromium(), args=["--no-sandbox"])
        page = await browser.new_page(
            viewport={"width": 1280, "height": 760}, color_scheme="light", locale="en", timezone_id="UTC"
        )
        await _shoot(page, f"{url}/", "overview")
        await _shoot(page, f"{url}/jobs", "jobs")
        await _shoot(page, f"{url}/jobs/sync-stock", "job")
        await page.goto(f"{url}/new")
        await page.get_by_label("Name", exact=True).fill("nightly-report")
        await page.get_by_label("Command").first.fill("/usr/local/bin/report --mail")
        await page.get_by_label("Expression").fill("0 30 6 * * MON-FRI *")
        await _shoot(page, None, "new")
        await browser.close()


async def _shoot(page: Page, url: str | None, name: str) -> None:
    if url is not None:
        await page.goto(url)
    await page.wait_for_timeout(2_000)  # what it fetches is drawn
    await page.screenshot(path=PICTURES / f"{name}.png")


def _chromium() -> str:
    import shutil

    found = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if found is None:
        raise FileNotFoundError("no chromium: make chromium")
    return found


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
