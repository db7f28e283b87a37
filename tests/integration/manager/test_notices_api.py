"""Channels, rules, silences and notices through the API: what is saved, what is refused, and to whom."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from common.access.rights import Role
from common.notices.events import Event
from common.notices.notice import AlertedEvent, Notice, NoticeKind, NoticeState
from common.notices.silences import LONGEST_MS
from common.verdicts import EventKind
from tests.support.access import Accessing, as_administrator
from tests.support.alerts import alert_of, open_alerts_are
from tests.support.managing import Managed, Place, ShiftedClock, managing, problem_of
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

API: Final = "/api/v1"
HOOK: Final[dict[str, Any]] = {"kind": "webhook", "url": "https://hooks.example.org/secret-path"}
MAIL: Final[dict[str, Any]] = {
    "kind": "email",
    "to": ["ops@example.org"],
    "from": "etcron@example.org",
    "host": "mail.example.org",
}
RULE: Final = {"labels": "all", "to": ["ops"]}
JOB: Final = {"command": "true", "cronExpr": "@daily"}


@pytest.fixture
async def manager(manager: Managed) -> Managed:
    """Its calls are an administrator's: channels are changed by nobody else, also where no login is asked for."""
    await as_administrator(manager)
    return manager


@pytest.fixture
async def ops(manager: Managed) -> Managed:
    """A manager with one channel, ops."""
    await manager.call("POST", f"{API}/channels", {"name": "ops"} | HOOK)
    return manager


async def refused(manager: Managed, method: str, path: str, body: object = None, status: int = 400) -> Any:
    """The problem document; etcd is as it was."""
    before = await manager.stored()
    response = await manager.http.request(method, API + path, json=body)
    problem = await problem_of(response, status)
    assert await manager.stored() == before
    return problem


def told(problem: Any) -> list[str]:
    """Of each mistake its field and what is wrong with it; all of them say how to mend it."""
    assert all(one["remedy"] for one in problem["errors"])
    return [f"{one['field']}: {one['message']}" for one in problem["errors"]]


# Channels


async def test_channel_is_made_read_changed_and_removed(manager: Managed) -> None:
    made = await manager.call("POST", f"{API}/channels", {"name": "ops"} | HOOK)
    assert made["warnings"] == []
    assert HOOK.items() <= made["channel"].items()
    shown = await manager.get(f"{API}/channels/ops")
    assert shown["state"] == {"waiting": 0, "failed": 0, "lastError": None, "lastSentTime": None}
    assert [one["name"] for one in (await manager.get(f"{API}/channels"))["items"]] == ["ops"]

    changed = await manager.call("PUT", f"{API}/channels/ops", MAIL)
    assert changed["channel"]["createdTime"] == made["channel"]["createdTime"]
    assert "url" not in changed["channel"]
    await manager.call("DELETE", f"{API}/channels/ops")
    assert (await manager.get(f"{API}/channels"))["items"] == []


async def test_channels_are_read_in_pages(manager: Managed) -> None:
    for name in ("c", "a", "b"):
        await manager.call("POST", f"{API}/channels", {"name": name} | HOOK)
    first = await manager.get(f"{API}/channels", limit="2")
    rest = await manager.get(f"{API}/channels", limit="2", cursor=first["nextCursor"])
    names = [[one["name"] for one in page["items"]] for page in (first, rest)]
    assert (names, rest["nextCursor"]) == ([["a", "b"], ["c"]], None)


async def test_second_channel_of_a_name_is_refused(ops: Managed) -> None:
    problem = await refused(ops, "POST", "/channels", {"name": "ops"} | MAIL, 409)
    assert "there is a channel ops already" in problem["detail"]


