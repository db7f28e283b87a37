"""What a claim of a request asks of etcd: each of it false, nothing is claimed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from common.etcd import EtcdClient
from common.protocol.keys import RunId, encode_mark
from common.protocol.request import Origin, Request
from common.protocol.request_writes import RequestClaim, claim_of
from common.protocol.txn import Delete, Operation, Put, Txn
from tests.support.deciding import NOON, World, planning

RUN = RunId.planned("job", NOON - 1000)


async def a_claim(world: World) -> RequestClaim:
    """The claim of a retry that waits, of a job whose runs take the lock."""
    revision = await world.save()
    keys, planner = world.keys, world.planners[0]
    request = Request(
        run_id=RUN, origin=Origin.RETRY, job_create_revision=revision, plan_ms=NOON - 1000, dispatch_ms=NOON,
        not_before_ms=NOON, mark_ms=NOON,
    )  # fmt: skip
    seen = replace(request, revision=await world.client.put(keys.request(RUN), request.to_json()))
    return claim_of(
        seen, world.jobs["job"], planner.session, keys=keys, identity=planner.identity, lost_after_ms=300_000,
        now_ms=NOON, mark=await world.client.get(keys.mark("job")),
    )  # fmt: skip


async def is_carried_out(client: EtcdClient, claim: RequestClaim) -> bool:
    return (await client.txn(claim.transaction())).succeeded


def meanwhile(world: World, what: str) -> list[Operation]:
    """What somebody else does."""
    keys, job = world.keys, world.keys.job("job")
    match what:
        case "session over":
            return [Delete(world.planners[0].session.key)]
        case "put again":
            return [Put(keys.request(RUN), b"the request, later")]
        case "edited":
            return [Put(job, b"another spec")]
        case "killed":
            return [Put(keys.kill(RUN), b"a kill")]
        case "run":
            return [Put(keys.run(RUN), b"a run")]
        case "locked":
            return [Put(keys.lock("job"), b"another run")]
        case _:
            assert what == "a newer fire is decided"
            return [Put(keys.mark("job"), encode_mark(NOON + 1000))]


async def test_claims_what_is_as_it_was_seen(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix, start=False) as world:
        claim = await a_claim(world)
        assert await is_carried_out(client, claim)
        run, lock = await client.get(world.keys.run(RUN)), await client.get(world.keys.lock("job"))
        assert run is not None
        assert lock is not None
        assert (run.create_revision, lock.value) == (lock.create_revision, str(RUN).encode())
        assert await client.get(world.keys.request(RUN)) is None
        assert not await is_carried_out(client, claim), "once"


@pytest.mark.parametrize(
    "what", ["session over", "put again", "edited", "killed", "run", "locked", "a newer fire is decided"]
)
async def test_claims_nothing_where_something_is_not_as_it_was_seen(client: EtcdClient, prefix: str, what: str) -> None:
    async with planning(client, prefix, start=False) as world:
        claim = await a_claim(world)
        for operation in meanwhile(world, what):
            await client.txn(Txn([], [operation]))
        assert not await is_carried_out(client, claim)


async def test_request_of_a_job_that_was_made_again_is_not_claimed(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix, start=False) as world:
        claim = await a_claim(world)
        await world.delete()
        await world.save()
        claim = replace(claim, job=world.jobs["job"], mark=await client.get(world.keys.mark("job")))
        assert not await is_carried_out(client, claim)
