"""Whatever lies among the jobs is listed; and whatever is listed can be deleted, however it is called."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest
from yarl import URL

from common.access.rights import OWNER
from common.clock import SystemClock
from common.protocol.edits import StaleRevisionError
from common.protocol.keys import RunId, encode_mark, sequence_name
from common.timings import Timings
from manager.api.bulk import MAX_NAMES
from manager.http.bodies import MAX_REASON
from manager.use_cases.jobs import JobService
from manager.views.orders import Sort
from tests.support.managing import Managed, Place, problem_of
from tests.support.meeting import Meeting
from tests.support.open_runs import now_ms, record_of
from tests.support.waiting import wait_until

ODD = ("a b", "\udcff\udcfe", "a\udcff", "%FF", "a/b <i>c", "x" * 300, "a~w1", "j\u00f6b", "{name}", "a\nb", "?q#f")
NO_PATH = ("", ".", "..")


async def listed(manager: Managed, *names: str) -> dict[str, dict[str, Any]]:
    """The rows of what lies there, once this manager has seen all of it."""
    rows: dict[str, dict[str, Any]] = {}

    async def all_seen() -> bool:
        rows.clear()
        rows.update({row["name"]: row for row in (await manager.get("/api/v1/jobs", limit="500"))["items"]})
        return set(rows) == set(names)

    await wait_until(all_seen, description=f"{names} are listed")
    return rows


def path_of(name: str) -> URL:
    return URL(f"/api/v1/jobs/{quote(name, safe='', errors='surrogateescape')}", encoded=True)


async def test_each_is_shown_with_a_remedy_that_works(manager: Managed) -> None:
    for name in ODD:
        await manager.etcd.put(manager.keys.job(name), b'{"name":"x","command":"true"}')
    rows = await listed(manager, *ODD)
    for name in ODD:
        assert rows[name]["state"] == "broken"
        assert "none that a job can have; delete it" in rows[name]["problem"]
        shown = await manager.http.get(path_of(name))
        assert shown.status == 200, name
        assert (await shown.json())["name"] == name
        deleted = await manager.http.delete(path_of(name))
        assert deleted.status == 200, (name, await deleted.text())
        assert (await deleted.json()) == {"before": None, "deleted": True, "warnings": []}
    await listed(manager)
    assert await manager.etcd.count(manager.keys.jobs) == 0


async def pages(manager: Managed, path: str, **query: str) -> AsyncIterator[dict[str, Any]]:
    """All pages of a list, one after the other."""
    cursor = ""
    while cursor is not None:
        page = await manager.get(path, **query, **({"cursor": cursor} if cursor else {}))
        yield page
        cursor = page.get("nextCursor")


async def test_pages_and_lists_hold_them_beside_others(manager: Managed) -> None:
    for name in ODD:
        await manager.etcd.put(manager.keys.job(name), b'{"name":"x","command":"true"}')
    await manager.call("PUT", "/api/v1/jobs/a", {"command": "true", "cronExpr": "@hourly"})
    names = {*ODD, "a"}
    await listed(manager, *names)
    await manager.write([record_of(RunId.planned("a", now_ms() - 1_000))])
    for sort in Sort:
        rows = [row async for page in pages(manager, "/api/v1/jobs", sort=sort, limit="3") for row in page["items"]]
        found = [row["name"] for row in rows]
        assert (len(found), set(found)) == (len(names), names), sort
    lanes = [one async for page in pages(manager, "/api/v1/timeline", limit="3") for one in page["items"]]
    assert {lane["name"]: len(lane["runs"]) for lane in lanes} == {**dict.fromkeys(ODD, 0), "a": 1}
    for query in ({}, {"status": "success"}):
        assert [run["jobName"] for run in (await manager.get("/api/v1/runs", q="a", **query))["items"]] == ["a"]
    assert (await manager.get("/api/v1/runs", q="a", group="error"))["groups"] == []
    for path in ("overview", "forecast", "forecast/jobs", "alerts", "deleted-jobs", "system"):
        await manager.get(f"/api/v1/{path}")
    for name in ODD:
        for tail in ("fires", f"fires?from={now_ms() - 60_000}", "durations", "calendar", "versions", "notifications"):
            shown = await manager.http.get(URL(f"{path_of(name)}/{tail}", encoded=True))
            assert shown.status < 500, (name, tail, await shown.text())


async def test_many_at_once_also_those_that_no_path_can_name(manager: Managed) -> None:
    names = [*ODD, *NO_PATH]
    for name in names:
        await manager.etcd.put(manager.keys.job(name), b"")
    await listed(manager, *names)
    answer = await manager.call("POST", "/api/v1/jobs/bulk", {"action": "delete", "names": names})
    assert answer["results"] == [{"name": name, "ok": True, "message": "deleted", "changed": True} for name in names]
    assert await manager.etcd.count(manager.keys.jobs) == 0


async def test_nothing_but_the_key_is_touched(manager: Managed) -> None:
    """A name with a `~` is that of a worker's own sequence of another job."""
    await manager.etcd.put(manager.keys.job("a~w1"), b"")
    await manager.etcd.put(manager.keys.mark(sequence_name("a", "w1")), encode_mark(5))
    assert (await manager.http.delete(path_of("a~w1"))).status == 200
    assert await manager.mark(sequence_name("a", "w1")) == 5
    assert set(await manager.stored()) == {manager.keys.mark("a~w1"), manager.keys.seen_prefix + "jobs"}


