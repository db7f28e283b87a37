"""Transactions: what each compare means, what etcd refuses, and what is refused before it is sent."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from common.errors import EtcdLeaseGoneError
from common.etcd import EtcdClient
from common.protocol.compares import (
    Compare,
    absent,
    create_revision_is,
    lease_is,
    mod_revision_is,
    none_under,
    present,
    value_is,
)
from common.protocol.txn import (
    MAX_COMPARES,
    MAX_OPS,
    MAX_READS,
    Delete,
    Get,
    GetKey,
    GetPrefix,
    Operation,
    Put,
    Txn,
)

pytestmark = pytest.mark.etcd


@dataclass(frozen=True)
class Situation:
    """A key written twice, and under a lease; another that does not exist."""

    key: str
    created: int
    changed: int
    lease: int
    missing: str


@pytest.fixture
async def situation(client: EtcdClient, prefix: str) -> Situation:
    lease = await client.lease_grant(60)
    key = prefix + "there/a"
    created = await client.put(key, b"one")
    changed = await client.put(key, b"two", lease.id)
    return Situation(key=key, created=created, changed=changed, lease=lease.id, missing=prefix + "missing/a")


def compares_of(given: Situation) -> dict[str, tuple[Compare, bool]]:
    """Every kind of compare, where it is true and where it is false."""
    return {
        "mod revision, right": (mod_revision_is(given.key, given.changed), True),
        "mod revision, older": (mod_revision_is(given.key, given.created), False),
        "mod revision 0, missing": (mod_revision_is(given.missing, 0), True),
        "create revision, right": (create_revision_is(given.key, given.created), True),
        "create revision, the change's": (create_revision_is(given.key, given.changed), False),
        "create revision that never is": (create_revision_is(given.missing, -1), False),
        "value, right": (value_is(given.key, b"two"), True),
        "value, older": (value_is(given.key, b"one"), False),
        "value, missing key": (value_is(given.missing, b""), False),
        "lease, right": (lease_is(given.key, given.lease), True),
        "lease, other": (lease_is(given.key, given.lease + 1), False),
        "lease, none": (lease_is(given.key, 0), False),
        "lease, missing key": (lease_is(given.missing, given.lease), False),
        "absent, missing": (absent(given.missing), True),
        "absent, there": (absent(given.key), False),
        "present, there": (present(given.key), True),
        "present, missing": (present(given.missing), False),
        "none under, empty": (none_under(given.missing), True),
        "none under, one there": (none_under(given.key.removesuffix("a")), False),
        "none under, the prefix is a key": (none_under(given.key), False),
    }


async def test_each_compare_is_true_and_false_where_it_should_be(client: EtcdClient, situation: Situation) -> None:
    expected = {name: truth for name, (_, truth) in compares_of(situation).items()}
    actual = {
        name: (await client.txn(Txn([compare], []))).succeeded for name, (compare, _) in compares_of(situation).items()
    }
    assert actual == expected


async def test_one_false_compare_among_many_stops_the_whole_branch(client: EtcdClient, situation: Situation) -> None:
    compares = [present(situation.key), value_is(situation.key, b"other"), absent(situation.missing)]
    result = await client.txn(
        Txn(compares, [Put(situation.missing, b"x")], [Get(situation.key), Get(situation.missing)])
    )
    assert not result.succeeded
    found = result.one(0)
    assert found is not None
    assert found.value == b"two"
    assert result.one(1) is None
    assert await client.get(situation.missing) is None


async def test_results_are_in_the_order_of_the_operations(client: EtcdClient, prefix: str) -> None:
    for key in ("a", "b/1", "b/2"):
        await client.put(prefix + key, key.encode())
    then: list[Operation] = [
        Get(prefix + "a"),
        Put(prefix + "new", b"new"),
        Delete(prefix + "missing"),
        GetPrefix(prefix + "b/"),
        GetKey(prefix + "b/2"),
        GetPrefix(prefix + "b/", limit=1),
        Delete(prefix + "a"),
    ]
    result = await client.txn(Txn([], then))
    assert [kv.value for kv in result.kvs(0)] == [b"a"]
    assert result.results[1] is None
    assert result.deleted(2) == 0
    assert [kv.value for kv in result.kvs(3)] == [b"b/1", b"b/2"]
    found = result.key(4)
    assert found is not None
    assert found.key == prefix + "b/2"
    assert [kv.value for kv in result.kvs(5)] == [b"b/1"]
    assert result.deleted(6) == 1
    written = await client.get(prefix + "new")
    assert written is not None
    assert written.mod_revision == result.revision


async def test_asking_a_result_for_something_else_is_a_programming_error(client: EtcdClient, prefix: str) -> None:
    result = await client.txn(Txn([], [Put(prefix + "a", b""), Get(prefix + "b"), GetKey(prefix + "b")]))
    for index in (0, 2):
        with pytest.raises(TypeError, match="not a read of values"):
            result.one(index)
    for index in (0, 1):
        with pytest.raises(TypeError, match="not a read of a key alone"):
            result.key(index)
    with pytest.raises(TypeError, match="not a delete"):
        result.deleted(1)


async def test_a_dead_lease_fails_the_whole_transaction(client: EtcdClient, prefix: str) -> None:
    lease = await client.lease_grant(60)
    await client.lease_revoke(lease.id)
    with pytest.raises(EtcdLeaseGoneError):
        await client.txn(Txn([], [Put(prefix + "a", b""), Put(prefix + "b", b"", lease.id), Put(prefix + "c", b"")]))
    assert await client.count(prefix) == 0


async def test_a_put_without_its_lease_detaches_the_key(client: EtcdClient, situation: Situation) -> None:
    await client.put(situation.key, b"three")
    assert not (await client.txn(Txn([lease_is(situation.key, situation.lease)], []))).succeeded
    await client.lease_revoke(situation.lease)
    assert await client.get(situation.key) is not None


async def test_the_largest_transaction_that_etcd_takes(client: EtcdClient, prefix: str) -> None:
    compares = [absent(f"{prefix}{number}") for number in range(MAX_COMPARES)]
    then = [Put(f"{prefix}{number}", b"") for number in range(MAX_OPS)]
    otherwise = [Get(f"{prefix}{number}") for number in range(MAX_OPS)]
    assert (await client.txn(Txn(compares, then, otherwise))).succeeded
    result = await client.txn(Txn(compares, then, otherwise))
    assert not result.succeeded
    assert all(result.one(index) for index in range(MAX_OPS))


async def test_reading_several_keys_makes_no_revision(own_client: EtcdClient, prefix: str) -> None:
    keys = [f"{prefix}{number:03}" for number in range(MAX_READS)]
    put = await own_client.txn(Txn([], [Put(keys[0], b"one"), Put(keys[-1], b"two")]))
    watched = await own_client.get(keys[0])
    for compares, succeeded in (((), True), ([present(keys[0])], True), ([absent(keys[0])], False)):
        result = await own_client.txn(Txn(compares, [Get(key) for key in keys], [GetPrefix(prefix), Get(keys[1])]))
        assert (result.succeeded, result.revision) == (succeeded, put.revision)
        found = [result.kvs(index) for index in range(len(result.results))]
        assert [kv.value for kvs in found for kv in kvs] == [b"one", b"two"]
        assert len(found) == (MAX_READS if succeeded else 2)
    assert await own_client.get(keys[0]) == watched
    assert await own_client.count(prefix) == 2
    with pytest.raises(ValueError, match=f"it takes {MAX_READS}"):
        await own_client.txn(Txn([], [Get(prefix)] * (MAX_READS + 1)))


async def test_a_branch_that_is_not_taken_may_be_all_that_reads(client: EtcdClient, prefix: str) -> None:
    await client.put(prefix + "a", b"one")
    taken = await client.txn(Txn([absent(prefix + "a")], [], [Get(prefix + "a")]))
    assert taken.one(0) is not None
    left = await client.txn(Txn([present(prefix + "a")], [], [Get(prefix + "a")]))
    assert (left.succeeded, left.results) == (True, ())


async def test_one_read_gives_what_it_gives_beside_a_compare(own_client: EtcdClient, prefix: str) -> None:
    """Its revision, too: of a shared etcd that moves on where a lease of another test ends."""
    await own_client.txn(Txn([], [Put(prefix + "a", b"one"), Put(prefix + "ab", b"two")]))
    for read in (Get(prefix + "a"), Get(prefix + "b"), GetPrefix(prefix + "a"), GetPrefix(prefix + "a", limit=1)):
        assert await own_client.txn(Txn([], [read])) == await own_client.txn(Txn([present(prefix + "a")], [read]))


@pytest.mark.parametrize(
    ("compares", "then", "problem"),
    [
        pytest.param([absent(str(n)) for n in range(129)], [], "129 compares", id="too many compares"),
        pytest.param([], [Put(str(n), b"") for n in range(129)], "129 operations", id="too many operations"),
        pytest.param([], [Put("a", b"1"), Put("b", b""), Put("a", b"2")], "puts a twice", id="two puts of a key"),
        pytest.param([], [Put("a", b"1"), Delete("a")], "puts and deletes a", id="put and delete"),
    ],
)
async def test_what_etcd_never_takes_is_refused_before_it_is_sent(
    client: EtcdClient, compares: list[Compare], then: list[Operation], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        await client.txn(Txn(compares, then))
    with pytest.raises(ValueError, match=problem):
        await client.txn(Txn(compares, [], then))


async def test_a_key_may_be_put_in_both_branches(client: EtcdClient, prefix: str) -> None:
    await client.txn(Txn([absent(prefix + "a")], [Put(prefix + "a", b"then")], [Put(prefix + "a", b"otherwise")]))
    kv = await client.get(prefix + "a")
    assert kv is not None
    assert kv.value == b"then"