async def test_change_of_what_somebody_else_has_changed_is_refused(ops: Managed) -> None:
    response = await ops.http.get(f"{API}/channels/ops")
    etag = response.headers["ETag"]
    response = await ops.http.put(f"{API}/channels/ops", json=MAIL, headers={"If-Match": etag})
    assert response.status == 200
    for method, body in (("PUT", HOOK), ("DELETE", None)):
        response = await ops.http.request(method, f"{API}/channels/ops", json=body, headers={"If-Match": etag})
        assert (await problem_of(response, 412))["code"] == "stale-revision"
    response = await ops.http.put(f"{API}/channels/ops", json=HOOK, headers={"If-None-Match": "*"})
    await problem_of(response, 412)
    assert (await ops.get(f"{API}/channels/ops"))["kind"] == "email"


async def test_revision_that_a_save_answers_is_its_own_where_another_save_came_right_after(ops: Managed) -> None:
    records, key = ops.parts.channels.kept.records, ops.keys.channel("ops")

    async def meanwhile(_: int) -> None:
        saved = await ops.etcd.get(key)
        assert saved is not None
        await ops.etcd.put(key, saved.value)

    known, records._known = records._known, meanwhile
    response = await ops.http.put(f"{API}/channels/ops", json=MAIL)
    records._known = known
    again = await ops.http.put(f"{API}/channels/ops", json=HOOK, headers={"If-Match": response.headers["ETag"]})
    await problem_of(again, 412)


@pytest.mark.parametrize("host", [
    "127.0.0.1", "localhost", "10.1.2.3", "192.168.0.1", "169.254.169.254", "[::1]", "[::ffff:127.0.0.1]", "[fd00::1]",
    "0.0.0.0", "224.0.0.1",
])  # fmt: skip
async def test_webhook_leads_to_no_internal_address(manager: Managed, host: str) -> None:
    body = {"name": "hook", "kind": "webhook", "url": f"http://{host}/x"}
    [problem] = told(await refused(manager, "POST", "/channels", body))
    assert problem.startswith("url: is where nothing is sent to: ")


async def test_webhook_leads_to_an_internal_address_that_is_allowed(place: Place) -> None:
    async with managing(place, noticeNetworks=["10.1.0.0/16"]) as manager:
        await as_administrator(manager)
        body = {"kind": "webhook", "url": "http://10.1.2.3/x"}
        await manager.call("PUT", f"{API}/channels/hook", body)
        await refused(manager, "PUT", "/channels/hook", body | {"url": "http://10.2.2.3/x"})


async def test_every_mistake_in_a_channel_is_told_at_once(manager: Managed) -> None:
    body = {"name": "a/b", "kind": "email", "to": ["nobody"], "host": "mail:25", "port": 0, "colour": "red"}
    assert [one.partition(":")[0] for one in told(await refused(manager, "POST", "/channels", body))] == [
        "name", "to[0]", "host", "port", "colour",
    ]  # fmt: skip
    body = {"name": "other"} | HOOK
    assert told(await refused(manager, "PUT", "/channels/ops", body)) == ["name: is 'other'"]


@pytest.mark.parametrize("text", ["a@b.c\r\nBcc: d@e.f", "a@b.c,d@e.f", "<a@b.c>", "a@b.c\x00"])
async def test_no_address_becomes_a_header(manager: Managed, text: str) -> None:
    for field, value in (("to", [text]), ("from", text)):
        body = {"name": "ops"} | MAIL | {field: value}
        [problem] = told(await refused(manager, "POST", "/channels", body))
        assert problem.startswith(field)


async def test_channel_that_a_rule_or_a_job_names_stays(ops: Managed) -> None:
    await ops.call("PUT", f"{API}/rules/all", RULE)
    await ops.call("PUT", f"{API}/jobs/backup", JOB | {"notify": [{"to": "ops"}]})
    problem = await refused(ops, "DELETE", "/channels/ops", status=409)
    assert "is named by rule all and job backup" in problem["detail"]
    await ops.call("DELETE", f"{API}/rules/all")
    await refused(ops, "DELETE", "/channels/ops", status=409)
    await ops.call("PATCH", f"{API}/jobs/backup", {"notify": None})
    await ops.call("DELETE", f"{API}/channels/ops")


