"""Users and service accounts: made, changed, and removed with all that is theirs.

Whoever is removed is disabled first, so nothing of theirs is good any more; then their sessions, tokens and bindings
go, then they. Interrupted, the rest is removed by the next try, and until then the account lets nobody in.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Generic

from common.access.accounts import Service, User
from common.access.subjects import Subject, SubjectKind
from common.errors import ConflictError, NotFoundError, OvertakenError, StaleError
from common.etcd.settle import UnsettledError, growing_pause_s
from common.protocol import account_edits as edits
from common.protocol.access_keys import AccessKeys
from common.protocol.edits import ANY_REVISION
from common.protocol.record_edits import none_written
from common.protocol.txn import KeyValue
from manager.use_cases.access_records import MOST_SERVICES, MOST_USERS, A, AccessRecords, Swept
from manager.use_cases.records import Damaged

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserChange:
    """What is changed of a user; None: it stays."""

    password: str | None = None
    """The hash of a new one."""
    groups: tuple[str, ...] | None = None
    disabled: bool | None = None

    def of(self, user: User, now_ms: int) -> User:
        return replace(
            user, changed_ms=now_ms,
            password=user.password if self.password is None else self.password,
            groups=user.groups if self.groups is None else self.groups,
            disabled=user.disabled if self.disabled is None else self.disabled,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind(Generic[A]):
    """A kind of account."""

    of: type[A]
    owner: SubjectKind
    word: str
    most: int
    prefix: Callable[[AccessKeys], str]
    """Of their keys."""


_USERS: Final = _Kind(of=User, owner=SubjectKind.USER, word="user", most=MOST_USERS, prefix=lambda keys: keys.users)
_SERVICES: Final = _Kind(
    of=Service, owner=SubjectKind.SERVICE, word="service account", most=MOST_SERVICES, prefix=lambda keys: keys.services
)


class AccountService:
    """Makes, changes and removes accounts; any number of managers may do so at once."""

    def __init__(self, records: AccessRecords) -> None:
        self._records = records

    async def add_user(self, name: str, *, password: str | None, groups: tuple[str, ...], by: str) -> User:
        """``password``: its hash. ConflictError: there is such a user, or one of nearly that name, or too many."""
        now_ms = self._records.clock.wall_ms()
        user = User(name=name, password=password, groups=groups, created_ms=now_ms, created_by=by, changed_ms=now_ms)
        await self._add(_USERS, user)
        _log.info("user %s was added", name, extra={"action": "user.added", "user": name, "by": by})
        return user

    async def change_user(
        self, name: str, change: UserChange, *, by: str, if_match: int | None = None
    ) -> tuple[User, int]:
        """The user as they are now, and how many of their sessions have ended: by a new password, or disabled, all do.

        NotFoundError; StaleError: they are not at the revision ``if_match``; ConflictError: it would take the last
        administrator away, or the record cannot be read.
        """
        records, deadline = self._records, self._records.deadline()
        after = await self._change(
            _USERS, name, lambda user: change.of(user, records.clock.wall_ms()), deadline, if_match=if_match
        )
        ended = []
        if change.password is not None or after.disabled:
            await records.sweep(ended := await records.sessions_of(name), deadline)
        changed = [field for field in ("password", "groups", "disabled") if getattr(change, field) is not None]
        extra = {"action": "user.changed", "user": name, "by": by, "fields": changed}
        _log.info("user %s was changed: %s", name, ", ".join(changed), extra=extra)
        return after, len(ended)

    async def remove_user(self, name: str, *, by: str) -> Swept:
        """With their sessions, tokens and bindings. NotFoundError; ConflictError: it is the last administrator."""
        swept = await self._remove(_USERS, name, lambda user: user.disabled_at(self._records.clock.wall_ms()))
        _log.info("user %s was removed", name, extra={"action": "user.removed", "user": name, "by": by})
        return swept

    async def add_service(self, name: str, *, description: str, by: str) -> Service:
        """As `add_user`."""
        now_ms = self._records.clock.wall_ms()
        service = Service(name=name, description=description, created_ms=now_ms, created_by=by)
        await self._add(_SERVICES, service)
        _log.info("service %s was added", name, extra={"action": "service.added", "service": name, "by": by})
        return service

    async def change_service(self, name: str, *, disabled: bool, by: str) -> Service:
        """The account as it is now; its tokens and bindings stay. NotFoundError; ConflictError: it cannot be read."""
        deadline = self._records.deadline()
        after = await self._change(_SERVICES, name, lambda service: replace(service, disabled=disabled), deadline)
        extra = {"action": "service.changed", "service": name, "by": by, "disabled": disabled}
        _log.info("service %s is %s", name, "disabled" if disabled else "enabled", extra=extra)
        return after

    async def remove_service(self, name: str, *, by: str) -> Swept:
        """With its tokens and bindings. NotFoundError."""
        swept = await self._remove(_SERVICES, name, lambda service: replace(service, disabled=True))
        _log.info("service %s was removed", name, extra={"action": "service.removed", "service": name, "by": by})
        return swept

    # What both kinds share

    async def _add(self, kind: _Kind[A], account: A) -> None:
        records, name, deadline, tries = self._records, account.name, self._records.deadline(), 0
        prefix = kind.prefix(records.keys)
        while True:
            revision, names = await records.names(prefix)
            if name in names:
                raise ConflictError(f"there is a {kind.word} {name} already")
            if len(names) >= kind.most:
                raise ConflictError(f"there are {kind.most:,} {kind.word}s, which is the most: remove some")
            folded = name.casefold()
            if (alike := next((other for other in names if other.casefold() == folded), None)) is not None:
                raise ConflictError(
                    f"there is a {kind.word} {alike} already, and {name} differs from it only in capital letters: "
                    "people would take one for the other; choose another name"
                )
            what, guards = f"there is a {kind.word} {name} now", none_written(prefix, revision)
            if (await records.write(what, f"{prefix}{name}", None, account.to_json(), deadline, guards)).done:
                return
            tries += 1
            await asyncio.sleep(growing_pause_s(tries))

    async def _found(self, kind: _Kind[A], name: str) -> tuple[KeyValue, A | Damaged]:
        kv = await self._records.etcd.get(kind.prefix(self._records.keys) + name)
        if kv is None:
            raise NotFoundError(f"there is no {kind.word} {name[:128]}")
        return kv, self._records.read(kv, kind.of)

    async def _change(
        self,
        kind: _Kind[A],
        name: str,
        change: Callable[[A], A],
        deadline: float,
        *,
        what: str = "was changed",
        if_match: int | None = None,
    ) -> A:
        records, tries = self._records, 0
        while True:
            there, before = await self._found(kind, name)
            if if_match not in (None, ANY_REVISION, there.mod_revision):
                at = f"is at revision {there.mod_revision}, not at {if_match}"
                raise StaleError(f"{kind.word} {name} {at}; read it again and repeat the change")
            if isinstance(before, Damaged):
                raise ConflictError(
                    f"the record of {name} cannot be read ({before.problem}): remove it, and add it anew"
                )
            after = change(before)
            guards = await records.guards_of_change(before, after)
            if (await records.write(f"{name} {what}", there.key, there, after.to_json(), deadline, guards)).done:
                return after
            tries += 1
            await asyncio.sleep(growing_pause_s(tries))

    async def _remove(self, kind: _Kind[A], name: str, disabled: Callable[[A], A]) -> Swept:
        deadline = self._records.deadline()
        there, account = await self._found(kind, name)
        if not isinstance(account, Damaged) and not account.disabled:
            await self._change(kind, name, disabled, deadline, what="is disabled")
            there, _ = await self._found(kind, name)
        try:
            return await self._sweep(Subject(kind.owner, name), there, deadline)
        except OvertakenError as error:
            swept = f"{name} is disabled and has lost what was theirs, and is still there"
            raise UnsettledError(f"{swept}: others changed it all the time; remove it again") from error

    async def _sweep(self, owner: Subject, there: KeyValue, deadline: float) -> Swept:
        """The disabled account, and all that is its. ConflictError: it was changed meanwhile."""
        records, swept, tries = self._records, Swept(), 0
        while True:
            sessions = await records.sessions_of(owner.name) if owner.kind is SubjectKind.USER else []
            revision, tokens = await records.tokens_of(owner)
            bindings = await records.bindings()
            bound = [held.kv.key for held in bindings.of(frozenset({owner}))]
            links = await records.links_of(owner)
            await records.sweep([*links, *sessions, *tokens, *bound], deadline)
            swept.sessions, swept.tokens = swept.sessions + len(sessions), swept.tokens + len(tokens)
            swept.bindings += len(bound)
            guards = edits.nothing_owned_since(records.keys, min(revision, bindings.revision))
            if (await records.write(f"{owner.name} is removed", there.key, there, None, deadline, guards)).done:
                return swept
            now = await records.etcd.get(there.key)
            if now is None:
                return swept  # another call has removed it meanwhile
            if now.mod_revision != there.mod_revision:
                raise ConflictError(f"{owner.name} was changed meanwhile: look, and remove it again")
            tries += 1
            await asyncio.sleep(growing_pause_s(tries))
