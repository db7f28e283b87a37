"""What is to come, through the API: how many fires, what slots they want, whose they are, and spreading them."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from common.instants import iso
from common.jobs.reader import parse_job
from common.protocol.keys import RunId
from common.protocol.saved_job import SavedJob
from common.schedules.schedule import CronSchedule
from common.verdicts import Verdict
from tests.support.counting import count_records
from tests.support.joining import join
from tests.support.managing import Managed, Place, ShiftedClock, managing, problem_of
from tests.support.open_runs import claim, now_ms, record_of
from tests.support.waiting import wait_until

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
WEEK_MS = 168 * HOUR_MS


def tomorrow_at(hour: int) -> int:
    day = 24 * HOUR_MS
    return (now_ms() // day + 1) * day + hour * HOUR_MS


async def put(manager: Managed, name: str, **fields: Any) -> int:
    saved = await manager.call("PUT", f"/api/v1/jobs/{name}", {"command": "a", **fields})
    return int(saved["job"]["revision"])


async def test_crowded_hour_leads_to_its_jobs_which_are_spread_in_one_step(manager: Managed) -> None:
    revisions = {
        name: await put(manager, name, cronExpr="0 2 * * *", slots=2, labels={"team": "red"})
        for name in ("a", "b", "c", "d")
    }
    await put(manager, "paused", cronExpr="0 2 * * *", enabled=False)
    await put(manager, "other", every="6h", labels={"team": "blue"})
    long = 10 * MINUTE_MS
    await manager.write(
        [record_of(RunId.planned("a", at := now_ms() - ago * HOUR_MS), end_ms=at + long + 2) for ago in (30, 20, 10)]
    )
    two = tomorrow_at(2)
    asked = {"from": str(two - MINUTE_MS), "to": iso(two + 20 * MINUTE_MS), "buckets": "400"}
    told = await manager.get("/api/v1/forecast", **asked, label="team=red")
    assert {one["waitMs"] for one in told["items"]} == {None}, "no worker is there"
    await join(manager, "w1", slots=4)
    told = await manager.get("/api/v1/forecast", **asked, label="team=red")
    assert (told["slots"], {one["time"]: one["waitMs"] for one in told["items"]}[two]) == (4, 2_000)
    by_minute = {one["time"]: (one["fires"], one["slots"]) for one in told["items"]}
    assert (told["bucketMs"], told["jobs"], told["unknown"], told["estimated"]) == (MINUTE_MS, 4, 0, 0)
    assert [by_minute[two + minute * MINUTE_MS] for minute in (-1, 0, 1, 10)] == [(0, 0), (4, 8), (0, 2), (0, 0)]

    week = await manager.get("/api/v1/forecast/week", q="a")
    assert len(week["items"]) == 168
    crowd = await manager.get("/api/v1/forecast/jobs", **{"from": str(two), "to": str(two + HOUR_MS)})
    assert (crowd["total"], crowd["fires"]) == (4, 4)
    first, *others = crowd["items"]
    assert (first["name"], first["usualMs"], first["slots"], first["maySpread"]) == ("a", long, 2, True)
    assert [one["usualMs"] for one in others] == [None] * 3
    assert crowd["suggested"] == ["a", "b", "c", "d"]

    wish = {"names": ["a", "b", "c", "other"], "by": "minute", "from": two}
    shown = await manager.call("POST", "/api/v1/forecast/spread", wish)
    assert [(one["changes"], one["after"].get("cronExpr")) for one in shown["items"][:3]] == [(True, "H 2 * * *")] * 3
    minute = shown["minute"]
    assert (shown["slots"], minute["time"], minute["before"]) == (4, two, {"fires": 4, "slots": 8, "waitMs": 2_000})
    assert minute["after"] == {"fires": 1, "slots": 2, "waitMs": 0}, "also of the one that stays"
    assert shown["before"] == {"time": two, **minute["before"], "mostFires": 4}
    assert shown["after"]["mostFires"] < 4
    assert (await manager.get("/api/v1/jobs/a"))["spec"]["cronExpr"] == "0 2 * * *"

    changed = await put(manager, "b", cronExpr="0 3 * * *")
    body = {"action": "spread", "names": ["a", "b", "c"], "revisions": revisions, "by": "minute"}
    results = (await manager.call("POST", "/api/v1/jobs/bulk", body))["results"]
    assert [(one["name"], one["ok"]) for one in results] == [("a", True), ("b", False), ("c", True)]
    assert results[0]["message"].startswith("spread: cronExpr: H 2 * * *")
    assert f"is at revision {changed}" in results[1]["message"]
    after = await manager.get("/api/v1/forecast", **asked, label="team=red")
    assert {one["time"]: one["fires"] for one in after["items"]}[two] <= 3
    jobs = [await manager.get(f"/api/v1/jobs/{name}") for name in ("a", "b", "c")]
    assert [job["spec"]["cronExpr"] for job in jobs] == ["H 2 * * *", "0 3 * * *", "H 2 * * *"]


async def test_jobs_of_a_minute_are_all_reached_those_whose_runs_take_most_first(manager: Managed) -> None:
    at = tomorrow_at(2)
    for number in range(5):
        await put(manager, f"job-{number}", cronExpr="0 2 * * *")
    await put(manager, "large", cronExpr="0 2 * * *", slots=9)
    await put(manager, "chosen", cronExpr="30 0 2 * * * *")
    await put(manager, "often", every="10s")
    await put(manager, "next", after="10s")
    await put(manager, "elsewhen", cronExpr="1 2 * * *")
    span = {"from": str(at), "to": str(at + MINUTE_MS)}
    first = await manager.get("/api/v1/forecast/jobs", **span, limit="3")
    names = [one["name"] for one in first["items"]]
    assert (first["total"], first["fires"], names) == (9, 18, ["large", "often", "next"])
    assert first["suggested"] == ["large", *(f"job-{number}" for number in range(5))]
    second = await manager.get("/api/v1/forecast/jobs", **span, limit="3", cursor=first["nextCursor"])
    third = await manager.get("/api/v1/forecast/jobs", **span, limit="3", cursor=second["nextCursor"])
    rest = [one["name"] for one in (*second["items"], *third["items"])]
    assert rest == ["chosen", *(f"job-{number}" for number in range(5))]
    assert third["nextCursor"] is None


async def test_pages_of_a_span_that_begins_now_are_all_of_the_first_pages_span(place: Place) -> None:
    clock = ShiftedClock()
    async with managing(place, clock=clock) as manager:
        soon = iso(now_ms() + 10 * MINUTE_MS)
        for name in "abc":
            await put(manager, name, at=soon)
        first = await manager.get("/api/v1/forecast/jobs", limit="1")
        assert (first["total"], [one["name"] for one in first["items"]]) == (3, ["a"])
        clock.offset_ms = 20 * MINUTE_MS
        rest = await manager.get("/api/v1/forecast/jobs", cursor=first["nextCursor"])
        assert (rest["from"], rest["to"]) == (first["from"], first["to"])
        assert [one["name"] for one in rest["items"]] == ["b", "c"]


async def test_timeline_leaves_paused_jobs_out_where_that_is_asked_for(manager: Managed) -> None:
    for name in "abcdef":
        fields = {"command": "true", "every": "1h", "enabled": name in "bdf"}
        await manager.call("PUT", f"/api/v1/jobs/{name}", fields)
    shown = await manager.get("/api/v1/timeline")
    assert ([lane["name"] for lane in shown["items"]], shown["total"], shown["paused"]) == (list("abcdef"), 6, 0)
    first = await manager.get("/api/v1/timeline", paused="hidden", limit="2")
    assert ([lane["name"] for lane in first["items"]], first["total"], first["paused"]) == (["b", "d"], 3, 3)
    rest = await manager.get("/api/v1/timeline", paused="hidden", limit="2", cursor=first["nextCursor"])
    assert ([lane["name"] for lane in rest["items"]], rest["nextCursor"]) == (["f"], None)
    some = await manager.get("/api/v1/timeline", paused="hidden", q="b")
    assert (some["total"], some["paused"]) == (1, 0)


@pytest.mark.parametrize("by", [{"by": "label", "key": "team"}, {"by": "job"}])
async def test_timeline_of_many_jobs_leaves_the_loop_to_others(
    manager: Managed, by: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(120):
        spec = parse_job({
            "name": f"j-{number:03}", "command": "a", "cronExpr": "* * * * *", "labels": {"team": f"t{number % 3}"},
        })  # fmt: skip
        await manager.etcd.put(manager.keys.job(spec.name), SavedJob(spec=spec, anchor_ms=now_ms()).to_json())
    known = manager.parts.watching.catalog
    await wait_until(lambda: len(known) == 120, description="the jobs are seen")
    turns, found, fires_between_ms = 0, Counter[int](), CronSchedule.fires_between_ms

    def counted(self: CronSchedule, lo: int, hi: int, limit: int) -> list[int]:
        fires = fires_between_ms(self, lo, hi, limit)
        found[turns] += len(fires)
        return fires

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(CronSchedule, "fires_between_ms", counted)
    counting = asyncio.create_task(count())
    shown = await manager.get("/api/v1/timeline", **by)
    counting.cancel()
    assert sum(one["count"] for lane in shown["items"] for one in lane["fires"]) > 1_000
    assert max(found.values()) <= 500, "fires in one go"


async def test_timeline_has_what_ran_what_runs_and_what_is_to_come(manager: Managed) -> None:
    await put(manager, "a", every="1h", labels={"team": "red"})
    await put(manager, "b", cronExpr="0 0 1 1 *", enabled=False, labels={"team": "blue"})
    start = now_ms() // HOUR_MS * HOUR_MS - 3 * HOUR_MS
    records = [
        record_of(RunId.planned("a", at := start + number * 5 * MINUTE_MS), status, end_ms=at + 30_000)
        for number, status in enumerate((Verdict.SUCCESS, Verdict.FAILED, Verdict.SUCCESS))
    ]
    await manager.write(records)
    going = await claim(manager, "a", now_ms() - 5_000)
    span = {"from": str(start - HOUR_MS), "to": str(now_ms() + 4 * HOUR_MS)}
    told = await manager.get("/api/v1/timeline", **span)
    assert (told["by"], told["total"], told["nextCursor"], told["warnings"]) == ("job", 2, None, [])
    a, b = told["items"]
    assert [(one["status"], one["id"]) for one in a["runs"][:3]] == [
        (str(record.status), str(record.run_id)) for record in reversed(records)
    ]
    assert (a["runs"][3]["status"], a["runs"][3]["id"]) == ("running", str(going))
    assert [one["count"] for one in a["fires"]] == [1] * 4
    assert (a["usualMs"], a["wholeFrom"], b["state"], b["fires"]) == (None, None, "paused", [])
    assert max(one["slots"] for one in told["used"]) == 1

    # Of two spans to come that follow each other, the second has the fire at which it begins.
    begin = start + 5 * HOUR_MS
    ahead = {"from": str(begin), "to": str(begin + 2 * HOUR_MS)}
    (lane, _) = (await manager.get("/api/v1/timeline", **ahead))["items"]
    assert [one["time"] for one in lane["fires"]] == [begin, begin + HOUR_MS]

    # From far away, what lies close together is one mark with the worst of its verdicts.
    first = start - 240 * WEEK_MS // 400
    week = {"from": str(first), "to": str(first + WEEK_MS)}
    (mark, *_) = (await manager.get("/api/v1/timeline", **week, q="a"))["items"][0]["runs"]
    assert (mark["status"], mark.get("id"), mark["counts"]) == ("failed", None, {"success": 2, "failed": 1})

    by_team = await manager.get("/api/v1/timeline", **span, by="label", key="team")
    assert [(one["name"], one["jobs"], len(one["runs"])) for one in by_team["items"]] == [("blue", 1, 0), ("red", 1, 4)]
    by_worker = await manager.get("/api/v1/timeline", **span, by="worker")
    assert by_worker["total"] == len(by_worker["items"])


async def test_lane_says_from_where_on_it_is_whole_and_before_are_the_averages_of_hours(manager: Managed) -> None:
    await put(manager, "a", every="1s")
    start = now_ms() // HOUR_MS * HOUR_MS - 5 * HOUR_MS
    runs = [RunId.planned("a", start + number * 11_000) for number in range(1_400)]
    for some in (runs[:700], runs[700:]):
        await manager.write([record_of(run, end_ms=(run.plan_ms or 0) + 5_502) for run in some])
    await count_records(manager.runlog)
    told = await manager.get("/api/v1/timeline", **{"from": str(start), "to": str(now_ms() + HOUR_MS)})
    (lane,) = told["items"]
    assert lane["wholeFrom"] == runs[-240].plan_ms
    assert lane["fires"][-1]["time"] < lane["wholeTo"] < now_ms() + 500_000
    assert told["usedFrom"] == runs[-400].plan_ms
    assert told["usedMean"] == [{"time": start + hour * HOUR_MS, "slots": 0.5} for hour in range(3)]


async def test_run_of_many_hours_counts_in_each_of_them_and_not_in_its_first(manager: Managed) -> None:
    await put(manager, "a", every="1s")
    start = now_ms() // HOUR_MS * HOUR_MS - 8 * HOUR_MS
    night = [RunId.planned("night", start - 2 * HOUR_MS), RunId.planned("night", start + HOUR_MS)]
    ends = [start + 2 * HOUR_MS, start + 4 * HOUR_MS]
    await manager.write(
        [record_of(run, start_ms=run.plan_ms, end_ms=end) for run, end in zip(night, ends, strict=True)]
    )
    await manager.write([
        record_of(RunId.planned("a", start + 5 * HOUR_MS + number * 11_000), start_ms=start, end_ms=start)
        for number in range(450)
    ])  # fmt: skip
    await count_records(manager.runlog)
    told = await manager.get("/api/v1/timeline", **{"from": str(start), "to": str(now_ms() + HOUR_MS)})
    means = {(one["time"] - start) // HOUR_MS: one["slots"] for one in told["usedMean"]}
    assert [means.get(hour) for hour in range(5)] == [1, 2, 1, 1, None]


async def test_one_long_run_takes_no_hours_peak_of_short_ones_along(manager: Managed) -> None:
    await put(manager, "a", every="1s")
    start = now_ms() // HOUR_MS * HOUR_MS - 8 * HOUR_MS
    ended = {RunId.planned("night", start): start + 4 * HOUR_MS}
    ended |= {
        RunId.planned("b", start + number * 1_000): start + HOUR_MS // 10 + number * 1_000 for number in range(40)
    }
    await manager.write([record_of(run, start_ms=run.plan_ms, end_ms=end) for run, end in ended.items()])
    late = [RunId.planned("a", start + 5 * HOUR_MS + number * 11_000) for number in range(450)]
    await manager.write([record_of(run, start_ms=start, end_ms=start) for run in late])
    await count_records(manager.runlog)
    told = await manager.get("/api/v1/timeline", **{"from": str(start), "to": str(now_ms() + HOUR_MS)})
    means = {(one["time"] - start) // HOUR_MS: one["slots"] for one in told["usedMean"]}
    assert [means.get(hour) for hour in range(5)] == [5, 1, 1, 1, None]


async def test_lane_of_a_job_has_what_was_planned_long_before_and_reaches_into_the_span(manager: Managed) -> None:
    await put(manager, "a", every="1h")
    await put(manager, "b", every="1h")
    start = now_ms() - 24 * HOUR_MS
    friday = start - 40 * HOUR_MS
    planned = [RunId.planned("a", friday - ago * HOUR_MS) for ago in (3, 2, 1)]
    missed = record_of(
        RunId.planned("a", friday), Verdict.MISSED, start_ms=None, end_ms=None, range_end_ms=start + HOUR_MS, count=41
    )
    ended = {"start_ms": None, "end_ms": None, "range_end_ms": start - HOUR_MS}
    over = record_of(RunId.planned("b", friday), Verdict.MISSED, **ended)
    late = record_of(planned[0], start_ms=start + 2 * HOUR_MS, end_ms=start + 3 * HOUR_MS)
    long = record_of(planned[1], end_ms=start + 4 * HOUR_MS)
    await manager.write([missed, over, late, long, record_of(planned[2])])
    span = {"from": str(start), "to": str(now_ms() + HOUR_MS)}
    a, b = (await manager.get("/api/v1/timeline", **span))["items"]
    assert {one["id"] for one in a["runs"]} == {str(one.run_id) for one in (missed, late, long)}
    assert (b["runs"], a["wholeFrom"], b["wholeFrom"]) == ([], None, None)


async def test_one_bucket_has_a_whole_day_on_whichever_day_it_begins(manager: Managed) -> None:
    await put(manager, "a", cronExpr="0 2,12 * * *")
    for day in range(3):
        start = tomorrow_at(11 + 24 * day)
        span = {"from": str(start), "to": str(start + 24 * HOUR_MS)}
        (bucket,) = (await manager.get("/api/v1/forecast", **span, buckets="1"))["items"]
        assert bucket["fires"] >= 2


@pytest.mark.parametrize(
    ("path", "query", "field"),
    [
        ("forecast", "hours=25", "hours"),
        ("forecast", "buckets=401", "buckets"),
        ("forecast", "from=2000&to=1000", "to"),
        ("forecast", "from=0&to=86400001", "to"),
        ("forecast/jobs", "from=0&to=3600001", "to"),
        ("forecast/jobs", "cursor=nonsense", "cursor"),
        ("timeline", "from=0&to=604800001", "to"),
        ("timeline", "by=label", "key"),
        ("timeline", "by=team", "by"),
    ],
)
async def test_what_is_wrong_is_named(manager: Managed, path: str, query: str, field: str) -> None:
    problem = await problem_of(await manager.http.get(f"/api/v1/{path}?{query}"), 400)
    assert [error["field"] for error in problem["errors"]] == [field]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"action": "spread", "names": ["a"]}, "revisions"),
        ({"action": "spread", "names": ["a"], "revisions": {"a": 1}, "by": "hour"}, "by"),
        ({"action": "spread", "names": ["a"], "revisions": {"a": 1}, "jitterSeconds": 0}, "jitterSeconds"),
    ],
)
async def test_bad_spread_changes_nothing(manager: Managed, body: dict[str, Any], field: str) -> None:
    problem = await problem_of(await manager.http.post("/api/v1/jobs/bulk", json=body), 400)
    assert [error["field"] for error in problem["errors"]] == [field]
