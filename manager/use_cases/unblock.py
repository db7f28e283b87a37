"""The way back from a mark that lies ahead: a clock was wrong, and the job would not fire until then.

    if   some mark of the job, or its anchor, lies ahead by more than skew and claimLead        else ConflictError
    and  nobody's beat is ahead of this manager's clock, and the kernel calls that synchronised (unless forced)
    and  the log store tells what was started, and decided last                                 else UnavailableError
    then one transaction: see :mod:`common.protocol.unblock_edit`

Fires that were started before their time must not start again. They are looked for before the transaction, at a
revision, in the order in which a run goes: what etcd has of it (asked for, claimed, ended), then the log store, which
has what had gone from etcd by then. Job or marks newer than that revision are looked at anew.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final, Protocol, TypeAlias

from common.access.rights import Rights, Role
from common.clock import Clock
from common.errors import ConflictError, UnavailableError
from common.etcd import EtcdClient
from common.instants import iso
from common.jobs.reader import check_name
from common.protocol.edits import Edit, Stored
from common.protocol.keys import Keys, RunId, sequence_name
from common.protocol.member import Beat
from common.protocol.run import RunEntry
from common.protocol.txn import KeyValue
from common.protocol.unblock_edit import OWN_MARKS_AT_ONCE, MovedError, OwnMarks, Started, plan_unblock
from common.runlog import RunFilter, RunPage
from common.verdicts import Verdict
from manager.use_cases.jobs import Changed, JobService
from manager.views.inventory import Inventory

_PAGE: Final = 500
_MOST: Final = 20_000
_NOT_STARTED: Final = frozenset(one for one in Verdict if not one.is_of_a_run)


class Records(Protocol):
    """The log store's records."""

    async def runs(self, wanted: RunFilter, *, cursor: str | None, limit: int) -> RunPage: ...


async def look_for_started(etcd: EtcdClient, keys: Keys, records: Records, name: str, *, after_ms: int) -> Started:
    """Those planned later than that. UnavailableError: the log store is away, or has too many records."""
    runs, revision = await _in_etcd(etcd, keys, name)
    runs += await _in_log_store(records, name, after_ms)
    found: dict[str, list[int]] = {}
    for run in runs:
        if run.plan_ms is not None and run.plan_ms > after_ms:
            found.setdefault(run.of_worker or "", []).append(run.plan_ms)
    return Started(revision=revision, by_worker=found)


async def _in_etcd(etcd: EtcdClient, keys: Keys, name: str) -> tuple[list[RunId], int]:
    found: list[RunId] = []
    revision = 0
    prefixes: tuple[tuple[str, Callable[[KeyValue], bool]], ...] = (
        (keys.runs_of(name), _has_started), (keys.own_runs_of(name), _has_started),
        (keys.requests_of(name), lambda _: True), (keys.own_requests_of(name), lambda _: True),
    )  # fmt: skip
    for prefix, counts in prefixes:
        async for page in etcd.read_prefix(prefix, revision=revision):
            revision = page.revision
            for kv in filter(counts, page.kvs):
                with suppress(ValueError):  # not our key
                    found.append(keys.run_of(kv.key))
    return found, revision


async def _in_log_store(records: Records, name: str, after_ms: int) -> list[RunId]:
    found: list[RunId] = []
    cursor, read = None, 0
    while True:
        page = await records.runs(RunFilter(job=name, from_ms=after_ms + 1), cursor=cursor, limit=_PAGE)
        found += [RunId.parse(str(one["_id"])) for one in page.items if one.get("status") not in _NOT_STARTED]
        cursor, read = page.next_cursor, read + len(page.items)
        if cursor is None:
            return found
        if read > _MOST:
            raise UnavailableError(f"there are more than {_MOST:,} records of fires of {name} that are still to come")


def _has_started(kv: KeyValue) -> bool:
    """What cannot be read may have."""
    try:
        record = RunEntry.from_json(kv.value).record
    except ValueError:
        return True
    return record is None or record.status not in _NOT_STARTED


_UNSENT: Final = 1_000
"""More records than these waiting at a worker may be of runs that etcd knows no more."""
_SKEW_MS: Final = 60_000
"""A clock that is so far ahead of this manager's does not fit it: who is wrong cannot be told here."""

Decided: TypeAlias = tuple[int | None, str]
"""The newest decided fire: its plan time, 0 where there is none, and ``""``; or None, and why nothing tells it."""


