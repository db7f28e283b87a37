"""Starting by slots, and handing on only to who may run the job."""

from __future__ import annotations

from tests.support.deciding import NOON
from tests.support.etcd_server import EtcdServer
from tests.support.waiting import wait_until
from tests.support.workshop import Workshop, workshop
from worker.runs import Phase


async def quiet(shop: Workshop) -> None:
    """What was begun has been answered."""
    for _ in range(3):
        await shop.client.get(shop.keys.prefix)


async def test_a_run_of_several_slots_waits_for_all_of_them_and_others_wait_behind_it(
    etcd: EtcdServer, prefix: str
) -> None:
    async with workshop(etcd.endpoint, prefix, slots=3) as shop:
        first = await shop.claim("first")
        await shop.started(first)
        big = await shop.claim("big", slots=3)
        small = await shop.claim("small")
        shop.passes(500)
        await quiet(shop)
        assert (big.phase, small.phase) == (Phase.CLAIMED, Phase.CLAIMED)
        shop.end(first)
        await shop.started(big)
        await quiet(shop)
        assert small.phase is Phase.CLAIMED, "no slot is left beside it"
        shop.end(big)
        await shop.started(small)


async def test_nothing_is_handed_on_to_workers_that_may_not_run_it(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix, slots=2) as shop:
        shop.others("w2")  # one slot, no labels
        await shop.started(await shop.claim("first", slots=2))
        big = await shop.claim("big", slots=2)
        labelled = await shop.claim("labelled", workers={"zone": "eu"})
        shop.passes(5000)
        await quiet(shop)
        assert (big.phase, labelled.phase) == (Phase.CLAIMED, Phase.CLAIMED)


async def test_of_what_waits_only_that_which_others_may_run_is_handed_on(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix, slots=1) as shop:
        shop.others("w2")
        await shop.started(await shop.claim("first"))
        pinned = await shop.claim("pinned", plan_ms=NOON, workers={"zone": "eu"}, slots=1)
        waits = await shop.claim("waits", plan_ms=NOON)
        shop.passes(1000)
        await wait_until(lambda: shop.table.get(waits.run_id) is None, description="it is handed on")
        assert pinned.phase is Phase.CLAIMED


async def test_what_is_behind_a_run_that_waits_for_several_slots_does_not_take_them(
    etcd: EtcdServer, prefix: str
) -> None:
    async with workshop(etcd.endpoint, prefix, slots=2) as shop:
        first = await shop.claim("first")
        await shop.started(first)
        pinned = await shop.claim("pinned", plan_ms=NOON, workers={"zone": "eu"}, slots=2)
        later = await shop.claim("later", plan_ms=NOON + 500, workers={"zone": "eu"})
        for _ in range(3):
            shop.passes(400)
            await quiet(shop)
        assert (pinned.phase, later.phase) == (Phase.CLAIMED, Phase.CLAIMED)
        shop.end(first)
        await shop.started(pinned)
        shop.end(pinned)
        await shop.started(later)
