"""Who may try a fire: the same answer everywhere, in even shares, and stable when the membership changes."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import common.protocol.placement as placement_module
from common.jobs.reader import parse_job
from common.protocol.absence import why_no_worker
from common.protocol.member import Member
from common.protocol.placement import BUCKETS, LATER, Candidate, Placement, bucket_of, is_eligible
from common.protocol.roster import Left, RosterEntry

NAMES = st.lists(st.text("abcdefghij-0123456789", min_size=1, max_size=8), min_size=1, max_size=8, unique=True)
FIRE_0_MS = 1_790_000_000_000


def equal(*names: str) -> list[Candidate]:
    return [Candidate(name, 8) for name in names]


def shares(placement: Placement, rank: int = 0) -> Counter[str]:
    return Counter(placement.order(bucket)[rank] for bucket in range(BUCKETS))


@given(names=NAMES, seed=st.randoms())
def test_all_workers_agree_in_whatever_order_they_heard_of_each_other(names: list[str], seed: object) -> None:
    shuffled = list(names)
    seed.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = Placement(equal(*names)), Placement(equal(*shuffled))
    assert all(one.order(bucket) == other.order(bucket) for bucket in range(0, BUCKETS, 31))


def test_order_is_the_same_for_ever() -> None:
    """Frozen: with workers of two versions that rank in two ways, fires would have two first ones, or none."""
    assert [bucket_of("job", fire) for fire in (str(FIRE_0_MS), "r-1")] == [7592, 7911]
    placement = Placement([Candidate("w1", 4), Candidate("w2", 8), Candidate("w3", 8)])
    assert ["".join(placement.order(bucket)) for bucket in range(8)] == [
        "w3w2w1", "w3w2w1", "w2w3w1", "w3w2w1", "w1w2w3", "w3w1w2", "w1w2w3", "w1w3w2",
    ]  # fmt: skip


@settings(max_examples=30)
@given(names=NAMES, newcomer=st.text("xyz", min_size=1, max_size=4))
def test_worker_that_comes_moves_only_its_own_share(names: list[str], newcomer: str) -> None:
    before, after = Placement(equal(*names)), Placement(equal(*names, newcomer))
    for bucket in range(0, BUCKETS, 7):
        assert [name for name in after.order(bucket) if name != newcomer] == list(before.order(bucket))


@settings(max_examples=30)
@given(memberships=st.lists(st.dictionaries(st.text("abcdef", min_size=1, max_size=2), st.integers(1, 64), max_size=8)))
def test_the_firsts_are_those_of_the_order_whatever_memberships_there_were_before(
    memberships: list[dict[str, int]],
) -> None:
    placement = Placement()
    for number, slots in enumerate(memberships):
        placement = Placement((Candidate(name, slot) for name, slot in slots.items()), former=placement)
        # Of some memberships many buckets are looked at, of others few or none.
        for bucket in range(0, BUCKETS, (331, 1997, BUCKETS)[number % 3]):
            assert placement.firsts(bucket) == placement.order(bucket)[:2]


def test_rank_tells_the_first_two_from_all_others() -> None:
    placement = Placement(equal("w1", "w2", "w3", "w4"))
    order = placement.order(bucket_of("job", "1"))
    assert [placement.rank(name, "job", "1") for name in order] == [0, 1, LATER, LATER]


def test_worker_that_comes_or_goes_has_only_its_own_buckets_ranked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"worker-{number}" for number in range(50)]
    before = Placement(equal(*names))
    for bucket in range(1000):
        before.firsts(bucket)
    scored: list[str] = []
    words = placement_module._words

    def draw_and_tell(name: str, block: int) -> tuple[int, ...]:
        scored.append(name)
        return words(name, block)

    monkeypatch.setattr(placement_module, "_words", draw_and_tell)
    one_more = Placement(equal(*names, "newcomer"), former=before)
    for bucket in range(1000):
        one_more.firsts(bucket)
    assert scored == ["newcomer"] * 125, "once for eight buckets"
    scored.clear()
    one_less = Placement(equal(*names[1:]), former=before)
    touched = len({bucket // 8 for bucket in range(1000) if names[0] in before.firsts(bucket)})
    for bucket in range(1000):
        one_less.firsts(bucket)
    assert len(scored) == touched * 49 < 125 * 49 / 2


@given(names=NAMES, slots=st.lists(st.integers(1, 64), min_size=8, max_size=8))
def test_every_candidate_has_one_rank_in_every_bucket(names: list[str], slots: list[int]) -> None:
    placement = Placement(Candidate(name, slot) for name, slot in zip(names, slots, strict=False))
    for bucket in range(0, BUCKETS, 101):
        assert sorted(placement.order(bucket)) == sorted(names)


def test_three_workers_of_usual_names_have_a_third_each() -> None:
    placement = Placement(equal("worker-1", "worker-2", "worker-3"))
    for rank in (0, 1, 2):
        for count in shares(placement, rank).values():
            assert abs(count / BUCKETS - 1 / 3) < 0.04


def test_share_grows_with_the_slots() -> None:
    placement = Placement([Candidate("small", 4), Candidate("large", 12)])
    assert abs(shares(placement)["large"] / BUCKETS - 0.75) < 0.05


def test_fires_of_one_job_spread_evenly() -> None:
    placement = Placement(equal("worker-1", "worker-2", "worker-3"))
    names = ["worker-1", "worker-2", "worker-3"]
    fires = [str(FIRE_0_MS + second * 1000) for second in range(1200)]
    first = Counter(name for fire in fires for name in names if placement.rank(name, "job", fire) == 0)
    assert all(abs(count - 400) < 60 for count in first.values())


def test_buckets_are_filled_evenly() -> None:
    filled = Counter(bucket_of("job", str(FIRE_0_MS + second * 1000)) for second in range(BUCKETS * 20))
    assert len(filled) == BUCKETS
    assert max(filled.values()) < 50


def test_worker_that_is_no_candidate_has_no_rank() -> None:
    assert Placement(equal("w1")).rank("w2", "job", "1") is None
    assert Placement().rank("w1", "job", "1") is None


def test_candidate_without_slots_comes_last_of_all_the_more() -> None:
    assert shares(Placement([Candidate("none", 0), Candidate("many", 100)]))["many"] > 0.97 * BUCKETS


LABELS = {"zone": "eu", "gpu": "a100"}


@pytest.mark.parametrize(
    ("fields", "slots", "expected"),
    [
        ({}, 1, True),
        ({"workers": {"zone": "eu"}}, 1, True),
        ({"workers": {"zone": ["us", "eu"], "gpu": ["h100", "a100"]}}, 1, True),
        ({"workers": {"zone": "us"}}, 1, False),
        ({"workers": {"zone": "eu", "rack": "1"}}, 1, False),
        ({"slots": 4}, 4, True),
        ({"slots": 4}, 3, False),
        ({"slots": 4, "workers": {"zone": "us"}}, 8, False),
    ],
)
def test_a_worker_is_eligible_with_all_labels_and_slots_enough(
    fields: dict[str, object], slots: int, expected: bool
) -> None:
    spec = parse_job({"name": "job", "command": "true", "cronExpr": "* * * * * * *"} | fields)
    assert is_eligible(spec, LABELS, slots) is expected


def test_where_none_takes_fires_those_who_left_are_named_too() -> None:
    def who(worker: str, not_accepting: str | None = None) -> Member:
        labels = {"host": worker}
        return Member(
            worker=worker, session="a", instance="i", host="h", address="a", slots=1, labels=labels,
            not_accepting=not_accepting,
        )  # fmt: skip

    gone = RosterEntry.of(who("w3"), seen_ms=1_790_000_000_000, left=Left.GONE)
    elsewhere = RosterEntry.of(who("us"), seen_ms=1_790_000_000_000, left=Left.STOPPED)
    spec = parse_job({"name": "j", "command": "true", "cronExpr": "@daily", "workers": {"host": ["w1", "w3"]}})
    assert why_no_worker(spec, [who("w1", "drained by me")], [elsewhere, gone], now_ms=1_790_000_060_000) == (
        "no worker that fits takes fires: w1: drained by me; w3 (host=w3) has been gone since 14:13 UTC"
    )
