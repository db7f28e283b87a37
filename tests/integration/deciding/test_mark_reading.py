"""Marks of many jobs are read in few requests, and marks that nobody wants hardly at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from common.etcd import EtcdClient, Put
from common.stored.keys import Keys
from worker.deciding.mark_reading import read_marks

pytestmark = pytest.mark.etcd

NAMES = [f"job-{number:05}" for number in range(2_500)]


@pytest.fixture
async def keys(client: EtcdClient, prefix: str) -> Keys:
    keys = Keys(prefix)
    for start in range(0, len(NAMES), 100):
        await client.txn([], [Put(keys.mark(name), name.encode()) for name in NAMES[start : start + 100]])
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
    [(NAMES, 3, 0), (NAMES[:1_500], 2, 0), (NAMES[::2], 3, 0), (NAMES[::10], 1, 150), (NAMES[:7], 0, 7), ([], 0, 0)],
)
async def test_neighbours_are_read_as_ranges_and_others_by_name(
    client: EtcdClient, keys: Keys, monkeypatch: pytest.MonkeyPatch, wanted: Sequence[str], ranges: int, names: int
) -> None:
    asked = Asked(client, monkeypatch)
    found = await read_marks(client, keys, [*wanted, *(["missing"] if wanted else [])])
    assert {sequence: kv.value.decode() for sequence, kv in found.items()} == {name: name for name in wanted}
    assert asked.ranges == ranges
    assert asked.names <= names + 1
