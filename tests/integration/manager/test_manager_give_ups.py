"""Giving up a run: where its worker cannot settle it, and nowhere else. A wish is put; the steward settles it."""

from __future__ import annotations

from typing import Any

import pytest

from common.protocol.give_up import GiveUp
from common.protocol.keys import RunId
from common.protocol.kill import OVERDUE_MS, Kill
from common.protocol.run import EntryState
from common.protocol.txn import Put, Txn
from common.verdicts import Verdict
from tests.support.background import running
from tests.support.managing import Managed, problem_of
from tests.support.open_runs import claim, now_ms, settle
from tests.support.waiting import wait_until

REASON = {"reason": "the machine burned"}


def path_of(run: RunId) -> str:
    return f"/api/v1/runs/{str(run).replace('#', '%23')}/give-up"


async def wish_of(manager: Managed, run: RunId) -> GiveUp | None:
    kv = await manager.etcd.get(manager.keys.give_up(run))
    return GiveUp.from_json(kv.value, run_id=run, revision=kv.create_revision) if kv else None


async def refused(manager: Managed, run: RunId, status: int = 409) -> str:
    problem = await problem_of(await manager.http.post(path_of(run), json=REASON), status)
    assert await wish_of(manager, run) is None
    return str(problem["detail"])


async def make_live(manager: Managed) -> None:
    await manager.etcd.put(manager.keys.worker("w1", "1"), b"{}")


async def kill(manager: Managed, run: RunId, *, ago_ms: int) -> None:
    value = Kill(run_id=run, by="ann", at_ms=now_ms() - ago_ms).to_json()
    await manager.etcd.put(manager.keys.kill(run), value)


@pytest.mark.parametrize("state", [EntryState.OPEN, EntryState.ENDED])
async def test_run_of_a_worker_that_is_gone_is_asked_to_be_given_up(manager: Managed, state: EntryState) -> None:
    run = await claim(manager, "j", now_ms() - 1000, state=state)
    answer = await manager.call("POST", path_of(run), REASON)
    assert answer["outcome"] == "pending"
    wish = await wish_of(manager, run)
    assert wish is not None
    assert str(wish) == "given up by api 127.0.0.1: the machine burned"


async def test_answer_tells_the_verdict_where_the_steward_is_quick(manager: Managed) -> None:
    run = await claim(manager, "j", now_ms() - 1000)

    async def wished() -> bool:
        return await wish_of(manager, run) is not None

    async def steward() -> None:
        await wait_until(wished, description="the wish")
        await settle(manager, run, Verdict.LOST, reason="given up by ann: why")

    async with running(steward()):
        answer = await manager.call("POST", path_of(run), REASON)
    assert answer == {"outcome": "lost", "message": f"{run} is lost: given up by ann: why"}
    again = await manager.call("POST", path_of(run), REASON)
    assert again == {"outcome": "finished", "message": f"{run} had ended already: lost"}


async def test_well_run_is_refused_with_what_to_do_instead(manager: Managed) -> None:
    run = await claim(manager, "j", now_ms() - 1000)
    await make_live(manager)
    assert "kill it instead" in await refused(manager, run)


async def test_run_of_a_live_worker_is_given_up_a_minute_after_the_kill_and_its_grace(manager: Managed) -> None:
    await manager.save('{"name":"j","command":"sleep 99","cronExpr":"* * * * * * *","killGraceSeconds":30}')
    run = await claim(manager, "j", now_ms() - 1000)
    await make_live(manager)
    await kill(manager, run, ago_ms=OVERDUE_MS + 20_000)
    assert "may still end it: give it up in 10 s" in await refused(manager, run)
    await kill(manager, run, ago_ms=OVERDUE_MS + 30_000)
    await manager.call("POST", path_of(run), REASON)
    assert await wish_of(manager, run) is not None


async def test_run_tells_for_how_long_a_kill_of_it_has_been_pending(manager: Managed) -> None:
    run = await claim(manager, "j", now_ms() - 1000)
    shown = path_of(run).removesuffix("/give-up")
    assert "killPendingMs" not in await manager.call("GET", shown)
    await kill(manager, run, ago_ms=OVERDUE_MS)
    assert OVERDUE_MS <= (await manager.call("GET", shown))["killPendingMs"] < 2 * OVERDUE_MS
    await manager.etcd.put(manager.keys.kill(run), b"garbage")
    assert (await manager.call("GET", shown))["killPendingMs"] is None


async def test_kill_of_a_former_run_does_not_count(manager: Managed) -> None:
    run = RunId.planned("j", now_ms() - 1000)
    await kill(manager, run, ago_ms=2 * OVERDUE_MS)
    await claim(manager, "j", run.plan_ms or 0)
    await make_live(manager)
    assert "kill it instead" in await refused(manager, run)


async def test_what_has_not_begun_never_was_or_has_ended(manager: Managed) -> None:
    waits = RunId.planned("j", now_ms() - 1000)
    await manager.etcd.put(manager.keys.request(waits), b"{}")
    assert "has not begun" in await refused(manager, waits)
    await refused(manager, RunId.planned("j", 1), 404)
    await make_live(manager)
    ended = await claim(manager, "j", now_ms() - 2000, state=EntryState.ENDED)
    assert (await manager.call("POST", path_of(ended), REASON))["outcome"] == "finished"
    assert await wish_of(manager, ended) is None


@pytest.mark.parametrize("body", [{}, {"reason": " "}, {"reason": 1}, {"reason": "x" * 501}, {"why": "?"}])
async def test_a_reason_is_needed(manager: Managed, body: dict[str, Any]) -> None:
    run = await claim(manager, "j", now_ms() - 1000)
    await problem_of(await manager.http.post(path_of(run), json=body), 400)
    assert await wish_of(manager, run) is None


async def test_a_job_has_a_bound_of_wishes(manager: Managed) -> None:
    run = await claim(manager, "j", now_ms() - 1000)
    others = [RunId.planned("j", plan_ms) for plan_ms in range(1, 101)]
    await manager.etcd.txn(Txn((), [Put(manager.keys.give_up(other), b"{}") for other in others]))
    assert "at most 100" in await refused(manager, run, 429)