class Unblocking:
    """Sets marks back; any number of managers may do so at once."""

    def __init__(
        self, etcd: EtcdClient, keys: Keys, service: JobService, inventory: Inventory, *,
        last_decided: Callable[[str, int], Awaitable[Decided]], records: Records, ahead_ms: int, clock: Clock,
    ) -> None:  # fmt: skip
        """``last_decided``: of this job, until this time, the newest fire with a record or a run. UnavailableError: it
        cannot be told now.

        ``ahead_ms``: a mark that is further ahead was put there by a wrong clock.
        """
        self._records = records
        self._ahead_ms = ahead_ms
        self._last_decided = last_decided
        self._etcd = etcd
        self._keys = keys
        self._service = service
        self._inventory = inventory
        self._clock = clock

    async def unblock(
        self, name: str, *, by: str, rights: Rights, reason: str | None = None, force: bool = False
    ) -> Changed:
        """Let the job fire again from now on; what did not fire until now is recorded as missed, where that is known.

        ``force``: by an unsynchronised clock, too. ConflictError: nothing blocks it, or the clock may be wrong.
        NotFoundError: there is no such job. UnavailableError: the log store does not tell what was started or decided.
        """
        check_name(name)
        await self._service.check_there(name, Role.ADMIN, rights=rights)
        if not force and not self._clock.is_synchronised():
            raise ConflictError(
                "nothing was changed: the kernel does not call this manager's clock synchronised (NTP), and by a wrong "
                "clock the mark would be wrong again; look at the time, then unblock with force"
            )
        _refuse_beats(await self._inventory.beats(), now_ms=self._clock.wall_ms())
        warnings: tuple[str, ...] = ()
        while True:
            pages = self._etcd.read_prefix(self._keys.mark(sequence_name(name, "")))
            own = OwnMarks([kv async for page in pages for kv in page.kvs], ahead_ms=self._ahead_ms)
            decided_ms, why = await self._last_decided(name, self._clock.wall_ms())
            after_ms = self._clock.wall_ms()
            started = await look_for_started(self._etcd, self._keys, self._records, name, after_ms=after_ms)

            def plan(
                stored: Stored, own: OwnMarks = own, decided_ms: int | None = decided_ms, started: Started = started
            ) -> Edit:
                now_ms, ahead_ms = self._clock.wall_ms(), self._ahead_ms
                return plan_unblock(
                    self._keys, stored, own, started, decided_ms=decided_ms, now_ms=now_ms, ahead_ms=ahead_ms, by=by,
                    seal=self._service.seal,
                )  # fmt: skip

            try:
                done = await self._service.switch(
                    "unblocked", name, plan, by, rights=rights, role=Role.ADMIN, reason=reason
                )
            except MovedError:
                continue
            warnings = warnings or _what_became(done, why)
            if len(own.ahead_of(self._clock.wall_ms())) <= OWN_MARKS_AT_ONCE:
                return replace(done, warnings=warnings)


def _what_became(done: Changed, why: str) -> tuple[str, ...]:
    """What the history says of the fires until now."""
    record = None if done.edit is None else done.edit.record
    if record is not None:
        many = "1 fire" if record.count is None else f"{record.count} fires"
        least = "at least " if record.count_is_minimum else ""
        return (f"{least}{many} since {iso(record.plan_ms)} did not run: recorded as missed",)
    saved = done.before.saved
    if saved is None or not saved.spec.enabled:
        return ()
    if saved.spec.broadcast:
        why = "each worker's own fires are not recorded here"
    elif not why and saved.anchor_ms > (done.edit.mark_ms if done.edit else 0):
        why = "it was saved while it was blocked"
    return (f"fires that were due until now and did not run have no record: {why}",) if why else ()


def _refuse_beats(beats: dict[str, bytes], *, now_ms: int) -> None:
    """No clock may be ahead of this one: it may be this one that is wrong. Nor may records be on their way in numbers:
    etcd need not know of their runs any more."""
    for process, value in sorted(beats.items()):
        try:
            beat = Beat.from_json(value)
        except ValueError:
            continue
        ahead_ms = beat.wall_ms - now_ms
        if beat.unsent_records > _UNSENT:
            raise UnavailableError(
                f"nothing was changed: {beat.unsent_records:,} records of {process} are not in the log store yet, so "
                "it does not tell what was started; try again when they are"
            )
        if ahead_ms > _SKEW_MS:
            raise ConflictError(
                f"nothing was changed: the clock of {process} is {ahead_ms // 1000:,} s ahead of ours: one "
                "of the two is wrong; set the clocks right, then unblock the job"
            )