@pytest.mark.parametrize("name", ["a b", "\udcff", "a/b"])
async def test_what_is_not_there_and_saves_are_told_the_rule(manager: Managed, name: str) -> None:
    for method, body in (("DELETE", None), ("PUT", {"command": "true", "cronExpr": "@daily"})):
        problem = await problem_of(await manager.http.request(method, path_of(name), json=body), 400)
        assert problem["errors"][0]["field"] == "name"
    result = await manager.call("POST", "/api/v1/jobs/bulk", {"action": "delete", "names": [name, "\ud800"]})
    assert [one["ok"] for one in result["results"]] == [False, False]


async def test_revision_is_compared(manager: Managed) -> None:
    await manager.etcd.put(manager.keys.job("a b"), b"")
    await listed(manager, "a b")
    await problem_of(await manager.http.delete(path_of("a b"), headers={"If-Match": '"1"'}), 412)
    assert await manager.etcd.count(manager.keys.jobs) == 1


async def test_revision_is_compared_until_it_is_deleted(manager: Managed, place: Place) -> None:
    key = manager.keys.job("a b")
    revision = await manager.etcd.put(key, b"")
    async with Meeting(place.etcd, lambda: manager.etcd.put(key, b"another")) as etcd:
        service = JobService(etcd, manager.keys, clock=SystemClock(), timings=Timings(), deliver=lambda _: None)
        with pytest.raises(StaleRevisionError):
            await service.delete("a b", by="me", rights=OWNER, if_match=revision)
    assert await manager.etcd.get(key) is not None


async def test_legacy_call_deletes_them_too(manager: Managed) -> None:
    await manager.etcd.put(manager.keys.job("a b"), b"")
    assert (await manager.post("/job/delete", name="a b"))["data"]["name"] == "a b"
    assert await manager.etcd.count(manager.keys.jobs) == 0


@pytest.mark.parametrize("letter", ["x", "\U0001f600", "\udcff"], ids=["a job's", "escaped twice", "no UTF-8"])
async def test_as_many_of_the_longest_names_as_may_be_named_at_once_fit_into_a_body(
    manager: Managed, letter: str
) -> None:
    """Also where a client spells each of their characters, and of the reason's, as an escape of six or twelve."""
    names = [letter * 125 + f"{number:03}" for number in range(MAX_NAMES)]
    there = names[::100]
    for name in there:
        await manager.etcd.put(manager.keys.job(name), b"")
    body = json.dumps({"action": "delete", "names": names, "reason": "\U0001f600" * MAX_REASON})
    assert body.isascii()
    answer = await manager.http.post("/api/v1/jobs/bulk", data=body, headers={"Content-Type": "application/json"})
    assert answer.status == 200, await answer.text()
    results = (await answer.json())["results"]
    assert [one["name"] for one in results] == names
    assert {one["name"] for one in results if one["message"] == "deleted"} == set(there)
