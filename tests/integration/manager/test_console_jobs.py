"""The console's calls on jobs: saving with a revision, pausing, many at once, and what a save would say."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from common.protocol.keys import RunId
from common.protocol.run import EntryState, RunEntry, final_entry
from common.protocol.saved_job import SavedJob
from common.verdicts import Verdict
from tests.support.managing import Managed, Place, ShiftedClock, managing, problem_of
from tests.support.open_runs import claim, now_ms, open_entry, record_of, settle
from tests.support.waiting import wait_until

SPEC = {"command": "echo hello", "cronExpr": "0 * * * * * *"}


async def put(manager: Managed, name: str = "j", **changes: Any) -> dict[str, Any]:
    answer: dict[str, Any] = await manager.call("PUT", f"/api/v1/jobs/{name}", {**SPEC, **changes})
    return answer


async def saved(manager: Managed, name: str = "j") -> SavedJob:
    kv = await manager.etcd.get(manager.keys.job(name))
    assert kv is not None
    return SavedJob.from_json(kv.value, name=name)


# Saving


async def test_put_makes_a_job_then_changes_it(manager: Managed) -> None:
    made = await manager.http.put("/api/v1/jobs/j", json=SPEC)
    assert made.status == 201
    first = await made.json()
    assert (first["before"], first["changed"], first["job"]["etag"]) == (None, True, made.headers["ETag"])
    changed = await manager.http.put("/api/v1/jobs/j", json={**SPEC, "name": "j", "command": "echo 2"})
    assert changed.status == 200
    second = await changed.json()
    assert (second["before"]["command"], second["job"]["spec"]["command"]) == ("echo hello", "echo 2")
    assert second["job"]["words"] == "Every minute"
    assert second["job"]["savedBy"].startswith("api 127.0.0.1")


async def test_what_was_put_is_read_at_once(manager: Managed) -> None:
    for number in range(20):
        answer = await put(manager, command=f"echo {number}")
        shown = await manager.http.get("/api/v1/jobs/j")
        document = await shown.json()
        assert document["spec"]["command"] == f"echo {number}"
        assert shown.headers["ETag"] == document["etag"] == answer["job"]["etag"]
        (item,) = (await manager.get("/api/v1/jobs"))["items"]
        assert item["revision"] == document["revision"]
    await manager.call("DELETE", "/api/v1/jobs/j")
    await problem_of(await manager.http.get("/api/v1/jobs/j"), 404)


async def test_the_same_put_again_writes_nothing(manager: Managed) -> None:
    first = await put(manager)
    second = await put(manager)
    assert (second["changed"], second["job"]["revision"]) == (False, first["job"]["revision"])


async def test_put_with_a_stale_revision_shows_what_is_there(manager: Managed) -> None:
    old = (await put(manager))["job"]["etag"]
    await put(manager, command="echo theirs")
    answer = await manager.http.put("/api/v1/jobs/j", json={**SPEC, "command": "echo mine"}, headers={"If-Match": old})
    problem = await problem_of(answer, 412)
    assert problem["code"] == "stale-revision"
    assert problem["current"]["spec"]["command"] == "echo theirs"
    mended = await manager.call(
        "PUT", "/api/v1/jobs/j", {**SPEC, "command": "echo mine"}, **{"If-Match": problem["current"]["etag"]}
    )
    assert mended["job"]["spec"]["command"] == "echo mine"


async def test_put_of_a_job_that_must_be_new(manager: Managed) -> None:
    new = {"If-None-Match": "*"}
    await manager.call("PUT", "/api/v1/jobs/j", SPEC, **new)
    problem = await problem_of(await manager.http.put("/api/v1/jobs/j", json=SPEC, headers=new), 412)
    assert "and was to be made" in problem["detail"]
    assert problem["current"]["name"] == "j"


async def test_any_revision_will_do_where_the_job_has_to_be_there(manager: Managed) -> None:
    any_revision = {"If-Match": "*"}
    for method, body in (("PUT", SPEC), ("DELETE", None)):
        answer = await manager.http.request(method, "/api/v1/jobs/j", json=body, headers=any_revision)
        problem = await problem_of(answer, 412)
        assert problem["current"] is None
        assert "was to be there" in problem["detail"]
    await manager.call("PUT", "/api/v1/jobs/j", SPEC)
    await manager.call("PUT", "/api/v1/jobs/j", {**SPEC, "command": "echo 2"}, **any_revision)
    await manager.call("DELETE", "/api/v1/jobs/j", **any_revision)


async def test_stale_revision_of_a_job_that_is_gone(manager: Managed) -> None:
    etag = (await put(manager))["job"]["etag"]
    await manager.call("DELETE", "/api/v1/jobs/j")
    for method, body in (("PUT", SPEC), ("DELETE", None)):
        answer = await manager.http.request(method, "/api/v1/jobs/j", json=body, headers={"If-Match": etag})
        assert (await problem_of(answer, 412))["current"] is None


@pytest.mark.parametrize(
    ("body", "headers", "status", "field"),
    [
        ({**SPEC, "name": "other"}, {}, 400, "name"),
        ({**SPEC, "cronExpr": "x"}, {}, 400, "cronExpr"),
        ({**SPEC, "comand": "x"}, {}, 400, "comand"),
        ([], {}, 400, "body"),
        (SPEC, {"If-Match": "x"}, 400, "If-Match"),
        (SPEC, {"If-None-Match": '"5"'}, 400, "If-None-Match"),
        (SPEC, {"If-None-Match": "*", "If-Match": "5"}, 400, "If-None-Match"),
    ],
)
async def test_bad_put(manager: Managed, body: Any, headers: dict[str, str], status: int, field: str) -> None:
    problem = await problem_of(await manager.http.put("/api/v1/jobs/j", json=body, headers=headers), status)
    assert problem["errors"][0]["field"].strip("'") == field


async def test_put_of_a_form_or_of_too_much_is_refused(manager: Managed) -> None:
    await problem_of(await manager.http.put("/api/v1/jobs/j", data={"job": "x"}), 415)
    answer = await manager.http.put("/api/v1/jobs/j", json={**SPEC, "command": "x" * 100_000})
    assert "at most 65,536 bytes" in (await problem_of(answer, 400))["errors"][0]["remedy"]
    body = io.BytesIO(b" " * 2_000_000)
    answer = await manager.http.put("/api/v1/jobs/j", data=body, headers={"Content-Type": "application/json"})
    await problem_of(answer, 413)


async def test_put_from_a_foreign_page_is_refused(manager: Managed) -> None:
    for method, path in (("PUT", "/api/v1/jobs/j"), ("POST", "/api/v1/jobs/bulk"), ("DELETE", "/api/v1/jobs/j")):
        answer = await manager.http.request(method, path, json=SPEC, headers={"Origin": "http://evil.example"})
        assert (await problem_of(answer, 403))["code"] == "foreign-origin"
    assert await manager.stored() == {}


async def test_delete_answers_with_what_was_there(manager: Managed) -> None:
    etag = (await put(manager))["job"]["etag"]
    await put(manager, command="echo 2")
    stale = await manager.http.delete("/api/v1/jobs/j", headers={"If-Match": etag})
    assert (await problem_of(stale, 412))["current"]["spec"]["command"] == "echo 2"
    deleted = await manager.call("DELETE", "/api/v1/jobs/j")
    assert (deleted["before"]["command"], deleted["deleted"]) == ("echo 2", True)
    assert await manager.call("DELETE", "/api/v1/jobs/j") == {"before": None, "deleted": False, "warnings": []}


async def test_check_says_what_a_save_would_and_stores_nothing(manager: Managed) -> None:
    good = await manager.call("POST", "/api/v1/jobs/check", {"name": "j", **SPEC})
    assert good == {"errors": [], "warnings": [], "skips": []}
    warned = await manager.call("POST", "/api/v1/jobs/check", {"name": "j", **SPEC, "cronExpr": "0 0 0 1 * MON *"})
    assert "both day fields" in warned["warnings"][0]
    past = "0 0 0 1 1 * 2001"
    bad = await manager.call("POST", "/api/v1/jobs/check", {"name": "j!", "command": "", "cronExpr": past})
    assert {error["field"] for error in bad["errors"]} == {"name", "command"}
    never = await manager.call("POST", "/api/v1/jobs/check", {"name": "j", **SPEC, "cronExpr": "0 0 0 1 1 * 2001"})
    assert "never fires again" in never["errors"][0]["message"]
    assert await manager.stored() == {}


# Pausing


async def run_entries(manager: Managed) -> dict[str, RunEntry]:
    stored = await manager.stored()
    return {key: RunEntry.from_json(kv.value) for key, kv in stored.items() if key.startswith(manager.keys.runs)}


async def test_pause_says_since_when_by_whom_and_why(place: Place) -> None:
    clock = ShiftedClock()
    async with managing(place, clock=clock) as manager:
        await put(manager)
        paused = await manager.call("POST", "/api/v1/jobs/j/pause", {"reason": " moving house "})
        assert paused["changed"] is True
        row = paused["job"]
        assert (row["state"], row["nextFire"], row["spec"]["enabled"]) == ("paused", None, False)
        assert (row["paused"]["reason"], row["paused"]["by"][:4]) == ("moving house", "api ")
        assert abs(row["paused"]["sinceMs"] - now_ms()) < 60_000
        clock.offset_ms += 5_000
        for body in ({}, {"reason": "still moving"}):
            again = await manager.call("POST", "/api/v1/jobs/j/pause", body)
            assert (again["changed"], again["job"]["paused"]) == (False, row["paused"])
        edited = await put(manager, command="echo 2", enabled=False)
        assert edited["job"]["paused"] == row["paused"]


async def test_pause_and_resume_move_the_mark_and_record_what_was_due(place: Place) -> None:
    clock = ShiftedClock()
    async with managing(place, clock=clock) as manager:
        await put(manager, cronExpr="* * * * * * *")
        clock.offset_ms += 10_000
        await manager.call("POST", "/api/v1/jobs/j/pause", {"reason": "why not"})
        ((_, entry),) = (await run_entries(manager)).items()
        assert entry.record is not None
        assert (entry.record.status, entry.record.reason) == (Verdict.SKIPPED, "paused")
        assert entry.record.count in (9, 10, 11)
        paused_mark = await manager.mark("j")
        assert paused_mark == (await saved(manager)).anchor_ms
        clock.offset_ms += 60_000
        resumed = await manager.call("POST", "/api/v1/jobs/j/resume", {})
        assert (resumed["job"]["state"], resumed["job"]["paused"]) == ("enabled", None)
        mark = await manager.mark("j")
        assert mark is not None
        assert paused_mark is not None
        assert mark >= paused_mark + 60_000
        assert len(await run_entries(manager)) == 1, "while it was paused nothing was due"
        assert resumed["job"]["nextFire"]["ms"] > mark
        assert (await manager.call("POST", "/api/v1/jobs/j/resume", {}))["changed"] is False


async def test_pause_by_an_edit_counts_as_one(manager: Managed) -> None:
    row = (await put(manager, enabled=False))["job"]
    assert (row["state"], row["paused"]["reason"], row["paused"]["by"]) == ("paused", None, row["savedBy"])
    assert (await put(manager))["job"]["paused"] is None


async def test_resume_of_a_schedule_that_is_past_is_refused(manager: Managed) -> None:
    await put(manager, cronExpr="0 0 0 1 1 * 2001", enabled=False)
    problem = await problem_of(await manager.http.post("/api/v1/jobs/j/resume", json={}), 400)
    assert problem["errors"][0]["field"] == "cronExpr"


@pytest.mark.parametrize("action", ["pause", "resume"])
async def test_pause_of_what_is_no_job(manager: Managed, action: str) -> None:
    await problem_of(await manager.http.post(f"/api/v1/jobs/none/{action}", json={}), 404)
    await manager.etcd.put(manager.keys.job("broken"), b"{")
    problem = await problem_of(await manager.http.post(f"/api/v1/jobs/broken/{action}", json={}), 409)
    assert "save it anew, or delete it" in problem["detail"]


@pytest.mark.parametrize("body", [{"reason": 5}, {"reason": "x" * 501}, {"reason": "\udc80"}, {"raison": "x"}])
async def test_bad_reason(manager: Managed, body: dict[str, Any]) -> None:
    await put(manager)
    text = json.dumps(body)
    answer = await manager.http.post("/api/v1/jobs/j/pause", data=text, headers={"Content-Type": "application/json"})
    await problem_of(answer, 400)
    assert (await saved(manager)).spec.enabled


@pytest.mark.parametrize(("call", "known"), [("pause", "reason"), ("run", "args, at, dedupeKey")])
async def test_missing_body_is_not_answered_with_an_example_of_a_job(manager: Managed, call: str, known: str) -> None:
    await put(manager)
    answer = await manager.http.post(f"/api/v1/jobs/j/{call}", headers={"Content-Type": "application/json"})
    (error,) = (await problem_of(answer, 400))["errors"]
    assert error["remedy"].startswith(f"send a JSON object such as {{}}, with {known}")


# Many at once


async def bulk(manager: Managed, action: str, names: list[str], **more: Any) -> dict[str, tuple[bool, str]]:
    body = {"action": action, "names": names, **more}
    results = (await manager.call("POST", "/api/v1/jobs/bulk", body))["results"]
    return {result["name"]: (result["ok"], result["message"]) for result in results}


async def test_bulk_tells_each_ones_result(manager: Managed) -> None:
    names = [f"j{number:02d}" for number in range(40)]
    for name in names:
        await put(manager, name)
    await manager.etcd.put(manager.keys.job("broken"), b"{")
    asked = [*names, "none", "broken", "bad name", names[0]]
    done = await bulk(manager, "pause", asked, reason="all of them")
    assert list(done) == asked[:-1]
    # Some say which fire they skip as well, where a minute has just begun.
    assert {(done[name][0], done[name][1].partition(";")[0]) for name in names} == {(True, "paused")}
    assert [done[name][0] for name in ("none", "broken", "bad name")] == [False, False, False]
    assert "there is no job none" in done["none"][1]
    page = await manager.get("/api/v1/jobs", state="paused", limit="500")
    assert page["total"] == 40
    assert {item["paused"]["reason"] for item in page["items"]} == {"all of them"}
    assert {ok for ok, _ in (await bulk(manager, "resume", names)).values()} == {True}
    assert (await bulk(manager, "delete", ["broken", *names[:5], "none"]))["none"] == (True, "there was no job none")
    assert (await manager.get("/api/v1/jobs"))["total"] == 35


async def test_bulk_kill_reaches_the_runs(manager: Managed) -> None:
    run = await claim(manager, "a", now_ms() - 5_000)
    done = await bulk(manager, "kill", ["a", "b"], reason="enough")
    assert done == {"a": (True, "1 run of a asked to end"), "b": (True, "no run of b was going")}
    kill = await manager.etcd.get(manager.keys.kill(run))
    assert kill is not None
    assert json.loads(kill.value)["reason"] == "enough"


async def test_bulk_run_asks_for_a_run_of_each(manager: Managed) -> None:
    for name in ("a", "b"):
        await put(manager, name)
    done = await bulk(manager, "run", ["a", "none", "b"])
    assert [ok for ok, _ in done.values()] == [True, False, True]
    assert done["a"][1] == "run requested"
    waiting = {
        run["jobName"] for name in ("a", "b") for run in (await manager.get("/api/v1/runs", job=name))["waiting"]
    }
    assert waiting == {"a", "b"}


async def test_bulk_label_changes_labels_alone(manager: Managed) -> None:
    await manager.call("PUT", "/api/v1/jobs/a", {**SPEC, "labels": {"team": "x", "owner": "ada", "tier": "1"}})
    await put(manager, "b")
    changes = {"labels": {"team": "y"}, "withoutLabels": ["owner"]}
    assert await bulk(manager, "label", ["a", "b"], **changes) == {
        "a": (True, "labels changed"), "b": (True, "labels changed"),
    }  # fmt: skip
    assert (await saved(manager, "a")).spec.labels == {"team": "y", "tier": "1"}
    assert (await saved(manager, "b")).spec.labels == {"team": "y"}
    assert (await bulk(manager, "label", ["a"], **changes))["a"] == (True, "has these labels already")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"action": "fly", "names": ["a"]}, "action"),
        ({"action": "label", "names": ["a"]}, "labels"),
        ({"action": "label", "names": ["a"], "labels": {"team": "y"}, "withoutLabels": ["team"]}, "withoutLabels"),
        ({"names": ["a"]}, "action"),
        ({"action": "pause"}, "names"),
        ({"action": "pause", "names": []}, "names"),
        ({"action": "pause", "names": ["a"] * 501}, "names"),
        ({"action": "pause", "names": [5]}, "names[0]"),
        ({"action": "pause", "names": "abc"}, "names"),
        ({"action": "pause", "names": ["a"], "reason": []}, "reason"),
        ({"action": "pause", "names": ["a"], "force": True}, "force"),
    ],
)
async def test_bad_bulk(manager: Managed, body: dict[str, Any], field: str) -> None:
    problem = await problem_of(await manager.http.post("/api/v1/jobs/bulk", json=body), 400)
    assert [error["field"].strip("'") for error in problem["errors"]] == [field]


# What a row shows


async def test_row_shows_runs_and_results(manager: Managed) -> None:
    await put(manager)
    plan_ms = now_ms() - 60_000
    done = RunId.planned("j", plan_ms - 60_000)
    await manager.write([record_of(done, Verdict.FAILED, exit_code=3)])
    await manager.write([record_of(RunId.planned("j", plan_ms - 1_000), Verdict.SKIPPED, reason="overlap")])
    going = await claim(manager, "j", plan_ms)
    await claim(manager, "j", now_ms() + 3_600_000)
    await manager.etcd.put(
        manager.keys.run(RunId.planned("j", plan_ms - 5)), RunEntry(state=EntryState.ENDED, plan_ms=1).to_json()
    )

    async def shown() -> bool:
        return len((await manager.get("/api/v1/jobs/j"))["running"]) == 2

    await wait_until(shown, description="two open runs")
    row = await manager.get("/api/v1/jobs/j")
    assert [run["state"] for run in row["running"]] == ["running", "claimed"]
    assert row["running"][0] == {
        "id": str(going), "planTime": plan_ms, "startTime": plan_ms, "worker": "w1", "state": "running",
    }  # fmt: skip
    assert row["running"][1]["startTime"] is None
    assert (row["lastResult"]["status"], row["lastResult"]["reason"]) == ("skipped", "overlap")
    assert (row["lastRun"]["status"], row["lastRun"]["exitCode"]) == ("failed", 3)
    assert [entry["status"] for entry in row["recent"]] == ["failed", "skipped"]
    oldest = {"status": "failed", "planTime": done.plan_ms, "runId": str(done), "durationMs": 5}
    assert row["recent"][0] == oldest
    for state, total in (("running", 1), ("failing", 1), ("enabled", 1)):
        assert (await manager.get("/api/v1/jobs", state=state))["total"] == total
    await manager.write([record_of(RunId.planned("j", plan_ms), Verdict.LOST)])
    assert (await manager.get("/api/v1/jobs", state="failing", q="ECHO"))["total"] == 1
    assert (await manager.get("/api/v1/jobs", state="failing", q="other"))["total"] == 0


async def test_search_finds_labels_and_is_told_the_total(manager: Managed) -> None:
    for number in range(7):
        await put(manager, f"j{number}", labels={"team": f"T{number % 2}"})
    page = await manager.get("/api/v1/jobs", q="team=t1", limit="2")
    assert ([item["name"] for item in page["items"]], page["total"]) == (["j1", "j3"], 3)
    assert (await manager.get("/api/v1/jobs", q="team=t1", cursor=page["nextCursor"]))["total"] == 3


async def test_a_search_has_at_most_five_labels(manager: Managed) -> None:
    """Each is looked for in each job."""
    await put(manager, labels={"team": "a"})
    assert (await manager.get("/api/v1/jobs?" + "&".join(["label=team=a"] * 300)))["total"] == 1
    assert (await manager.get("/api/v1/jobs?" + "&".join(f"label=l{number}" for number in range(5))))["total"] == 0
    refused = await manager.http.get("/api/v1/jobs?" + "&".join(f"label=l{number}" for number in range(6)))
    (error,) = (await problem_of(refused, 400))["errors"]
    told = {"field": "label", "message": "is given 6 times", "remedy": "at most 5 labels, each once"}
    assert error == {**error, **told}


async def test_a_first_fire_that_is_due_waits_and_says_why(place: Place) -> None:
    clock = ShiftedClock()
    async with managing(place, clock=clock) as manager:

        async def row() -> dict[str, Any]:
            (item,) = (await manager.get("/api/v1/jobs"))["items"]
            return dict(item)

        await put(manager)
        first = (await row())["nextFire"]["ms"]
        assert (await row())["waiting"] is None
        clock.offset_ms = first - now_ms() + 2_000
        assert (await row())["waiting"] == {"planTime": first, "reason": "no worker is live"}
        run = await claim(manager, "j", first)
        await wait_until(lambda: manager.parts.watching.open_runs.has(run), description="the run to be seen")
        assert (await row())["waiting"] is None
        await settle(manager, run)
        await wait_until(lambda: not manager.parts.watching.open_runs.has(run), description="the end to be seen")
        clock.offset_ms += 60_000
        shown = await row()
        assert (shown["lastResult"]["status"], shown["waiting"]) == ("success", None)


@pytest.mark.parametrize("is_run", [True, False])
async def test_a_first_fire_whose_record_is_on_its_way_waits_no_more(place: Place, is_run: bool) -> None:
    clock = ShiftedClock()
    async with managing(place, clock=clock) as manager:
        await put(manager)
        first = (await manager.get("/api/v1/jobs/j"))["nextFire"]["ms"]
        clock.offset_ms = first - now_ms() + 2_000
        run = RunId.planned("j", first)
        record = record_of(run, Verdict.SKIPPED)
        entry = open_entry(first, state=EntryState.ENDED) if is_run else final_entry(record)
        await manager.etcd.put(manager.keys.run(run), entry.to_json())
        open_runs = manager.parts.watching.open_runs
        await wait_until(lambda: open_runs.awaits_record("j"), description="the end to be seen")
        assert (await manager.get("/api/v1/jobs/j"))["waiting"] is None
        await manager.etcd.delete(manager.keys.run(run))
        await wait_until(lambda: not open_runs.awaits_record("j"), description="the deletion to be seen")
        assert (await manager.get("/api/v1/jobs/j"))["waiting"] is not None  # its record was never written


@pytest.mark.parametrize("changes", [{"enabled": False}, {"broadcast": True}, {"cronExpr": None, "after": "1s"}])
async def test_where_no_schedule_owes_a_fire_none_waits(place: Place, changes: dict[str, Any]) -> None:
    clock = ShiftedClock()
    async with managing(place, clock=clock) as manager:
        await put(manager, **changes)
        clock.offset_ms = 300_000
        assert (await manager.get("/api/v1/jobs/j"))["waiting"] is None
