"""From the end of a run to the deletion of its key: in which order, and what stands in the way. Real etcd."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import structs

import worker.record.settlement
import worker.refusals
from common.protocol.keys import RunId
from common.protocol.run import EntryState, RunRecord, final_entry
from common.protocol.txn import Delete, Txn, TxnResult
from common.verdicts import Verdict
from tests.support.etcd_metrics import transactions_since
from tests.support.etcd_server import EtcdServer
from tests.support.waiting import wait_until
from tests.support.workshop import NOON, SECOND, Workshop, workshop
from worker.runs import Run


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker.refusals, "RETRY_S", 0.02)


async def started(shop: Workshop, name: str = "job", **fields: object) -> Run:
    run = await shop.claim(name, **fields)  # type: ignore[arg-type]
    await shop.started(run)
    return run


async def gone(shop: Workshop, run: Run) -> None:
    async def is_gone() -> bool:
        return await shop.entry(run) is None and shop.table.get(run.run_id) is None

    await wait_until(is_gone, description=f"the key of {run.run_id} is deleted")


async def test_lock_is_freed_after_the_record_is_safe_and_the_key_goes_after_delivery(
    etcd: EtcdServer, prefix: str
) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await started(shop)
        shop.spool.open.clear()
        record = shop.end(run)
        for _ in range(10):
            await shop.client.get(shop.keys.prefix)
        assert await shop.lock() is not None
        shop.spool.open.set()
        await wait_until(lambda: shop.unlocked == ["job"], description="the lock is free")
        assert shop.spool.records == [record]
        assert await shop.lock() is None
        await shop.settled()
        assert await shop.entry(run) is not None
        shop.settlement.delivered([run.run_id])
        await gone(shop, run)


async def test_lock_that_nobody_waits_for_goes_with_the_next_that_somebody_may_wait_for(
    etcd: EtcdServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker.record.settlement, "TOGETHER_S", 60.0)
    monkeypatch.setattr(worker.record.settlement, "AT_ONCE_S", 0.0)
    async with workshop(etcd.endpoint, prefix) as shop:
        seldom = await started(shop, "seldom", cronExpr="0 0 0 1 1 * *")
        often = await started(shop, "often")
        before = shop.client.writes
        record = shop.end(seldom)
        await wait_until(lambda: record in shop.spool.records, description="the record is safe")
        for _ in range(10):
            await shop.client.get(shop.keys.prefix)
        assert shop.unlocked == []
        shop.end(often)
        await wait_until(lambda: sorted(shop.unlocked) == ["often", "seldom"], description="both locks are free")
        assert shop.client.writes == before + 1


async def test_lock_that_nobody_waits_for_is_freed_all_the_same(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        shop.end(await started(shop, cronExpr="0 0 0 1 1 * *"))
        await wait_until(lambda: shop.unlocked == ["job"], description="the lock is free")
        assert await shop.lock() is None


async def test_record_that_is_delivered_before_the_lock_is_free_keeps_its_key_until_then(
    etcd: EtcdServer, prefix: str
) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await started(shop)
        shop.spool.open.clear()
        shop.end(run)
        shop.settlement.delivered([run.run_id])
        for _ in range(10):
            await shop.client.get(shop.keys.prefix)
        assert await shop.entry(run) is not None
        shop.spool.open.set()
        await gone(shop, run)
        assert await shop.lock() is None


async def test_lock_does_not_wait_for_all_the_keys_that_a_returned_log_store_lets_go(
    etcd: EtcdServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends while the first keys are being deleted."""
    monkeypatch.setattr(worker.record.settlement, "_DELETED_AT_ONCE", 5)
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await started(shop)
        delivered = [RunId.planned("other", NOON + number * SECOND) for number in range(100)]
        for run_id in delivered:
            shop.settlement.expect(run_id, await shop.client.put(shop.keys.run(run_id), b"ended"))
        txn, deleted, record = shop.client.txn, list[set[str]](), asyncio.Event()

        async def noted(transaction: Txn) -> TxnResult:
            keys = {one.key for one in transaction.then if isinstance(one, Delete)}
            if keys and not any(deleted):
                await record.wait()
            deleted.append(keys)
            return await txn(transaction)

        monkeypatch.setattr(shop.client, "txn", noted)
        shop.settlement.delivered(delivered)
        ended = shop.end(run)
        await wait_until(lambda: ended in shop.spool.records, description="the record is safe")
        record.set()
        await wait_until(lambda: shop.unlocked == ["job"], description="the lock is free")
        await shop.settled()
        [freed] = [place for place, keys in enumerate(deleted) if shop.keys.lock("job") in keys]
        gone = [place for place, keys in enumerate(deleted) if keys & {shop.keys.run(run_id) for run_id in delivered}]
        assert len(gone) == 20
        assert freed < gone[2]


