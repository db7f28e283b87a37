"""A run that has ended while processes of it live, as its worker's beat tells: shown everywhere, and given up."""

from __future__ import annotations

from urllib.parse import quote

from common.protocol.give_up import GiveUp
from common.protocol.keys import RunId
from common.protocol.member import Beat, EndingRun
from common.verdicts import Verdict
from tests.support.managing import Managed, problem_of
from tests.support.open_runs import claim, now_ms, record_of
from tests.support.waiting import wait_until

SINCE_MS = 1_790_000_000_000
LEFT = {"worker": "w1", "sinceMs": SINCE_MS, "processes": [41, 42]}


async def ending(manager: Managed, *, is_recorded: bool = True, ago_ms: int = 60_000) -> RunId:
    """A run of `j` whose worker is live, and says that it cannot end what is left of it."""
    run = await claim(manager, "j", now_ms() - ago_ms)
    await manager.etcd.put(manager.keys.worker("w1", "1"), b"{}")
    left = EndingRun(run=str(run), since_ms=SINCE_MS, processes=(41, 42))
    beat = Beat(kind="worker", wall_ms=now_ms(), ending_count=1, ending=(left,))
    await manager.etcd.put(manager.keys.beat("w1"), beat.to_json())
    if is_recorded:
        await manager.write([record_of(run, Verdict.FAILED)])
    seen = manager.parts.watching.open_runs
    await wait_until(lambda: seen.has(run), description="the run to be seen")
    return run


def path_of(run: RunId, what: str = "") -> str:
    return f"/api/v1/runs/{quote(str(run), safe='')}{what}"


async def test_its_page_has_its_record_and_what_is_left(manager: Managed) -> None:
    shown = await manager.get(path_of(await ending(manager)))
    assert (shown["state"], shown["status"], shown["ending"]) == ("ending", "failed", LEFT)


async def test_one_without_a_record_yet_says_so_too(manager: Managed) -> None:
    shown = await manager.get(path_of(await ending(manager, is_recorded=False)))
    assert (shown["state"], shown["ending"]) == ("ending", LEFT)
    assert "status" not in shown


async def test_lists_show_it_once(manager: Managed) -> None:
    run = await ending(manager)
    (listed,) = (await manager.get("/api/v1/runs"))["items"]
    assert (listed["id"], listed["state"], listed["status"], listed["ending"]) == (str(run), "ending", "failed", LEFT)
    (going,) = (await manager.get("/api/v1/runs", status="running"))["items"]
    assert (going["state"], going["ending"]) == ("ending", LEFT)


async def test_the_row_of_its_job_shows_it(manager: Managed) -> None:
    await manager.save('{"name":"j","command":"true","cronExpr":"@yearly"}')
    run = await ending(manager)
    (row,) = (await manager.get("/api/v1/jobs"))["items"]
    (shown,) = row["running"]
    assert (shown["id"], shown["state"], shown["ending"]) == (str(run), "ending", LEFT)


async def test_beats_are_not_read_for_young_runs(manager: Managed) -> None:
    """No worker gives up on what is left in less than ten seconds."""
    await ending(manager, ago_ms=1000)
    (listed,) = (await manager.get("/api/v1/runs"))["items"]
    assert "ending" not in listed


async def test_it_is_given_up_by_its_live_worker(manager: Managed) -> None:
    run = await ending(manager)
    await manager.call("POST", path_of(run, "/give-up"), {"reason": "it burned"})
    kv = await manager.etcd.get(manager.keys.give_up(run))
    assert kv is not None
    assert GiveUp.from_json(kv.value, run_id=run, revision=kv.create_revision).is_of_ending


async def test_kill_says_what_helps_instead(manager: Managed) -> None:
    run = await ending(manager)
    problem = await problem_of(await manager.http.post(path_of(run, "/kill"), json={}), 409)
    assert "w1 cannot end its processes 41, 42: give it up to free its lock" in problem["detail"]
    assert await manager.etcd.get(manager.keys.kill(run)) is None
