"""A crontab that is pasted: what each line becomes, saving its jobs in one step, limits, and who may."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from common.access.rights import Role
from tests.support.access import Accessing
from tests.support.managing import Managed, Place, managing, problem_of
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

PATH = "/api/v1/crontab"
TEXT = """\
# nightly work
MAILTO=ops@example.com
30 2 * * * /usr/local/bin/backup.sh --full
5/10 * * * * /usr/local/bin/start
61 * * * * /bin/late

*/5 * * * * /usr/local/bin/poll
"""


async def test_every_line_is_told_then_its_jobs_are_saved_in_one_step(manager: Managed) -> None:
    body: dict[str, Any] = {"text": TEXT, "timezone": "Europe/Berlin", "namePrefix": "web.", "labels": {"host": "web"}}
    told = await manager.call("POST", f"{PATH}/preview", body | {"workers": {"host": "web-1"}})
    kinds = ["comment", "variable", "job", "refused", "refused", "blank", "job"]
    lines = told["items"]
    assert ([one["became"] for one in lines], [one["line"] for one in lines]) == (kinds, list(range(1, 8)))
    assert (told["new"], told["refused"]) == (2, 2)
    backup = lines[2]
    assert backup["name"].startswith("web.backup.sh-")
    assert (backup["isThere"], backup["user"], backup["next"]["local"][11:16]) == (False, None, "02:30")
    assert backup["spec"] | {"name": ""} == {
        "name": "", "command": "/usr/local/bin/backup.sh --full", "cronExpr": "0 30 2 * * * *", "overlap": "allow",
        "timezone": "Europe/Berlin", "labels": {"host": "web"}, "workers": {"host": "web-1"}, "enabled": False,
    }  # fmt: skip
    assert any("no notifications" in note for note in backup["notes"])
    assert "5/10 is 5 alone" in lines[3]["problem"]
    assert lines[4]["errors"][0]["message"] == "Minute 61 is not between 0 and 59"
    assert (await manager.get("/api/v1/jobs"))["total"] == 0

    results = (await manager.call("POST", PATH, body))["results"]
    assert [(one["name"], one["ok"], one["changed"]) for one in results] == [
        (lines[number]["name"], True, True) for number in (2, 6)
    ]
    jobs = (await manager.get("/api/v1/jobs"))["items"]
    assert sorted((job["name"], job["state"]) for job in jobs) == sorted((one["name"], "paused") for one in results)

    again = await manager.call("POST", f"{PATH}/preview", body)
    assert ([one.get("isThere") for one in again["items"]].count(True), again["new"]) == (2, 0)
    await manager.call("PATCH", f"/api/v1/jobs/{results[0]['name']}", {"timeoutSeconds": 60})
    more = await manager.call("POST", PATH, body | {"text": TEXT + "1 1 * * * other\n", "enabled": True})
    assert [one["name"].split("-")[0] for one in more["results"]] == ["web.other"]
    assert (await manager.get(f"/api/v1/jobs/{more['results'][0]['name']}"))["state"] == "enabled"
    kept = await manager.get(f"/api/v1/jobs/{results[0]['name']}")
    assert (kept["state"], kept["spec"]["timeoutSeconds"]) == ("paused", 60)
    problem = await problem_of(await manager.http.post(PATH, json=body), 400)
    assert [(one["field"], one["message"]) for one in problem["errors"]] == [
        ("text", "has no line that becomes a new job")
    ]


async def test_of_crontabs_saved_at_once_one_makes_the_job(manager: Managed) -> None:
    minutes = range(5)
    answers = await asyncio.gather(*(
        manager.http.post(PATH, json={"text": f"{minute} 1 * * * poll\n", "timezone": "UTC"}) for minute in minutes
    ))  # fmt: skip
    done = [(await one.json()).get("results", [{"ok": False}])[0]["ok"] for one in answers]
    assert done.count(True) == 1, done
    (job,) = (await manager.get("/api/v1/jobs"))["items"]
    assert job["spec"]["cronExpr"] == f"0 {done.index(True)} 1 * * * *"


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"text": "x" * 200_001}, "text", "is 200,001 characters long"),
        ({"text": "\n" * 10_000}, "text", "has 10,001 lines"),
        ({"text": "@daily x\n" * 501}, "text", "has 501 entries"),
        ({"text": f"A={'x' * 4000}\nB={'y' * 4000}\n" + "@daily x\n" * 500}, "text", None),
        ({"text": "a\0b"}, "text", "contains a NUL character"),
        ({}, "text", "is missing"),
        ({"text": "", "timezone": "Mars"}, "timezone", "'Mars' is not a known time zone"),
        ({"text": "", "namePrefix": "x" * 61}, "namePrefix", "is 61 characters long"),
        ({"text": "", "labels": {"a b": "c"}}, 'labels["a b"]', None),
        ({"text": "", "nonsense": 1}, "nonsense", "is not a field of this call's body"),
    ],
    ids=["characters", "lines", "entries", "bytes", "nul", "missing", "zone", "prefix", "labels", "unknown"],
)
async def test_what_is_too_much_or_wrong_is_refused(
    manager: Managed, fields: dict[str, Any], field: str, message: str | None
) -> None:
    for path in (PATH, f"{PATH}/preview"):
        problem = await problem_of(await manager.http.post(path, json=fields), 400)
        (error,) = problem["errors"]
        assert (error["field"], error["remedy"] != "") == (field, True)
        assert message in (None, error["message"])


async def test_lines_are_judged_as_any_save_of_their_jobs(place: Place) -> None:
    async with managing(place, loops=True, auth="required") as manager:
        access = Accessing(manager)
        viewer = await access.user("vera", Role.VIEWER)
        editor = await access.user("ed", Role.EDITOR, labels={"team": ["ours"]}, run_as=["app"])
        admin = await access.user("ada", Role.ADMIN)
        body: dict[str, Any] = {"text": "* * * * * app /bin/a\n* * * * * root /bin/b\n", "system": True}
        for headers, status in (({}, 401), (viewer, 403)):
            for path in (PATH, f"{PATH}/preview"):
                assert (await manager.http.post(path, json=body, headers=headers)).status == status

        async def preview(fields: dict[str, Any]) -> list[dict[str, Any]]:
            answer = await manager.http.post(f"{PATH}/preview", json=body | fields, headers=editor)
            assert answer.status == 200, await answer.text()
            items: list[dict[str, Any]] = (await answer.json())["items"]
            return items

        bare = await preview({})
        assert [one["became"] for one in bare] == ["refused", "refused"]
        assert "labels have to match" in bare[0]["problem"]
        ours = {"labels": {"team": "ours"}}
        as_app, as_root = await preview(ours)
        assert (as_app["became"], as_app["user"]) == ("job", "app")
        assert (as_root["became"], "would run as root" in as_root["problem"]) == ("refused", True)
        answer = await manager.http.post(PATH, json=body | ours, headers=editor)
        assert [one["name"] for one in (await answer.json())["results"]] == [as_app["name"]]

        theirs = body | {"labels": {"team": "theirs"}, "text": "1 1 * * * app /bin/theirs\n"}
        assert (await manager.http.post(PATH, json=theirs, headers=admin)).status == 200
        (hidden,) = await preview(ours | {"text": theirs["text"]})
        assert (hidden["became"], "taken" in hidden["problem"]) == ("refused", True)
        answer = await manager.http.post(PATH, json=body | ours | {"text": theirs["text"]}, headers=editor)
        assert answer.status == 400
        audit = manager.parts.audit
        await wait_until(lambda: audit.head.seq > 0 and audit.waiting == 0, description="the log store has the audit")
        entries = (await (await manager.http.get("/api/v1/audit?action=job.save", headers=admin)).json())["items"]
        assert {(one["who"].split()[0], one["object"]) for one in entries if one["outcome"] == "done"} == {
            ("ed", f"job {as_app['name']}"), ("ada", f"job {next(iter(await _names(manager, admin, 'theirs')))}"),
        }  # fmt: skip


async def _names(manager: Managed, headers: dict[str, str], text: str) -> set[str]:
    items = (await (await manager.http.get(f"/api/v1/jobs?q={text}", headers=headers)).json())["items"]
    return {one["name"] for one in items}
