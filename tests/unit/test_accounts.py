"""Users and service accounts are read as they were written, and nothing else is taken for one."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from common.access.accounts import MOST_GROUPS, Service, User, misleading
from common.protocol.access_keys import AccessKeys

USER: Final = User(
    name="alice", password="$argon2id$v=19$secret", groups=("ops", "Büro 3", "dba"), disabled=False,
    created_ms=1, created_by="bob", changed_ms=2,
)  # fmt: skip
SERVICE: Final = Service(name="ci", disabled=True, description="deploys", created_ms=1, created_by="bob")


def test_user_is_read_as_it_was_written() -> None:
    assert User.from_json(USER.to_json(), name="alice") == USER


def test_service_account_is_read_as_it_was_written() -> None:
    assert Service.from_json(SERVICE.to_json(), name="ci") == SERVICE


def test_groups_are_sorted_and_each_counts_once() -> None:
    user = User(name="a", password=None, groups=("b", "a", "b"), created_ms=0, created_by="x", changed_ms=0)
    assert user.groups == ("a", "b")


def test_password_hash_is_not_in_a_user_s_repr() -> None:
    assert "argon2" not in repr(USER)


def test_fields_of_a_later_version_are_left_alone() -> None:
    document = json.loads(USER.to_json()) | {"later": [1]}
    assert User.from_json(json.dumps(document).encode(), name="alice") == USER


@pytest.mark.parametrize("changed", [
    {"password": 1}, {"password": ""}, {"password": "x" * 501}, {"groups": "dba"}, {"groups": [1]},
    {"groups": [""]}, {"groups": ["a\nb"]}, {"groups": [f"g{n}" for n in range(MOST_GROUPS + 1)]},
    {"disabled": "false"}, {"disabled": 0}, {"disabled": None}, {"createdMs": -1}, {"createdMs": True},
    {"createdMs": 1e300}, {"changedMs": "1"}, {"createdBy": None},
])  # fmt: skip
def test_what_is_not_a_user_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"account|name|groups"):
        User.from_json(json.dumps(json.loads(USER.to_json()) | changed).encode(), name="alice")


@pytest.mark.parametrize("left_out", ["password", "groups", "disabled", "createdMs"])
def test_user_without_a_field_is_refused(left_out: str) -> None:
    document = json.loads(USER.to_json())
    del document[left_out]
    with pytest.raises(ValueError, match="not an account"):
        User.from_json(json.dumps(document).encode(), name="alice")


@pytest.mark.parametrize("value", [b"", b"{", b"null", b"[]", b"\xff", b"[" * 100_000])
def test_what_is_no_object_is_no_account(value: bytes) -> None:
    with pytest.raises(ValueError, match="not an account"):
        User.from_json(value, name="alice")
    with pytest.raises(ValueError, match="not an account"):
        Service.from_json(value, name="ci")


@pytest.mark.parametrize("name", ["", "a/b", "-x", "a b", "é", "a" * 129, "a\n"])
def test_name_that_no_user_can_have_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is no name"):
        User.from_json(USER.to_json(), name=name)


@pytest.mark.parametrize(
    "name",
    [
        " dba", "dba ", "", "\u202eabd", "a\u2028b", "\ufeffdba", "dba\u200b", "d\u00adba", "dba\u2060", "dba\u3164",
        "dba\ufe0f", "dba\U000e0041", "db\u00a0a", "dba\ue000",
    ],
)  # fmt: skip
def test_name_that_looks_like_another_is_misleading(name: str) -> None:
    assert misleading(["dba", "Büro 3", "データ", name]) == [name]


def test_keys_lie_beside_those_of_the_jobs() -> None:
    keys = AccessKeys("/etcron/")
    assert keys.user("alice") == "/etcron-auth/users/alice"
    assert keys.name_of(keys.session("ab12")) == "ab12"
