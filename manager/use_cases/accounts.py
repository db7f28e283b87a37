"""Users and service accounts: made, changed, and removed with all that is theirs.

Whoever is removed is disabled first, so nothing of theirs is good any more; then their sessions, tokens and bindings
go, then they. Interrupted, the rest is removed by the next try, and until then the account lets nobody in.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace

from common.access.accounts import Service, User
from common.access.subjects import Subject, SubjectKind
from common.errors import ConflictError, NotFoundError
from common.etcd.settle import growing_pause_s
from common.protocol import account_edits as edits
from common.protocol.txn import KeyValue
from manager.use_cases.access_records import MOST_SERVICES, MOST_USERS, AccessRecords, Damaged, Swept

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


class AccountService:
    """Makes, changes and removes accounts; any number of managers may do so at once."""

    def __init__(self, records: AccessRecords) -> None:
        self._records = records

    async def add_user(self, name: str, *, password: str | None, groups: tuple[str, ...], by: str) -> User:
        """``password``: its hash. ConflictError: there is such a user, or there are too many."""
        records, now_ms = self._records, self._records.clock.wall_ms()
        user = User(name=name, password=password, groups=groups, created_ms=now_ms, created_by=by, changed_ms=now_ms)
        if await records.etcd.count(records.keys.users) >= MOST_USERS:
            raise ConflictError(f"there are {MOST_USERS:,} users, which is the most: remove some")
        if (other := await records.alike(name)) is not None:
            raise ConflictError(
                f"there is a user {other} already, and {name} differs from it only in capital letters: people would "
                "take one for the other; choose another name"
            )
        what = f"{name} is a user now"
        if not await records.write(what, records.keys.user(name), None, user.to_json(), records.deadline()):
            raise ConflictError(f"there is a user {name} already")
        _log.info("user %s was added", name, extra={"action": "user.added", "user": name, "by": by})
        return user

    async def change_user(self, name: str, change: UserChange, *, by: str) -> tuple[User, int]:
        """The user as they are now, and how many of their sessions have ended: by a new password, or disabled, all do.

        NotFoundError; ConflictError: it would take the last administrator away, or the record cannot be read.
        """
        records, deadline, tries = self._records, self._records.deadline(), 0
        while True:
            there, before = await self._user(name)
            if isinstance(before, Damaged):
                raise ConflictError(
                    f"the record of {name} cannot be read ({before.problem}): remove it, and add it anew"
                )
            after = change.of(before, records.clock.wall_ms())
            guards = await records.guards_of_change(before, after)
            what = f"{name} was changed"
            if await records.write(what, there.key, there, after.to_json(), deadline, guards):
                break
            tries += 1
            await asyncio.sleep(growing_pause_s(tries))
        ended = []
        if change.password is not None or after.disabled:
            await records.sweep(ended := await records.sessions_of(name), deadline)
        changed = [field for field in ("password", "groups", "disabled") if getattr(change, field) is not None]
        extra = {"action": "user.changed", "user": name, "by": by, "fields": changed}
        _log.info("user %s was changed: %s", name, ", ".join(changed), extra=extra)
        return after, len(ended)

    async def remove_user(self, name: str, *, by: str) -> Swept:
        """With their sessions, tokens and bindings. NotFoundError; ConflictError: it is the last administrator."""
        records, deadline, tries = self._records, self._records.deadline(), 0
        while True:
            there, user = await self._user(name)
            if isinstance(user, Damaged) or user.disabled:
                break
            after = user.disabled_at(records.clock.wall_ms())
            guards = await records.guards_of_change(user, after)
            if await records.write(f"{name} is disabled", there.key, there, after.to_json(), deadline, guards):
                there, user = await self._user(name)
                break
            tries += 1
            await asyncio.sleep(growing_pause_s(tries))
        swept = await self._remove(Subject(SubjectKind.USER, name), there, deadline)
        extra = {"action": "user.removed", "user": name, "by": by}
        _log.info("user %s was removed", name, extra=extra)
        return swept

    async def add_service(self, name: str, *, description: str, by: str) -> Service:
        """ConflictError: there is such an account, or there are too many."""
        records = self._records
        service = Service(name=name, description=description, created_ms=records.clock.wall_ms(), created_by=by)
        if await records.etcd.count(records.keys.services) >= MOST_SERVICES:
            raise ConflictError(f"there are {MOST_SERVICES:,} service accounts, which is the most: remove some")
        what = f"there is a service account {name} now"
        if not await records.write(what, records.keys.service(name), None, service.to_json(), records.deadline()):
            raise ConflictError(f"there is a service account {name} already")
        _log.info("service %s was added", name, extra={"action": "service.added", "service": name, "by": by})
        return service

    async def change_service(self, name: str, *, disabled: bool, by: str) -> Service:
        """The account as it is now; its tokens and bindings stay. NotFoundError; ConflictError: it cannot be read."""
        records, deadline, tries = self._records, self._records.deadline(), 0
        while True:
            there = await self._service(name)
            before = records.service_of(there)
            if isinstance(before, Damaged):
                raise ConflictError(
                    f"the record of {name} cannot be read ({before.problem}): remove it, and add it anew"
                )
            after = replace(before, disabled=disabled)
            if await records.write(f"{name} was changed", there.key, there, after.to_json(), deadline):
                break
            tries += 1
            await asyncio.sleep(growing_pause_s(tries))
        extra = {"action": "service.changed", "service": name, "by": by, "disabled": disabled}
        _log.info("service %s is %s", name, "disabled" if disabled else "enabled", extra=extra)
        return after

    async def remove_service(self, name: str, *, by: str) -> Swept:
        """With its tokens and bindings. NotFoundError."""
        records, deadline, tries = self._records, self._records.deadline(), 0
        while True:
            there = await self._service(name)
            service = records.service_of(there)
            if isinstance(service, Damaged) or service.disabled:
                break
            value = replace(service, disabled=True).to_json()
            if await records.write(f"{name} is disabled", there.key, there, value, deadline):
                there = await self._service(name)
                break
            tries += 1
            await asyncio.sleep(growing_pause_s(tries))
        swept = await self._remove(Subject(SubjectKind.SERVICE, name), there, deadline)
        _log.info("service %s was removed", name, extra={"action": "service.removed", "service": name, "by": by})
        return swept

    async def _user(self, name: str) -> tuple[KeyValue, User | Damaged]:
        found = await self._records.user(name)
        if found is None:
            raise NotFoundError(f"there is no user {name[:128]}")
        return found

    async def _service(self, name: str) -> KeyValue:
        kv = await self._records.etcd.get(self._records.keys.service(name))
        if kv is None:
            raise NotFoundError(f"there is no service account {name[:128]}")
        return kv

    async def _remove(self, owner: Subject, there: KeyValue, deadline: float) -> Swept:
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
            guards = edits.nothing_since(records.keys, min(revision, bindings.revision))
            if await records.write(f"{owner.name} is removed", there.key, there, None, deadline, guards):
                return swept
            now = await records.etcd.get(there.key)
            if now is None:
                return swept  # somebody else has removed it meanwhile
            if now.mod_revision != there.mod_revision:
                raise ConflictError(f"{owner.name} was changed meanwhile: look, and remove it again")
            tries += 1
            await asyncio.sleep(growing_pause_s(tries))
