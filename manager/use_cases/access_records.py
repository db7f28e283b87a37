"""The records of users, service accounts and bindings: read from etcd, and written in place of what was read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from common.access.accounts import Service, User
from common.access.rights import Binding
from common.access.subjects import Subject, SubjectKind
from common.clock import Clock
from common.errors import ConflictError
from common.etcd import EtcdClient
from common.etcd.settle import Patience, answered, note_done
from common.protocol import account_edits as edits
from common.protocol.access_keys import AccessKeys
from common.protocol.account_edits import Bindings, HeldBinding, HeldUser, Ways
from common.protocol.record_edits import none_written
from common.protocol.txn import Guards, KeyValue
from manager.use_cases.records import Damaged, Records

MOST_USERS: Final = 10_000
MOST_SERVICES: Final = 1_000
MOST_BINDINGS: Final = 2_000
LAST: Final = (
    "is the last administrator who can log in: nobody could give rights any more. Make somebody else one first "
    "(etcron binding add user:NAME admin --labels all)"
)


A = TypeVar("A", User, Service)


@dataclass(slots=True, kw_only=True)
class Swept:
    """What went with its owner."""

    sessions: int = 0
    tokens: int = 0
    bindings: int = 0


class AccessRecords(Records):
    """Reads and writes; any number of managers may do so at once."""

    def __init__(
        self, etcd: EtcdClient, keys: AccessKeys, *, clock: Clock, patience_s: float, ways: Ways,
        known: Callable[[int], Awaitable[object]],
    ) -> None:  # fmt: skip
        """``ways``: by which people come in here, beside passwords. ``known``: as `Records`; who was just removed is
        out when the answer comes.
        """
        super().__init__(etcd, clock=clock, patience_s=patience_s, known=known)
        self.keys = keys
        self.ways = ways

    # Reading

    async def user(self, name: str) -> tuple[KeyValue, User | Damaged] | None:
        """A user as etcd holds them now; None: there is none of this name."""
        kv = await self.etcd.get(self.keys.user(name))
        return None if kv is None else (kv, self.read(kv, User))

    def read(self, kv: KeyValue, of: type[A]) -> A | Damaged:
        """A user, or a service account."""
        name = self.keys.name_of(kv.key)
        try:
            return of.from_json(kv.value, name=name)
        except ValueError as error:
            return Damaged(name=name, problem=str(error))

    def binding_of(self, kv: KeyValue) -> Binding | Damaged:
        name = self.keys.name_of(kv.key)
        try:
            return Binding.from_json(kv.value, id=name)
        except ValueError as error:
            return Damaged(name=name, problem=f"{error!s:.200}")

    async def users(self) -> dict[str, HeldUser]:
        """Every user whose record can be read."""
        found = {}
        async for kv in self.all_under(self.keys.users):
            if isinstance(user := self.read(kv, User), User):
                found[user.name] = HeldUser(kv=kv, user=user)
        return found

    async def names(self, prefix: str) -> tuple[int, list[str]]:
        """The revision, and the names of all records of a kind."""
        revision, found = 0, list[str]()
        async for page in self.etcd.read_prefix(prefix):
            revision = page.revision
            found += [self.keys.name_of(kv.key) for kv in page.kvs]
        return revision, found

    async def users_named(self, names: Iterable[str]) -> dict[str, HeldUser]:
        """Those of them that there are."""
        held = await self.etcd.get_many([self.keys.user(name) for name in names])
        found = {}
        for kv in held.values():
            if isinstance(user := self.read(kv, User), User):
                found[user.name] = HeldUser(kv=kv, user=user)
        return found

    async def bindings(self) -> Bindings:
        """Every binding that can be read, as of one revision."""
        revision, held = 0, list[HeldBinding]()
        async for page in self.etcd.read_prefix(self.keys.bindings):
            revision = page.revision
            read = [(kv, self.binding_of(kv)) for kv in page.kvs]
            held += [HeldBinding(kv=kv, binding=one) for kv, one in read if isinstance(one, Binding)]
        return Bindings(revision=revision, held=tuple(held))

    async def sessions_of(self, user: str) -> list[str]:
        """The keys of their sessions."""
        subject = str(Subject(SubjectKind.USER, user))
        return [kv.key async for kv in self.all_under(self.keys.sessions) if _field(kv, "subject") == subject]

    async def links_of(self, subject: Subject) -> list[str]:
        """The keys of login links that are theirs."""
        return [kv.key async for kv in self.all_under(self.keys.links) if _field(kv, "subject") == str(subject)]

    async def tokens_of(self, owner: Subject) -> tuple[int, list[str]]:
        """The revision, and the keys of the tokens that it owns."""
        revision, found = 0, []
        async for page in self.etcd.read_prefix(self.keys.tokens):
            revision = page.revision
            found += [kv.key for kv in page.kvs if _field(kv, "owner") == str(owner)]
        return revision, found

    # Writing

    async def sweep(self, keys: Sequence[str], deadline: float) -> None:
        """They are gone, a bounded number at a time."""
        for start in range(0, len(keys), edits.SWEPT_AT_ONCE):
            txn = edits.sweep(keys[start : start + edits.SWEPT_AT_ONCE])
            patience = Patience.until(deadline, self.clock, "not everything may have gone ({}); repeat it".format)
            done = await answered(partial(self.etcd.txn, txn), patience)
            note_done()
            await self._known(done.revision)

    async def an_administrator_remains(
        self, bindings: Bindings, *, changed: User | None = None, all_users: bool = True
    ) -> Guards | None:
        """That an administrator of everything stays; None: there is none."""
        named = sorted({held.binding.subject.name for held in bindings.administering})
        guards = edits.an_administrator_remains(bindings, await self.users_named(named), self.ways, changed=changed)
        if guards is None and all_users and any(True for _ in bindings.administering):
            guards = edits.an_administrator_remains(bindings, await self.users(), self.ways, changed=changed)
        return guards

    async def guards_of_change(self, before: User | Service, after: User | Service) -> Guards:
        """What has to stay so for this change; ConflictError: it would take the last administrator away."""
        if isinstance(before, Service) or isinstance(after, Service) or not edits.may_lessen(before, after):
            return ()  # no service account counts as an administrator
        bindings = await self.bindings()
        if not edits.is_administrator(before, bindings, self.ways):
            return none_written(self.keys.bindings, bindings.revision)  # who was none then is none now
        guards = await self.an_administrator_remains(bindings, changed=after)
        if guards is None:
            raise ConflictError(f"{before.name} {LAST}")
        return guards


def _field(kv: KeyValue, name: str) -> Any:
    try:
        return msgspec.json.decode(kv.value)[name]
    except (msgspec.DecodeError, UnicodeError, RecursionError, LookupError, TypeError):
        return None
