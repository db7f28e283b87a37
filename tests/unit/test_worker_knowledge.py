"""Members, beats and kills, as they come out of etcd: what is garbage is set aside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from common.etcd import Change
from common.protocol.keys import Keys, RunId
from common.protocol.kill import Kill
from common.protocol.member import Beat, Member
from common.protocol.planned_job import PlannedJob
from common.protocol.request import Request
from tests.support.stored import kv, planned, spec_of
from worker.catalog import Catalog
from worker.kills import Kills
from worker.members import Beats, Members

KEYS = Keys()
MEMBER = Member(worker="w1", session="a", instance="i", host="h", address="a", slots=2, since_ms=5)
GARBAGE = [b"", b"\xff", b"null", b"[]", b"3", b'"x"', b"{}", b"[" * 50_000, b'{"slots": 1e999}']


def put(key: str, value: bytes, *, lease: int = 10) -> list[Change]:
    return [Change(key=key, old_mod=None, new=kv(key, value, lease=lease))]


def gone(key: str) -> list[Change]:
    return [Change(key=key, old_mod=7, new=None)]


def test_attached_and_accepting_workers_are_ranked() -> None:
    told: list[int] = []
    members = Members(KEYS, "eu", on_changed=lambda: told.append(1))
    key = KEYS.worker("w1", "a")
    members.on_changes(put(key, MEMBER.to_json()))
    assert list(members.accepting()) == ["w1"]
    members.on_changes(put(key, replace(MEMBER, since_ms=6).to_json()))
    assert len(told) == 1, "nobody else is ranked than before"
    members.on_changes(put(key, replace(MEMBER, not_accepting="full").to_json()))
    assert not members.accepting()
    members.on_changes(put(key, MEMBER.to_json(), lease=0))
    assert not members.accepting()
    assert members.sessions == {"a"}
    assert members.detached == {key}
    members.on_changes(gone(key))
    assert not members.sessions
    assert not members.detached


def test_of_two_sessions_of_one_name_the_newest_counts() -> None:
    members = Members(KEYS, "eu", on_changed=lambda: None)
    newest = replace(MEMBER, session="b", slots=9, since_ms=9)
    members.on_changes(put(KEYS.worker("w1", "b"), newest.to_json(), lease=11))
    members.on_changes(put(KEYS.worker("w1", "a"), MEMBER.to_json()))
    assert members.accepting()["w1"].slots == 9


def job(*, of_worker: str | None = None, **fields: Any) -> PlannedJob:
    return planned(spec_of(**fields), of_worker=of_worker)


def joined(*workers: Member, own: str = "eu") -> Members:
    members = Members(KEYS, own, on_changed=lambda: None)
    for worker in workers:
        lease = int(worker.session, 16)
        members.on_changes(put(KEYS.worker(worker.worker, worker.session), worker.to_json(), lease=lease))
    return members


EU = replace(MEMBER, worker="eu", labels={"zone": "eu"})
US = replace(MEMBER, worker="us", labels={"zone": "us"}, slots=8)
DRAINED = replace(MEMBER, worker="drained", labels={"zone": "eu"}, slots=8, not_accepting="drained by me")


@pytest.mark.parametrize(
    ("fields", "eligible"),
    [
        ({}, {"eu", "us"}),
        ({"workers": {"zone": "eu"}}, {"eu"}),
        ({"workers": {"zone": ["eu", "us"]}}, {"eu", "us"}),
        ({"slots": 3}, {"us"}),
        ({"slots": 3, "workers": {"zone": "eu"}}, set()),
        ({"slots": 9}, set()),
    ],
)
def test_only_eligible_workers_are_ranked(fields: dict[str, Any], eligible: set[str]) -> None:
    members = joined(EU, US, DRAINED)
    asked = job(**fields)
    assert members.eligible(asked) == eligible
    assert set(members.order(asked, "5")) == eligible
    ranks = {name: joined(EU, US, DRAINED, own=name).rank(asked, "5") for name in ("eu", "us", "drained")}
    assert sorted(rank for rank in ranks.values() if rank is not None) == list(range(len(eligible)))
    assert {name for name, rank in ranks.items() if rank is not None} == eligible


def test_jobs_that_the_same_workers_fit_share_one_placement() -> None:
    members = joined(EU, US, DRAINED)
    for value in range(50):
        members.eligible(job(workers={"zone": ["eu", "us", f"zone-{value}"]}))
        members.eligible(job(workers={"zone": ["us", f"zone-{value}"]}))
        assert members.order(job(workers={"zone": ["us", f"zone-{value}"]}), str(value)) == ("us",)
    assert len({id(placement) for placement in members._selected.values()}) == 2
    assert members.placement in members._selected.values()


def test_a_workers_own_sequence_is_its_own_alone() -> None:
    members = joined(EU, US, DRAINED)
    own = job(of_worker="eu", broadcast=True)
    assert own.sequence == "job~eu"
    assert (members.order(own, "5"), members.eligible(own)) == (("eu",), frozenset({"eu"}))
    assert (members.rank(own, "5"), joined(EU, US, own="us").rank(own, "5")) == (0, None)
    assert joined(EU, US, DRAINED, own="drained").rank(job(of_worker="drained", broadcast=True), "5") is None
    assert members.rank(job(of_worker="eu", broadcast=True, workers={"zone": "us"}), "5") is None


def test_a_worker_that_is_to_be_avoided_is_the_last_of_those_who_may_try() -> None:
    asked, other = job(), {"eu": "us", "us": "eu"}
    for own in other:
        assert joined(EU, US, own=own).place(asked, "r-1", last=own) == 1
        assert joined(EU, US, own=own).place(asked, "r-1", last=other[own]) == 0
    assert joined(EU, US, own="elsewhere").place(asked, "r-1", last="eu") is None


def test_labels_that_change_are_a_new_membership() -> None:
    told: list[int] = []
    members = Members(KEYS, "eu", on_changed=lambda: told.append(1))
    asked = job(workers={"zone": "eu"})
    members.on_changes(put(KEYS.worker("eu", "a"), EU.to_json()))
    assert members.eligible(asked) == {"eu"}
    members.on_changes(gone(KEYS.worker("eu", "a")))
    members.on_changes(put(KEYS.worker("eu", "b"), replace(EU, labels={"zone": "us"}).to_json(), lease=11))
    assert members.eligible(asked) == set()
    members.on_changes(put(KEYS.worker("eu", "b"), replace(EU, labels={"zone": "eu"}).to_json(), lease=11))
    assert members.eligible(asked) == {"eu"}
    assert len(told) == 4


def test_of_a_broadcast_job_only_an_open_sequence_of_its_revision_is_decided() -> None:
    catalog = Catalog(KEYS, on_changed=lambda _name: None)
    saved = job(broadcast=True)
    assert catalog.planned("job") is None
    catalog.jobs["job"] = saved
    assert catalog.planned("job") is None
    own = catalog.of_run(RunId.planned("job~w1", 5))
    assert own is not None
    assert (own.sequence, own.spec) == ("job~w1", saved.spec)
    catalog.sequences["job"] = own
    assert catalog.planned("job") is own
    catalog.jobs["job"] = replace(saved, revision=2)
    assert catalog.planned("job") is None, "its mark is not in place yet"
    catalog.jobs["job"] = job()
    assert catalog.planned("job") == job()
    assert catalog.of_run(RunId.planned("other~w1", 5)) is None


def test_slots_that_a_job_asks_for_are_free_where_a_beat_says_so() -> None:
    beats = Beats(KEYS)
    beats.on_changes(put(KEYS.beat("w1"), Beat(kind="worker", wall_ms=1, free_slots=2).to_json()))
    assert beats.any_free({"w1"}, 2)
    assert not beats.any_free({"w1", "w2"}, 3)


@pytest.mark.parametrize("value", GARBAGE)
def test_a_session_key_of_garbage_is_a_session_and_nobody_is_ranked_by_it(value: bytes) -> None:
    members = Members(KEYS, "eu", on_changed=lambda: None)
    members.on_changes(put(KEYS.worker("w1", "a"), value))
    assert members.sessions == {"a"}
    assert not members.accepting()
    assert not members.detached


@pytest.mark.parametrize("value", [*GARBAGE, b'{"kind":"worker","wallMs":1,"freeSlots":"many"}'])
def test_a_beat_of_garbage_is_none(value: bytes) -> None:
    beats = Beats(KEYS)
    beats.on_changes(put(KEYS.beat("w1"), Beat(kind="worker", wall_ms=1, free_slots=2, load=0.5).to_json()))
    assert beats.any_free(["w1"])
    beats.on_changes(put(KEYS.beat("w1"), value))
    assert not beats.any_free(["w1"])


@pytest.mark.parametrize("value", GARBAGE)
def test_a_kill_of_garbage_takes_the_place_of_the_one_before(value: bytes) -> None:
    told: list[Kill] = []
    kills = Kills(KEYS, on_kill=told.append)
    run_id = RunId.planned("job", 5)
    kills.on_changes(put(KEYS.kill(run_id), Kill(run_id=run_id, by="me", at_ms=1).to_json()))
    assert kills.of(run_id, 6) is not None
    assert kills.of(run_id, 7) is None, "it applies only to a run that is older"
    kills.on_changes(put(KEYS.kill(run_id), value))
    assert kills.of(run_id, 6) is None
    assert len(told) == 1
    kills.on_changes(gone(KEYS.kill(run_id)))
    kills.on_changes(gone(KEYS.kills + "nothing"))


@pytest.mark.parametrize("value", GARBAGE)
def test_a_request_of_garbage_is_a_value_error(value: bytes) -> None:
    with pytest.raises(ValueError, match="not a request"):
        Request.from_json(value, run_id=RunId.planned("job", 5))


def test_worker_whose_name_is_none_is_set_aside_and_harms_no_ranking() -> None:
    members = joined(EU)
    key = KEYS.worker("\udcff", "a")
    members.on_changes(put(key, MEMBER.to_json()))
    assert members.eligible(job()) == {"eu"}
    assert members.rank(job(), "5") == 0
    assert "a" in members.sessions, "whatever it is called, its session has a key"