async def test_channel_that_is_taken_from_jobs_says_from_which(ops: Managed) -> None:
    await ops.call("PUT", f"{API}/jobs/backup", JOB | {"notify": [{"to": "ops"}]})
    saved = await ops.call("PUT", f"{API}/channels/ops", HOOK | {"labels": {"team": ["dba"]}})
    assert saved["warnings"] == ["job backup may not use it by its labels, so nothing of their own goes there"]


async def test_what_is_no_channel_is_shown_and_can_be_removed(manager: Managed) -> None:
    await manager.etcd.put(manager.keys.channel("odd"), b'{"kind": "pigeon"}')
    [shown] = (await manager.get(f"{API}/channels"))["items"]
    assert (shown["name"], shown["problem"].startswith("not a channel")) == ("odd", True)
    await manager.call("DELETE", f"{API}/channels/odd")


async def test_url_of_a_channel_is_shown_to_administrators_alone_and_is_in_no_audit(place: Place) -> None:
    async with managing(place, auth="required", loops=True) as manager:
        access = Accessing(manager)
        admin, viewer = await access.user("ada", Role.ADMIN), await access.user("vera", Role.VIEWER)
        await manager.call("PUT", f"{API}/channels/ops", HOOK, **admin)
        seen = []
        for headers in (admin, viewer):
            response = await manager.http.get(f"{API}/channels/ops", headers=headers)
            seen.append((await response.json())["url"])
        assert seen == [HOOK["url"], "https://hooks.example.org/…"]

        async def noted() -> list[Any]:
            response = await manager.http.get(f"{API}/audit?action=channel.save", headers=admin)
            items: list[Any] = (await response.json())["items"]
            return items

        async def is_noted() -> bool:
            return bool(await noted())

        await wait_until(is_noted, description="the audit has it")
        [entry] = await noted()
        assert (entry["object"], entry["details"]["kind"]) == ("channel ops", "webhook")
        assert "secret-path" not in json.dumps(entry)


# Jobs that name channels


@pytest.mark.parametrize(("name", "said"), [
    ("oops", "notify[0].to: there is no channel oops"),
    ("dba", "notify[0].to: channel dba may be used by jobs with team=dba alone"),
])  # fmt: skip
async def test_job_names_no_channel_that_it_may_not_use(ops: Managed, name: str, said: str) -> None:
    await ops.call("PUT", f"{API}/channels/dba", HOOK | {"labels": {"team": ["dba"]}})
    body = JOB | {"notify": [{"to": name}], "labels": {"team": "web"}}
    assert told(await refused(ops, "PUT", "/jobs/backup", body)) == [said]
    checked = await ops.call("POST", f"{API}/jobs/check", body | {"name": "backup"})
    assert [f"{one['field']}: {one['message']}" for one in checked["errors"]] == [said]
    await ops.call("PUT", f"{API}/jobs/backup", JOB)
    assert told(await refused(ops, "PATCH", "/jobs/backup", {"notify": [{"to": name}]})) == [said]
    response = await ops.http.post("/job/save", data={"job": json.dumps(body | {"name": "backup"})})
    assert response.status == 400
    assert said.partition(": ")[2] in (await response.json())["msg"]


async def test_channel_that_another_manager_has_just_made_can_be_named(place: Place) -> None:
    async with managing(place) as one, managing(place) as other:
        await as_administrator(one)
        for number in range(5):
            await one.call("PUT", f"{API}/channels/c{number}", HOOK)
            await other.call("PUT", f"{API}/jobs/j{number}", JOB | {"notify": [{"to": f"c{number}"}]})


@pytest.mark.parametrize(("sends", "warnings"), [(True, 1), (False, 0)])
async def test_secret_that_is_not_there_is_said_where_messages_are_sent(
    place: Place, tmp_path: Path, *, sends: bool, warnings: int
) -> None:
    (tmp_path / "there").write_text("https://hooks.example.org/x")
    (tmp_path / "there").chmod(0o600)
    body = {"kind": "webhook", "urlSecret": "there", "signingSecret": "not-there"}
    async with managing(place, secretsDirectory=str(tmp_path), notifier=sends) as manager:
        await as_administrator(manager)
        said = (await manager.call("PUT", f"{API}/channels/hook", body))["warnings"]
    assert len(said) == warnings
    assert all(one.startswith("secret not-there is not on this manager: ") for one in said)


