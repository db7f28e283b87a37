"""The client's single calls, on both versions of etcd."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from common.clock import SystemClock
from common.errors import ConfigError, EtcdCompactedError, EtcdRefusedError
from common.etcd import EtcdClient
from common.etcd.calls import Calls
from common.etcd.types import to_bytes, to_text
from common.protocol.txn import KeyValue, Put, Txn
from tests.support.etcd_server import EtcdServer, whole_version

pytestmark = pytest.mark.etcd


async def test_reads_back_what_was_put(client: EtcdClient, prefix: str) -> None:
    revision = await client.put(prefix + "a", b"\x00one")
    assert await client.get(prefix + "a") == KeyValue(
        key=prefix + "a", value=b"\x00one", create_revision=revision, mod_revision=revision, version=1, lease=0
    )


async def test_a_second_put_keeps_the_create_revision(client: EtcdClient, prefix: str) -> None:
    created = await client.put(prefix + "a", b"one")
    changed = await client.put(prefix + "a", b"two")
    kv = await client.get(prefix + "a")
    assert kv is not None
    assert (kv.create_revision, kv.mod_revision, kv.version) == (created, changed, 2)


async def test_a_missing_key_is_none(client: EtcdClient, prefix: str) -> None:
    assert await client.get(prefix + "a") is None
    assert await client.delete(prefix + "a") is False


async def test_an_older_revision_can_be_read(client: EtcdClient, prefix: str) -> None:
    first = await client.put(prefix + "a", b"one")
    await client.put(prefix + "a", b"two")
    kv = await client.get(prefix + "a", revision=first)
    assert kv is not None
    assert kv.value == b"one"


async def test_a_key_that_is_not_utf8_survives_the_round_trip(client: EtcdClient, prefix: str) -> None:
    garbage = prefix + b"\xff\xfe".decode(errors="surrogateescape")
    await client.put(garbage, b"x")
    [page] = [page async for page in client.read_prefix(prefix)]
    assert [kv.key for kv in page.kvs] == [garbage]
    assert await client.delete(garbage)


async def test_the_greatest_values_come_first_and_no_more_than_asked_for(client: EtcdClient, prefix: str) -> None:
    for key, value in (("a/1", b"03"), ("a/2", b"20"), ("a/3", b"11"), ("b", b"99")):
        await client.put(prefix + key, value)
    assert [kv.value for kv in await client.get_greatest(prefix + "a/", limit=2)] == [b"20", b"11"]
    assert await client.get_greatest(prefix + "c/", limit=2) == ()


async def test_get_many_finds_those_that_exist_in_more_than_one_request(client: EtcdClient, prefix: str) -> None:
    keys = [f"{prefix}{number:03}" for number in range(300)]
    await client.txn(Txn([], [Put(key, key.encode()) for key in keys[:100]]))
    await client.txn(Txn([], [Put(key, key.encode()) for key in keys[200:]]))
    found = await client.get_many([*keys, keys[0]])
    assert {key: kv.value for key, kv in found.items()} == {key: key.encode() for key in keys[:100] + keys[200:]}
    there = await client.get_keys([*keys, keys[0]])
    assert {key: kv.mod_revision for key, kv in there.items()} == {key: kv.mod_revision for key, kv in found.items()}


async def test_pages_of_five_thousand_keys_are_of_one_revision(client: EtcdClient, prefix: str) -> None:
    keys = [f"{prefix}{number:05}" for number in range(5_000)]
    for start in range(0, len(keys), 125):
        await client.txn(Txn([], [Put(key, b"old") for key in keys[start : start + 125]]))

    read: list[KeyValue] = []
    revisions = set()
    async for page in client.read_prefix(prefix, page=700):
        assert len(page.kvs) <= 700
        read += page.kvs
        revisions.add(page.revision)
        # Between two pages: one key changes, one goes, one comes, all of them behind the reader.
        await client.put(keys[-1], b"new")
        await client.delete(keys[-2])
        await client.put(f"{prefix}99999-{len(read)}", b"new")

    assert len(revisions) == 1
    assert [kv.key for kv in read] == keys
    assert {kv.value for kv in read} == {b"old"}


async def test_many_keys_are_not_counted_again_for_each_page(
    client: EtcdClient, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [f"{prefix}job-{number}" for number in range(20_000)]
    for start in range(0, len(keys), 125):
        await client.txn(Txn([], [Put(key, b"") for key in keys[start : start + 125]]))
    counted, ask = list[int](), Calls.read

    async def read(self: Calls, method: str, request: Any, *, what: str) -> Any:
        answer = await ask(self, method, request, what=what)
        counted.append(answer.count)
        return answer

    monkeypatch.setattr(Calls, "read", read)
    read_keys = [kv.key async for page in client.read_prefix(prefix) for kv in page.kvs]
    assert read_keys == sorted(keys)
    assert sum(counted) <= 8 * len(keys)  # some 11 times where each page is open to the end, and 500 with a million


@pytest.mark.parametrize("page", [1, 7, 1_000])
async def test_every_key_is_read_once_whatever_bytes_it_has(
    own_client: EtcdClient, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr("common.etcd.paging.ROOM", 2 * page)
    keys = [bytes(letters) for size in (1, 2, 3) for letters in product(b"\x00a\xc3\xfe\xff", repeat=size)]
    for start in range(0, len(keys), 120):
        await own_client.txn(Txn([], [Put(to_text(key), b"") for key in keys[start : start + 120]]))
    for prefix in (b"", b"a", b"\xff", b"\xff\xff", b"a\xff", b"\x00", b"a\xff\xff\xff"):
        pages = own_client.read_prefix(to_text(prefix), page=page)
        read = [to_bytes(kv.key) async for one in pages for kv in one.kvs]
        assert read == [key for key in sorted(keys) if key.startswith(prefix)], prefix


async def test_a_revision_that_is_compacted_between_two_pages_is_an_error(own_client: EtcdClient) -> None:
    keys = [f"/many/{number:04}" for number in range(1_000)]
    for start in range(0, len(keys), 125):
        await own_client.txn(Txn([], [Put(key, b"") for key in keys[start : start + 125]]))
    pages = own_client.read_prefix("/many/", page=100)
    await anext(pages)
    await own_client.compact(await own_client.put("/many/new", b""))
    with pytest.raises(EtcdCompactedError):
        await anext(pages)


async def test_large_values_are_read_in_smaller_pages(client: EtcdClient, prefix: str) -> None:
    value = b"x" * 1_200_000
    for number in range(30):  # 36 MB: more than one answer may have
        await client.put(f"{prefix}{number:02}", value)
    sizes = [len(page.kvs) async for page in client.read_prefix(prefix)]
    together = await client.read_prefixes(prefix, prefix + "1")
    for number in range(30):
        await client.delete(f"{prefix}{number:02}")
    assert sum(sizes) == 30
    assert max(sizes) < 28
    assert [len(kvs) for kvs in together] == [30, 10]


async def test_several_prefixes_are_read_by_one_question_where_they_have_few_keys(
    client: EtcdClient, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    read = Calls.read

    async def counting(self: Calls, method: str, request: Any, *, what: str) -> Any:
        asked.append(method)
        return await read(self, method, request, what=what)

    monkeypatch.setattr(Calls, "read", counting)
    many = [f"{prefix}many/{number:03}" for number in range(300)]
    for start in range(0, len(many), 100):
        await client.txn(Txn([], [Put(key, b"") for key in many[start : start + 100]]))
    await client.put(prefix + "few/a", b"1")
    few, none = await client.read_prefixes(prefix + "few/", prefix + "none/")
    assert ([(kv.key, kv.value) for kv in few], none) == ([(prefix + "few/a", b"1")], [])
    assert asked == ["txn"]
    found = await client.read_prefixes(prefix + "many/", prefix + "few/")
    assert [[kv.key for kv in kvs] for kvs in found] == [many, [prefix + "few/a"]]
    assert asked == ["txn", "txn", "range", "range"]


async def test_an_empty_prefix_gives_one_empty_page_with_its_revision(client: EtcdClient, prefix: str) -> None:
    revision = await client.put("/elsewhere", b"")
    [page] = [page async for page in client.read_prefix(prefix)]
    assert page.kvs == ()
    assert page.revision >= revision


async def test_a_lease_takes_its_keys_with_it(client: EtcdClient, prefix: str) -> None:
    lease = await client.lease_grant(60)
    await client.put(prefix + "a", b"", lease.id)
    assert (lease.ttl_s, await client.lease_keep_alive(lease.id)) == (60, True)
    await client.lease_revoke(lease.id)
    assert await client.get(prefix + "a") is None
    assert not await client.lease_keep_alive(lease.id)


async def test_revoking_a_lease_that_is_gone_is_fine(client: EtcdClient) -> None:
    await client.lease_revoke(0x123456)


async def test_a_compacted_revision_is_said_to_be_compacted(own_client: EtcdClient) -> None:
    first = await own_client.put("a", b"one")
    newest = await own_client.put("a", b"two")
    await own_client.compact(newest)
    with pytest.raises(EtcdCompactedError):
        await own_client.get("a", revision=first)
    with pytest.raises(EtcdCompactedError):
        await own_client.compact(first)


async def test_a_request_that_is_too_large_is_refused(client: EtcdClient, prefix: str) -> None:
    with pytest.raises(EtcdRefusedError, match="too large"):
        await client.put(prefix + "a", b"x" * 1_800_000)
    with pytest.raises(EtcdRefusedError, match="larger than max"):
        await client.put(prefix + "a", b"x" * 5_000_000)
    assert await client.get(prefix + "a") is None


async def test_status_describes_the_member(client: EtcdClient, shared_etcd: EtcdServer) -> None:
    revision = await client.put("/status", b"")
    status = await client.status()
    assert status.endpoint == shared_etcd.endpoint
    assert status.version == whole_version(shared_etcd.binary)
    assert status.member == status.leader != 0
    assert status.revision >= revision
    assert 0 < status.db_size_in_use_bytes <= status.db_size_bytes
    assert status.alarms == ()


async def test_http_before_the_address_is_taken(shared_etcd: EtcdServer) -> None:
    async with EtcdClient([f"http://{shared_etcd.endpoint}/"], clock=SystemClock()) as client:
        assert await client.get("/nothing") is None


@pytest.mark.parametrize(
    ("endpoint", "problem"),
    [
        ("https://127.0.0.1:2379", "etcdTls"),
        ("127.0.0.1", "not the address"),
        ("127.0.0.1:port", "not the address"),
        ("unix:///run/etcd", "not the address"),
        ("", "not the address"),
    ],
)
def test_an_endpoint_that_cannot_be_used_is_refused_at_once(endpoint: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        EtcdClient([endpoint])


def test_no_endpoint_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="none given"):
        EtcdClient([])
