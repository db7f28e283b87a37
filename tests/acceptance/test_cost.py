"""What a fire costs etcd, by etcd's own count: so many mutations whatever the number of workers, few requests.

Beats, sessions and elections go on meanwhile and are for no fire: what they wrote is told by the versions of their
keys, and taken off. So are claims that are stamped again, as their runs start more than two seconds after them: that is
what a busy machine costs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from bench.filling import save_directly, writes_of_filling
from common.etcd import EtcdClient, _rpc
from common.etcd.types import range_end, to_bytes
from common.jobs.job import JobSpec
from common.protocol.keys import Keys
from tests.support.cluster import Cluster, running_cluster
from tests.support.etcd_metrics import EtcdCounts, etcd_counts, writes_for_no_fire
from tests.support.waiting import wait_until

FIRES: Final = 200
CHAINS: Final = 4
"""Few, with a long pause: there has to be a moment at which none of them runs, on a busy machine, too."""
A_FIRE: Final = 5
A_LINK: Final = 6
SENTINELS: Final = 1
"""A transaction that puts requests writes the sentinel once, however many they are; a link alone has one."""
# Slots for all: a claimed fire that has to wait for one is handed on, which costs more. Records go at once.
FLAGS: Final = ("--slots", str(FIRES), "--job-log-commit-timeout", "50")
KEYS: Final = Keys()
_DELETE: Final = 1


class Count:
    """What etcd counts while a block runs; what is for no fire, and what the test itself asks, are taken off."""

    def __init__(self, etcd: EtcdClient, before: EtcdCounts, kept_before: int) -> None:
        self._etcd = etcd
        self._before = before
        self._kept_before = kept_before
        self._asked = 0
        self.mutations = self.requests = self.claims = 0

    async def keys_under(self, prefix: str) -> int:
        self._asked += 1
        return await self._etcd.count(prefix)

    async def close(self) -> None:
        counted = await etcd_counts(self._etcd.endpoint) - self._before
        self.mutations = counted.mutations - (await writes_for_no_fire(self._etcd) - self._kept_before)
        self.requests = counted.requests - self._asked


@asynccontextmanager
async def counting(cluster: Cluster) -> AsyncIterator[Count]:
    async with EtcdClient([cluster.etcd.endpoint]) as etcd:
        kept_before = await writes_for_no_fire(etcd)
        count = Count(etcd, await etcd_counts(cluster.etcd.endpoint), kept_before)
        yield count
        await count.close()


async def burst(cluster: Cluster, name: str) -> Count:
    """So many jobs that are due at once, from their claims to the deletion of their run keys."""
    moment = cluster.second_from_now(5)  # what is due before it is saved is nobody's fire
    expr = f"{moment.second} {moment.minute} {moment.hour} {moment.day} {moment.month} * {moment.year}"
    command = cluster.evidence_command()
    specs = [JobSpec(name=f"{name}-{number}", command=command, cron_exprs=(expr,)) for number in range(FIRES)]
    earlier = len(cluster.starts())
    async with EtcdClient([cluster.etcd.endpoint]) as etcd:
        [page] = [page async for page in etcd.read_prefix(KEYS.runs)]
    async with counting(cluster) as count:
        await save_directly(cluster.etcd.endpoint, specs)

        async def over() -> bool:
            return len(cluster.starts()) == earlier + FIRES and not await count.keys_under(KEYS.runs)

        await wait_until(over, description="every job of the burst has run, and is settled")
    async with EtcdClient([cluster.etcd.endpoint]) as etcd:
        again, count.claims = await claimed(etcd, page.revision)
        count.mutations -= writes_of_filling(FIRES) + again
    assert len({start.job for start in cluster.starts() if start.job.startswith(f"{name}-")}) == FIRES
    return count


async def claimed(etcd: EtcdClient, since: int) -> tuple[int, int]:
    """From this revision to the end of the last run of a burst: how many puts have renewed a claim; how many
    transactions have made them.
    """
    key, again, ended, claims = to_bytes(KEYS.runs), 0, 0, set[int]()
    stream = await etcd.watch_stream()
    create = {"key": key, "range_end": range_end(key), "start_revision": since + 1, "prev_kv": True}
    await stream.write(_rpc.messages.WatchRequest(create_request=create))
    while ended < FIRES:
        for event in (await stream.read()).events:
            ended += event.type == _DELETE
            again += event.type != _DELETE and event.kv.value == event.prev_kv.value
            if event.type != _DELETE and event.kv.version == 1:
                claims.add(event.kv.mod_revision)
    stream.close()
    return again, len(claims)


async def chains(cluster: Cluster) -> tuple[Count, int]:
    """Jobs with `after`, from one pause between their links to another; how often they ran meanwhile."""
    for number in range(CHAINS):
        await cluster.call(
            "PUT", f"/api/v1/jobs/chain-{number}", {"command": cluster.evidence_command(), "after": "4s"}
        )

    def ran() -> int:
        return sum(start.job.startswith("chain-") for start in cluster.starts())

    async def between_links(count: Count, runs: int) -> bool:
        settled = ran() >= runs and await count.keys_under(KEYS.requests) == CHAINS
        return settled and not await count.keys_under(KEYS.runs)

    async with counting(cluster) as count:
        await wait_until(lambda: between_links(count, CHAINS), description="every chain has begun")
    begun = ran()
    async with counting(cluster) as count:
        await wait_until(lambda: between_links(count, begun + CHAINS), description="the next links")
    return count, ran() - begun


@pytest.mark.slow
async def test_a_fire_costs_five_mutations_with_one_worker_and_with_two(
    tmp_path: Path,
) -> None:
    async with running_cluster(tmp_path, workers=1, managers=1, worker_flags=FLAGS) as cluster:
        alone = await burst(cluster, "alone")
        cluster.add_worker("worker-2", *FLAGS).start()
        await cluster.ready()
        of_two = await burst(cluster, "of-two")
        linked, links = await chains(cluster)
    print(f"of {FIRES} fires, alone: {alone.mutations} mutations, {alone.requests} requests")
    print(f"with two workers: {of_two.mutations} mutations, {of_two.requests} requests")
    print(f"of {links} links: {linked.mutations} mutations, {linked.requests} requests")
    assert alone.mutations <= A_FIRE * FIRES
    assert of_two.mutations <= A_FIRE * FIRES
    assert linked.mutations <= (A_LINK + SENTINELS) * links
    print(f"claimed in {alone.claims} transactions, and by two workers in {of_two.claims}")
    # How many requests there are is a question of time, too; not so for what is due at once.
    assert alone.claims < FIRES / 4, "no fire of a burst has a claim of its own"
    assert of_two.claims < FIRES / 4