async def test_job_that_gets_messages_is_saved_by_administrators_alone(place: Place) -> None:
    async with managing(place, auth="required") as manager:
        access = Accessing(manager)
        admin, editor = await access.user("ada", Role.ADMIN), await access.user("ed", Role.EDITOR)
        made = await manager.call("PUT", f"{API}/channels/pager", {"kind": "command", "job": "page"}, **admin)
        assert made["warnings"] == ["there is no job page: messages fail until there is"]
        for method in ("PUT", "PATCH"):
            response = await manager.http.request(method, f"{API}/jobs/page", json=JOB, headers=editor)
            assert "gets the messages of channel pager" in (await problem_of(response, 403))["detail"]
            response = await manager.http.request(method, f"{API}/jobs/page", json=JOB, headers=admin)
            assert response.status < 300


async def test_attack_job_that_gets_messages_is_taken_over_by_relabelling_it_or_making_it_anew(place: Place) -> None:
    async with managing(place, auth="required") as manager:
        access = Accessing(manager)
        admin = await access.user("ada", Role.ADMIN)
        mallory = await access.user("mallory", Role.ADMIN, labels={"team": ["web"]})
        await access.bind("user:mallory", Role.EDITOR, labels={"team": ["ops"]})
        ops, web = JOB | {"labels": {"team": "ops"}}, JOB | {"labels": {"team": "web"}, "command": "/tmp/mine"}
        former = (await manager.call("PUT", f"{API}/jobs/page", web, **admin))["job"]["revision"]
        await manager.call("PUT", f"{API}/jobs/page", ops, **admin)
        await manager.call("PUT", f"{API}/channels/pager", {"kind": "command", "job": "page"}, **admin)
        relabels = {"action": "label", "names": ["page"], "labels": {"team": "web"}}
        tries = [
            ("PUT", "jobs/page", web), ("PATCH", "jobs/page", {"labels": {"team": "web"}}),
            ("DELETE", "jobs/page", None), ("POST", f"jobs/page/versions/{former}/restore", {}),
        ]  # fmt: skip
        for method, path, body in tries:
            response = await manager.http.request(method, f"{API}/{path}", json=body, headers=mallory)
            assert "gets the messages of channel pager" in (await problem_of(response, 403))["detail"], path
        [result] = (await manager.call("POST", f"{API}/jobs/bulk", relabels, **mallory))["results"]
        assert "gets the messages of channel pager" in result["message"]
        await manager.call("DELETE", f"{API}/jobs/page", **admin)
        response = await manager.http.request("PUT", f"{API}/jobs/page", json=web, headers=mallory)
        assert "gets the messages of channel pager" in (await problem_of(response, 403))["detail"], "made anew"
        await manager.call("PUT", f"{API}/jobs/page", ops, **admin)


# Rules


async def test_rule_is_made_read_changed_and_removed(ops: Managed) -> None:
    made = await ops.call("POST", f"{API}/rules", {"name": "all"} | RULE)
    assert made["warnings"] == []
    assert RULE.items() <= made["rule"].items()
    await ops.call("PUT", f"{API}/rules/all", RULE | {"on": ["failed"], "after": 3})
    [shown] = (await ops.get(f"{API}/rules"))["items"]
    assert (shown["on"], shown["after"], shown["repeatHours"]) == (["failed"], 3, 24)
    assert (await ops.get(f"{API}/rules/all"))["to"] == ["ops"]
    await ops.call("DELETE", f"{API}/rules/all")
    assert (await ops.get(f"{API}/rules"))["items"] == []


async def test_rule_leads_to_channels_that_are_there(ops: Managed) -> None:
    body = {"name": "all", "labels": "all", "to": ["ops", "opps"]}
    problem = await refused(ops, "POST", "/rules", body)
    assert told(problem) == ["to[1]: there is no channel opps"]
    assert problem["errors"][0]["remedy"] == "did you mean ops?"


