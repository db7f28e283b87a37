"""Puts many jobs directly into etcd, as saves of a manager would leave them, in batches."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import islice
from typing import Final

from common.etcd import EtcdClient, EtcdUser
from common.jobs.job import JobSpec
from common.notices.channels import CHANNEL
from common.notices.forms import Stored
from common.notices.rules import RULE
from common.protocol.keys import Keys, Watched, encode_mark
from common.protocol.saved_job import SavedJob
from common.protocol.txn import Operation, Put, Txn

JOBS_A_TXN: Final = 60
_DAY_MS: Final = 86_400_000


def saved(spec: JobSpec, now_ms: int) -> SavedJob:
    """The job as a save at this moment makes it."""
    return SavedJob(spec=spec, anchor_ms=now_ms, saved_ms=now_ms, saved_by="bench")


async def fill(client: EtcdClient, keys: Keys, jobs: Iterable[SavedJob], *, mark_ms: int | None = None) -> None:
    """Put them with their marks: as if just saved, or with all decided up to `mark_ms`. Nothing is compared."""
    left = iter(jobs)
    while batch := list(islice(left, JOBS_A_TXN)):
        puts: list[Operation] = [Put(keys.seen(Watched.JOBS), b"bench")]
        for job in batch:
            puts.append(Put(keys.job(job.spec.name), job.to_json()))
            puts.append(Put(keys.mark(job.spec.name), encode_mark(job.anchor_ms if mark_ms is None else mark_ms)))
        await client.txn(Txn([], puts))


async def tell_all(endpoint: str, *, user: EtcdUser | None = None) -> None:
    """One rule tells a mail channel of all jobs what is told without a thought: problems and their ends."""
    keys = Keys()
    channel = CHANNEL.read({"kind": "email", "to": ["a@example.com"], "from": "b@example.com", "host": "127.0.0.1"})
    rule = RULE.read({"labels": "all", "to": ["ops"]})
    async with EtcdClient([endpoint], user=user) as client:
        saved_channel = Stored(record=channel, created_by="bench", created_ms=1)
        await client.put(keys.channels + "ops", CHANNEL.to_json(saved_channel))
        await client.put(keys.rules + "all", RULE.to_json(Stored(record=rule, created_by="bench", created_ms=1)))


def writes_of_filling(jobs: int) -> int:
    """How many mutations `fill` makes of so many jobs: for each its spec and its mark, for each batch the sentinel."""
    return 2 * jobs - (-jobs // JOBS_A_TXN)


async def save_directly(
    endpoint: str, specs: Iterable[JobSpec], *, days_ago: int = 0, user: EtcdUser | None = None
) -> None:
    """Fill the etcd at `host:port`, under the usual prefix; as if saved then, with all decided until now."""
    now_ms = time.time_ns() // 1_000_000
    saved_ms = now_ms - days_ago * _DAY_MS
    async with EtcdClient([endpoint], timeout=30, user=user) as client:
        await fill(client, Keys(), (saved(spec, saved_ms) for spec in specs), mark_ms=now_ms)
