"""What an administrator changes: users, service accounts, bindings."""

from __future__ import annotations

from typing import Final

from common.access.accounts import Service, User
from common.access.rights import OWNER, Binding, Grant, Role
from common.access.selectors import EVERYTHING, Selector
from common.access.subjects import Subject
from common.json_text import dumps
from common.protocol.access_keys import AccessKeys
from manager.use_cases.accounts import UserChange
from tests.golden.situations.changes import changes
from tests.support.managing import Managed

_TEAM: Final = Grant(
    role=Role.VIEWER, labels=Selector.of({"team": ["a"]}), run_as=frozenset(), workers=EVERYTHING
)  # fmt: skip


async def _has_user(manager: Managed, name: str, *, password: str | None = "hash") -> None:
    user = User(name=name, password=password, groups=("dba",), created_ms=1, created_by="me", changed_ms=1)
    await manager.etcd.put(AccessKeys(manager.keys.prefix).user(name), user.to_json())


async def _has_binding(manager: Managed, number: int, subject: str, grant: Grant) -> None:
    binding = Binding(id=f"{number:012x}", subject=Subject.parse(subject), grant=grant)
    value = dumps({**binding.to_document(), "createdMs": 1, "createdBy": "me"}).encode()
    await manager.etcd.put(AccessKeys(manager.keys.prefix).binding(binding.id), value)


async def one_user(manager: Managed) -> None:
    await _has_user(manager, "bob")


async def two_administrators(manager: Managed) -> None:
    for number, name in enumerate(("alice", "bob"), start=1):
        await _has_user(manager, name)
        await _has_binding(manager, number, f"user:{name}", OWNER.grants[0])


async def all_that_a_user_may_have(manager: Managed) -> None:
    keys = AccessKeys(manager.keys.prefix)
    await two_administrators(manager)
    await manager.etcd.put(keys.session("5e"), b'{"subject":"user:bob"}')
    await manager.etcd.put(keys.token("70"), b'{"owner":"user:bob"}')
    await manager.etcd.put(keys.link("11"), b'{"subject":"user:bob"}')


async def a_service_account(manager: Managed) -> None:
    keys = AccessKeys(manager.keys.prefix)
    await manager.etcd.put(keys.service("ci"), Service(name="ci", created_ms=1, created_by="me").to_json())
    await manager.etcd.put(keys.token("70"), b'{"owner":"service:ci"}')


async def add_user(manager: Managed) -> None:
    await manager.parts.accounts.add_user("bob", password="hash", groups=("dba",), by="me")


async def change_password(manager: Managed) -> None:
    await manager.parts.accounts.change_user("bob", UserChange(password="another"), by="me")


async def take_a_group(manager: Managed) -> None:
    await manager.parts.accounts.change_user("bob", UserChange(groups=()), by="me")


async def disable(manager: Managed) -> None:
    await manager.parts.accounts.change_user("bob", UserChange(disabled=True), by="me")


async def disable_service(manager: Managed) -> None:
    await manager.parts.accounts.change_service("ci", disabled=True, by="me")


async def remove_user(manager: Managed) -> None:
    await manager.parts.accounts.remove_user("bob", by="me")


async def add_service(manager: Managed) -> None:
    await manager.parts.accounts.add_service("ci", description="deploys", by="me")


async def remove_service(manager: Managed) -> None:
    await manager.parts.accounts.remove_service("ci", by="me")


async def bind(manager: Managed) -> None:
    await manager.parts.bindings.add(Subject.parse("group:dba"), _TEAM, by="me")


async def unbind(manager: Managed) -> None:
    await manager.parts.bindings.remove(f"{2:012x}", by="me")


changes("user_is_added", add_user)
changes("user_is_added_in_doubt", add_user, losing=1)
changes("user_gets_a_new_password", change_password, prepare=one_user)
changes("user_leaves_a_group", take_a_group, prepare=one_user)
changes("one_of_two_administrators_is_disabled", disable, prepare=two_administrators)
changes("disabling_an_administrator_in_doubt", disable, prepare=two_administrators, losing=1)
changes("user_is_removed_with_all_that_is_theirs", remove_user, prepare=all_that_a_user_may_have)
changes("service_account_is_added", add_service)
changes("service_account_is_removed_with_its_tokens", remove_service, prepare=a_service_account)
changes("service_account_is_disabled", disable_service, prepare=a_service_account)
changes("group_is_bound", bind)
changes("one_of_two_administrators_is_unbound", unbind, prepare=two_administrators)
changes("unbinding_in_doubt", unbind, prepare=two_administrators, losing=1)
