"""Bindings: made and removed. One that is made never changes; another one takes its place."""

from __future__ import annotations

import asyncio
import logging
import secrets

import msgspec

from common.access.rights import WORKER, Binding, Grant
from common.access.subjects import Subject, SubjectKind
from common.errors import ConflictError, NotFoundError
from common.etcd.settle import growing_pause_s
from common.protocol import account_edits as edits
from common.protocol.account_edits import Bindings
from common.protocol.txn import Guards, KeyValue
from manager.use_cases.access_records import LAST, MOST_BINDINGS, AccessRecords

_log = logging.getLogger(__name__)

_OF_THE_SYSTEM = (SubjectKind.UID, SubjectKind.GID)


class BindingService:
    """Makes and removes bindings; any number of managers may do so at once."""

    def __init__(self, records: AccessRecords) -> None:
        self._records = records

    async def add(self, subject: Subject, grant: Grant, *, by: str) -> tuple[Binding, bytes, list[str]]:
        """The binding, its stored form, and what to think of beside it.

        ConflictError: there is the same one, or there are too many.
        """
        records = self._records
        known = await records.bindings()
        for held in known.held:
            if held.binding.subject == subject and held.binding.grant == grant:
                raise ConflictError(f"there is such a binding already: {held.binding.id}")
        if await records.etcd.count(records.keys.bindings) >= MOST_BINDINGS:
            raise ConflictError(f"there are {MOST_BINDINGS:,} bindings, which is the most: bind groups")
        binding = Binding(id=secrets.token_hex(6), subject=subject, grant=grant)
        document = binding.to_document() | {"createdMs": records.clock.wall_ms(), "createdBy": by}
        warnings = await self._warnings(binding, known)  # before it is written: afterwards nothing may fail
        key, value = records.keys.binding(binding.id), msgspec.json.encode(document)
        if not (await records.write(f"{subject} has this binding now", key, None, value, records.deadline())).done:
            raise ConflictError("another binding has this id, by chance: try again")
        extra = {"action": "binding.added", "binding": binding.id, "subject": str(subject), "by": by}
        _log.info("%s is bound to the role %s", subject, grant.role, extra=extra)
        return binding, value, warnings

    async def remove(self, binding_id: str, *, by: str) -> Binding | None:
        """What it was; None: it could not be read. NotFoundError; ConflictError: it makes the last administrator."""
        records, deadline, tries = self._records, self._records.deadline(), 0
        while True:
            there = await records.etcd.get(records.keys.binding(binding_id))
            if there is None:
                raise NotFoundError(f"there is no binding {binding_id[:40]}")
            guards = await self._guards(there)
            if (await records.write(f"binding {binding_id} is removed", there.key, there, None, deadline, guards)).done:
                break
            tries += 1
            await asyncio.sleep(growing_pause_s(tries))
        extra = {"action": "binding.removed", "binding": binding_id, "by": by}
        _log.info("binding %s was removed", binding_id, extra=extra)
        binding = records.binding_of(there)
        return binding if isinstance(binding, Binding) else None

    async def _guards(self, there: KeyValue) -> Guards:
        """What has to stay so for it to go."""
        records = self._records
        binding = records.binding_of(there)
        if not isinstance(binding, Binding) or not edits.administers(binding):
            return ()
        bindings = await records.bindings()
        guards = await records.an_administrator_remains(bindings.without(binding.id))
        if guards is not None:
            return guards
        alone = Bindings(revision=bindings.revision, held=tuple(bindings.of(frozenset({binding.subject}))))
        if await records.an_administrator_remains(alone) is None:
            return ()  # it lets no user in now
        raise ConflictError(f"{binding.subject} {LAST}")

    async def _warnings(self, binding: Binding, known: Bindings) -> list[str]:
        subject, warnings = binding.subject, []
        if subject.kind in _OF_THE_SYSTEM:
            warnings.append(
                f"each job that runs as {subject} on a manager's machine has these rights too, through the manager's "
                "Unix socket: let no job run as this user or group there"
            )
        users = sorted((binding.grant.run_as or frozenset()) - {WORKER})
        runs_as_any = binding.grant.run_as is None
        if (users or runs_as_any) and any(held.binding.subject.kind in _OF_THE_SYSTEM for held in known.held):
            named = "any system user" if runs_as_any else ", ".join(users)
            warnings.append(
                f"jobs may run as {named}: on a manager's machine they have what is bound to the uid and the groups "
                "of that user, through the manager's Unix socket"
            )
        exists: KeyValue | None = None
        if subject.kind is SubjectKind.USER:
            exists = await self._records.etcd.get(self._records.keys.user(subject.name))
        elif subject.kind is SubjectKind.SERVICE:
            exists = await self._records.etcd.get(self._records.keys.service(subject.name))
        if exists is None and subject.kind in (SubjectKind.USER, SubjectKind.SERVICE):
            warnings.append(f"there is no {subject} here yet: whoever gets this name has these rights")
        return warnings
