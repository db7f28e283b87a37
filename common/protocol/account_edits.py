"""What changes users, service accounts and bindings: guards on what `record_edits` puts in place of what was read.

    if   mod_revision(users/U) is what was read                           it has not changed meanwhile
    [and mod_revision of a binding, and of its user, is what was read]    another administrator is there, and stays
    [and no binding was written since they were read]                     U was no administrator, and still is none
    then users/U = the new record (or delete it)

So of two changes that would take the last two administrators away only one is carried out, without a lock: each names
the other as who remains.

Pure: functions of what etcd held. Source: ``docs/internals/protocol.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from common.access.accounts import User
from common.access.rights import Binding, Role
from common.access.subjects import Subject, SubjectKind
from common.protocol.access_keys import AccessKeys
from common.protocol.compares import mod_revision_is, none_under_since
from common.protocol.txn import Delete, Guards, KeyValue, Txn

SWEPT_AT_ONCE: Final = 100
_OF_THE_SYSTEM: Final = (SubjectKind.UID, SubjectKind.GID)


def sweep(keys: Sequence[str]) -> Txn:
    """Tokens, sessions and bindings that go with their owner. None of them is ever made again under its name."""
    return Txn([], [Delete(key) for key in keys])


def nothing_owned_since(keys: AccessKeys, revision: int) -> Guards:
    """No token and no binding was written since they were read: nothing of the owner who is removed is left behind."""
    return none_under_since(keys.tokens, revision), none_under_since(keys.bindings, revision)


# Who administers


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBinding:
    """A binding, and its key as etcd held it."""

    kv: KeyValue
    binding: Binding


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldUser:
    """A user, and their key as etcd held it."""

    kv: KeyValue
    user: User


@dataclass(frozen=True, slots=True, kw_only=True)
class Bindings:
    """All of them, as of one revision."""

    revision: int
    held: tuple[HeldBinding, ...]

    @property
    def administering(self) -> Iterator[HeldBinding]:
        """Those that make a user an administrator of everything."""
        return (held for held in self.held if administers(held.binding))

    def of(self, subjects: frozenset[Subject]) -> list[HeldBinding]:
        return [held for held in self.held if held.binding.subject in subjects]

    def without(self, binding_id: str) -> Bindings:
        return Bindings(revision=self.revision, held=tuple(one for one in self.held if one.binding.id != binding_id))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """By which ways people come in here, beside the passwords that etcron keeps."""

    provider: bool = False
    """A login provider or a proxy names users and groups that etcron has no record of."""
    system: bool = False
    """Managers listen on a Unix socket."""


def administers(binding: Binding) -> bool:
    """Whether it makes its subject an administrator of everything."""
    return binding.grant.labels.is_all and binding.grant.role.covers(Role.ADMIN)


def comes_in(user: User, ways: Ways) -> bool:
    """Whether this user can log in at all."""
    return not user.disabled and (user.password is not None or ways.provider)


def is_administrator(user: User, bindings: Bindings, ways: Ways) -> bool:
    """Whether this user can log in, and administers everything."""
    return comes_in(user, ways) and any(held.binding.subject in user.subjects for held in bindings.administering)


def may_lessen(before: User, after: User) -> bool:
    """Whether this change may take rights of a user away."""
    return (after.disabled and not before.disabled) or not set(before.groups) <= set(after.groups)


def an_administrator_remains(
    bindings: Bindings, users: Mapping[str, HeldUser], ways: Ways, *, changed: User | None = None
) -> Guards | None:
    """That a user administers everything, and stays: compares on who does. None: none of these users does.

    ``changed``: a user as the transaction leaves them; their own key is compared by it already. A service account does
    not count: no user logs in as it.
    """
    after = {name: held.user for name, held in users.items()}
    if changed is not None:
        after[changed.name] = changed
    for held in bindings.administering:
        if (who := _who_by(held.binding.subject, after, ways)) is None:
            continue
        compares = [mod_revision_is(held.kv.key, held.kv.mod_revision)]
        if isinstance(who, User) and who is not changed:
            compares.append(mod_revision_is(users[who.name].kv.key, users[who.name].kv.mod_revision))
        return compares
    return None


def _who_by(subject: Subject, users: Mapping[str, User], ways: Ways) -> User | Subject | None:
    """A user, or the system, that has what this subject is bound to; None: there is none."""
    if subject.kind in _OF_THE_SYSTEM:
        return subject if ways.system else None
    if subject.kind is SubjectKind.SERVICE:
        return None
    is_named = subject.kind is SubjectKind.USER
    known: Iterable[User | None] = [users.get(subject.name)] if is_named else users.values()
    for user in known:
        if user is not None and comes_in(user, ways) and subject in user.subjects:
            return user
    is_the_provider_s = ways.provider and not (is_named and subject.name in users)
    return subject if is_the_provider_s else None
