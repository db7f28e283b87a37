"""The election: one leader at a time, and another one when it is gone."""

from __future__ import annotations

import asyncio

import pytest

from common.clock import SystemClock
from common.etcd import Election, EtcdClient, MirrorTimings, Session
from common.protocol.compares import Compare
from common.protocol.txn import Txn
from tests.support.background import running
from tests.support.waiting import wait_until

pytestmark = pytest.mark.etcd

TIMINGS = MirrorTimings(progress_s=0.1, silence_s=30, grace_s=0.3)


class Candidate:
    """A process that stands for election."""

    def __init__(self, client: EtcdClient, session: Session, key: str) -> None:
        self.session = session
        self.election = Election(client, session, key, session.key.encode(), clock=SystemClock(), timings=TIMINGS)

    @classmethod
    async def open(cls, client: EtcdClient, prefix: str, name: str) -> Candidate:
        session = await Session.open(
            client, key_of=lambda lease: f"{prefix}{name}/{lease}", value=b"", ttl=30, clock=SystemClock()
        )
        return cls(client, session, prefix + "leader")


async def true(client: EtcdClient, compare: Compare) -> bool:
    return (await client.txn(Txn([compare], []))).succeeded


async def test_one_of_two_leads_and_the_other_follows_when_its_lease_is_revoked(
    client: EtcdClient, prefix: str
) -> None:
    first = await Candidate.open(client, prefix, "first")
    second = await Candidate.open(client, prefix, "second")
    async with asyncio.timeout(60), running(first.session.run(), second.session.run(), first.election.run()) as tasks:
        await first.election.gained.wait()
        assert first.election.leading
        async with running(second.election.run()):
            await wait_until(
                lambda: second.election.holder == first.session.key.encode(), description="the second knows the first"
            )
            assert not second.election.leading
            assert second.election.lost.is_set()
            assert await true(client, first.election.leads_compare)
            assert await first.election.confirm()
            assert not await second.election.confirm()
            assert not await true(client, second.election.leads_compare)
            held = first.election.leads_compare

            await client.lease_revoke(first.session.lease_id)
            assert not await first.election.confirm()
            assert not await true(client, held)
            await second.election.gained.wait()
            assert await true(client, second.election.leads_compare)
            assert not await true(client, held)
            await first.election.lost.wait()
            assert not first.election.leading
            await tasks[2]  # its session is over, so it ends
        await second.session.close()


async def test_who_stands_down_makes_way_and_does_not_come_back_at_once(client: EtcdClient, prefix: str) -> None:
    first = await Candidate.open(client, prefix, "first")
    second = await Candidate.open(client, prefix, "second")
    async with asyncio.timeout(60), running(first.session.run(), second.session.run()), running(first.election.run()):
        await first.election.gained.wait()
        async with running(second.election.run()):
            await first.election.stand_down(600)
            assert not first.election.leading
            await second.election.gained.wait()
        await second.session.close()
        await wait_until(lambda: first.election.holder is None, description="nobody leads")
        assert not first.election.leading


async def test_who_stood_down_comes_back_when_the_time_is_over(client: EtcdClient, prefix: str) -> None:
    candidate = await Candidate.open(client, prefix, "only")
    async with asyncio.timeout(60), running(candidate.session.run(), candidate.election.run()):
        await candidate.election.gained.wait()
        before = candidate.election.leads_compare
        await candidate.election.stand_down(0.3)
        await candidate.election.gained.wait()
        assert not await true(client, before)
        assert await true(client, candidate.election.leads_compare)


async def test_a_key_under_no_lease_is_swept_away(client: EtcdClient, prefix: str) -> None:
    await client.put(prefix + "leader", b"left behind")
    candidate = await Candidate.open(client, prefix, "only")
    async with asyncio.timeout(60), running(candidate.session.run(), candidate.election.run()):
        await candidate.election.gained.wait()
        assert await true(client, candidate.election.leads_compare)


async def test_who_loses_the_key_stops_leading_and_stands_again(client: EtcdClient, prefix: str) -> None:
    candidate = await Candidate.open(client, prefix, "only")
    async with asyncio.timeout(60), running(candidate.session.run(), candidate.election.run()):
        await candidate.election.gained.wait()
        before = candidate.election.leads_compare
        await client.delete(prefix + "leader")
        await wait_until(lambda: candidate.election.leads_compare != before, description="it has noticed")
        await candidate.election.gained.wait()
        assert await true(client, candidate.election.leads_compare)
