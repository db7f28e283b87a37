"""The audit of one manager: what is noted goes into its chain on the disk, then into the log store; the head to etcd.

    note -> memory -> this disk (in batches, in the disk's thread) -> the log store -> off the disk, later
                               '-> head: etcd, the log of this process (each minute)

Nothing waits for it but the answer to a change, which waits up to a quarter of a second until the change is on the
disk, and not at all once the disk was slower than that. So a caller who had an answer finds its entry after a crash of
this manager, unless `problems` reported meanwhile that the disk is behind. Memory is bounded: what finds no room is
counted, and the next entry has the number of those lost.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from common.access.audit_chain import Head, Note, Outcome
from common.clock import Clock
from common.errors import EtcdError, EtcronError, UnavailableError
from common.etcd import EtcdClient
from common.etcd.settle import is_in_doubt
from common.process.disk import Disk
from common.protocol import audit_heads, audit_notes
from common.protocol.access_keys import AccessKeys
from common.protocol.txn import KeyValue
from common.runlog import RunLog
from manager.access.audit_files import ChainFiles, DamagedError
from manager.access.failed_calls import FailedCalls

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

MOST_IN_MEMORY: Final = 10_000
HEAD_EVERY_S: Final = 60.0
_NOTES: Final = 100
"""Taken at a time, of those that `etcron admin` has left in etcd."""
_A_BATCH: Final = 500
_A_DELIVERY: Final = 200
_ANSWER_WAITS_S: Final = 0.25
_AGAIN_S: Final = 2.0
_TOGETHER_S: Final = 0.3
"""What is noted within it is delivered together."""
_LAST_S: Final = 2.0
"""How long the end of the process waits for the disk."""
_HANGS_AFTER_S: Final = 5.0


class Audit:
    """Notes what happens; its three loops do the rest."""

    def __init__(
        self, directory: Path, etcd: EtcdClient, keys: AccessKeys, runlog: RunLog, *, manager: str, clock: Clock
    ) -> None:
        """``manager``: the name of this process, which its first entry has; the chain has a name of its own."""
        self._directory = directory
        self._etcd = etcd
        self._keys = keys
        self._runlog = runlog
        self._clock = clock
        self._disk = Disk()
        self._files = ChainFiles(directory)
        self._queue: deque[Note] = deque()
        self._failed_calls = FailedCalls()
        self._noted = 0
        self._written = 0
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._wake, self._on_disk, self._opened = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._compared = asyncio.Event()
        self._revision = 0
        self._keeps_up = False
        self._asked_s: list[float] = []
        """When each call that the disk has not answered was made."""
        self._disk_fault: str | None = None
        self._delivery_fault: str | None = None
        self._head_fault: str | None = None
        self._anew: str | None = None
        self._lost_unnoted = 0
        self.lost = 0
        """Entries that found no room, since the start of this process."""
        self.logins = Counter[tuple[str, Outcome]]()
        """Since then, by the action of the login."""
        self.refused = Counter[str]()
        """Other calls that were refused, by the way in which their callers were known."""
        self.head = Head(chain="")
        """Of what is on the disk."""
        self.note(Note(
            ms=clock.wall_ms(), who="etcron", via="", address="", action="manager.start", object=f"manager {manager}",
            outcome=Outcome.DONE,
        ))  # fmt: skip

    # What the manager asks of it

    def note(self, note: Note) -> None:
        """It will be an entry, once the disk takes it."""
        if len(self._queue) >= MOST_IN_MEMORY:
            self.lost += 1
            self._lost_unnoted += 1
            return
        self._queue.append(note.bounded())
        self._noted += 1
        self._wake.set()

    def failed(self, note: Note) -> None:
        """A call that was refused or failed: counted by the minute with others of its kind."""
        first = self._failed_calls.take(note.bounded(), now_ms=self._clock.wall_ms())
        if first is not None:
            self.note(first)

    async def settled(self) -> None:
        """What was noted is on the disk; or the disk is slow, or behind, and the call does not wait for it."""
        if not self._keeps_up or self._written >= self._noted:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((self._noted, waiter))
        try:
            async with asyncio.timeout(_ANSWER_WAITS_S):
                await waiter
        except TimeoutError:
            self._keeps_up = False

    @property
    def waiting(self) -> int:
        """How many entries the log store does not have yet."""
        return len(self._queue) + self.head.seq - self.head.delivered

    @property
    def not_on_disk(self) -> int:
        """How many are in memory alone."""
        return len(self._queue)

    def problems(self, *, log_store_is_away: bool = False) -> list[str]:
        """What an operator has to mend."""
        return list(self._problems(log_store_is_away))

    def _problems(self, log_store_is_away: bool) -> Iterator[str]:
        fault = self._disk_fault
        if fault is None and self._asked_s and self._clock.monotonic() - min(self._asked_s) > _HANGS_AFTER_S:
            fault = "the disk does not answer"
        if fault is not None:
            where = f"this manager's disk ({self._directory})"
            yield f"the audit is not on {where}: {fault}; entries that wait: {len(self._queue)}"
        if self.lost:
            yield f"entries of the audit that were lost, as this manager's disk did not take them in time: {self.lost}"
        if self._delivery_fault is not None and not log_store_is_away:
            yield f"entries of the audit that wait on this manager's disk: {self.waiting}: {self._delivery_fault}"
        if self._head_fault is not None:
            yield f"the head of the audit does not reach etcd: {self._head_fault}"
        if self._anew is not None:
            yield f"the audit had to begin a new chain, {self.head.chain}: {self._anew}"

    # The loops

    async def write(self) -> None:
        """What is noted goes onto the disk, for ever."""
        while not self._opened.is_set():
            await self._open()
        while True:
            self._count_over()
            if self._queue or self._lost_unnoted:
                await self._write_some()
                continue
            self._wake.clear()
            ends_ms = self._failed_calls.ends_ms
            left_s = None if ends_ms is None else max(0, ends_ms - self._clock.wall_ms()) / 1000 + 0.001
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._wake.wait()

    async def deliver(self) -> None:
        """What is on the disk goes into the log store, for ever."""
        await self._opened.wait()
        is_prepared = False
        while True:
            self._on_disk.clear()
            try:
                await self._compared.wait()  # a chain that forked must not be delivered as the one that it was
                if not is_prepared:
                    await self._runlog.prepare_audit()
                    is_prepared = True
                while await self._deliver_some():
                    pass
                self._delivery_fault = None
            except DamagedError as error:
                await self._begin_anew(str(error))
                continue
            except (UnavailableError, OSError) as error:
                if self._delivery_fault is None:
                    extra = {"action": "audit.waiting", "error": str(error)}
                    _log.warning("the audit waits on the disk: %s", error, extra=extra)
                self._delivery_fault = str(error)
                await asyncio.sleep(_AGAIN_S)
                continue
            await self._on_disk.wait()
            await asyncio.sleep(_TOGETHER_S)

    async def publish_head(self) -> None:
        """The head goes to etcd and into the log, each minute, for ever."""
        await self._opened.wait()
        published, are_left = Head(chain=""), False
        while True:
            try:
                are_left = await self._take_notes()
                if not self._compared.is_set():
                    await self._compare()
                if self.head != published:
                    published = await self._put_head(self.head) or published
                self._head_fault = None
            except EtcronError as error:
                self._head_fault = str(error)
            except DamagedError as error:
                await self._begin_anew(str(error))
            except OSError as error:
                self._report_fault(error)
            retry = self._head_fault is not None or not self._compared.is_set() or are_left
            await asyncio.sleep(_AGAIN_S if retry else HEAD_EVERY_S)

    async def _take_notes(self) -> bool:
        """Those that `etcron admin` has left go into this chain; whether some are left.

        In doubt two managers have one. One that dies at this very moment loses it, and the system's log has it.
        """
        kvs, more = await self._etcd.get_between(self._keys.notes, self._keys.notes + "\x7f", limit=_NOTES)
        for kv in kvs:
            if not self._keeps_up:
                return True
            if await self._may_have_taken(kv):
                self.note(audit_notes.read(kv))
        return more

    async def _may_have_taken(self, kv: KeyValue) -> bool:
        try:
            return (await self._etcd.txn(audit_notes.take(kv))).succeeded
        except EtcdError as error:
            if is_in_doubt(error):
                return True
            raise

    async def close(self) -> None:
        """What was noted is on the disk, if that takes it now. The loops have ended."""
        self._count_over(early=True)
        with suppress(TimeoutError, OSError, DamagedError):
            async with asyncio.timeout(_LAST_S):
                if self._opened.is_set():
                    head = await self._asking(lambda: self._files.head)
                    for _ in range(min(head.seq - self.head.seq, len(self._queue))):
                        self._queue.popleft()  # they were on their way when the loop was ended
                    while self._queue or self._lost_unnoted:
                        await self._write_batch()
                    await self._asking(self._files.close)
        self._disk.close()

    # How

    async def _open(self) -> None:
        try:
            why = await self._asking(self._files.open)
        except OSError as error:
            self._report_fault(error)
            await asyncio.sleep(_AGAIN_S)
            return
        self.head = self._files.head
        if why is not None:
            self._report_new_chain(why)
        self._opened.set()

    def _count_over(self, *, early: bool = False) -> None:
        for note in self._failed_calls.over(now_ms=self._clock.wall_ms(), early=early):
            self.note(note)

    async def _write_some(self) -> None:
        try:
            await self._write_batch()
        except OSError as error:
            self._report_fault(error)
            await asyncio.sleep(_AGAIN_S)
            return
        self._clear_fault()
        self._on_disk.set()

    async def _write_batch(self) -> None:
        batch = [self._queue[place] for place in range(min(_A_BATCH, len(self._queue)))]
        lost = self._lost_unnoted
        if lost:
            batch.append(Note(
                ms=self._clock.wall_ms(), who="etcron", via="", address="", action="audit.lost",
                object="1 entry" if lost == 1 else f"{lost} entries", outcome=Outcome.FAILED, details={"entries": lost},
            ))  # fmt: skip
        self.head = await self._asking(lambda: self._files.append(batch))
        taken = len(batch) - bool(lost)
        for _ in range(taken):
            self._queue.popleft()
        self._lost_unnoted -= lost
        self._written += taken
        while self._waiters and self._waiters[0][0] <= self._written:
            _, waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)

    async def _deliver_some(self) -> bool:
        """Whether there may be more."""
        entries = await self._asking(lambda: self._files.undelivered(_A_DELIVERY))
        if not entries:
            return False
        taken = await self._runlog.put_audit(entries)
        if taken:
            raise DamagedError(f"in the log store another entry has the place of entry {taken[0]}")
        self.head = await self._asking(lambda: self._files.delivered(entries[-1].seq))
        return len(entries) == _A_DELIVERY

    async def _compare(self) -> None:
        """With what etcd knows of the chain, before anything of it is delivered, or put in its place."""
        kv = await self._etcd.get(self._keys.audit_head(self.head.chain))
        self._revision = 0 if kv is None else kv.mod_revision
        if kv is not None:
            try:
                stored = Head.from_json(kv.value, chain=self.head.chain)
                why = await self._asking(lambda: self._files.contradiction(stored))
            except ValueError as error:
                why = str(error)
            if why is not None:
                await self._begin_anew(why)
                return
        self._compared.set()
        self._clear_fault_if_idle()

    async def _put_head(self, head: Head) -> Head | None:
        """The head that etcd has now; None: it has another one than was read, so it is to be compared again."""
        result = await self._etcd.txn(audit_heads.put(self._keys, head, revision=self._revision))
        if not result.succeeded:
            self._compared.clear()
            return None
        self._revision = result.revision
        extra = {"action": "audit.head", "chain": head.chain, "seq": head.seq, "hash": head.hash}
        _log.info("audit: %s is at %s, %s", head.chain, head.seq, head.hash, extra=extra)
        return head

    async def _begin_anew(self, why: str) -> None:
        now_ms = self._clock.wall_ms()
        try:
            self.head = await self._asking(lambda: self._files.begin_anew(why, ms=now_ms))
        except OSError as error:
            self._report_fault(error)
            await asyncio.sleep(_AGAIN_S)
            return
        self._revision = 0
        self._compared.set()  # etcd cannot know a chain that has just been named
        self._report_new_chain(why)
        self._clear_fault_if_idle()
        self._on_disk.set()

    async def _asking(self, work: Callable[[], _T]) -> _T:
        self._asked_s.append(asked_s := self._clock.monotonic())
        try:
            return await self._disk.call(work)
        except RuntimeError as error:  # the machine is out of processes
            raise OSError(errno.EAGAIN, f"no thread can be started ({error})") from error
        finally:
            self._asked_s.remove(asked_s)

    def _report_fault(self, error: OSError) -> None:
        text = error.strerror or str(error)
        self._keeps_up = False
        if self._disk_fault is None:
            extra = {"action": "audit.not_on_disk", "directory": str(self._directory), "error": text}
            _log.error("the audit cannot be written; calls go on: %s", text, extra=extra)
        self._disk_fault = text

    def _clear_fault(self) -> None:
        if self._disk_fault is not None:
            _log.info("the audit is on the disk again", extra={"action": "audit.on_disk"})
        self._disk_fault, self._keeps_up = None, True

    def _clear_fault_if_idle(self) -> None:
        """The disk has answered; what waits for it is the better proof, where there is something."""
        if not self._queue and not self._lost_unnoted:
            self._clear_fault()

    def _report_new_chain(self, why: str) -> None:
        self._anew = why
        extra = {"action": "audit.begin", "chain": self._files.head.chain, "error": why}
        _log.error("the audit begins a new chain: %s", why, extra=extra)
