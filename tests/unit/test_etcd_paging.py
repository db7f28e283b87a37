"""Which ranges a prefix is read by: every key once, and etcd counts few of them more than a few times."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.etcd.paging import ROOM, Paging

PREFIX = b"/etcron/jobs/"
PAGE = 1_000


@dataclass
class Reading:
    """What etcd would have been asked, and would have counted, with these keys."""

    read: list[bytes] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)


def reading(keys: Iterable[bytes], *, prefix: bytes = PREFIX, page: int = PAGE) -> Reading:
    """Reads the keys under the prefix as a client does."""
    there, result, paging = sorted(set(keys)), Reading(), Paging(prefix)
    while not paging.done:
        first = bisect_left(there, paging.start)
        beyond = len(there) if paging.end == b"\0" else bisect_left(there, paging.end)
        answer = there[first : min(beyond, first + page)]
        result.read += answer
        result.counts.append(beyond - first)
        paging.took(answer, count=beyond - first)
    return result


def words(count: int) -> list[bytes]:
    draw = random.Random(7)
    parts = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(3, 9))) for _ in range(300)]
    return [f"{'-'.join(draw.choices(parts, k=3))}{draw.randint(0, 99)}".encode() for _ in range(count)]


@cache
def bits(seed: int, count: int) -> int:
    """Drawn once of each tenant."""
    return random.Random(seed).getrandbits(count)


NAMES: dict[str, Callable[[], list[bytes]]] = {
    "numbers": lambda: [b"job-%d" % number for number in range(100_000)],
    "teams of one size": lambda: [b"team-%d.job-%06d" % (number % 50, number) for number in range(100_000)],
    "one team has nearly all": lambda: [b"a-team.%d" % number for number in range(97_000)] + words(3_000),
    "hosts, the number first": lambda: [b"db%d.eu-%d.backup" % (number // 3, number % 3) for number in range(100_000)],
    "words": lambda: words(100_000),
    "long names": lambda: [b"x" * 100 + b"%d" % number for number in range(50_000)],
    "long names of tenants": lambda: [b"%0100x.%d" % (bits(number // 1_250, 400), number) for number in range(100_000)],
    "large tenants": lambda: [b"%032x-%05d" % (bits(number // 6_000, 128), number) for number in range(96_000)],
    "teams as large as a page": lambda: [
        b"%s.%05d" % (team, number) for team in words(90) for number in range(PAGE + 100)
    ],
    "random": lambda: random.Random(7).randbytes(1_600_000).hex(" ", 16).encode().split(),
}


@pytest.mark.parametrize("kind", NAMES)
def test_a_large_catalog_costs_etcd_a_few_counts_a_key(kind: str) -> None:
    keys = {PREFIX + name for name in NAMES[kind]()}
    found = reading(keys)
    assert found.read == sorted(keys)
    assert sum(found.counts) <= 16 * len(keys)  # 50 times where each page is open to the end
    assert len(found.counts) <= 4 * len(keys) / PAGE


def test_what_costs_etcd_little_anyway_is_read_by_full_pages() -> None:
    found = reading(PREFIX + b"%d" % number for number in range(ROOM))
    assert found.counts == [ROOM, 3_000, 2_000, 1_000]


@pytest.mark.parametrize("keys", [[], [PREFIX], [PREFIX + b"a", b"/etcron/jobs0"]])
def test_one_question_is_enough_for_a_page(keys: list[bytes]) -> None:
    found = reading(keys)
    assert found.read == [key for key in keys if key.startswith(PREFIX)]
    assert len(found.counts) == 1


_keys = st.sets(st.text("ab\x00\x7f", max_size=6).map(str.encode) | st.binary(max_size=3), max_size=80)


@given(keys=_keys, prefix=st.sampled_from([b"", b"a", b"ab", b"\xff", b"a\xff"]), page=st.integers(1, 9))
def test_every_key_is_read_once_and_in_order_whatever_it_is(keys: set[bytes], prefix: bytes, page: int) -> None:
    keys = {prefix + key for key in keys} | keys
    keys.discard(b"")  # etcd has no such key
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("common.etcd.paging.ROOM", 2 * page)
        found = reading(keys, prefix=prefix, page=page)
    assert found.read == [key for key in sorted(keys) if key.startswith(prefix)]


def test_a_page_may_be_smaller_than_the_one_before() -> None:
    keys, read = [PREFIX + b"%05d" % number for number in range(20_000)], list[bytes]()
    paging, sizes = Paging(PREFIX), iter([256, 1_000, 10, 1, 3_000, *[500] * 100])
    while not paging.done:
        first, beyond = bisect_left(keys, paging.start), bisect_left(keys, paging.end)
        answer = keys[first : min(beyond, first + next(sizes))]
        read += answer
        paging.took(answer, count=beyond - first)
    assert read == keys
