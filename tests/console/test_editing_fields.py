"""New and edit know every field of a job: it is typed, saved, shown again, kept, and its mistakes stand beside it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.async_api import Request, Route, expect

from common.jobs.job import JobSpec
from common.jobs.kinds import Object, members_of
from tests.console.console import AXE, NARROW, THEMES, WIDE, Console, findings, overflow, settled
from tests.console.form import (
    EVERYTHING,
    add_pair,
    choose,
    edit,
    errors,
    field,
    fill_everything,
    holds,
    put,
    save,
    spec_of,
)
from tests.support.cluster import Cluster


def names_of_the_model() -> set[str]:
    """Every field, those within an object by its path."""
    names: set[str] = set()
    for name, one in members_of(JobSpec).items():
        inner = one.kind.members if isinstance(one.kind, Object) else ()
        names |= {f"{name}.{member}" for member in inner} or {name}
    return names


async def test_form_has_every_field_of_the_model_with_its_default(
    console: Console, cluster: Cluster, name: str
) -> None:
    page = await console.open("/new")
    await settled(page)
    shown = await page.locator("[data-field]").evaluate_all("all => all.map((one) => one.dataset.field)")
    single = {"cronExpr", "every", "offset", "after", "at"}
    assert set(shown) == names_of_the_model()
    assert len(shown) == len(set(shown))
    assert set(EVERYTHING) == set(members_of(JobSpec)) - (single - {"cronExpr"}) - {"name"}
    await field(page, "name").fill(name)
    await field(page, "command").fill("true")
    await field(page, "cronExpr").fill("@yearly")
    await save(page, name)
    assert await spec_of(cluster, name) == await put(cluster, name, command="true", cronExpr="@yearly")


async def test_new_user_sees_three_fields_and_what_the_rest_holds(console: Console, cluster: Cluster) -> None:
    page = await console.open("/new")
    await settled(page)
    typed = page.locator("#job-form input[type=text]:visible, #job-form textarea:visible")
    ids = await typed.evaluate_all("all => all.map((one) => one.id)")
    assert ids == ["f-name", "f-command", "f-cronExpr", "f-timezone"]
    await expect(page.locator("details[open]")).to_have_count(0)
    await expect(holds(page, "retry")).to_have_text("none")
    await expect(holds(page, "where")).to_have_text("any worker · 1 slot")
    await console.shoot_all(page, "form-folded", whole=True)
    await console.shoot(page, "form-folded-whole", whole=True)
    await page.get_by_role("button", name="Expand all").click()
    await expect(page.locator("details:not([open])")).to_have_count(0)
    await page.get_by_role("button", name="Collapse all").click()
    await expect(page.locator("details[open]")).to_have_count(0)


OTHER_TRIGGERS: dict[str, dict[str, Any]] = {
    "every": {"every": "1h30m", "offset": "5m"},
    "after": {"after": "300d"},
    "at": {"at": "2035-12-24T18:00+01:00", "timezone": "Asia/Tokyo"},
}


@pytest.mark.parametrize("given", OTHER_TRIGGERS.values(), ids=OTHER_TRIGGERS)
async def test_job_of_each_other_trigger_is_previewed_saved_and_shown_again(
    console: Console, cluster: Cluster, name: str, given: dict[str, Any]
) -> None:
    page = await console.open("/new")
    await settled(page)
    await field(page, "name").fill(name)
    await field(page, "command").fill("true")
    await field(page, "cronExpr").fill("0 0 0 30 2 * *")  # left behind where another trigger is chosen
    kind = next(iter(given))
    await choose(page, "trigger", kind)
    await expect(field(page, "cronExpr")).to_be_hidden()
    for one, text in given.items():
        await field(page, one).fill(text)
    fires = {"after": 0, "at": 1}.get(kind, 5)
    await expect(page.locator("#preview .words")).to_be_visible()
    await expect(page.locator("#preview tbody tr")).to_have_count(fires)
    await expect(errors(page, "cronExpr")).to_be_empty()
    await console.shoot(page, f"form-trigger-{kind}")
    await save(page, name)
    saved = await spec_of(cluster, name)
    assert saved == await put(cluster, name, command="true", **given)

    await edit(page, name)
    await expect(page.locator(f"[name=trigger][value={kind}]")).to_be_checked()
    await save(page, name)
    assert await spec_of(cluster, name) == saved


async def test_every_field_is_saved_and_shown_again(
    console: Console, cluster: Cluster, name: str, administrator: dict[str, str]
) -> None:
    mail = {"kind": "email", "to": ["ops@example.org"], "from": "etcron@example.org", "host": "mail.example.org"}
    for channel in ("office", "finance"):
        await cluster.call("PUT", f"/api/v1/channels/{channel}", mail, **administrator)
    page = await console.open("/new")
    await settled(page)
    await fill_everything(page, name)
    await expect(holds(page, "retry")).to_contain_text(
        "3 times, 2.5 s, each delay times 3 · only after exit status 75, 111"
    )
    for theme in THEMES if AXE.exists() else ():
        await page.emulate_media(color_scheme=theme)
        await expect(page.locator("html")).to_have_attribute("data-bs-theme", theme)
        assert await findings(page, colours_alone=theme != THEMES[0]) == []
    await console.shoot_all(page, "form-unfolded", whole=True)
    await console.shoot(page, "form-unfolded-whole", whole=True)
    await save(page, name)
    saved = await spec_of(cluster, name)
    assert {field: saved[field] for field in EVERYTHING} == EVERYTHING
    await expect(page.locator("#facts")).to_contain_text("The books of the day, <b>for the bank</b>.")
    link = page.locator("#facts").get_by_role("link", name="Runbook")
    assert await link.get_attribute("href") == "https://wiki.example.com/books?a=1&b=2"
    assert await link.get_attribute("rel") == "noopener noreferrer"

    await edit(page, name)
    await expect(page.locator("details[open]")).to_have_count(0)
    await expect(holds(page, "labelled")).to_have_text("changed: team=billing")
    for width in (WIDE, NARROW):
        await page.set_viewport_size({"width": width, "height": 800})
        assert await overflow(page) == 0
    await console.shoot_all(page, "form-folded-edit", whole=True)
    await field(page, "priority").evaluate("one => { one.value = '7'; }")
    await save(page, name)
    assert await spec_of(cluster, name) == {**saved, "priority": 7}


async def test_what_a_text_field_cannot_hold_stays_as_it_was(console: Console, cluster: Cluster, name: str) -> None:
    odd = {"command": "echo a\r\necho b", "env": {"CR": "a\rb", "__proto__": "own"}, "workers": {"rack": ["a,b", " c"]}}
    saved = await put(cluster, name, cronExpr="@yearly", **odd)
    page = await console.open(f"/jobs/{name}/edit")
    await settled(page)
    await page.get_by_role("button", name="Expand all").click()
    await add_pair(page, "env", "MORE", "1")
    await add_pair(page, "workers", "zone", "eu")
    await save(page, name)
    assert await spec_of(cluster, name) == {
        **saved, "env": {**saved["env"], "MORE": "1"}, "workers": {**saved["workers"], "zone": "eu"},
    }  # fmt: skip


async def test_fields_of_a_later_version_are_kept(console: Console, cluster: Cluster, name: str) -> None:
    """A later version has saved `escalate`, one more member of `retry`, and one more word for `overlap`."""
    await put(cluster, name, command="true", cronExpr="@yearly")
    later = {"escalate": {"on": ["failed"]}, "overlap": "coalesce"}
    sent: list[Any] = []

    async def answer(route: Route, request: Request) -> None:
        if request.method == "PUT":
            sent.append(json.loads(request.post_data or ""))
            await route.fulfill(status=503, json={"detail": "not now"})
        else:
            job = await (await route.fetch()).json()
            spec = job["spec"]
            job["spec"] = {**spec, **later, "retry": {**spec["retry"], "budget": 5}}
            await route.fulfill(json=job)

    page = await console.open("/", watched=False)
    await page.route(f"**/api/v1/jobs/{name}", answer)
    await edit(page, name)
    await field(page, "command").fill("false")
    await page.locator("#save").click()
    await expect(page.locator("#problem")).to_contain_text("not now")
    [spec] = sent
    saved = await spec_of(cluster, name)
    assert spec == {**saved, **later, "retry": {**saved["retry"], "budget": 5}, "command": "false"}


async def test_errors_within_fields_stand_there_and_unfold_their_section(
    console: Console, cluster: Cluster, name: str
) -> None:
    page = await console.open("/new")
    await settled(page)
    await field(page, "name").fill(name)
    await field(page, "command").fill("true")
    await field(page, "cronExpr").fill("@daily")
    for n, text in ((2, "@hourly"), (3, "0 0 0 30 2 * *")):
        await page.get_by_role("button", name="Add another expression").click()
        await page.get_by_label(f"Expression {n}").fill(text)
    await page.get_by_role("button", name="Expand all").click()
    await field(page, "retry.limit").fill("3")
    await field(page, "retry.delaySeconds").fill("soon")
    await field(page, "retry.onExitCodes").fill("75, 300")
    await field(page, "calendar-mode").select_option("exclude")
    await field(page, "calendar").fill("12-24\n12-32")
    await add_pair(page, "env", "A B", "x")
    await add_pair(page, "env", "A", "y")
    await add_pair(page, "workers", "gpu", r'a100, "a\u0000"')
    await page.get_by_role("button", name="Collapse all").click()
    await page.locator("#save").click()
    await expect(page.locator("#problem")).to_contain_text("Not saved.")

    rows = page.locator(".expression-row")
    await expect(rows.nth(2).locator(".errors")).not_to_be_empty()
    await expect(page.get_by_label("Expression 3")).to_be_focused()
    await expect(rows.nth(0).locator(".errors")).to_be_empty()
    await expect(errors(page, "retry.delaySeconds")).to_contain_text("is 'soon'")
    await expect(errors(page, "retry.onExitCodes")).to_contain_text("Entry 2: is 300")
    await expect(errors(page, "calendar")).to_contain_text("Entry 2: ")
    variables = page.locator("[data-pairs=env] > .pair > .errors")
    await expect(variables.nth(0)).to_contain_text("environment names look like")
    await expect(variables.nth(1)).to_be_empty()
    await expect(page.locator("[data-pairs=workers] > .pair > .errors")).to_contain_text("Entry 2: ")
    unfolded = await page.locator("details[open]").evaluate_all("all => all.map((one) => one.dataset.group)")
    assert unfolded == ["window", "retry", "where", "surroundings"]
    await console.shoot_all(page, "form-errors", whole=True)

    await page.get_by_label("Expression 3").fill("@weekly")
    await expect(rows.nth(2).locator(".errors")).to_be_empty()
    await page.get_by_role("button", name="Remove @daily").click()
    await expect(field(page, "cronExpr")).to_have_value("@hourly")
    await expect(field(page, "cronExpr")).to_be_focused()
    await expect(page.get_by_label("Expression 2")).to_have_value("@weekly")
    await field(page, "retry.delaySeconds").fill("5")
    await expect(errors(page, "retry.delaySeconds")).to_be_empty()
    await expect(variables.nth(0)).not_to_be_empty()
    await page.locator("[data-pairs=env] > .pair").nth(0).locator("input").fill("A")
    await expect(errors(page, "env")).to_contain_text("A is given twice")


async def test_section_with_the_first_error_is_unfolded_and_scrolled_to(
    console: Console, cluster: Cluster, name: str
) -> None:
    await put(cluster, name, command="true", cronExpr="@yearly")
    page = await console.open(f"/jobs/{name}/edit", width=NARROW)
    await settled(page)
    await field(page, "slots").evaluate("one => { one.value = 'many'; }")
    await page.locator("#save").click()
    await expect(field(page, "slots")).to_be_focused()
    await expect(field(page, "slots")).to_be_in_viewport()
    await expect(errors(page, "slots")).to_be_in_viewport()


async def test_preview_marks_the_fires_that_the_calendar_closes(console: Console, cluster: Cluster, name: str) -> None:
    page = await console.open("/new")
    await settled(page)
    await field(page, "cronExpr").fill("0 0 12 24,25 12 * *")
    await page.get_by_text("Window, calendar, jitter").click()
    await field(page, "calendar-mode").select_option("exclude")
    await field(page, "calendar").fill("12-25")
    await field(page, "startAt").fill("2035-12-24T13:00")
    rows = page.locator("#preview tbody tr")
    await expect(rows.first).to_contain_text("2035-12-25 12:00:00")
    await expect(rows.first).to_contain_text("closed by the calendar")
    await expect(rows.nth(1)).not_to_contain_text("closed by the calendar")
    await field(page, "endAt").fill("2035-12-01T00:00")
    await expect(errors(page, "endAt")).to_contain_text("not after startAt")
    await console.shoot_all(page, "form-calendar")


async def test_command_turns_into_a_list_and_back(console: Console, cluster: Cluster, name: str) -> None:
    page = await console.open("/new")
    await settled(page)
    command = field(page, "command")
    await command.fill("rsync -a /srv/a host:/b")
    await choose(page, "given", "list")
    await expect(command).to_have_value("rsync\n-a\n/srv/a\nhost:/b")
    await command.fill("echo\nit's here")
    await choose(page, "given", "line")
    await expect(command).to_have_value("""echo 'it'"'"'s here'""")
    await command.fill("echo a | wc -l")
    await choose(page, "given", "list")
    await choose(page, "given", "line")
    await expect(command).to_have_value("echo a | wc -l")


async def test_stale_edit_shows_changes_of_every_field(console: Console, cluster: Cluster, name: str) -> None:
    await put(cluster, name, command="true", cronExpr="@yearly")
    page = await console.open(f"/jobs/{name}/edit")
    await settled(page)
    await choose(page, "trigger", "every")
    await field(page, "every").fill("2d")
    await field(page, "priority").evaluate("one => { one.value = '7'; }")
    theirs = await put(
        cluster, name, command="true", at="2035-12-24T18:00", retry={"limit": 2}, workers={"gpu": ["a", "b"]}
    )
    await page.locator("#save").click()
    rows = page.locator("#conflict tbody tr")
    await expect(rows.locator("th")).to_have_text(["Expression", "Interval", "Time", "Retries", "Workers"])
    await expect(rows.nth(4)).to_contain_text("gpu=a,b")
    await console.shoot_all(page, "form-stale")
    await page.get_by_role("button", name="Use their changes").click()
    await expect(page.locator("[name=trigger][value=at]")).to_be_checked()
    await save(page, name)
    assert await spec_of(cluster, name) == {**theirs, "priority": 7}


async def test_form_is_filled_with_the_keyboard_alone(console: Console, cluster: Cluster, name: str) -> None:
    page = await console.open("/new")
    await settled(page)
    keys = page.keyboard
    await keys.type(name)
    await keys.press("Tab")  # how the command is given
    await keys.press("Tab")
    await keys.type("true")
    await keys.press("Tab")
    await keys.press("ArrowRight")
    await expect(page.locator("[name=trigger][value=every]")).to_be_checked()
    await keys.press("Tab")
    await keys.type("2d")
    await keys.press("Enter")
    await page.wait_for_url(f"**/jobs/{name}")
    assert (await spec_of(cluster, name))["every"] == "2d"
