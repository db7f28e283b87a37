"""Former specs: kept by the edit that replaces them, delivered to the log store, listed, compared, restored."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from common.errors import UnavailableError
from common.runlog import RunLog
from manager.background.versions import Versions
from tests.support.background import running
from tests.support.managing import Managed, Place, managing, problem_of
from tests.support.waiting import PATIENCE_S, wait_until

SPEC = {"command": "echo 1", "cronExpr": "0 0 0 1 1 * *"}
_VERSIONS = "/api/v1/jobs/j/versions"


async def put(manager: Managed, **changes: Any) -> dict[str, Any]:
    answer: dict[str, Any] = await manager.call("PUT", "/api/v1/jobs/j", {**SPEC, **changes})
    return answer


async def pending(manager: Managed) -> int:
    return await manager.etcd.count(manager.keys.versions)


def told(items: list[dict[str, Any]]) -> list[tuple[str | None, list[str], bool]]:
    return [(item["action"], item["changed"], item["current"]) for item in items]


async def test_each_edit_leaves_a_version_that_says_who_when_and_what(manager: Managed) -> None:
    await put(manager)
    await put(manager, command="echo 2", timeoutSeconds=5)
    await manager.call("POST", "/api/v1/jobs/j/pause", {"reason": "not now"})
    await manager.call("POST", "/api/v1/jobs/j/resume", {})
    document = await manager.get(_VERSIONS)
    assert told(document["items"]) == [
        ("resume", ["enabled"], True), ("pause", ["enabled"], False), ("save", ["command", "timeoutSeconds"], False),
        (None, [], False),
    ]  # fmt: skip
    revisions = [item["revision"] for item in document["items"]]
    assert revisions == sorted(revisions, reverse=True)
    assert all(item["savedBy"].startswith("api ") and item["savedMs"] > 0 for item in document["items"])
    assert document["deleted"] is None


async def test_deleted_jobs_are_found_in_the_log_store_too(
    working_manager: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        await working_manager.call("PUT", f"/api/v1/jobs/{name}", SPEC)
        await working_manager.call("DELETE", f"/api/v1/jobs/{name}")
        await wait_until(lambda: _none_pending(working_manager), description="it is delivered")
    await working_manager.call("PUT", "/api/v1/jobs/b", SPEC)
    await wait_until(lambda: "b" in working_manager.parts.watching.catalog, description="it is seen")
    items = (await working_manager.get("/api/v1/deleted-jobs"))["items"]
    assert [one["name"] for one in items] == ["c", "a"]
    assert items[0]["deletedBy"].startswith("api ")
    await working_manager.call("DELETE", "/api/v1/jobs/b")
    await working_manager.call("PUT", "/api/v1/jobs/a", SPEC)
    await working_manager.call("DELETE", "/api/v1/jobs/a")
    for look_at in (500, 2):  # all at once, and one by one, as each page looks at one more
        monkeypatch.setattr("manager.api.versions._DELETIONS", look_at)
        assert await deleted_one_by_one(working_manager) == ["a", "b", "c"]
        await wait_until(lambda: _none_pending(working_manager), description="all is delivered")


@pytest.mark.parametrize("cursor", ["null", "1", "1-", "-1", "1-2-3", "\u0661-2", "9" * 19 + "-1"])
async def test_a_cursor_of_another_list_is_refused(manager: Managed, cursor: str) -> None:
    async with manager.http.get("/api/v1/deleted-jobs", params={"cursor": cursor}) as response:
        (error,) = (await problem_of(response, 400))["errors"]
    assert (error["field"], error["message"]) == ("cursor", "is not a cursor of this list")


async def deleted_one_by_one(manager: Managed) -> list[str]:
    names, behind, is_last = list[str](), dict[str, str](), False
    while not is_last:
        page = await manager.get("/api/v1/deleted-jobs", limit="1", **behind)
        names += [one["name"] for one in page["items"]]
        behind, is_last = {"cursor": page["nextCursor"]}, page["nextCursor"] is None
    return names


async def test_a_save_that_changes_nothing_makes_no_version(manager: Managed) -> None:
    await put(manager)
    await put(manager)
    assert len((await manager.get(_VERSIONS))["items"]) == 1


async def test_versions_go_into_the_log_store_and_out_of_etcd(working_manager: Managed) -> None:
    for number in range(60):
        await put(working_manager, command=f"echo {number}")
    await wait_until(lambda: _none_pending(working_manager), description="all versions are delivered")
    items = (await working_manager.get(_VERSIONS))["items"]
    assert len(items) == 51  # the current one and 50 former ones
    oldest = await working_manager.get(f"{_VERSIONS}/{items[-1]['revision']}")
    assert oldest["spec"]["command"] == "echo 9"
    stored = await working_manager.runlog.versions.newest("j", limit=100)
    assert len(stored) == 50


async def test_of_what_the_log_store_does_not_take_the_newest_50_of_a_job_stay(place: Place) -> None:
    async with managing(replace(place, log_store="mongodb://127.0.0.1:9/"), loops=True) as manager:
        for number in range(61):
            await put(manager, command=f"echo {number}")
        await manager.call("PUT", "/api/v1/jobs/other", SPEC)
        await manager.call("PUT", "/api/v1/jobs/other", {**SPEC, "command": "echo 2"})

        async def are_few() -> bool:
            return await manager.etcd.count(f"{manager.keys.versions}j/") == 50

        await wait_until(are_few, description="the oldest are forgotten")
        kept = [json.loads(kv.value)["spec"] async for page in manager.etcd.read_prefix(f"{manager.keys.versions}j/")
                for kv in page.kvs]  # fmt: skip
        assert {spec["command"] for spec in kept} == {f"echo {number}" for number in range(10, 60)}
        assert await manager.etcd.count(f"{manager.keys.versions}other/") == 1


async def test_versions_that_could_not_be_forgotten_while_etcd_was_away_are_forgotten_later(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with managing(place) as manager, RunLog("mongodb://127.0.0.1:9/", connect_timeout_ms=100) as away:
        for number in range(53):
            await put(manager, command=f"echo {number}")
        etcd, prefix, refused = manager.parts.etcd, f"{manager.keys.versions}j/", asyncio.Event()
        count, is_away = etcd.count, True

        async def counted(of: str) -> int:
            if of == prefix and is_away:
                refused.set()
                raise UnavailableError("etcd does not answer")
            return await count(of)

        monkeypatch.setattr(etcd, "count", counted)
        versions = Versions(etcd, manager.keys, away, deadline_s=0.1)
        versions.edited("j")
        async with running(versions.run()):
            async with asyncio.timeout(PATIENCE_S):
                await refused.wait()
            is_away = False
            versions.edited("other")

            async def are_few() -> bool:
                return await manager.etcd.count(prefix) == 50

            await wait_until(are_few, description="the oldest are forgotten")


async def _none_pending(manager: Managed) -> bool:
    return await pending(manager) == 0


async def test_a_version_that_a_dead_manager_left_is_delivered_by_another(place: Place) -> None:
    async with managing(place) as first:  # without its loops: it delivers nothing
        await put(first)
        await put(first, command="echo 2")
        assert await pending(first) == 1
    async with managing(place, loops=True) as second:
        await wait_until(lambda: _none_pending(second), description="the version is delivered")
        assert len((await second.get(_VERSIONS))["items"]) == 2


async def test_two_versions_are_compared_field_by_field(manager: Managed) -> None:
    first = (await put(manager))["job"]["revision"]
    second = (await put(manager, command="echo 2", labels={"team": "a"}))["job"]["revision"]
    await put(manager, command="echo 3")
    compared = await manager.get(f"{_VERSIONS}/{first}/compare", to=str(second))
    assert compared == {
        "from": first, "to": second,
        "changes": [
            {"field": "command", "before": "echo 1", "after": "echo 2"},
            {"field": "labels", "before": {}, "after": {"team": "a"}},
        ],
    }  # fmt: skip
    now = await manager.get(f"{_VERSIONS}/{first}/compare")
    assert [change["after"] for change in now["changes"]] == ["echo 3"]


async def test_a_restored_version_is_the_job_again(manager: Managed) -> None:
    first = (await put(manager, env={"A": "1"}))["job"]
    await put(manager, command="echo 2")
    restored = await manager.call("POST", f"{_VERSIONS}/{first['revision']}/restore", {})
    assert restored["job"]["spec"] == first["spec"]
    items = (await manager.get(_VERSIONS))["items"]
    assert told(items)[0] == ("restore", ["command", "env"], True) or told(items)[0] == (
        "restore", ["env", "command"], True,
    )  # fmt: skip


async def test_a_restore_with_a_stale_revision_changes_nothing(manager: Managed) -> None:
    first = (await put(manager))["job"]
    await put(manager, command="echo 2")
    answer = await manager.http.post(
        f"{_VERSIONS}/{first['revision']}/restore", json={}, headers={"If-Match": first["etag"]}
    )
    assert (await problem_of(answer, 412))["current"]["spec"]["command"] == "echo 2"
    assert (await manager.get("/api/v1/jobs/j"))["spec"]["command"] == "echo 2"


async def test_a_deleted_job_can_be_restored(manager: Managed) -> None:
    revision = (await put(manager))["job"]["revision"]
    await manager.call("DELETE", "/api/v1/jobs/j")
    listed = await manager.get(_VERSIONS)
    assert [item["current"] for item in listed["items"]] == [False]
    assert listed["deleted"]["by"].startswith("api ")
    answer = await manager.http.post(f"{_VERSIONS}/{revision}/restore", json={})
    assert answer.status == 201
    assert (await manager.get("/api/v1/jobs/j"))["spec"]["command"] == "echo 1"


async def test_an_unknown_version_and_one_of_an_unknown_job_are_not_found(manager: Managed) -> None:
    await put(manager)
    for path in (f"{_VERSIONS}/7", "/api/v1/jobs/other/versions", "/api/v1/jobs/other/versions/7"):
        await problem_of(await manager.http.get(path), 404)
    problem = await problem_of(await manager.http.get(f"{_VERSIONS}/seven"), 400)
    assert problem["errors"][0]["field"] == "revision"


# PATCH


async def test_a_patch_changes_what_it_names(manager: Managed) -> None:
    await put(manager, labels={"team": "a", "tier": "1"}, misfire={"graceSeconds": 90})
    patch = {"timeoutSeconds": 7, "labels": {"tier": None, "zone": "eu"}, "misfire": {"policy": "skip"}}
    spec = (await manager.call("PATCH", "/api/v1/jobs/j", patch))["job"]["spec"]
    assert spec["command"] == "echo 1"
    assert spec["timeoutSeconds"] == 7
    assert spec["labels"] == {"team": "a", "zone": "eu"}
    assert (spec["misfire"]["policy"], spec["misfire"]["graceSeconds"]) == ("skip", 90)


async def test_null_in_a_patch_is_the_default_again(manager: Managed) -> None:
    await put(manager, timeoutSeconds=7)
    assert (await manager.call("PATCH", "/api/v1/jobs/j", {"timeoutSeconds": None}))["job"]["spec"][
        "timeoutSeconds"
    ] == 0


async def test_a_patch_that_makes_no_valid_job_changes_nothing(manager: Managed) -> None:
    before = (await put(manager))["job"]["revision"]
    problem = await problem_of(await manager.http.patch("/api/v1/jobs/j", json={"cronExpr": None, "slots": 0}), 400)
    assert {error["field"] for error in problem["errors"]} >= {"slots"}
    assert (await manager.get("/api/v1/jobs/j"))["revision"] == before


async def test_a_patch_of_an_unknown_job_or_at_a_stale_revision_is_refused(manager: Managed) -> None:
    await problem_of(await manager.http.patch("/api/v1/jobs/j", json={"timeoutSeconds": 1}), 404)
    etag = (await put(manager))["job"]["etag"]
    await put(manager, command="echo 2")
    answer = await manager.http.patch("/api/v1/jobs/j", json={"timeoutSeconds": 1}, headers={"If-Match": etag})
    await problem_of(answer, 412)
    assert (await manager.get("/api/v1/jobs/j"))["spec"]["timeoutSeconds"] == 0


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        pytest.param("bad", {"spec": {"command": "\ud800"}}, id="lone-surrogate-in-its-spec"),
        pytest.param("bad", {"savedMs": 10**30}, id="number-of-more-than-eight-bytes"),
        pytest.param("\udcff", {}, id="name-that-is-no-unicode"),
    ],
)
async def test_a_version_that_the_log_store_does_not_take_harms_no_other(
    working_manager: Managed, name: str, changes: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    document = {"spec": {}, "savedMs": 1, "savedBy": "me", "endedMs": 2, "endedBy": "me", "endedWith": "save"}
    bad = f"{working_manager.keys.versions}{name}/1"
    await working_manager.etcd.put(bad, json.dumps({**document, **changes}).encode())
    await put(working_manager)
    await put(working_manager, command="echo 2")

    async def only_it_is_left() -> bool:
        return await pending(working_manager) == 1

    await wait_until(only_it_is_left, description="the other is delivered")
    assert await working_manager.etcd.get(bad) is not None
    assert "version.set_aside" in {one.__dict__.get("action") for one in caplog.records}
