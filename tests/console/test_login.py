"""The login page, and what one sees of oneself, in a browser in front of a manager that asks for a login."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, Route, expect

from common.access.credentials import SessionWay
from common.access.rights import Role
from common.access.subjects import Subject
from manager.access.logins import make_link
from tests.console.console import AXE, NARROW, THEMES, WIDE, Console, Usual, findings, overflow, settled
from tests.console.form import field
from tests.support.access import Accessing, kept_of
from tests.support.etcd_server import EtcdServer
from tests.support.log_store import LogStore
from tests.support.managing import Managed, Place, managing
from tests.support.oidc import CLIENT, LyingProvider, lying_provider
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.browser]

PASSWORD = "correct horse battery"
MARKUP = "<img src=x onerror=document.title='owned'>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """A manager that asks for a login, and its pages."""

    manager: Managed
    access: Accessing
    console: Console
    provider: LyingProvider

    async def person(self, name: str, role: Role | None = None, **options: object) -> None:
        """A user with the password of all."""
        await self.access.user(name, role, password=await kept_of(PASSWORD), **options)  # type: ignore[arg-type]

    async def log_in(self, name: str, path: str = "/") -> Page:
        """The page, as if its tab had been at the login page."""
        session = await self.access.session(f"user:{name}")
        page = await self.console.open("/livez")
        await page.context.add_cookies([{"name": session.name, "value": session.secret, "url": self.console.base}])
        await page.evaluate("(second) => sessionStorage.setItem('etcron.session', second)", session.second)
        await page.goto(path)
        await expect(page.locator("#me-name")).to_have_text(name)
        return page


async def type_password(page: Page, name: str, password: str = PASSWORD) -> None:
    await page.get_by_label("User name").fill(name)
    await page.get_by_label("Password", exact=True).fill(password)
    await page.get_by_role("button", name="Log in", exact=True).click()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(
    browser: Browser, etcd_server: EtcdServer, log_store: LogStore
) -> AsyncIterator[tuple[Managed, LyingProvider, Usual]]:
    """One manager for all of these tests: jobs and what it has audited stay, accounts do not."""
    place = Place.new(etcd=etcd_server.endpoint, log_store=log_store.uri)
    async with (
        lying_provider() as provider,
        managing(
            place, loops=True, auth="required", oidcIssuer=provider.issuer, oidcClientId=CLIENT,
            oidcLabel="Our company",
        ) as manager,
    ):  # fmt: skip
        usual = await Usual.new(browser, f"http://127.0.0.1:{manager.http.port}")
        yield manager, provider, usual
        await usual.close()


@pytest_asyncio.fixture(loop_scope="session")
async def guarded(
    browser: Browser, site: tuple[Managed, LyingProvider, Usual], screenshots: Path | None
) -> AsyncIterator[Guarded]:
    manager, provider, usual = site
    access = Accessing(manager)
    console = Console(browser=browser, usual=usual, base=usual.base, screenshots=screenshots)
    yield Guarded(manager=manager, access=access, console=console, provider=provider)
    await console.close()
    await access.forget_all()
    provider.groups, provider.claims = (), {}
    assert console.problems == []


async def test_login_by_password_leads_back_to_where_one_was(guarded: Guarded) -> None:
    await guarded.person("alice", Role.VIEWER)
    page = await guarded.console.open("/runs?status=failed")
    await expect(page).to_have_url(re.compile(r"/login\?back=%2Fruns%3Fstatus%3Dfailed"))
    await type_password(page, "alice", "a wrong one")
    await expect(page.locator("#problem")).to_contain_text("Wrong user name or password.")
    await type_password(page, "alice")
    await expect(page).to_have_url(re.compile(r"/runs\?status=failed$"))
    await expect(page.locator("#me-name")).to_have_text("alice")


async def test_logout_ends_the_session(guarded: Guarded) -> None:
    await guarded.person("alice", Role.VIEWER)
    page = await guarded.log_in("alice")
    await page.get_by_role("button", name="My account").click()
    await page.get_by_role("button", name="Log out").click()
    await expect(page).to_have_url(re.compile(r"/login$"))
    directory = guarded.manager.parts.directory
    await wait_until(lambda: directory.sessions == {}, description="the manager has heard of it")
    await page.goto("/")
    await expect(page).to_have_url(re.compile(r"/login\?back=%2F$"))


async def test_logout_that_failed_is_said_and_the_page_stays(guarded: Guarded) -> None:
    """Else the user leaves a browser in which the session is still open."""
    await guarded.person("alice", Role.VIEWER)
    page = await guarded.log_in("alice", "/runs")
    answer = {"detail": "nothing may be changed until etcd answers again"}
    await page.route("**/api/v1/logout", lambda route: route.fulfill(status=409, json=answer), times=1)
    await page.get_by_role("button", name="My account").click()
    await page.get_by_role("button", name="Log out").click()
    await expect(page.locator("#toasts .tone-bad")).to_have_text(f"Log out: {answer['detail']}")
    assert page.url.endswith("/runs")
    assert len(guarded.manager.parts.directory.sessions) == 1
    await page.get_by_role("button", name="My account").click()
    await page.get_by_role("button", name="Log out").click()
    await expect(page).to_have_url(re.compile("/login$"))


async def test_logout_from_a_session_that_is_over_leads_to_the_login(guarded: Guarded) -> None:
    await guarded.person("alice", Role.VIEWER)
    page = await guarded.log_in("alice", "/runs")
    over = {"detail": "log in again", "code": "login-needed"}
    await page.route("**/api/v1/logout", lambda route: route.fulfill(status=401, json=over))
    await page.get_by_role("button", name="My account").click()
    await page.get_by_role("button", name="Log out").click()
    await expect(page).to_have_url(re.compile("/login"))


async def test_another_tab_goes_on_without_a_login(guarded: Guarded) -> None:
    await guarded.person("alice", Role.VIEWER)
    page = await guarded.log_in("alice")
    other = await page.context.new_page()
    await other.goto("/runs")
    await expect(other.locator("#me-name")).to_have_text("alice")
    await expect(other.locator("#runs")).to_contain_text("No runs yet.")


async def test_login_page_goes_on_when_another_tab_answers_late(guarded: Guarded) -> None:
    late = """
        const post = BroadcastChannel.prototype.postMessage;
        const mayAnswer = new Promise((resolve) => (window.answer = resolve));
        BroadcastChannel.prototype.postMessage = function (data) {
          void (data.secret ? mayAnswer : Promise.resolve()).then(() => post.call(this, data));
        };
    """
    await guarded.person("alice", Role.VIEWER)
    first = await guarded.log_in("alice")
    slow = await first.context.new_page()
    await slow.add_init_script(late)
    await slow.goto("/")
    await expect(slow.locator("#me-name")).to_have_text("alice")
    await first.goto("about:blank")
    other = await first.context.new_page()
    await other.goto("/runs")
    await expect(other).to_have_url(re.compile(r"/login\?back=%2Fruns$"))
    await slow.evaluate("answer()")
    await expect(other).to_have_url(re.compile(r"/runs$"))
    await expect(other.locator("#me-name")).to_have_text("alice")


async def test_login_in_one_tab_ends_the_login_page_of_another(guarded: Guarded) -> None:
    await guarded.person("alice", Role.VIEWER)
    page = await guarded.console.open("/workers")
    await expect(page.locator("#login-form")).to_be_visible()
    other = await page.context.new_page()
    await other.goto("/runs")
    await type_password(other, "alice")
    await expect(other).to_have_url(re.compile(r"/runs$"))
    await expect(page).to_have_url(re.compile(r"/workers$"))


async def test_login_of_another_user_in_one_tab_makes_the_page_of_another_theirs(guarded: Guarded) -> None:
    await guarded.person("alice", Role.ADMIN)
    await guarded.person("bob", Role.VIEWER)
    page = await guarded.log_in("alice", "/workers")
    other = await page.context.new_page()
    await other.goto("/runs")
    await other.get_by_role("button", name="My account").click()
    await other.get_by_role("button", name="Log out").click()
    await type_password(other, "bob")
    await expect(other.locator("#me-name")).to_have_text("bob")
    await expect(page.locator("#me-name")).to_have_text("bob")
    await expect(page).to_have_url(re.compile(r"/workers$"))


async def test_login_through_the_provider(guarded: Guarded) -> None:
    guarded.provider.groups = ("dba",)
    await guarded.access.bind("group:dba", Role.VIEWER)
    page = await guarded.console.open("/workers")
    await page.get_by_role("link", name="Log in with Our company").click()
    await expect(page).to_have_url(re.compile(r"/workers$"))
    await expect(page.locator("#me-name")).to_have_text("alice")


async def test_login_page_says_what_went_wrong_at_the_provider(guarded: Guarded) -> None:
    guarded.provider.claims = {"nonce": "of another login"}
    page = await guarded.console.open("/login")
    await page.get_by_role("link", name="Log in with Our company").click()
    await expect(page.locator("#problem")).to_contain_text("cannot be trusted")


@pytest.mark.parametrize("back", ["//evil.test/", "https://evil.test/", "/\\evil.test", "javascript:alert(1)"])
async def test_attack_that_leads_to_a_foreign_page_after_the_login(guarded: Guarded, back: str) -> None:
    await guarded.person("alice", Role.VIEWER)
    page = await guarded.console.open(f"/login?back={back}")
    await type_password(page, "alice")
    await expect(page).to_have_url(f"{guarded.console.base}/")


async def test_login_page_says_how_to_begin_where_nobody_has_a_password(guarded: Guarded) -> None:
    async def answer(route: Route) -> None:
        await route.fulfill(json={"auth": "required", "password": False, "oidc": None})

    page = await guarded.console.open("/livez")
    await page.route("**/api/v1/login", answer)
    await page.goto("/login")
    await expect(page.locator("#login-note")).to_contain_text("etcron admin create")
    await expect(page.locator("#login-form")).to_be_hidden()


async def test_password_that_is_being_typed_stays_in_its_field_when_the_page_has_heard_what_there_is(
    guarded: Guarded,
) -> None:
    may_answer = asyncio.Event()

    async def answer(route: Route) -> None:
        await may_answer.wait()
        await route.continue_()

    await guarded.person("alice", Role.VIEWER)
    page = await guarded.console.open("/livez")
    await page.route("**/api/v1/login", answer)
    await page.goto("/login")
    await page.get_by_label("Password", exact=True).press_sequentially(PASSWORD[:7])
    async with page.expect_response("**/api/v1/login") as heard:
        may_answer.set()
    await (await heard.value).finished()
    await expect(page.locator("#login-oidc")).to_be_visible()
    await page.keyboard.type(PASSWORD[7:])
    await expect(page.get_by_label("Password", exact=True)).to_have_value(PASSWORD)


async def test_link_that_is_good_once_leaves_the_address_bar_before_it_is_used(guarded: Guarded) -> None:
    page = await guarded.console.open("/login#link=guessed")
    await expect(page.locator("#problem")).to_contain_text("works only once")
    await expect(page).to_have_url(f"{guarded.console.base}/login")


async def test_form_keeps_what_was_typed_when_the_session_is_over(guarded: Guarded) -> None:
    await guarded.person("alice", Role.EDITOR)
    page = await guarded.log_in("alice", "/new")
    await page.locator("#f-name").fill("typed-long-ago")
    await page.locator("#f-command").fill("true")
    await field(page, "cronExpr").fill("0 0 0 1 1 * *")
    for digest in list(guarded.manager.parts.directory.sessions):
        await guarded.access.delete(guarded.access.keys.session(digest))
    await page.locator("#save").click()
    await expect(page.locator("#login-needed")).to_contain_text("What you typed is still here.")
    async with page.context.expect_page() as opened:
        await page.get_by_role("link", name="Log in in another tab").click()
    await type_password(await opened.value, "alice")
    await expect((await opened.value).locator("#me-name")).to_have_text("alice")
    await expect(page.locator("#f-name")).to_have_value("typed-long-ago")
    await page.locator("#save").click()
    await expect(page).to_have_url(re.compile(r"/jobs/typed-long-ago$"))


async def test_pasted_crontab_stays_when_the_session_is_over(guarded: Guarded) -> None:
    await guarded.person("alice", Role.EDITOR)
    page = await guarded.log_in("alice", "/crontab")
    await settled(page)
    text = page.get_by_label("Crontab", exact=True)
    await text.fill("1 2 * * * true")
    for digest in list(guarded.manager.parts.directory.sessions):
        await guarded.access.delete(guarded.access.keys.session(digest))
    await page.locator("#look").click()
    await expect(page.locator("#login-needed")).to_contain_text("What you typed is still here.")
    await expect(text).to_have_value("1 2 * * * true")


async def test_answer_that_a_closed_dialog_was_for_is_told_all_the_same(guarded: Guarded) -> None:
    await guarded.person("alice", Role.VIEWER)
    page = await guarded.log_in("alice", "/account")
    held: asyncio.Queue[Route] = asyncio.Queue()
    await page.route(re.compile("/api/v1/(tokens|password)$"), lambda route: _hold(held, route))
    dialog = page.get_by_role("dialog")
    await page.get_by_role("button", name="New token").click()
    await page.get_by_label("Purpose").fill("backup script")
    await page.get_by_role("button", name="Create token").click()
    made = await held.get()
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    await made.continue_()
    await expect(dialog.get_by_label("Token", exact=True)).to_have_value(re.compile("^etcron_"))
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)

    await page.get_by_role("button", name="Change password").click()
    await page.get_by_label("Current password").fill("guessed")
    await page.get_by_label("New password").fill("another long password")
    await dialog.get_by_role("button", name="Change password").click()
    refused = await held.get()
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    await refused.fulfill(status=403, json={"code": "forbidden", "detail": "the old password is wrong"})
    await expect(page.locator("#toasts")).to_contain_text("Password: the old password is wrong")


async def _hold(held: asyncio.Queue[Route], route: Route) -> None:
    """What is asked for is answered when the test says so; what is read is answered at once."""
    if route.request.method == "GET":
        await route.continue_()
    else:
        await held.put(route)


async def test_what_one_may_not_do_is_off_and_says_why(guarded: Guarded) -> None:
    await guarded.person("alice", Role.EDITOR, labels={"team": ["sales"]})
    await guarded.access.bind("user:alice", Role.VIEWER)
    root = await guarded.access.user("root", Role.ADMIN)
    for name, team in (("mine", "sales"), ("theirs", "billing")):
        spec = {"command": "true", "cronExpr": "0 0 0 1 1 * *", "labels": {"team": team}, "enabled": False}
        async with guarded.manager.http.put(f"/api/v1/jobs/{name}", json=spec, headers=root) as answer:
            assert answer.status == 201, await answer.text()
    page = await guarded.log_in("alice", "/jobs")
    await page.get_by_role("button", name="Actions: mine").click()
    await expect(page.get_by_role("button", name="Delete: mine")).to_be_enabled()
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Actions: theirs").click()
    off = page.get_by_role("button", name="Delete: theirs")
    await expect(off).to_be_disabled()
    await expect(off).to_have_attribute("title", "You need the role editor for this")
    await expect(page.get_by_role("link", name="Access")).to_have_count(0)
    await guarded.console.shoot_all(page, "login-jobs-of-an-editor")


async def test_own_sessions_and_tokens(guarded: Guarded) -> None:
    await guarded.person("alice", Role.VIEWER)
    page = await guarded.log_in("alice", "/account")
    await expect(page.locator("#who")).to_contain_text("user:alice")
    await expect(page.locator("#sessions")).to_contain_text("this one")
    await page.get_by_role("button", name="New token").click()
    await page.get_by_label("Purpose").fill("backup script")
    await page.get_by_role("button", name="Create token").click()
    shown = page.get_by_label("Token", exact=True)
    token = await shown.input_value()
    assert token.startswith("etcron_")
    await page.get_by_role("button", name="Copy", exact=True).click()
    async with guarded.manager.http.get("/api/v1/jobs", headers={"Authorization": f"Bearer {token}"}) as answer:
        assert answer.status == 200
    await page.get_by_role("button", name="Close").last.click()
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(page.locator("#tokens")).to_contain_text("backup script")
    assert token not in await page.content()
    await looks_good(guarded.console, page, "account")
    await page.get_by_role("button", name="Revoke: token backup script").click()
    await page.get_by_role("button", name="Revoke", exact=True).click()
    await expect(page.locator("#tokens")).not_to_contain_text("backup script")
    async with guarded.manager.http.get("/api/v1/jobs", headers={"Authorization": f"Bearer {token}"}) as answer:
        assert answer.status == 401


async def test_password_is_changed_and_this_page_goes_on(guarded: Guarded) -> None:
    await guarded.person("alice", Role.VIEWER)
    page = await guarded.log_in("alice", "/account")
    await page.get_by_role("button", name="Change password").click()
    await expect(page.get_by_label("Current password")).to_be_focused()
    await page.get_by_label("Current password").fill(PASSWORD)
    await page.get_by_label("New password").fill("12345678")
    await page.get_by_role("button", name="Change", exact=False).last.click()
    await expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("New password:")
    await page.get_by_label("New password").fill("staple horse correct")
    await page.get_by_role("button", name="Change", exact=False).last.click()
    await expect(page.locator("#toasts")).to_contain_text("Password changed.")
    await page.reload()
    await expect(page.locator("#sessions")).to_contain_text("this one")


async def test_administrator_says_who_may_do_what(guarded: Guarded) -> None:
    await guarded.person("root", Role.ADMIN)
    page = await guarded.log_in("root", "/access")
    await expect(page.locator("#users")).to_contain_text("root")
    await page.get_by_role("button", name="New user").click()
    await page.get_by_label("User name").fill("carol")
    await page.get_by_label("Groups", exact=True).fill(f"billing\n{MARKUP}")
    await page.get_by_role("button", name="Add").click()
    await expect(page.locator("#users")).to_contain_text("carol")
    await page.get_by_role("button", name="New binding").click()
    await page.get_by_label("Subject", exact=True).fill(f"group:{MARKUP}")
    await page.get_by_label("Role").select_option("operator")
    await page.get_by_label("Job labels").fill("team=sales|billing")
    await page.get_by_role("button", name="Add").click()
    await expect(page.locator("#bindings")).to_contain_text("team=billing|sales")
    await page.get_by_label("What can this subject do?").fill("carol")
    await page.get_by_role("button", name="Show").first.click()
    await expect(page.locator("#explained")).to_contain_text("On some jobs: viewer, operator.")
    async with guarded.manager.http.put(
        "/api/v1/jobs/bill", headers=await guarded.access.token("user:root"),
        json={"command": "true", "cronExpr": "0 0 0 1 1 * *", "labels": {"team": "billing"}},
    ) as answer:  # fmt: skip
        assert answer.status == 201
    await page.get_by_label("Who can work with this job?").fill("bill")
    await page.get_by_role("button", name="Show").last.click()
    await expect(page.locator("#explained")).to_contain_text("run, kill, pause")
    # Attack: the name of a group is markup.
    await expect(page.locator("#users, #bindings, #explained").locator("img")).to_have_count(0)
    assert "owned" not in await page.title()
    await expect(page.locator("#users")).to_contain_text(MARKUP)
    await looks_good(guarded.console, page, "access")


async def test_groups_whose_names_have_commas_stay_as_they_are(guarded: Guarded) -> None:
    """As a directory names them: what is split at a comma would give the rights of other groups."""
    groups = ["CN=ops,DC=example", "OU=a, b", "billing"]
    await guarded.person("root", Role.ADMIN)
    await guarded.person("carol", groups=groups)
    page = await guarded.log_in("root", "/access")
    await page.get_by_role("button", name="Groups: carol").click()
    await expect(page.get_by_label("Groups", exact=True)).to_have_value("\n".join(groups))
    await guarded.console.shoot(page, "access-groups")
    await page.get_by_role("dialog").get_by_role("button", name="Change").click()
    await expect(page.locator("#toasts")).to_contain_text("carol")
    directory = guarded.manager.parts.directory
    assert list(directory.users["carol"].record.groups) == groups

    await page.get_by_role("button", name="New user").click()
    await page.get_by_label("User name").fill("dave")
    await page.get_by_label("Groups", exact=True).fill(f" {groups[0]} \n\n{groups[2]}")
    await page.get_by_role("button", name="Add").click()
    await expect(page.locator("#users")).to_contain_text("dave")
    assert list(directory.users["dave"].record.groups) == [groups[0], groups[2]]


async def test_group_that_was_taken_away_since_does_not_come_back_with_the_others(guarded: Guarded) -> None:
    await guarded.person("root", Role.ADMIN)
    await guarded.person("carol", groups=["ops"])
    page = await guarded.log_in("root", "/access")
    await expect(page.locator("#users")).to_contain_text("ops")
    await guarded.access.change_user("carol", groups=("dev",))
    await page.get_by_role("button", name="Groups: carol").click()
    dialog, field = page.get_by_role("dialog"), page.get_by_label("Groups", exact=True)
    await expect(field).to_have_value("dev")
    await guarded.access.change_user("carol")
    await field.fill("dev\nqa")
    await dialog.get_by_role("button", name="Change").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("Somebody else has changed carol meanwhile.")
    assert guarded.manager.parts.directory.users["carol"].record.groups == ()


async def test_answer_to_what_was_asked_before_is_not_shown_over_a_newer_one(guarded: Guarded) -> None:
    await guarded.person("root", Role.ADMIN)
    await guarded.person("carol", Role.VIEWER)
    page = await guarded.log_in("root", "/access")
    asked: asyncio.Queue[Route] = asyncio.Queue()
    await page.route("**/access/explain?*", asked.put)
    told, whom = page.locator("#explained"), page.get_by_label("What can this subject do?")
    for name in ("carol", "root"):
        await whom.fill(name)
        await whom.press("Enter")
    first, second = await asked.get(), await asked.get()
    await second.continue_()
    await expect(told.get_by_role("heading")).to_have_text("user:root")
    await first.fulfill(response=await first.fetch())
    await settled(page)
    await expect(told.get_by_role("heading")).to_have_text("user:root")


async def test_attack_name_of_a_group_is_markup(guarded: Guarded) -> None:
    """A login provider names groups as it likes; they are shown on four pages."""
    await guarded.person("root", Role.ADMIN, groups=[MARKUP])
    await guarded.access.bind(f"group:{MARKUP}", Role.VIEWER)
    page = await guarded.log_in("root", "/access")
    await page.get_by_label("What can this subject do?").fill("root")
    await page.get_by_role("button", name="Show").first.click()
    await expect(page.locator("#explained")).to_contain_text(MARKUP)
    await page.get_by_role("button", name="New binding").click()
    await page.get_by_label("Subject", exact=True).fill(f"group:{MARKUP}")
    await page.get_by_label("Role").select_option("operator")
    await page.get_by_label("Job labels").fill("team=sales")
    await page.get_by_role("button", name="Add").click()
    await expect(page.locator("#bindings")).to_contain_text("team=sales")
    for path, shown in (("/access", "#bindings"), ("/audit", "#entries"), ("/account", "main")):
        await opened_until_it_shows(page, path, shown, MARKUP)
        await expect(page.locator("img[src=x]")).to_have_count(0)
        assert "owned" not in await page.title()


async def opened_until_it_shows(page: Page, path: str, place: str, text: str) -> None:
    """What the audit has of a moment ago may not lie in the log store yet."""

    async def shows() -> bool:
        await page.goto(path)
        await settled(page)
        return text in (await page.locator(place).text_content() or "")

    await wait_until(shows, description=f"{path} shows {text}", at_most_every_s=0.5)


async def test_audit_is_filtered_by_pages(guarded: Guarded) -> None:
    await guarded.person("root", Role.ADMIN)
    page = await guarded.console.open("/audit")
    await type_password(page, "root")
    await expect(page.locator("#me-name")).to_have_text("root")
    await opened_until_it_shows(page, "/audit", "#entries", "login")
    await page.get_by_placeholder("Who").fill("nobody-at-all")
    await expect(page.locator("#entries")).to_contain_text("No entries match.")
    await expect(page).to_have_url(re.compile("who=nobody-at-all"))
    await page.get_by_placeholder("Who").fill("root")
    await expect(page.locator("#entries")).to_contain_text("login")
    await page.get_by_role("button", name="Verify").click()
    await expect(page.locator("#verified")).to_contain_text("intact")
    await looks_good(guarded.console, page, "audit")


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("en-GB", ["Command", "true", "false", "D=***", "D=*** (another value)", "revision"]),
        ("zh-CN", ["命令", "true", "false", "D=***", "值已更改", "修订版"]),
    ],
)
async def test_audit_tells_a_change_field_by_field(guarded: Guarded, language: str, said: list[str]) -> None:
    root = await guarded.access.user("root", Role.ADMIN, password=await kept_of(PASSWORD))
    for command, value in (("true", "1"), ("false", "2")):
        spec = {"command": command, "cronExpr": "@yearly", "env": {"D": value}, "retry": {"limit": int(value)}}
        async with guarded.manager.http.put(f"/api/v1/jobs/told-{language}", json=spec, headers=root) as answer:
            assert answer.ok, await answer.text()
    async with guarded.manager.http.delete(f"/api/v1/jobs/told-{language}", headers=root) as answer:
        assert answer.ok
    page = await guarded.console.open(f"/audit?object=job told-{language}", locale=language)
    await page.locator("#login-name").fill("root")
    await page.locator("#login-password").fill(PASSWORD)
    await page.locator("#login-password").press("Enter")
    await expect(page.locator("#me-name")).to_have_text("root")
    await opened_until_it_shows(page, f"/audit?object=job told-{language}", "#entries", "job.delete")
    changed = page.locator("#entries > div > table > tbody > tr").nth(1)
    await changed.locator("summary").click()
    for text in said:
        await expect(changed.locator("details")).to_contain_text(text)
    await expect(page.locator("#entries pre")).to_have_count(0)
    await expect(page.locator("#entries")).not_to_contain_text('{"')
    for summary in await page.locator("#entries summary").all():
        await summary.click()
    await guarded.console.shoot_all(page, f"audit-details-{language}", whole=True)


async def test_link_that_is_good_once_lets_its_holder_in_and_says_so(guarded: Guarded) -> None:
    secret = await make_link(
        guarded.access.etcd, guarded.access.keys, subject=Subject.parse("uid:0"), reason="recovery",
        now_ms=guarded.manager.parts.clock.wall_ms(), role=Role.ADMIN,
    )  # fmt: skip
    page = await guarded.console.open(f"/login#link={secret}")
    await expect(page).to_have_url(f"{guarded.console.base}/")
    await expect(page.locator("#auth-note")).to_contain_text("with a one-time link")
    await expect(page.get_by_role("link", name="Access", exact=True)).to_be_visible()
    await guarded.console.shoot_all(page, "by-link")
    again = await guarded.console.open(f"/login#link={secret}", own_context=True)
    await expect(again.locator("#problem")).to_contain_text("works only once")


async def test_recovery_stands_in_red_on_every_page_until_it_ends(guarded: Guarded) -> None:
    await guarded.person("alice", Role.VIEWER)
    page = await guarded.log_in("alice", "/runs")
    await expect(page.locator("#auth-note")).to_be_empty()
    recovery = await guarded.access.session("uid:0", role=Role.ADMIN, way=SessionWay.LINK, expires_in_ms=900_000)
    await expect(page.locator("#auth-note .note-bad")).to_contain_text("uid:0 logged in with etcron admin recover")
    await page.goto("/workers")
    await expect(page.locator("#auth-note .note-bad")).to_contain_text(re.compile(r"This ends in 1[0-4] min"))
    await guarded.console.shoot_all(page, "recovery")
    held = guarded.manager.parts.directory.session(recovery.id)
    assert held is not None
    await guarded.access.delete(guarded.access.keys.session(held.digest))
    await expect(page.locator("#auth-note")).to_be_empty()


async def test_recovery_ends_on_a_page_without_a_stream(guarded: Guarded) -> None:
    await guarded.person("alice", Role.VIEWER)
    recovery = await guarded.access.session("uid:0", role=Role.ADMIN, way=SessionWay.LINK, expires_in_ms=900_000)
    page = await (await guarded.log_in("alice")).context.new_page()
    await page.add_init_script("delete window.SharedWorker;")
    await page.route("**/api/v1/events", lambda route: route.abort())
    await page.goto("/runs")
    await expect(page.locator("#live")).to_have_text(" Every 5 s")
    await expect(page.locator("#auth-note .note-bad")).to_contain_text("uid:0 logged in with etcron admin recover")
    held = guarded.manager.parts.directory.session(recovery.id)
    assert held is not None
    await guarded.access.delete(guarded.access.keys.session(held.digest))
    await expect(page.locator("#auth-note")).to_be_empty()


async def test_page_whose_manager_was_slow_to_say_who_it_is_shows_it_later(guarded: Guarded) -> None:
    await guarded.person("alice", Role.VIEWER)
    page = await (await guarded.log_in("alice")).context.new_page()
    asked: list[Route] = []

    async def answer(route: Route) -> None:
        asked.append(route)
        await (route.abort("timedout") if len(asked) == 1 else route.continue_())

    await page.route("**/api/v1/whoami", answer)
    await page.goto("/runs")
    await expect(page.locator("#me-name")).to_have_text("alice")


async def test_console_without_a_login_says_who_may_do_everything(
    browser: Browser, own_usual: Usual, etcd_server: EtcdServer, log_store: LogStore, screenshots: Path | None
) -> None:
    place = Place.new(etcd=etcd_server.endpoint, log_store=log_store.uri)
    async with managing(place, loops=True, auth="off", port=own_usual.port):
        console = Console(browser=browser, usual=own_usual, base=own_usual.base, screenshots=screenshots)
        page = await console.open("/")
        await expect(page.locator("#auth-note")).to_contain_text("every user of its machine")
        await console.shoot_all(page, "auth-off")
        await console.close()
        assert console.problems == []


async def test_administrator_revokes_the_token_of_a_service_account(guarded: Guarded) -> None:
    await guarded.person("root", Role.ADMIN)
    ci = await guarded.access.service("ci", Role.VIEWER)
    page = await guarded.log_in("root", "/access")
    await page.get_by_role("button", name="Tokens and sessions: ci").click()
    await page.get_by_role("button", name="Revoke: token test").click()
    await expect(page.get_by_role("dialog")).to_contain_text("None.")
    async with guarded.manager.http.get("/api/v1/jobs", headers=ci) as answer:
        assert answer.status == 401


async def test_list_of_tokens_before_one_was_revoked_is_not_shown_after_it(guarded: Guarded) -> None:
    root = await guarded.access.user("root", Role.ADMIN)
    await guarded.access.service("ci", Role.VIEWER)
    other = {"name": "other", "days": 1, "owner": "service:ci"}
    async with guarded.manager.http.post("/api/v1/tokens", json=other, headers=root) as answer:
        assert answer.status == 201
    page = await guarded.log_in("root", "/access")
    await page.get_by_role("button", name="Tokens and sessions: ci").click()
    revokes = page.get_by_role("button", name="Revoke: token")
    await expect(revokes).to_have_count(2)
    asked: asyncio.Queue[Route] = asyncio.Queue()
    await page.route("**/api/v1/tokens?*", asked.put)
    await revokes.first.click()
    first = await asked.get()
    with_one = await first.fetch()
    await revokes.last.click()
    await (await asked.get()).continue_()
    await expect(page.get_by_role("dialog")).to_contain_text("None.")
    async with page.expect_event("requestfinished"):
        await first.fulfill(response=with_one)
    await page.evaluate("() => new Promise((done) => setTimeout(done))")  # it has been read
    await expect(page.get_by_role("dialog")).to_contain_text("None.")


async def test_operator_is_not_asked_for_arguments(guarded: Guarded) -> None:
    await guarded.person("alice", Role.OPERATOR)
    spec = {"command": "true", "cronExpr": "0 0 0 1 1 * *"}
    root = await guarded.access.user("root", Role.ADMIN)
    async with guarded.manager.http.put("/api/v1/jobs/nightly", json=spec, headers=root) as answer:
        assert answer.status == 201
    page = await guarded.log_in("alice", "/jobs/nightly")
    await expect(page.locator("#edit")).to_have_count(0)
    await page.get_by_role("button", name="Run now").click()
    await page.locator(".options-of summary").click()
    await expect(page.locator("#run-at")).to_be_visible()
    await expect(page.locator("#run-args")).to_have_count(0)


async def test_buttons_of_the_list_of_users(guarded: Guarded) -> None:
    await guarded.person("root", Role.ADMIN)
    await guarded.person("carol", groups=["billing"])
    page = await guarded.log_in("root", "/access")
    await page.get_by_role("button", name="Disable: carol").click()
    await page.get_by_role("dialog").get_by_role("button", name="Disable").click()
    await expect(page.locator("#users")).to_contain_text("disabled")
    await page.get_by_role("button", name="Remove: carol").click()
    await page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    await expect(page.locator("#users")).not_to_contain_text("carol")
    await page.get_by_role("button", name="Remove: root").click()
    await page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    await expect(page.locator("#toasts")).to_contain_text("administrator")


async def test_viewer_is_told_what_is_not_for_them(guarded: Guarded) -> None:
    await guarded.person("alice", Role.VIEWER)
    page = await guarded.log_in("alice", "/access")
    await expect(page.locator("main")).to_contain_text("Only administrators can see this page.")
    await expect(page.locator("main").get_by_role("button")).to_have_count(0)
    await page.goto("/audit")
    await expect(page.locator("main")).to_contain_text("Only administrators can see this page.")
    await expect(page.locator("main").get_by_role("button")).to_have_count(0)
    await page.goto("/new")
    await expect(page.locator("#problem")).to_contain_text("You need the role editor")
    await expect(page.locator("#save")).to_be_disabled()
    await page.goto("/system")
    await expect(page.locator("#configuration")).to_contain_text("Only administrators can see it.")
    await expect(page.locator("#checks")).to_contain_text("etcd")
    await expect(page.locator("#checks")).not_to_contain_text("blocked")


async def test_user_without_any_right_is_told_so(guarded: Guarded) -> None:
    await guarded.person("alice")
    page = await guarded.log_in("alice")
    await expect(page.locator("#auth-note")).to_contain_text("no binding gives any")
    await expect(page.locator("#live")).to_be_hidden()


async def test_login_page_says_that_a_session_is_over(guarded: Guarded) -> None:
    await guarded.person("alice", Role.VIEWER)
    page = await guarded.log_in("alice", "/runs")
    for digest in list(guarded.manager.parts.directory.sessions):
        await guarded.access.delete(guarded.access.keys.session(digest))
    await expect(page.locator("#login-note")).to_contain_text("Your session has ended.")
    await type_password(page, "alice")
    await expect(page).to_have_url(re.compile(r"/runs$"))


@pytest.mark.parametrize("language", ["en-GB", "zh-CN"])
async def test_login_page_is_accessible_and_fits(guarded: Guarded, language: str) -> None:
    await guarded.person("alice", Role.VIEWER)
    page = await guarded.console.open("/login", locale=language)
    await expect(page.locator("#login-oidc")).to_be_visible()
    await looks_good(guarded.console, page, f"login-{language}")


async def looks_good(console: Console, page: Page, name: str) -> None:
    for theme in THEMES:
        await page.emulate_media(color_scheme=theme)
        await expect(page.locator("html")).to_have_attribute("data-bs-theme", theme)
        if AXE.exists():
            assert await findings(page, colours_alone=theme != THEMES[0]) == []
    for width in (WIDE, NARROW):
        await page.set_viewport_size({"width": width, "height": 800})
        assert await overflow(page) == 0
    await console.shoot_all(page, name, whole=True)