async def test_rule_that_selects_no_job_is_saved_with_a_warning(ops: Managed) -> None:
    body = {"labels": {"team": ["dba"]}, "to": ["ops"]}
    saved = await ops.call("PUT", f"{API}/rules/dba", body)
    assert saved["warnings"] == ["it selects no job that there is now"]
    await ops.call("PUT", f"{API}/jobs/backup", JOB | {"labels": {"team": "dba"}})
    assert (await ops.call("PUT", f"{API}/rules/dba", body))["warnings"] == []


# Silences


async def test_silence_is_made_listed_and_ended(manager: Managed) -> None:
    await manager.call("PUT", f"{API}/jobs/backup", JOB)
    made = (await manager.call("POST", f"{API}/silences", {"jobs": ["backup"], "hours": 4, "reason": "disk"}))[
        "silence"
    ]
    assert made["untilTime"] - made["fromTime"] == 4 * 3_600_000
    assert (await manager.get(f"{API}/silences"))["items"] == [made]
    await manager.call("DELETE", f"{API}/silences/{made['id']}")
    assert (await manager.get(f"{API}/silences"))["items"] == []
    await refused(manager, "DELETE", f"/silences/{made['id']}", status=404)


SILENCES: Final[dict[str, tuple[dict[str, Any], list[str]]]] = {
    "nothing": ({}, ["hours: is missing"]),
    "of nothing": ({"hours": 1}, ["labels: is missing, or more than one is given"]),
    "of both": ({"hours": 1, "labels": "all", "jobs": ["a"]}, ["labels: is given beside another"]),
    "with two ends": ({"hours": 1, "untilTime": 5, "labels": "all"}, ["hours: is given beside untilTime"]),
    "too long": ({"hours": 721, "labels": "all"}, ["hours: is 721"]),
    "of no time": ({"hours": 0, "labels": "all"}, ["untilTime: is not after its begin"]),
    "past": ({"fromTime": 1, "untilTime": 2, "labels": "all"}, ["untilTime: is past"]),
    "beyond 30 days": (
        {"fromTime": 1, "untilTime": 2 + LONGEST_MS, "labels": "all"},
        ["untilTime: is more than 30 days after its begin"],
    ),
    "of what is no job": (
        {"hours": 1, "jobs": ["a b"]}, ["jobs[0]: 'a b' has characters that a name cannot have"],
    ),
    "in the year 9999": (
        {"fromTime": 253_402_300_000_000, "hours": 1, "labels": "all"}, ["fromTime: is 9999-12-31T23:46:40.000Z"],
    ),
    "with a long reason": ({"hours": 1, "labels": "all", "reason": "x" * 501}, ["reason: is 501 characters long"]),
}  # fmt: skip


@pytest.mark.parametrize("case", SILENCES)
async def test_silence_that_is_none_is_refused(manager: Managed, case: str) -> None:
    body, said = SILENCES[case]
    assert told(await refused(manager, "POST", "/silences", body)) == said


async def test_silence_of_jobs_needs_the_role_on_each_and_shows_each_caller_their_own(place: Place) -> None:
    async with managing(place, auth="required") as manager:
        access = Accessing(manager)
        root = await access.user("root", Role.ADMIN)
        for team in ("ours", "theirs", "hidden"):
            await manager.call("PUT", f"{API}/jobs/{team}", JOB | {"labels": {"team": team}}, **root)
        olive = await access.user("olive", Role.OPERATOR, labels={"team": ["ours"]})
        await access.bind("user:olive", Role.VIEWER, labels={"team": ["theirs"]})
        for jobs, status in ((["ours"], 201), (["ours", "theirs"], 403), (["ours", "hidden"], 404), (["none"], 404)):
            body = {"jobs": jobs, "hours": 1}
            response = await manager.http.post(f"{API}/silences", json=body, headers=olive)
            assert response.status == status, jobs
        made = await manager.call("POST", f"{API}/silences", {"jobs": ["hidden", "ours"], "hours": 1}, **root)
        response = await manager.http.get(f"{API}/silences", headers=olive)
        assert sorted(one["jobs"] for one in (await response.json())["items"]) == [["ours"], ["ours"]]
        response = await manager.http.delete(f"{API}/silences/{made['silence']['id']}", headers=olive)
        assert "hidden" not in (await problem_of(response, 403))["detail"]


