"""A field that a job is given in its definition, and nowhere else, is in form, definition and comparison."""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncIterator

import aiohttp
import pytest_asyncio
from playwright.async_api import Page, expect

from tests.console.console import NARROW, PATIENT_MANAGER, ROOT, WIDE, Console, overflow, settled
from tests.console.form import add_pair, errors, field, holds
from tests.support.cluster import Cluster, Process
from tests.support.etcd_server import free_port
from tests.support.waiting import wait_until

_OF_A_JOB = """
    cpu_s: Annotated[int, _whole(1, 7_777), about(
        "cpuSeconds", "how long a run may use the `CPU`", 60, section="limits", label="Processor time in seconds",
    )] = 90  # fmt: skip
    mood: Annotated[Overlap, Choice(Overlap), about(
        "mood", "how it goes on", "skip", section="what", label="Temper", hint="Once it is angry.",
        choices={"allow": "calm down", "skip": "walk away"})] = Overlap.SKIP  # fmt: skip
    notes: Annotated[Mapping[str, str], _labels(_VALUE, "{}"), about(
        "notes", "what to know of it", {}, section="labelled", label="Remarks", unset="nothing to say",
    )] = field(default_factory=lambda: _NONE)  # fmt: skip

    def fires_alike("""
_OF_RETRIES = """
    calmly: Annotated[bool, Truth(), about("calmly", "without haste", True, label="Without haste")] = False

    def delay_ms("""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def changed(cluster: Cluster) -> AsyncIterator[str]:
    """The address of a manager whose jobs have four more fields; all else is what every manager has."""
    folder = cluster.directory / "changed"
    # With what is compiled, which holds for what stays the same; not what is being written.
    shutil.copytree(ROOT / "common", folder / "common", ignore=shutil.ignore_patterns("*.pyc.*"))
    for package in ("cli", "manager", "webroot", "worker"):
        (folder / package).symlink_to(ROOT / package)
    for name, fields in (("job", _OF_A_JOB), ("retry", _OF_RETRIES)):
        path = folder / "common/jobs" / f"{name}.py"
        before, method, after = path.read_text().partition("\n" + fields.rpartition("\n")[2])
        assert method, f"{name}.py has no such method"
        path.write_text(before + fields + after)
    port = free_port()
    flags = (*cluster.shared, "--api-port", str(port), "--auth", "off", *PATIENT_MANAGER)
    process = Process("manager", "changed", folder / "own", flags, is_cold=True)
    process.environ["PYTHONPATH"] = str(folder)
    process.start()
    try:
        await wait_until(lambda: _answers(cluster, port), description="the changed manager answers")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.destroy()


async def _answers(cluster: Cluster, port: int) -> bool:
    assert cluster.http is not None
    try:
        async with cluster.http.get(f"http://127.0.0.1:{port}/readyz") as answer:
            return answer.status == 200
    except aiohttp.ClientConnectionError:
        return False


async def test_new_field_is_in_form_definition_and_comparison(
    console: Console, cluster: Cluster, changed: str, name: str
) -> None:
    page = await console.open(f"{changed}/new")
    await settled(page)
    await expect(page.get_by_label("Temper")).to_have_value("skip")
    await expect(page.get_by_label("Temper").locator("option")).to_have_text(
        ["calm down", "walk away", "queue", "replace"]
    )
    await page.get_by_role("button", name="Expand all").click()
    limit = page.locator("[data-group=limits]").get_by_label("Processor time in seconds")
    await expect(limit).to_have_value("90")
    await expect(limit).to_have_accessible_description("How long a run may use the CPU. 1\u00a0to\u00a07,777.")
    await expect(page.locator("[data-group=retry]").get_by_label("Without haste")).not_to_be_checked()
    await expect(page.locator("[data-group=labelled]")).to_contain_text("What to know of it.")
    await expect(holds(page, "limits")).not_to_contain_text("Processor")
    for width in (NARROW, WIDE):
        await page.set_viewport_size({"width": width, "height": 800})
        assert await overflow(page) == 0
    await console.shoot_all(page, "form-new-field", whole=True)

    await field(page, "name").fill(name)
    await field(page, "command").fill("true")
    await field(page, "cronExpr").fill("@yearly")
    await limit.fill("7778")
    await expect(errors(page, "cpuSeconds")).to_contain_text("needed: a whole number of seconds from 1 to 7,777")
    await limit.fill("120")
    await expect(errors(page, "cpuSeconds")).to_be_empty()
    await expect(holds(page, "limits")).to_contain_text("Processor time in seconds: 120")
    await page.locator("#save").click()
    await page.wait_for_url(f"**/jobs/{name}")
    await shown_as(page, {"Processor time in seconds": "2 min 00 s", "Temper": "walk away", "Without haste": "no",
                          "Remarks": "nothing to say"})  # fmt: skip

    await page.goto(f"{changed}/jobs/{name}/edit")
    await settled(page)
    await expect(holds(page, "limits")).to_contain_text("Processor time in seconds: 120")
    await page.get_by_label("Temper").select_option("calm down")
    await page.get_by_role("button", name="Expand all").click()
    await page.get_by_label("Without haste").check()
    await add_pair(page, "notes", "who", "me & you")
    await page.locator("#save").click()
    await page.wait_for_url(f"**/jobs/{name}")
    await shown_as(page, {"Temper": "calm down", "Without haste": "yes", "Remarks": "who=me & you"})

    await page.get_by_role("tab", name="Versions").click()
    await page.get_by_role("button", name="Compare:").click()
    rows = page.locator("#comparison tbody tr")
    await expect(rows).to_have_count(3)
    for label, before, after in (
        ("Without haste", "no", "yes"), ("Temper", "walk away", "calm down"),
        ("Remarks", "nothing to say", "who=me & you"),
    ):  # fmt: skip
        await expect(rows.filter(has_text=label).locator("td")).to_have_text([label, before, after])
    await console.shoot_all(page, "comparison-new-field", whole=True)
    await cluster.call("DELETE", f"/api/v1/jobs/{name}")


async def shown_as(page: Page, values: dict[str, str]) -> None:
    """What the definition says of these fields."""
    await settled(page)
    await page.get_by_role("tab", name="Definition").click()
    with_defaults = page.get_by_role("button", name="Show defaults too")
    if await with_defaults.get_attribute("aria-pressed") == "false":
        await with_defaults.click()
    for label, value in values.items():
        shown = re.compile(rf"^{re.escape(value)}( \(default\))?$")
        await expect(page.locator(f"#definition dt:text-is('{label}') + dd")).to_have_text(shown)
