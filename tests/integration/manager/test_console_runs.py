"""The console's calls on runs and fires: output as text, kills with their outcome, why a fire did not run."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import pytest

from common.protocol.keys import RunId, encode_mark
from common.protocol.run import EntryState, final_entry
from common.verdicts import Verdict
from tests.support.managing import Managed, Place, managing, problem_of
from tests.support.open_runs import claim, now_ms, record_of, settle
from tests.support.waiting import wait_until

MINUTE_MS = 60_000
NASTY = "<script>alert(1)</script>\x1b[31mred\x1b[0m\n<img src=x onerror=alert(1)>\n"


def path(run: RunId | str, call: str = "") -> str:
    return f"/api/v1/runs/{quote(str(run), safe='')}{call}"


# Output

AS_TEXT = {"Accept": "application/json, text/plain"}
"""As older command lines ask for it."""


async def test_output_is_text_in_a_sandbox(manager: Managed) -> None:
    run = RunId.planned("j", 5_000)
    await manager.write([record_of(run, output=NASTY)])
    answer = await manager.http.get(path(run, "/output"), headers=AS_TEXT)
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
    assert "Content-Disposition" not in answer.headers
    assert await answer.text() == NASTY


async def test_output_can_be_downloaded(manager: Managed) -> None:
    run = RunId.planned("j", 5_000)
    await manager.write([record_of(run, output="x" * 5_000_000)])
    answer = await manager.http.get(path(run, "/output"), params={"download": "1"})
    assert answer.headers["Content-Disposition"] == 'attachment; filename="j_5000_1.txt"'
    assert len(await answer.read()) == 5_000_000


async def test_output_that_is_not_there(manager: Managed) -> None:
    await problem_of(await manager.http.get(path("j@1#1", "/output")), 404)
    run = await claim(manager, "j", now_ms())
    answer = await manager.http.get(path(run, "/output"), headers=AS_TEXT)
    assert "once the run has ended" in (await problem_of(answer, 404))["detail"]
    assert (await manager.get(path(run)))["state"] in ("claimed", "running")
    await problem_of(await manager.http.get(path("no-run", "/output")), 400)
    await problem_of(await manager.http.get(path("j@1#1", "/output"), params={"download": "x"}), 400)


# Kills


async def kill(manager: Managed, run: RunId) -> Any:
    return await manager.call("POST", path(run, "/kill"), {"reason": "too long"})


async def after_the_kill(manager: Managed, run: RunId, status: Verdict) -> None:
    """What the worker does once it has seen the kill."""

    async def asked() -> bool:
        return await manager.etcd.get(manager.keys.kill(run)) is not None

    await wait_until(asked, description="the kill")
    await settle(manager, run, status)


@pytest.mark.parametrize(("status", "outcome"), [(Verdict.KILLED, "killed"), (Verdict.SUCCESS, "finished")])
async def test_kill_says_how_the_run_ended(manager: Managed, status: Verdict, outcome: str) -> None:
    run = await claim(manager, "j", now_ms() - MINUTE_MS)
    answer, _ = await asyncio.gather(kill(manager, run), after_the_kill(manager, run, status))
    assert answer["outcome"] == outcome
    assert str(run) in answer["message"]


async def test_kill_of_a_run_that_does_not_end_is_pending(place: Place) -> None:
    async with managing(place, apiWriteTimeout=300) as manager:
        run = await claim(manager, "j", now_ms() - MINUTE_MS)
        assert (await kill(manager, run))["outcome"] == "pending"
        assert await manager.etcd.get(manager.keys.kill(run)) is not None


async def test_kill_of_a_run_that_has_ended_is_finished(manager: Managed) -> None:
    over = RunId.planned("j", 5_000)
    await manager.write([record_of(over)])
    assert (await kill(manager, over))["outcome"] == "finished"
    ended = await claim(manager, "j", 6_000, state=EntryState.ENDED)
    assert (await kill(manager, ended))["outcome"] == "finished"
    skipped = RunId.planned("j", 7_000)
    await manager.etcd.put(manager.keys.run(skipped), final_entry(record_of(skipped, Verdict.SKIPPED)).to_json())
    assert (await kill(manager, skipped))["outcome"] == "finished"
    assert not any(key.startswith(manager.keys.kills) for key in await manager.stored())


async def test_kill_of_no_run(manager: Managed) -> None:
    await problem_of(await manager.http.post(path("j@5000#1", "/kill"), json={}), 404)
    await problem_of(await manager.http.post(path("nonsense", "/kill"), json={}), 400)
    await problem_of(await manager.http.post(path("j@5000#1", "/kill"), data={"a": "b"}), 415)


async def test_kill_of_a_job_lists_its_runs(manager: Managed) -> None:
    run = await claim(manager, "j", now_ms() - MINUTE_MS)
    answer = await manager.call("POST", "/api/v1/jobs/j/kill", {"reason": "enough"})
    assert answer == {"killed": [str(run)], "message": "1 run of j asked to end"}
    assert (await manager.call("POST", "/api/v1/jobs/other/kill", {}))["killed"] == []


# Fires


async def save(manager: Managed, **changes: Any) -> None:
    await manager.call("PUT", "/api/v1/jobs/j", {"command": "true", "cronExpr": "0 * * * * * *", **changes})


async def test_fires_say_what_ran_what_goes_and_what_comes(manager: Managed) -> None:
    await save(manager)
    minute = now_ms() // MINUTE_MS * MINUTE_MS
    await manager.write(
        [
            record_of(RunId.planned("j", minute - 9 * MINUTE_MS), Verdict.MISSED, reason="worker away",
                      range_end_ms=minute - 5 * MINUTE_MS, count=5),
            record_of(RunId.planned("j", minute - 4 * MINUTE_MS)),
        ]
    )  # fmt: skip
    run = await claim(manager, "j", minute - 3 * MINUTE_MS)

    async def going() -> bool:
        return bool((await manager.get("/api/v1/jobs/j"))["running"])

    await wait_until(going, description="the run to be seen")
    fires = await manager.get("/api/v1/jobs/j/fires")
    assert [fire["verdict"] for fire in fires["recent"]] == ["running", "success", "missed"]
    assert set(fires["recent"][0]) == {
        "planTime", "rangeEndTime", "count", "verdict", "reason", "runId", "startTime", "endTime", "worker",
    }  # fmt: skip
    assert fires["recent"][0]["runId"] == str(run)
    assert (fires["recent"][2]["count"], fires["recent"][2]["reason"]) == (5, "worker away")
    assert fires["recent"][2]["runId"] == f"j@{minute - 9 * MINUTE_MS}#1"
    assert len(fires["upcoming"]) == 10
    assert fires["upcoming"][0]["ms"] > now_ms()
    assert set(fires["upcoming"][0]) == {"ms", "utc", "local", "note", "open"}
    earlier = await manager.get("/api/v1/jobs/j/fires", before=str(minute - 4 * MINUTE_MS))
    assert [fire["verdict"] for fire in earlier["recent"]] == ["missed"]
    later = await manager.get("/api/v1/jobs/j/fires", after=str(minute + 60 * MINUTE_MS))
    assert later["upcoming"][0]["ms"] == minute + 61 * MINUTE_MS


async def test_fires_that_nobody_takes_wait_and_say_why(manager: Managed) -> None:
    await save(manager, cronExpr="* * * * * * *")
    kv = await manager.etcd.get(manager.keys.job("j"))
    assert kv is not None
    anchor = now_ms() - 10_000
    value = kv.value.replace(str(await manager.mark("j")).encode(), str(anchor).encode())
    await manager.etcd.put(manager.keys.mark("j"), encode_mark(anchor))
    revision = await manager.etcd.put(manager.keys.job("j"), value)
    assert await manager.parts.watching.has_seen("j", revision)
    (fire,) = (await manager.get("/api/v1/jobs/j/fires"))["recent"]
    assert (fire["verdict"], fire["reason"]) == ("waiting", "no worker is live")
    assert fire["count"] in (8, 9)


async def test_fires_of_a_paused_and_of_a_deleted_job(manager: Managed) -> None:
    await save(manager)
    await manager.write([record_of(RunId.planned("j", 60_000))])
    await manager.call("POST", "/api/v1/jobs/j/pause", {})
    assert (await manager.get("/api/v1/jobs/j/fires"))["upcoming"] == []
    await manager.call("DELETE", "/api/v1/jobs/j")
    fires = await manager.get("/api/v1/jobs/j/fires")
    assert ([fire["verdict"] for fire in fires["recent"]], fires["upcoming"]) == (["success"], [])
    await problem_of(await manager.http.get("/api/v1/jobs/j/fires", params={"before": "x"}), 400)
    await problem_of(await manager.http.get("/api/v1/jobs/j!/fires"), 400)