async def test_lock_that_is_somebody_elses_stays(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run, other = await started(shop), await started(shop, "other")
        await shop.client.delete(shop.keys.lock("job"))
        await shop.client.put(shop.keys.lock("job"), b"another run")
        shop.end(run)
        shop.end(other)
        await wait_until(lambda: sorted(shop.unlocked) == ["job", "other"], description="both are through")
        lock = await shop.lock()
        assert lock is not None
        assert lock.value == b"another run"
        assert await shop.lock("other") is None
        shop.settlement.delivered([run.run_id, other.run_id])
        await gone(shop, run)
        await gone(shop, other)


async def test_what_ends_together_is_unlocked_together(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix, slots=50) as shop:
        runs = [await started(shop, f"job{number}") for number in range(50)]
        writes = shop.client.writes
        for run in runs:
            shop.end(run)
        await wait_until(lambda: len(shop.unlocked) == 50, description="all are unlocked")
        assert shop.client.writes - writes <= 2
        shop.settlement.delivered([run.run_id for run in runs])
        await wait_until(lambda: len(shop.table) == 0, description="all keys are deleted")
        assert shop.client.writes - writes <= 4


@pytest.mark.parametrize(("overlap", "expected"), [("skip", 5), ("allow", 4)])
async def test_fire_costs_at_most_five_mutations(etcd: EtcdServer, prefix: str, overlap: str, expected: int) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await shop.claim(overlap=overlap, plan_ms=NOON + SECOND)  # puts the mark, the run and the lock
        mutations = 3 if overlap == "skip" else 2
        shop.passes(SECOND)
        await shop.started(run)
        before = (await shop.client.status()).revision
        shop.end(run)
        await shop.settled()
        if overlap == "allow":
            entry = await shop.entry(run)
            assert entry is not None
            assert entry.state is EntryState.ENDED
        shop.settlement.delivered([run.run_id])
        await gone(shop, run)
        mutations += await transactions_since(shop.client, prefix, before)  # each of one key
        assert mutations == expected


async def test_spool_refuses_the_record_and_the_verdict_goes_into_the_key(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await started(shop)
        shop.spool.fault = "no space left on device"
        shop.end(run, output="much", output_bytes=4)
        await wait_until(lambda: shop.unlocked == ["job"], description="the lock is free")
        entry = await shop.entry(run)
        assert entry is not None
        assert entry.state is EntryState.FINAL
        assert entry.record is not None
        assert (entry.record.status, entry.record.output) == (Verdict.SUCCESS, "")
        assert "no space left on device" in entry.record.err
        assert await shop.lock() is None
        assert shop.faults == ["no space left on device"]
        assert shop.table.get(run.run_id) is None
        assert shop.settlement.unsettled == 0
        shop.spool.fault = None
        shop.end(await started(shop, "next"))
        await wait_until(lambda: shop.unlocked == ["job", "next"], description="the spool takes records again")
        assert shop.faults == ["no space left on device"]


@pytest.mark.parametrize("what", ["the key was re-adopted", "the lock is another's", "the run was given up"])
async def test_spool_refuses_and_the_key_is_not_as_believed(etcd: EtcdServer, prefix: str, what: str) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await started(shop)
        key = shop.keys.run(run.run_id)
        given_up = RunRecord(run_id=run.run_id, status=Verdict.LOST)
        match what:
            case "the key was re-adopted":
                await shop.client.put(key, structs.replace(run.entry, session="ff").to_json())
            case "the lock is another's":
                await shop.client.delete(shop.keys.lock("job"))
                await shop.client.put(shop.keys.lock("job"), b"another run")
            case _:
                await shop.client.put(key, final_entry(given_up).to_json())
        shop.spool.fault = "no space left on device"
        shop.end(run)
        await wait_until(lambda: shop.unlocked == ["job"], description="it is through")
        entry = await shop.entry(run)
        assert entry is not None
        assert entry.record is not None
        is_lost = what == "the run was given up"
        assert entry.record.status is (Verdict.LOST if is_lost else Verdict.SUCCESS)
        lock = await shop.lock()
        assert (lock is None) == (what == "the key was re-adopted")


async def test_etcd_away_while_runs_end_is_caught_up_when_it_is_back(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix, slots=10) as shop:
        runs = [await started(shop, f"job{number}") for number in range(10)]
        shop.client.losing, shop.client.carry_out = 5, False
        for run in runs:
            shop.end(run)
        await wait_until(lambda: len(shop.unlocked) == 10, description="all are unlocked")
        shop.settlement.delivered([run.run_id for run in runs])
        await wait_until(lambda: len(shop.table) == 0, description="all keys are deleted")


@pytest.mark.parametrize("overlap", ["skip", "allow"])
async def test_answers_lost_after_the_commit_settle_nothing_twice(etcd: EtcdServer, prefix: str, overlap: str) -> None:
    async with workshop(etcd.endpoint, prefix, slots=10) as shop:
        runs = [await started(shop, f"job{number}", overlap=overlap) for number in range(10)]
        shop.client.losing = 1
        for run in runs:
            shop.end(run)
        await shop.settled()
        shop.client.losing = 1
        shop.settlement.delivered([run.run_id for run in runs])
        await wait_until(lambda: len(shop.table) == 0, description="all keys are deleted")
        for run in runs:
            assert await shop.entry(run) is None
        assert sorted(shop.unlocked) == ([] if overlap == "allow" else sorted(run.run_id.job for run in runs))


@pytest.mark.parametrize("overlap", ["skip", "allow"])
async def test_key_that_was_readopted_in_doubt_is_deleted_all_the_same(
    etcd: EtcdServer, prefix: str, overlap: str
) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await started(shop, overlap=overlap)
        await shop.client.put(shop.keys.run(run.run_id), structs.replace(run.entry, session="ff").to_json())
        shop.end(run)
        await shop.settled()
        entry = await shop.entry(run)
        assert entry is not None
        assert entry.state is (EntryState.ENDED if overlap == "allow" else EntryState.OPEN)
        shop.settlement.delivered([run.run_id])
        await gone(shop, run)


async def test_run_that_was_given_up_meanwhile_leaves_its_key_to_the_steward(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await started(shop)
        lost = final_entry(RunRecord(run_id=run.run_id, status=Verdict.LOST))
        await shop.client.put(shop.keys.run(run.run_id), lost.to_json())
        shop.end(run)
        await shop.settled()
        shop.settlement.delivered([run.run_id])
        await wait_until(lambda: len(shop.table) == 0, description="it is forgotten")
        assert await shop.entry(run) == lost


async def test_final_record_is_delivered_and_its_key_deleted(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run_id = RunId.planned("job", NOON)
        record = RunRecord(run_id=run_id, status=Verdict.SKIPPED, reason="overlap")
        revision = await shop.client.put(shop.keys.run(run_id), final_entry(record).to_json())
        shop.settlement.deliver_final(record, revision)
        await wait_until(lambda: shop.spool.records == [record], description="it is in the spool")
        await shop.settled()
        assert await shop.client.get(shop.keys.run(run_id)) is not None
        shop.settlement.delivered([run_id])

        async def is_gone() -> bool:
            return await shop.client.get(shop.keys.run(run_id)) is None

        await wait_until(is_gone, description="its key is deleted")


async def test_final_record_of_a_run_that_is_still_known_here_is_not_on_its_way_for_ever(
    etcd: EtcdServer, prefix: str
) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await shop.claim()
        await shop.started(run)
        given_up = RunRecord(run_id=run.run_id, status=Verdict.LOST, reason="worker gone")
        revision = await shop.client.put(shop.keys.run(run.run_id), final_entry(given_up).to_json())
        shop.settlement.deliver_final(given_up, revision)  # by this very worker, as steward
        await shop.settled()
        shop.settlement.delivered([run.run_id])
        assert not shop.settlement.is_delivering(run.run_id)

        async def is_gone() -> bool:
            return await shop.client.get(shop.keys.run(run.run_id)) is None

        await wait_until(is_gone, description="its key is deleted")


async def test_final_record_that_the_spool_refuses_stays_in_its_key(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run_id = RunId.planned("job", NOON)
        record = RunRecord(run_id=run_id, status=Verdict.SKIPPED, reason="overlap")
        revision = await shop.client.put(shop.keys.run(run_id), final_entry(record).to_json())
        shop.spool.fault = "no space left on device"
        shop.settlement.deliver_final(record, revision)
        await wait_until(lambda: shop.faults == ["no space left on device"], description="the spool refuses it")
        shop.settlement.delivered([run_id])
        await shop.settled()
        assert await shop.client.get(shop.keys.run(run_id)) is not None


async def test_beyond_the_limit_keys_go_once_the_record_is_in_the_spool(
    etcd: EtcdServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker.record.settlement, "MAX_WAITING_KEYS", 8)
    async with workshop(etcd.endpoint, prefix, slots=20) as shop:
        shop.live_workers = 2
        for number in range(10):
            shop.end(await started(shop, f"job{number}"))
            await shop.settled()
        run_id = RunId.planned("skipped", NOON)
        record = RunRecord(run_id=run_id, status=Verdict.SKIPPED, reason="overlap")
        revision = await shop.client.put(shop.keys.run(run_id), final_entry(record).to_json())
        for other in range(4):
            shop.settlement.expect(RunId.planned("other", NOON + other), 1)
        shop.settlement.deliver_final(record, revision)
        await shop.settled()
        await wait_until(lambda: len(shop.table) == 4, description="four keys wait, as many as one of two may have")

        async def is_gone() -> bool:
            return await shop.client.get(shop.keys.run(run_id)) is None

        await wait_until(is_gone, description="the final key went, too")
        assert len(shop.spool.records) == 11


async def test_kill_goes_with_the_key_of_its_run(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await started(shop)
        await shop.client.put(shop.keys.kill(run.run_id), b"a kill")
        shop.kill(run)
        shop.end(run)
        shop.settlement.delivered([run.run_id])
        await gone(shop, run)
        assert await shop.client.get(shop.keys.kill(run.run_id)) is None


async def test_slots_come_back_whatever_becomes_of_a_run(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix, slots=3) as shop:
        for number in range(9):
            run = await started(shop, f"job{number}")
            shop.end(run)
            shop.settlement.delivered([run.run_id])
            await gone(shop, run)
        await asyncio.sleep(0)
        assert (shop.table.claimed, shop.table.running, shop.table.free_slots) == (0, 0, 3)
