"""Channels, rules and silences as etcd has them: found, put in place of what was read, removed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from common.errors import ConflictError, NotFoundError, StaleError
from common.etcd.settle import growing_pause_s
from common.jobs.reader import check_name
from common.notices.forms import Form, HasProblems, Stored
from common.protocol.edits import ANY_REVISION
from common.protocol.txn import Guards, KeyValue
from manager.use_cases.records import Damaged, Records

_log = logging.getLogger(__name__)

T = TypeVar("T", bound=HasProblems)

NEW: Final = -2
"""In place of a revision: there must be none of this name yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept(Generic[T]):
    """A record under its name, as of a revision of its key."""

    name: str
    revision: int
    found: Stored[T] | Damaged

    @property
    def record(self) -> T | None:
        """None: it cannot be read."""
        return None if isinstance(self.found, Damaged) else self.found.record


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedRecord(Generic[T]):
    """What a save did."""

    kept: Kept[T]
    before: Kept[T] | None
    """None: it is new."""
    warnings: tuple[str, ...]


Judge = Callable[[T | None], Awaitable[Guards]]
"""Looks at what is there (None: nothing, or nothing that can be read); what has to stay so, or an error."""


class KeptRecords(Generic[T]):
    """Those of one kind; any number of managers may change them at once."""

    def __init__(self, records: Records, form: Form[Any], prefix: str, *, what: str, most: int) -> None:
        """``what``: for messages, e.g. ``channel``."""
        self.records = records
        self.prefix = prefix
        self._form: Form[Any] = form
        self._what = what
        self._most = most

    def read(self, kv: KeyValue) -> Kept[T]:
        name = kv.key.removeprefix(self.prefix)
        found: Stored[T] | Damaged
        try:
            found = self._form.from_json(kv.value)
        except ValueError as error:
            found = Damaged(name=name, problem=str(error))
        return Kept(name=name, revision=kv.mod_revision, found=found)

    async def get(self, name: str) -> Kept[T]:
        """NotFoundError: there is none of this name."""
        kv = await self.records.etcd.get(self.prefix + name)
        if kv is None:
            raise NotFoundError(self._missing(name))
        return self.read(kv)

    async def page(self, after: str | None, limit: int) -> tuple[list[Kept[T]], bool]:
        """In the order of their names those behind ``after``, and whether there are more."""
        kvs, more = await self.records.page(self.prefix, after, limit)
        return [self.read(kv) for kv in kvs], more

    async def all(self) -> tuple[list[Kept[T]], int]:
        """All of them, and the revision that they are as of."""
        revision, found = 0, list[Kept[T]]()
        async for page in self.records.etcd.read_prefix(self.prefix):
            revision = page.revision
            found += map(self.read, page.kvs)
        return found, revision

    async def put(
        self, name: str, record: T, *, by: str, judge: Judge[T], if_match: int | None = None
    ) -> tuple[Kept[T], Kept[T] | None]:
        """What is there now, and what was before; the same as before is not written again.

        ``if_match``: the revision that it is at, or `NEW`. StaleError, ConflictError: it is not, or there are too many.
        """
        check_name(name)
        records, key, deadline, tries = self.records, self.prefix + name, self.records.deadline(), 0
        while True:
            there = await records.etcd.get(key)
            before = None if there is None else self.read(there)
            self._refuse_stale(name, there, if_match)
            guards = await judge(None if before is None else before.record)
            if before is not None and before.record == record:
                return before, before
            if before is None and await records.etcd.count(self.prefix) >= self._most:
                raise ConflictError(f"there are {self._most:,} {self._what}s, which is the most: remove some")
            stored = self._stored(record, before, by)
            value = self._form.to_json(stored)
            saved = await records.write(f"{self._what} {name} is saved", key, there, value, deadline, guards)
            if saved.done:
                extra = {"action": f"{self._what}.saved", self._what: name, "by": by}
                _log.info("%s %s was saved by %s", self._what, name, by, extra=extra)
                return Kept(name=name, revision=saved.revision, found=stored), before
            tries += 1
            await asyncio.sleep(growing_pause_s(tries))

    async def remove(self, name: str, *, by: str, judge: Judge[T], if_match: int | None = None) -> Kept[T]:
        """What it was. NotFoundError; StaleError: it is not at the revision ``if_match``."""
        records, deadline, tries = self.records, self.records.deadline(), 0
        while True:
            there = await records.etcd.get(self.prefix + name)
            if there is None:
                raise NotFoundError(self._missing(name))
            self._refuse_stale(name, there, if_match)
            guards = await judge(self.read(there).record)
            if (await records.write(f"{self._what} {name} is removed", there.key, there, None, deadline, guards)).done:
                extra = {"action": f"{self._what}.removed", self._what: name, "by": by}
                _log.info("%s %s was removed by %s", self._what, name, by, extra=extra)
                return self.read(there)
            tries += 1
            await asyncio.sleep(growing_pause_s(tries))

    def _stored(self, record: T, before: Kept[T] | None, by: str) -> Stored[T]:
        now_ms = self.records.clock.wall_ms()
        if before is not None and isinstance(before.found, Stored):
            made_ms, made_by = before.found.created_ms, before.found.created_by
            return Stored(record=record, created_ms=made_ms, created_by=made_by, changed_ms=now_ms)
        return Stored(record=record, created_ms=now_ms, created_by=by, changed_ms=now_ms)

    def _refuse_stale(self, name: str, there: KeyValue | None, if_match: int | None) -> None:
        if if_match == NEW:
            if there is not None:
                raise ConflictError(f"there is a {self._what} {name} already")
            return
        revision = 0 if there is None else there.mod_revision
        if if_match is None or if_match == revision or (if_match == ANY_REVISION and revision):
            return
        what = f"is at revision {revision}" if revision else "does not exist"
        raise StaleError(f"{self._what} {name} {what}, not at {if_match}; read it again and repeat the change")

    def _missing(self, name: str) -> str:
        return f"there is no {self._what} {name[:128]}"
