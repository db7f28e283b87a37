"""Kills: each run that has begun, none that is to come, also of a deleted job."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import pytest

from common.access.rights import OWNER
from common.clock import SystemClock
from common.errors import EtcdInDoubtError, UnavailableError
from common.etcd import EtcdClient
from common.etcd.settle import UnsettledError
from common.protocol.keys import RunId
from common.protocol.kill import Kill
from common.protocol.run import EntryState, RunEntry, RunRecord, final_entry
from common.protocol.txn import Put, Txn, TxnResult
from common.verdicts import Verdict
from tests.support.managing import Managed, Place, managing
from tests.support.proxy import Mode, Proxy

JOB = '{"name":"j","command":"sleep 99","cronExpr":"* * * * * * *"}'


async def put_run(manager: Managed, run: RunId, dispatch_ms: int, state: EntryState = EntryState.OPEN) -> None:
    entry = RunEntry(
        state=state, worker="w1", session="abc", revision=7, locked=True, plan_ms=run.plan_ms or 0,
        dispatch_ms=dispatch_ms, claim_ms=dispatch_ms - 100,
    )  # fmt: skip
    await manager.etcd.put(manager.keys.run(run), entry.to_json())


async def kills(manager: Managed) -> dict[RunId, Kill]:
    found = {}
    async for page in manager.etcd.read_prefix(manager.keys.kills):
        for kv in page.kvs:
            run = manager.keys.run_of(kv.key)
            found[run] = Kill.from_json(kv.value, run_id=run, revision=kv.create_revision)
    return found


async def test_every_run_that_has_begun_is_asked_to_end(manager: Managed) -> None:
    now_ms = SystemClock().wall_ms()
    begun = [RunId.planned("j", now_ms - 5000), RunId.planned("j", now_ms - 1000, 2)]
    for run in begun:
        await put_run(manager, run, now_ms - 1000)
    answer = await manager.post("/job/kill", name="j")
    assert answer == {"errno": 0, "msg": "success", "data": None, "killed": [str(run) for run in begun]}
    asked = await kills(manager)
    assert set(asked) == set(begun)
    assert {kill.by for kill in asked.values()} == {"api 127.0.0.1"}
    seen = await manager.etcd.get(manager.keys.seen_prefix + "kills")
    assert seen is not None


async def test_fire_claimed_ahead_of_its_time_is_not_reached(manager: Managed) -> None:
    now_ms = SystemClock().wall_ms()
    await put_run(manager, RunId.planned("j", now_ms + 60_000), now_ms + 60_000)
    assert (await manager.post("/job/kill", name="j"))["killed"] == []
    assert await kills(manager) == {}


async def test_what_has_ended_or_is_not_ours_is_let_be(manager: Managed) -> None:
    now_ms = SystemClock().wall_ms()
    await put_run(manager, RunId.planned("j", 1), now_ms - 1000, EntryState.ENDED)
    skipped = RunRecord(run_id=RunId.planned("j", 2), status=Verdict.SKIPPED, plan_ms=2)
    await manager.etcd.put(manager.keys.run(skipped.run_id), final_entry(skipped).to_json())
    await manager.etcd.put(manager.keys.runs_of("j") + "x/y", b"{}")
    await manager.etcd.put(manager.keys.run(RunId.planned("j", 3)), b"garbage")
    await put_run(manager, RunId.planned("jj", 4), now_ms - 1000)
    assert (await manager.post("/job/kill", name="j"))["killed"] == []
    assert await kills(manager) == {}


async def test_run_of_a_deleted_job_is_killed(manager: Managed) -> None:
    run = RunId.planned("j", SystemClock().wall_ms() - 1000)
    await manager.save(JOB)
    await put_run(manager, run, run.plan_ms or 0)
    await manager.post("/job/delete", name="j")
    assert (await manager.post("/job/kill", name="j"))["killed"] == [str(run)]


async def test_hundred_runs_of_one_job_are_killed(manager: Managed) -> None:
    now_ms = SystemClock().wall_ms()
    for number in range(100):
        await put_run(manager, RunId.planned("j", now_ms - number), now_ms - 1000)
    assert len((await manager.post("/job/kill", name="j"))["killed"]) == 100


_AWAY, _NO_ANSWER, _UNFORESEEN = UnavailableError("away"), EtcdInDoubtError("none"), KeyError("a fault of the program")


@pytest.mark.parametrize(
    ("errors", "told", "said"),
    [
        ((None, _AWAY, _NO_ANSWER), UnsettledError, "1 of 3 runs of j are asked to end; whether the others are"),
        ((None, _AWAY), UnsettledError, "1 of 2 runs of j are asked to end, and not the others: away"),
        ((_AWAY, _NO_ANSWER), UnsettledError, "may or may not be killed"),
        ((None, _NO_ANSWER, _UNFORESEEN), KeyError, "a fault of the program"),
    ],
)
async def test_kills_that_may_have_been_asked_are_not_hidden_by_one_that_was_not(
    place: Place, manager: Managed, errors: Sequence[Exception | None], told: type[Exception], said: str
) -> None:
    now_ms, service = SystemClock().wall_ms(), manager.parts.kills
    runs = [RunId.planned("j", now_ms - 1000 * number) for number in range(len(errors), 0, -1)]
    for run in runs:
        await put_run(manager, run, now_ms - 1000)
    failing = {manager.keys.kill(run): error for run, error in zip(runs, errors, strict=True)}

    class Failing(EtcdClient):
        async def txn(self, txn: Txn) -> TxnResult:
            for operation in txn.then:
                if isinstance(operation, Put) and (error := failing.get(operation.key)) is not None:
                    raise error
            return await super().txn(txn)

    async with Failing([place.etcd]) as etcd:
        service._etcd, service._patience_s = etcd, 0.0
        with pytest.raises(told, match=said) as caught:
            await service.of_job("j", by="me", rights=OWNER)
    assert type(caught.value) is told
    assert set(await kills(manager)) == {run for run, error in zip(runs, errors, strict=True) if error is None}


async def test_kill_whose_answer_is_lost_is_asked_again(place: Place) -> None:
    run = RunId.planned("j", SystemClock().wall_ms() - 1000)
    async with Proxy(place.etcd) as proxy, managing(place, etcd=proxy.endpoint) as manager:
        await put_run(manager, run, run.plan_ms or 0)
        undisturbed = manager.parts.etcd.txn

        async def cut(transaction: Txn) -> object:
            if not proxy.cuts:
                proxy.set(Mode.CUT_REPLY)
            return await undisturbed(transaction)

        with pytest.MonkeyPatch.context() as patch:
            replacement: Callable[..., Awaitable[object]] = cut
            patch.setattr(manager.parts.etcd, "txn", replacement)
            answer = await manager.post("/job/kill", name="j")
        assert proxy.cuts == 1
        assert answer["killed"] == [str(run)]
        assert set(await kills(manager)) == {run}
