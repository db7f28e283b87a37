"""Marks of many jobs are read in few requests, and marks that nobody wants hardly at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from common.etcd import EtcdClient
from common.etcd.calls import Calls
from common.protocol.keys import Keys
from common.protocol.txn import Put, Txn
from worker.plan.mark_scan import read_marks

pytestmark = pytest.mark.etcd

NAMES = [f"job-{number:05}" for number in range(2_500)]


@pytest.fixture
async def keys(client: EtcdClient, prefix: str) -> Keys:
    keys = Keys(prefix)
    for start in range(0, len(NAMES), 100):
        await client.txn(Txn([], [Put(keys.mark(name), name.encode()) for name in NAMES[start : start + 100]]))
    return keys


class Asked:
    """How the marks were asked for."""

    def __init__(self, client: EtcdClient, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ranges = 0
        self.names = 0
        get_between, get_many = client.get_between, client.get_many

        async def between(first: str, last: str, *, limit: int) -> Any:
            self.ranges += 1
            return await get_between(first, last, limit=limit)

        async def many(wanted: Sequence[str]) -> Any:
            self.names += len(wanted)
            return await get_many(wanted)

        monkeypatch.setattr(client, "get_between", between)
        monkeypatch.setattr(client, "get_many", many)


@pytest.mark.parametrize(
    ("wanted", "ranges", "names"),
    [(NAMES, 4, 0), (NAMES[:1_500], 3, 0), (NAMES[::2], 4, 0), (NAMES[::10], 1, 246), (NAMES[:7], 0, 7), ([], 0, 0)],
)
async def test_neighbours_are_read_as_ranges_and_others_by_name(
    client: EtcdClient, keys: Keys, monkeypatch: pytest.MonkeyPatch, wanted: Sequence[str], ranges: int, names: int
) -> None:
    asked = Asked(client, monkeypatch)
    found = await read_marks(client, keys, [*wanted, *(["missing"] if wanted else [])])
    assert {sequence: kv.value.decode() for sequence, kv in found.items()} == {name: name for name in wanted}
    assert asked.ranges == ranges
    assert asked.names <= names + 1


async def test_of_marks_here_and_there_etcd_does_not_count_all_that_lie_between(
    client: EtcdClient, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted, ask = list[int](), Calls.read

    async def read(self: Calls, method: str, request: Any, *, what: str) -> Any:
        answer = await ask(self, method, request, what=what)
        counted.extend([answer.count] if method == "range" else [])
        return answer

    monkeypatch.setattr(Calls, "read", read)
    wanted = NAMES[::16]
    assert {*await read_marks(client, keys, wanted)} == {*wanted}
    assert sum(counted) < len(NAMES) / 10
