"""How long a job's runs took, through the API: for its chart, and beside its verdicts."""

from __future__ import annotations

import json

from common.access.rights import OWNER
from common.protocol.keys import RunId
from tests.support.managing import Managed, problem_of
from tests.support.open_runs import claim, now_ms, record_of
from tests.support.waiting import wait_until

MINUTE_MS = 60_000


async def test_runs_are_points_and_the_version_since_which_they_are_slower_is_marked(manager: Managed) -> None:
    job = {"command": "a", "cronExpr": "0 * * * * * *", "timeoutSeconds": 90}
    path = "/api/v1/jobs/j"
    assert (await manager.get(f"{path}/durations")) == {
        "runs": 0, "points": [], "bands": [], "versions": [], "timeoutMs": None, "isCut": False,
    }  # fmt: skip
    saved = [await manager.call("PUT", path, {**job, "command": command}) for command in ("a", "b", "b")]
    first, second = (one["job"]["revision"] for one in saved[:2])
    await manager.call("POST", f"{path}/pause", {"reason": "no run takes longer for that"})
    start = now_ms() // MINUTE_MS * MINUTE_MS - 20 * MINUTE_MS
    records = [
        record_of(
            RunId.planned("j", plan_ms := start + number * MINUTE_MS), end_ms=plan_ms + took_ms + 2, revision=revision
        )
        for number, (took_ms, revision) in enumerate([(1000, first)] * 5 + [(30_000, second)] * 5)
    ]
    await manager.write(records)
    chart = await manager.get(f"{path}/durations")
    assert [one["durationMs"] for one in chart["points"]] == [1000] * 5 + [30_000] * 5
    assert (chart["timeoutMs"], chart["p95Ms"]) == (90_000, 30_000)
    (mark,) = chart["versions"]
    assert (mark["revision"], mark["changed"]) == (second, ["command"])
    assert (mark["beforeMs"], mark["afterMs"]) == (1000, 30_000)
    some = await manager.get(f"{path}/durations", **{"from": str(start + MINUTE_MS), "to": str(start + 4 * MINUTE_MS)})
    assert (some["runs"], some["versions"], some["medianMs"]) == (3, [], 1000)
    row = await manager.get(path)
    assert (row["usualMs"], row["lastSuccessTime"]) == (15_500, records[-1].end_ms)
    problem = await problem_of(await manager.http.get(f"{path}/durations?from=x&limit=5"), 400)
    assert {error["field"] for error in problem["errors"]} == {"from", "limit"}


async def test_fire_that_is_overdue_is_told_of_a_job_that_has_run_before(manager: Managed) -> None:
    await manager.call("PUT", "/api/v1/jobs/j", {"command": "a", "cronExpr": "0 * * * * * *"})
    minute = now_ms() // MINUTE_MS * MINUTE_MS
    kv = await manager.etcd.get(manager.keys.job("j"))
    assert kv is not None
    document = json.loads(kv.value) | {"anchorMs": minute - 30 * MINUTE_MS}
    await manager.etcd.put(manager.keys.job("j"), json.dumps(document).encode())
    await manager.write([record_of(RunId.planned("j", minute - 9 * MINUTE_MS))])

    async def overdue() -> bool:
        return "overdue" in await manager.get("/api/v1/jobs/j")

    await wait_until(overdue, description="the watch has seen the older save")
    row = await manager.get("/api/v1/jobs/j")
    assert row["overdue"] == {"planTime": minute - 8 * MINUTE_MS, "reason": "no worker is live"}
    await claim(manager, "j", minute - 8 * MINUTE_MS)
    await wait_until(lambda: bool(manager.parts.watching.open_runs.of("j", OWNER)), description="it runs")
    assert "overdue" not in await manager.get("/api/v1/jobs/j")
