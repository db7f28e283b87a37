"""A person is told: a channel is made and tried, a job breaks, its alert is kept quiet, and its end is told."""

from __future__ import annotations

import asyncio
import email
import re
from collections.abc import AsyncIterator
from email.message import EmailMessage
from email.policy import default

import pytest
import pytest_asyncio
from aiosmtpd.smtp import SMTP, Envelope, Session
from playwright.async_api import Page, expect

from tests.console.console import AXE, NARROW, WIDE, Console, findings, overflow, settled
from tests.support.cluster import Cluster
from tests.support.waiting import wait_until


class Mails:
    """A mail server that keeps what it takes."""

    def __init__(self) -> None:
        self.taken: list[EmailMessage] = []
        self.port = 0

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802 - aiosmtpd's
        assert isinstance(envelope.content, bytes)
        self.taken.append(email.message_from_bytes(envelope.content, policy=default))
        return "250 taken"

    def subjects(self) -> list[str]:
        return [str(mail["Subject"]) for mail in self.taken]

    async def has_come(self, *words: str) -> None:
        await wait_until(
            lambda: any(all(word in subject for word in words) for subject in self.subjects()),
            description=f"a mail with {words}",
        )  # fmt: skip


@pytest_asyncio.fixture(loop_scope="session")
async def mails() -> AsyncIterator[Mails]:
    taken = Mails()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SMTP(taken, loop=loop), "127.0.0.1", 0)
    taken.port = server.sockets[0].getsockname()[1]
    async with server:
        yield taken


@pytest.mark.slow
async def test_channel_is_made_and_tried_a_job_breaks_and_its_end_is_told(
    console: Console, cluster: Cluster, mails: Mails, name: str, administrator: dict[str, str]
) -> None:
    page = await console.open("/notifications", headers=administrator)
    await settled(page)
    await page.locator("#new-channel").click()
    await page.get_by_label("Kind").select_option("email")
    await page.get_by_role("button", name="Continue").click()
    for label, text in (
        ("Name", "mails"), ("Recipients", "ops@example.com"), ("Sender", "etcron@example.com"),
        ("Mail server", "127.0.0.1"), ("Port", str(mails.port)),
    ):  # fmt: skip
        await page.get_by_label(label, exact=True).fill(text)
    await page.get_by_label("Encryption").select_option("none")
    await page.get_by_role("button", name="Add", exact=True).click()
    await page.get_by_role("button", name="Send a test: mails").click()
    await mails.has_come("[etcron]")
    await console.shoot_all(page, "notifications", whole=True)

    await _add_rule(page, name)
    await cluster.save(name, "echo it breaks; exit 3", "@yearly", labels={"of": name})
    await cluster.call("POST", f"/api/v1/jobs/{name}/run", {})
    await mails.has_come(name, "failed")

    await page.goto("/alerts")
    row = page.locator("#open tr", has_text=name)
    await expect(row).to_contain_text("failed")
    await expect(page.locator("#bell")).to_contain_text(re.compile("[1-9]"))  # other tests have broken jobs too
    await console.shoot_all(page, "alerts", whole=True)
    if AXE.exists():
        assert await findings(page) == []
    for width in (WIDE, NARROW):
        await page.set_viewport_size({"width": width, "height": 800})
        assert await overflow(page) == 0

    await page.goto(f"/jobs/{name}")
    await page.get_by_role("button", name=f"Acknowledge: {name}").click()
    await expect(page.locator("#open-alert")).to_contain_text("acknowledged by")
    await console.shoot_all(page, "job-alert", whole=True)
    await cluster.save(name, "true", "@yearly", labels={"of": name})
    await cluster.call("POST", f"/api/v1/jobs/{name}/run", {})
    await mails.has_come(name, "fine again")
    await expect(page.locator("#open-alert")).to_have_count(0)
    await page.goto("/alerts")
    await expect(page.locator("#ended tr", has_text=name)).to_contain_text("failed")
    await cluster.call("DELETE", f"/api/v1/rules/{name}")
    await page.request.delete("/api/v1/channels/mails")


async def _add_rule(page: Page, name: str) -> None:
    await page.locator("#new-rule").click()
    for label, text in (("Name", name), ("Job labels", f"of={name}"), ("Channels", "mails")):
        await page.locator(".modal").get_by_label(label, exact=True).fill(text)
    await page.get_by_role("button", name="Add", exact=True).click()
    await expect(page.locator("#rules")).to_contain_text(name)


async def test_mistakes_are_named_in_the_dialog(console: Console, administrator: dict[str, str]) -> None:
    page = await console.open("/notifications", headers=administrator)
    await page.locator("#new-channel").click()
    await page.get_by_label("Kind").select_option("webhook")
    await page.get_by_role("button", name="Continue").click()
    await page.get_by_label("Name", exact=True).fill("hook")
    await page.get_by_label("URL", exact=True).fill("http://169.254.169.254/latest")
    await page.get_by_role("button", name="Add", exact=True).click()
    await expect(page.locator(".modal [role=alert]")).to_contain_text("URL")
    await page.get_by_role("button", name="Cancel").click()
    await expect(page.locator(".modal")).to_have_count(0)