async def test_silence_by_labels_needs_the_role_on_all_that_they_select(place: Place) -> None:
    async with managing(place, auth="required") as manager:
        access = Accessing(manager)
        ours = await access.user("olive", Role.OPERATOR, labels={"team": ["ours", "web"]})
        allowed: list[object] = [{"team": ["ours"]}, {"team": ["ours", "web"], "zone": ["eu"]}]
        for labels in [*allowed, "all", {"zone": ["eu"]}, {"team": ["ours", "theirs"]}]:
            response = await manager.http.post(f"{API}/silences", json={"labels": labels, "hours": 1}, headers=ours)
            if labels in allowed:
                assert response.status == 201
            else:
                await problem_of(response, 403)


async def test_nobody_takes_silences_and_acknowledgements_away_from_others(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manager.use_cases.silences.MOST_OF_A_CALLER", 2)
    clock = ShiftedClock()
    async with managing(place, auth="required", clock=clock) as manager:
        access = Accessing(manager)
        root = await access.user("root", Role.ADMIN)
        await manager.call("PUT", f"{API}/jobs/j", JOB, **root)
        olive = await access.user("olive", Role.OPERATOR)
        olives_other = await access.token("user:olive", name="another")
        oscar = await access.user("oscar", Role.OPERATOR)
        body = {"jobs": ["j"], "hours": 0.25}
        first = await manager.call("POST", f"{API}/silences", body, **olive)
        await manager.call("POST", f"{API}/silences", body, **olives_other)
        for headers in (olive, olives_other):
            problem = await problem_of(await manager.http.post(f"{API}/silences", json=body, headers=headers), 409)
            assert problem["detail"].startswith("you have 2 silences, which is the most of one caller")
        await manager.call("POST", f"{API}/silences", body, **oscar)
        await open_alerts_are(manager, alert_of("j", clock.wall_ms()))
        await manager.call("POST", f"{API}/alerts/ack", {"job": "j"}, **olive)

        await manager.call("DELETE", f"{API}/silences/{first['silence']['id']}", **olive)
        await manager.call("POST", f"{API}/silences", body, **olive)
        clock.offset_ms += 900_000
        for _ in range(2):
            await manager.call("POST", f"{API}/silences", body, **olive)
        listed = (await (await manager.http.get(f"{API}/silences", headers=root)).json())["items"]
        assert sorted(one["by"].partition(" ")[0] for one in listed) == ["olive", "olive", "olive", "oscar"], (
            "those that were over went as others needed their room"
        )


# Notices


def a_notice(number: int, state: NoticeState) -> Notice:
    event = Event(kind=EventKind.FAILED, at_ms=number, job="backup", reason="exit status 3")
    return Notice(
        id=f"{number:032}", channel="ops", kind=NoticeKind.PROBLEM, created_ms=number,
        told=(AlertedEvent(event=event),), state=state, error="550 no such user" if state is NoticeState.FAILED else "",
    )  # fmt: skip


async def test_notices_are_listed_newest_first_and_those_that_failed_are_sent_again(ops: Managed) -> None:
    await ops.runlog.notices.put([a_notice(1, NoticeState.FAILED), a_notice(2, NoticeState.WAITING)])
    page = await ops.get(f"{API}/notices", limit="1")
    assert [one["state"] for one in page["items"]] == ["waiting"]
    rest = await ops.get(f"{API}/notices", cursor=page["nextCursor"])
    [failed] = rest["items"]
    assert (failed["error"], failed["events"][0]["reason"]) == ("550 no such user", "exit status 3")
    assert (await ops.get(f"{API}/notices", state="failed", channel="ops"))["items"] == [failed]
    state = (await ops.get(f"{API}/channels/ops"))["state"]
    assert (state["waiting"], state["failed"], state["lastError"]) == (1, 1, "550 no such user")

    await ops.call("POST", f"{API}/notices/{failed['id']}/resend", {})
    assert (await ops.get(f"{API}/notices/{failed['id']}"))["state"] == "waiting"
    await refused(ops, "POST", f"/notices/{failed['id']}/resend", {}, 409)
    await refused(ops, "POST", f"/notices/{'0' * 32}/resend", {}, 404)


async def test_test_of_a_channel_is_a_notice_like_all_others(ops: Managed) -> None:
    sent = await ops.call("POST", f"{API}/channels/ops/test", {})
    notice = await ops.get(f"{API}/notices/{sent['notice']}")
    assert (notice["kind"], notice["state"], notice["channel"]) == ("test", "waiting", "ops")
    await refused(ops, "POST", "/channels/oops/test", {}, 404)


# Who may

EVERYWHERE: Final[dict[str, tuple[str, str, object]]] = {
    "GET /channels": ("viewer", "/channels", None),
    "GET /channels/{name}": ("viewer", "/channels/ops", None),
    "POST /channels": ("admin", "/channels", {"name": "more"} | HOOK),
    "PUT /channels/{name}": ("admin", "/channels/ops", MAIL),
    "DELETE /channels/{name}": ("admin", "/channels/more", None),
    "POST /channels/{name}/test": ("admin", "/channels/ops/test", {}),
    "GET /rules": ("viewer", "/rules", None),
    "GET /rules/{name}": ("viewer", "/rules/all", None),
    "POST /rules": ("editor", "/rules", {"name": "more"} | RULE),
    "PUT /rules/{name}": ("editor", "/rules/all", RULE | {"after": 2}),
    "DELETE /rules/{name}": ("editor", "/rules/more", None),
    "PUT /rules/{name}: that is required": ("admin", "/rules/must", RULE | {"required": True, "after": 2}),
    "PUT /rules/{name}: that was required": ("admin", "/rules/must", RULE | {"after": 3}),
    "PUT /rules/{name}: for the system": ("admin", "/rules/system", {"system": True, "to": ["ops"]}),
    "DELETE /rules/{name}: for the system": ("admin", "/rules/system", None),
    "GET /notices": ("viewer", "/notices", None),
    "GET /notices/{id}": ("viewer", f"/notices/{1:032}", None),
    "POST /notices/{id}/resend": ("admin", f"/notices/{1:032}/resend", {}),
}
"""The role that is needed on everything. They stand in an order in which the last is there for the next."""


@pytest.fixture
async def guarded(place: Place) -> AsyncIterator[Managed]:
    async with managing(place, auth="required") as manager:
        yield manager


async def test_each_call_is_for_who_has_its_role_on_everything(guarded: Managed) -> None:
    access = Accessing(guarded)
    root = await access.user("root", Role.ADMIN)
    await guarded.call("PUT", f"{API}/channels/ops", HOOK, **root)
    await guarded.call("PUT", f"{API}/rules/all", RULE, **root)
    await guarded.call("PUT", f"{API}/rules/must", RULE | {"required": True}, **root)
    await guarded.runlog.notices.put([a_notice(1, NoticeState.FAILED)])
    callers = {role: await access.user(f"{role}-all", role) for role in Role}
    ours = await access.user("ours", Role.ADMIN, labels={"team": ["ours"]})
    for call, (needed, path, body) in EVERYWHERE.items():
        method = call.partition(" ")[0]
        before = await guarded.stored()
        below = [headers for role, headers in callers.items() if not role.covers(Role(needed))]
        for headers in (ours, *below):
            response = await guarded.http.request(method, API + path, json=body, headers=headers)
            assert response.status == 403, (call, await response.text())
        assert (await guarded.http.request(method, API + path, json=body)).status == 401, call
        assert await guarded.stored() == before
        response = await guarded.http.request(method, API + path, json=body, headers=callers[Role(needed)])
        assert response.status in (200, 201, 202), (call, await response.text())
