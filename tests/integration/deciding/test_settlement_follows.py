"""What the end of a run leaves behind it: another attempt, or the next link; once, whatever happens meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

import worker.refusals
from common.protocol.follow_ups import End, FollowUp
from common.protocol.keys import RunId, encode_mark
from common.protocol.request import Origin
from common.protocol.run import EntryState
from common.protocol.txn import Delete, Put, Txn
from common.verdicts import Verdict
from tests.support.etcd_metrics import transactions_since
from tests.support.etcd_server import EtcdServer
from tests.support.waiting import wait_until
from tests.support.workshop import NOON, SECOND, Workshop, workshop
from worker.runs import Run

RETRY: dict[str, Any] = {"retry": {"limit": 1, "delaySeconds": 10}}
CRON = "* * * * * * *"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker.refusals, "RETRY_S", 0.02)


async def started(shop: Workshop, name: str = "job", **fields: Any) -> Run:
    run = await shop.claim(name, **fields)
    await shop.started(run)
    return run


async def fails(shop: Workshop, run: Run) -> None:
    """It ends, and all that its worker has to do for now is done."""
    shop.end(run, verdict=Verdict.FAILED, exit_code=1)
    await shop.settled()
    await wait_until(lambda: run.unlocked, description="its end is in etcd")


def moves_after_the_look(shop: Workshop, monkeypatch: pytest.MonkeyPatch, move: Callable[[], Awaitable[Any]]) -> None:
    """Between the first look and the write, this happens."""
    follow_ups = shop.settlement._unlocking._follow_ups
    asked, moved = follow_ups.asked, list[int]()

    async def then_moved(ends: Sequence[End]) -> list[FollowUp]:
        follows = await asked(ends)
        if not moved:
            moved.append(1)
            await move()
        return follows

    monkeypatch.setattr(follow_ups, "asked", then_moved)


async def test_retry_is_asked_for_in_the_transaction_that_frees_the_lock(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await started(shop, **RETRY)
        shop.passes(3 * SECOND)
        await fails(shop, run)
        [request] = await shop.requests()
        assert (request.run_id, request.origin) == (RunId.planned("job", NOON, 2), Origin.RETRY)
        assert request.not_before_ms == NOON + 13 * SECOND
        assert request.mark_ms == NOON
        assert await shop.client.get(shop.keys.lock("job"), revision=request.revision - 1) is not None
        assert await shop.client.get(shop.keys.lock("job"), revision=request.revision) is None
        assert shop.unlocked == ["job"]


@pytest.mark.parametrize("overlap", ["skip", "allow"])
async def test_lost_answer_asks_for_the_retry_once_even_if_that_is_over_already(
    etcd: EtcdServer, prefix: str, overlap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker.refusals, "RETRY_S", 0.3)
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await started(shop, overlap=overlap, **RETRY)
        shop.client.losing = 1
        shop.end(run, verdict=Verdict.FAILED, exit_code=1)

        async def is_there() -> bool:
            return bool(await shop.requests())

        await wait_until(is_there, description="the retry is asked for")
        await shop.client.delete(shop.keys.request(RunId.planned("job", NOON, 2)))  # claimed, run, and over
        await shop.settled()
        assert run.unlocked
        assert await shop.requests() == []
        assert await shop.lock() is None


async def test_run_without_a_lock_is_put_as_ended_with_its_retry(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await started(shop, overlap="allow", **RETRY)
        shop.settlement.delivered([run.run_id])  # before its end is in etcd: the key is not just deleted
        await fails(shop, run)
        [request] = await shop.requests()
        assert request.mark_ms is None
        await wait_until(lambda: shop.table.get(run.run_id) is None, description="its key is deleted")
        assert await shop.entry(run) is None


async def test_readopted_run_that_has_ended_does_not_end_again(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await started(shop, overlap="allow", **RETRY)
        await fails(shop, run)
        kv = await shop.client.get(shop.keys.run(run.run_id))
        believed = await shop.claim("other", overlap="allow")
        believed.run_id, believed.fence, believed.mod_revision = run.run_id, run.fence, 1
        assert believed.reread(kv)
        assert (believed.entry.state, believed.unlocked) == (EntryState.ENDED, True)


@pytest.mark.parametrize("fields", [
    {"cronExpr": CRON},
    {"cronExpr": CRON, "retry": {"limit": 1}, "enabled": False},
    {"cronExpr": CRON, "retry": {"limit": 1, "onExitCodes": [75]}},
])  # fmt: skip
async def test_job_that_was_edited_without_this_worker_knowing_is_tried_again_as_it_is_now(
    etcd: EtcdServer, prefix: str, fields: dict[str, Any]
) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await started(shop, **RETRY)
        await shop.edit(**fields)
        await fails(shop, run)
        assert await shop.requests() == []
        assert await shop.lock() is None


@pytest.mark.parametrize("overlap", ["skip", "allow"])
async def test_job_that_was_given_a_retry_without_this_worker_knowing_is_tried_again(
    etcd: EtcdServer, prefix: str, overlap: str
) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await started(shop, overlap=overlap)
        await shop.edit(cronExpr=CRON, overlap=overlap, **RETRY)
        await fails(shop, run)
        [request] = await shop.requests()
        assert request.run_id == RunId.planned("job", NOON, 2)


@pytest.mark.parametrize("how", ["with a lock", "without a lock", "while the spool refuses"])
async def test_edit_between_look_and_write_is_seen(
    etcd: EtcdServer, prefix: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await started(shop, overlap="allow" if how == "without a lock" else "skip", **RETRY)
        edited: dict[str, Any] = {"cronExpr": CRON, "retry": {"limit": 1, "delaySeconds": 99}}
        moves_after_the_look(shop, monkeypatch, lambda: shop.edit(**edited))
        if how == "while the spool refuses":
            shop.spool.fault = "no space left on device"
            shop.end(run, verdict=Verdict.FAILED, exit_code=1)
            await shop.settled()
        else:
            await fails(shop, run)
        [request] = await shop.requests()
        assert request.not_before_ms == NOON + 99 * SECOND


async def test_mark_that_moves_between_look_and_write_is_read_again(
    etcd: EtcdServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await started(shop, **RETRY)
        newer = encode_mark(NOON + SECOND)
        moves_after_the_look(shop, monkeypatch, lambda: shop.client.put(shop.keys.mark("job"), newer))
        await fails(shop, run)
        [request] = await shop.requests()
        assert request.mark_ms == NOON + SECOND


@pytest.mark.parametrize("key", ["request", "run"])
async def test_attempt_that_is_there_already_stays_as_it_is(
    etcd: EtcdServer, prefix: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await started(shop, **RETRY)
        there = getattr(shop.keys, key)(RunId.planned("job", NOON, 2))
        moves_after_the_look(shop, monkeypatch, lambda: shop.client.put(there, b"somebody else's"))
        await fails(shop, run)
        kv = await shop.client.get(there)
        assert kv is not None
        assert kv.version == 1
        assert await shop.lock() is None


async def test_run_that_was_given_up_meanwhile_is_followed_by_nothing_of_ours(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await started(shop, **RETRY)
        await shop.client.txn(Txn([], [Delete(shop.keys.lock("job")), Put(shop.keys.lock("other"), b"")]))
        await fails(shop, run)
        assert await shop.requests() == []


async def test_spool_refuses_and_what_follows_comes_with_the_verdict(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await started(shop, **RETRY)
        shop.spool.fault = "no space left on device"
        shop.client.losing = 1
        shop.end(run, verdict=Verdict.FAILED, exit_code=1)
        await shop.settled()
        entry = await shop.entry(run)
        assert entry is not None
        assert entry.state is EntryState.FINAL
        assert [one.origin for one in await shop.requests()] == [Origin.RETRY]
        assert await shop.lock() is None


async def test_many_that_fail_together_are_tried_again_by_few_writes(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix, slots=50) as shop:
        runs = [await started(shop, f"job{number}", **RETRY) for number in range(50)]
        writes = shop.client.writes
        for run in runs:
            shop.end(run, verdict=Verdict.FAILED, exit_code=1)
        await wait_until(lambda: len(shop.unlocked) == 50, description="all are unlocked")
        assert shop.client.writes - writes <= 4
        assert [len(await shop.requests(run.run_id.job)) for run in runs] == [1] * 50


# The chain


async def test_end_puts_the_next_link_and_costs_two_keys_and_their_sentinel_more(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await started(shop, after="30s")
        shop.passes(3 * SECOND)
        before = (await shop.client.status()).revision
        shop.end(run)
        await shop.settled()
        [request] = await shop.requests()
        assert (request.origin, request.plan_ms) == (Origin.CHAIN, NOON + 33 * SECOND)
        assert request.run_id == RunId.planned("job", NOON + 33 * SECOND)
        assert await transactions_since(shop.client, prefix, before) == 1


@pytest.mark.parametrize(("edited", "expected"), [
    ({"after": "5s"}, [NOON + 5 * SECOND]),
    ({"after": "30s", "enabled": False}, []),
    ({"cronExpr": CRON}, []),
    (None, []),
], ids=["another delay", "paused", "cron", "deleted"])  # fmt: skip
async def test_save_pause_and_delete_during_the_run_decide_what_follows(
    etcd: EtcdServer, prefix: str, edited: dict[str, Any] | None, expected: list[int]
) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await started(shop, after="30s")
        if edited is None:
            await shop.client.delete(shop.keys.job("job"))
        else:
            await shop.edit(**edited)
        shop.end(run)
        await shop.settled()
        assert [one.plan_ms for one in await shop.requests()] == expected
        assert await shop.lock() is None


async def test_job_that_has_become_a_chain_during_the_run_goes_on_as_one(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await started(shop)
        await shop.edit(tell=True, after="5s")
        shop.end(run)
        await shop.settled()
        assert [one.plan_ms for one in await shop.requests()] == [NOON + 5 * SECOND]


async def test_lost_answer_puts_the_link_once(etcd: EtcdServer, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker.refusals, "RETRY_S", 0.3)
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await started(shop, after="30s")
        shop.client.losing = 1
        shop.end(run)

        async def is_there() -> bool:
            return bool(await shop.requests())

        await wait_until(is_there, description="the next link is there")
        await shop.client.txn(
            Txn([], [Delete(shop.keys.chain("job")), Put(shop.keys.lock("job"), b"job@5#1")])
        )  # claimed
        await shop.settled()
        assert await shop.requests() == []
        lock = await shop.lock()
        assert lock is not None
        assert lock.value == b"job@5#1"
