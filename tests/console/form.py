"""The New and Edit form, as tests fill it."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from playwright.async_api import Locator, Page

from tests.console.console import settled
from tests.support.cluster import Cluster

EVERYTHING: Final[dict[str, Any]] = {
    "command": ["printf", "%s\n", '"quoted"', "", " spaces "],
    "cronExpr": ["0 15 2 1 1 * *", "0 0 3 L * * *"],
    "timezone": "Europe/Berlin",
    "enabled": False,
    "startAt": "2035-01-01T00:00",
    "endAt": "2036-01-01T00:00:00+01:00",
    "calendar": {"exclude": ["12-24/01-02", "2035-05-01"]},
    "jitterSeconds": 30,
    "overlap": "replace",
    "misfire": {"policy": "all", "graceSeconds": 30, "windowSeconds": 600, "limit": 3},
    "retry": {
        "limit": 3, "delaySeconds": 2.5, "backoff": 3, "maxDelaySeconds": 600, "jitter": 0.1, "onExitCodes": [75, 111],
        "otherWorker": True,
    },
    "timeoutSeconds": 90,
    "killGraceSeconds": 2.5,
    "onWorkerLost": "rerun",
    "lostAfterSeconds": "never",
    "env": {"LEVEL": "debug <b>", "TWO_LINES": "one\ntwo"},
    "secrets": {"PGPASSWORD": "pg/prod"},
    "secretFiles": {"KEY_FILE": "shop/key"},
    "workdir": "/srv/reports",
    "user": "www-data",
    "shell": "/bin/bash",
    "outputLimitBytes": 1000,
    "labels": {"team": "billing"},
    "workers": {"zone": "eu", "gpu": ["a100", "h100, or so"]},
    "broadcast": True,
    "slots": 8,
    "priority": -5,
    "description": "The books of the day, <b>for the bank</b>.",
    "links": [{"title": "Runbook", "url": "https://wiki.example.com/books?a=1&b=2"}],
    "notify": [{"to": "office", "on": [], "after": 1}, {"to": "finance", "on": ["succeeded", "output"], "after": 3}],
    "warnAfterSeconds": 3600,
    "lateAfterSeconds": 60,
    "silentAfterSeconds": 90000,
    "suspiciousBelowSeconds": 0.5,
}  # fmt: skip
"""Every field with a value that is not its default."""
TEXTS: Final = {
    "timezone": "Europe/Berlin", "startAt": "2035-01-01T00:00", "endAt": "2036-01-01T00:00:00+01:00",
    "jitterSeconds": "30", "timeoutSeconds": "90", "killGraceSeconds": "2.5", "misfire.graceSeconds": "30",
    "misfire.windowSeconds": "600", "misfire.limit": "3", "retry.limit": "3", "retry.delaySeconds": "2.5",
    "retry.backoff": "3", "retry.maxDelaySeconds": "600", "retry.jitter": "0.1", "retry.onExitCodes": "75, 111",
    "lostAfterSeconds": "never", "workdir": "/srv/reports", "user": "www-data", "shell": "/bin/bash",
    "outputLimitBytes": "1000", "slots": "8", "priority": "-5",
    "description": "The books of the day, <b>for the bank</b>.", "warnAfterSeconds": "3600", "lateAfterSeconds": "60",
    "silentAfterSeconds": "90000", "suspiciousBelowSeconds": "0.5",
}  # fmt: skip
"""The same in the fields that are plain texts."""
PAIRS: Final = (
    ("env", "LEVEL", "debug <b>"), ("env", "TWO_LINES", "one\ntwo"), ("labels", "team", "billing"),
    ("secrets", "PGPASSWORD", "pg/prod"), ("secretFiles", "KEY_FILE", "shop/key"),
    ("workers", "zone", "eu"), ("workers", "gpu", 'a100, "h100, or so"'),
)  # fmt: skip

ROWS: Final[tuple[tuple[str, dict[str, str]], ...]] = (
    ("links", {"title": "Runbook", "url": "https://wiki.example.com/books?a=1&b=2"}), ("notify", {"to": "office"}),
    ("notify", {"to": "finance", "on": "succeeded, output", "after": "3"}),
)  # fmt: skip


async def spec_of(cluster: Cluster, name: str) -> dict[str, Any]:
    """As it is saved."""
    job = await cluster.get(f"/api/v1/jobs/{name}")
    spec: dict[str, Any] = job["spec"]
    return spec


async def put(cluster: Cluster, name: str, **fields: Any) -> dict[str, Any]:
    """A job with these fields, and all of it as it was saved."""
    answer = await cluster.call("PUT", f"/api/v1/jobs/{quote(name)}", {"name": name, **fields})
    spec: dict[str, Any] = answer["job"]["spec"]
    return spec


def field(page: Page, name: str) -> Locator:
    """Where a field is typed."""
    return page.locator(f'[id="f-{name}"]')


def errors(page: Page, name: str) -> Locator:
    """What is wrong with it."""
    return page.locator(f'[data-errors="{name}"]')


def holds(page: Page, section: str) -> Locator:
    """The line of a section that says what it holds."""
    return page.locator(f"[data-group={section}] [data-summary]")


async def choose(page: Page, name: str, value: str) -> None:
    """Pick one of a few."""
    await page.locator(f'input[type=radio][name="{name}"][value="{value}"]').check()


async def add_pair(page: Page, group: str, key: str, value: str) -> None:
    await page.locator(f"[data-add={group}]").click()
    row = page.locator(f"[data-pairs={group}] > .pair").last
    await row.locator("input").fill(key)
    await row.locator("textarea").fill(value)


async def fill_everything(page: Page, name: str) -> None:
    """Type and pick EVERYTHING."""
    await field(page, "name").fill(name)
    await choose(page, "given", "list")
    await field(page, "command").fill('printf\n"%s\\n"\n"\\"quoted\\""\n""\n spaces ')
    await field(page, "cronExpr").fill("0 15 2 1 1 * *")
    await page.get_by_role("button", name="Add another expression").click()
    await page.get_by_label("Expression 2").fill("0 0 3 L * * *")
    await page.get_by_role("button", name="Expand all").click()
    for one, text in TEXTS.items():
        await field(page, one).fill(text)
    await field(page, "calendar-mode").select_option("exclude")
    await field(page, "calendar").fill("12-24/01-02\n\n2035-05-01\n")
    await choose(page, "overlap", "replace")
    await field(page, "misfire.policy").select_option("all")
    await field(page, "onWorkerLost").select_option("rerun")
    for group, key, value in PAIRS:
        await add_pair(page, group, key, value)
    for group, members in ROWS:
        await page.locator(f"[data-add={group}]").click()
        for member, text in members.items():
            await page.locator(f"[data-pairs={group}] > .object-row").last.locator(f"[data-member={member}]").fill(text)
    await field(page, "enabled").uncheck()
    await field(page, "retry.otherWorker").check()
    await field(page, "broadcast").check()


async def save(page: Page, name: str) -> None:
    """Press the button; the job's page follows."""
    await page.locator("#save").click()
    await page.wait_for_url(f"**/jobs/{name}")


async def edit(page: Page, name: str) -> None:
    await page.goto(f"/jobs/{name}/edit")
    await settled(page)
