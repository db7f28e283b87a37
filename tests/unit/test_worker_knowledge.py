"""Members, beats and kills, as they come out of etcd: what is garbage is set aside."""

from __future__ import annotations

from dataclasses import replace

import pytest

from common.etcd import Change, KeyValue
from common.keys import Keys, RunId
from common.kill import Kill
from common.member import Beat, Member
from common.request import Origin, Request
from worker.kills import Kills
from worker.members import Beats, Members

KEYS = Keys()
MEMBER = Member(worker="w1", session="a", instance="i", host="h", address="a", slots=2, since_ms=5)
GARBAGE = [b"", b"\xff", b"null", b"[]", b"3", b'"x"', b"{}", b"[" * 50_000, b'{"slots": 1e999}']


def kv(key: str, value: bytes, *, lease: int = 10, revision: int = 7) -> KeyValue:
    return KeyValue(key=key, value=value, create_revision=revision, mod_revision=revision, version=1, lease=lease)


def put(key: str, value: bytes, *, lease: int = 10) -> list[Change]:
    return [Change(key=key, old_mod=None, new=kv(key, value, lease=lease))]


def gone(key: str) -> list[Change]:
    return [Change(key=key, old_mod=7, new=None)]


def test_attached_and_accepting_workers_are_ranked() -> None:
    told: list[int] = []
    members = Members(KEYS, on_changed=lambda: told.append(1))
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
    members = Members(KEYS, on_changed=lambda: None)
    newest = replace(MEMBER, session="b", slots=9, since_ms=9)
    members.on_changes(put(KEYS.worker("w1", "b"), newest.to_json(), lease=11))
    members.on_changes(put(KEYS.worker("w1", "a"), MEMBER.to_json()))
    assert members.accepting()["w1"].slots == 9


@pytest.mark.parametrize("value", GARBAGE)
def test_a_session_key_of_garbage_is_a_session_and_nobody_is_ranked_by_it(value: bytes) -> None:
    members = Members(KEYS, on_changed=lambda: None)
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


def test_a_request_comes_back_as_it_was_written() -> None:
    request = Request(
        run_id=RunId.planned("job", 5), origin=Origin.MADE_UP, job_create_revision=3, plan_ms=5, dispatch_ms=5,
        not_before_ms=6, expires_ms=7, by="me",
    )  # fmt: skip
    assert Request.from_json(request.to_json(), run_id=request.run_id) == request
