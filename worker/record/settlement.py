"""The end of a run: record to the spool, then the lock, then (once the log store has it) the run key.

    ended --> record fsynced in the spool --> lock deleted, or key put as `ended` --> record delivered --> key deleted
                                              and what follows is put: a retry, a rerun, the next link of a chain

A run of which processes are left that cannot be ended (`Run.is_ending`) waits before its lock is freed, until `over`.

The order is the promise: a lock is freed only when the record is safe on disk, a run key goes only when the log store
has the record *and* the lock is free. If we die in between, what is left in etcd says so, and is settled by the next
start of this worker or by the steward. Everything is batched: at most one transaction for what ended within 20 ms, or
within 80 ms where no fire can be waiting for the locks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Final, Protocol

from common.clock import Clock
from common.errors import EtcdRefusedError, EtcronError
from common.etcd import EtcdClient, Session
from common.etcd.pack import Step
from common.etcd.settle import AGAIN_S, answered
from common.process import failpoints
from common.protocol.keys import Keys, RunId
from common.protocol.run import RunRecord, final_entry
from common.protocol.run_writes import forget, keep_record, owns_lock
from worker.kills import Kills
from worker.pacing import AT_ONCE_S, TOGETHER_S, is_wanted_soon
from worker.record.follow_up_reader import FollowUpReader
from worker.record.records import without_long_output
from worker.record.unlocking import MAX_STEPS, Steps, Unlocking
from worker.refusals import PATIENT, Refusals
from worker.runs import Run, RunTable

_log = logging.getLogger(__name__)

_DELETED_AT_ONCE: Final = MAX_STEPS
"""Run keys, in one transaction; then the locks that are to be freed meanwhile have their turn."""
MAX_WAITING_KEYS: Final = 10_000
"""Run keys that wait for the log store, over all live workers; beyond, the spool alone keeps the record."""


class RecordKeeper(Protocol):
    """Where records are safe."""

    def accept(
        self, record: RunRecord, on_done: Callable[[int | EtcronError], None], is_needed: Callable[[], bool] = ...
    ) -> None:
        """``on_done``, later: its position, once it is safe there, or why it is not.

        ``is_needed``: whether a later process may have to ask for it, though the log store has it.
        """


class Settlement:
    """Brings every ended run of this worker to its end in etcd and in the log store.

    ===================  ================================================================  ============================
    collection           what is in it                                                     what empties it
    ===================  ================================================================  ============================
    ``_to_record``       records that the spool is to be given                             ``_record``
    ``_answers``         what the spool has answered                                       ``_record``
    ``_in_keys``         those it has refused: they lie in their run keys, at these mod    ``spool_takes``
                         revisions
    ``_late``            refused ones of runs that were given up: there is no key to put   ``spool_takes``
                         them into
    ``_refused_ending``  refused ones of runs that are ending: in its key one would free   ``over``, ``spool_takes``
                         the lock with it
    ``_ending``          runs whose records are safe, and whose locks wait for ``over``    ``over``
    ``_waiting``         runs with a record in the spool and a key that waits for the log  ``delivered``,
                         store; None: its key is a final one                               ``keep_to_share``
    ``_finals``          final keys to delete once their records are delivered, at these   ``_release``, or the spool
                         mod revisions                                                     refuses the record
    ``_to_delete``       run keys that may go                                              ``_write``
    ``_changed``         runs whose keys were not as believed                              ``_look_again``
    ===================  ================================================================  ============================

    `lost_to_others` takes a run out of ``_waiting``, ``_ending`` and ``_refused_ending``, from there to ``_late``.
    """

    def __init__(
        self,
        *,
        client: EtcdClient,
        keys: Keys,
        table: RunTable,
        kills: Kills,
        follow_ups: FollowUpReader,
        refusals: Refusals,
        spool: RecordKeeper,
        clock: Clock,
        worker: str,
        instance: str,
        live_workers: Callable[[], int],
        on_unlocked: Callable[[str], None],
        on_refused: Callable[[str], None],
    ) -> None:
        """``on_unlocked(job)``: a lock is free. ``on_refused(fault)``: the spool has refused a record."""
        self._client = client
        self._keys = keys
        self._table = table
        self._kills = kills
        self._spool = spool
        self._clock = clock
        self._worker = worker
        self._instance = instance
        self._live_workers = live_workers
        self._on_unlocked = on_unlocked
        self._note_refusal = on_refused
        self._refusals = refusals
        self._steps = Steps(client, refusals, clock)
        self._unlocking = Unlocking(
            client=client, keys=keys, follow_ups=follow_ups, steps=self._steps, refusals=refusals,
            on_unlocked=self._unlocked, on_changed=lambda run: self._changed.append(run),
        )  # fmt: skip
        self._to_record: list[tuple[Run | None, RunRecord]] = []
        self._answers: list[tuple[Run | None, RunRecord, int | EtcronError]] = []
        self._finals: dict[RunId, int] = {}
        self._waiting: dict[RunId, Run | None] = {}
        self._late: list[RunRecord] = []
        self._spool_refuses = False
        """It has refused a record since it was last said to take them."""
        self._in_keys: dict[RunId, tuple[RunRecord, int]] = {}
        self._ending: dict[RunId, Run] = {}
        self._refused_ending: dict[RunId, tuple[Run, RunRecord]] = {}
        self._to_delete: dict[RunId, int | Run] = {}
        self._changed: list[Run] = []
        self._recording = asyncio.Event()
        self._writing = asyncio.Event()
        self._writes_later: asyncio.TimerHandle | None = None
        self._busy = 0
        self._tasks: asyncio.TaskGroup | None = None
        self.session: Session | None = None
        """The one that is current now."""

    def settle(self, run: Run, record: RunRecord) -> None:
        """The run has ended: see its record to safety, its lock to freedom, its key to its end."""
        run.record = record
        self._to_record.append((run, record))
        self._recording.set()

    def over(self, run: Run) -> None:
        """Nothing is left any more of a run that was ending, or it is given up: its lock may be freed."""
        self._table.clear_ending(run)
        if self._ending.pop(run.run_id, None) is run:
            self._unlock(run)
        elif (refused := self._refused_ending.pop(run.run_id, None)) is not None:
            self._spawn_keeping(*refused)

    def expect(self, run_id: RunId, revision: int) -> None:
        """The spool already holds this run's record: delete its key, at this mod revision, once that is delivered."""
        self._finals[run_id] = revision
        self._wait_for_store(run_id, None)

    def deliver_final(self, record: RunRecord, revision: int) -> None:
        """A final record lies in its run key at this mod revision: see to its delivery."""
        self._finals[record.run_id] = revision
        self._to_record.append((None, record))
        self._recording.set()

    def is_delivering(self, run_id: RunId) -> bool:
        """Whether the final record of this run is on its way to the log store already."""
        return run_id in self._finals

    def deliver_late(self, record: RunRecord) -> None:
        """The record of a run that was given up as lost meanwhile: it replaces that verdict in the log store."""
        self._to_record.append((None, record))
        self._recording.set()

    def spool_takes(self) -> None:
        """The spool takes records again: what it has refused comes to it now."""
        self._spool_refuses = False
        late, self._late = self._late, []
        for record in late:
            self.deliver_late(record)
        ending, self._refused_ending = self._refused_ending, {}
        for run, record in ending.values():
            self.settle(run, record)
        in_keys, self._in_keys = self._in_keys, {}
        for record, revision in in_keys.values():
            self.deliver_final(record, revision)

    def keep_to_share(self) -> None:
        """No more keys wait for the log store than this worker's share; beyond, the newest go: the spool has them."""
        share = MAX_WAITING_KEYS // max(1, self._live_workers())
        while len(self._waiting) > share:
            run_id, run = self._waiting.popitem()
            self._release(run_id, run)

    def delivered(self, run_ids: Iterable[RunId]) -> None:
        """The log store has acknowledged these records."""
        for run_id in run_ids:
            self._waiting.pop(run_id, None)
            self._release(run_id, self._table.get(run_id))

    def lost_to_others(self, run: Run) -> None:
        """The run key is not this worker's any more: the steward has given the run up as lost."""
        extra = {"action": "run.lost_to_others", "run": str(run.run_id)}
        _log.warning("%s was given up as lost while this worker was out of touch", run.run_id, extra=extra)
        for waiting in (self._waiting, self._ending):
            waiting.pop(run.run_id, None)
        if (refused := self._refused_ending.pop(run.run_id, None)) is not None:
            self._late.append(refused[1])
        self._table.forget(run)

    @property
    def unsettled(self) -> int:
        """What has still to be recorded, unlocked or deleted, as far as it is this worker's turn."""
        waiting = len(self._to_record) + len(self._to_delete) + len(self._changed) + self._steps.aside
        return waiting + self._unlocking.unsettled + self._busy + self._steps.busy

    async def run(self) -> None:
        """Settles until cancelled."""
        async with asyncio.TaskGroup() as self._tasks:
            self._tasks.create_task(self._record(), name="record")
            self._tasks.create_task(self._write(), name="unlock and delete")
            self._tasks.create_task(self._try_again(), name="what etcd refused")

    # Recording

    async def _record(self) -> None:
        while True:
            await self._recording.wait()
            self._recording.clear()
            to_record, self._to_record = self._to_record, []
            for run, record in to_record:
                if failpoints.armed and run is not None:
                    failpoints.hit("before_record")
                self._busy += 1
                kept = without_long_output(record)  # the spool alone keeps that, in memory or on the disk
                tell = partial(self._take_answer, run, kept)
                if run is None:
                    self._spool.accept(record, tell)
                else:
                    run.record = kept
                    self._spool.accept(record, tell, run.may_be_asked_for)
            answers, self._answers = self._answers, []
            for run, record, outcome in answers:
                self._busy -= 1
                if isinstance(outcome, EtcronError):
                    self._on_refused(run, record, outcome)
                else:
                    self._on_recorded(run, record)

    def _take_answer(self, run: Run | None, record: RunRecord, outcome: int | EtcronError) -> None:
        self._answers.append((run, record, outcome))
        self._recording.set()

    def _on_recorded(self, run: Run | None, record: RunRecord) -> None:
        if run is not None and run.is_ending:
            self._ending[run.run_id] = run
        elif run is not None:
            self._unlock(run)
        if run is not None or record.run_id in self._finals:
            self._wait_for_store(record.run_id, run)

    def _on_refused(self, run: Run | None, record: RunRecord, error: EtcronError) -> None:
        self._spool_refuses = True
        self._note_refusal(str(error))
        short = record.without_output(f"the spool refused its output: {error}")
        if run is not None and run.is_ending:
            self._refused_ending[run.run_id] = run, short
        elif run is not None:
            self._spawn_keeping(run, short)
        elif self._finals.pop(record.run_id, None) is None:  # else it lies in its key: the steward delivers it
            self._late.append(short)

    def _wait_for_store(self, run_id: RunId, run: Run | None) -> None:
        if run is None or not run.delivered:
            self._waiting[run_id] = run
            self.keep_to_share()

    def _release(self, run_id: RunId, run: Run | None) -> None:
        """Its record needs its run key no more."""
        final = self._finals.pop(run_id, None)
        if run is not None:
            run.delivered = True
            self._delete_when_free(run)
        if final is not None and run_id not in self._to_delete:
            self._to_delete[run_id] = final
            self._writing.set()

    def _spawn_keeping(self, run: Run, record: RunRecord) -> None:
        """In a task of its own: etcd may refuse it for long, and other records are to be kept meanwhile."""
        assert self._tasks is not None, "only while it settles"
        self._busy += 1
        keeping = self._tasks.create_task(self._keep_in_key(run, record), name=f"keep {run.run_id}")

        def kept(_: object) -> None:
            self._busy -= 1

        keeping.add_done_callback(kept)

    async def _keep_in_key(self, run: Run, record: RunRecord) -> None:
        """The spool is of no use: the verdict goes into the run key, until the spool takes it or the steward does."""
        while True:
            entry = final_entry(record, worker=self._worker, session=run.entry.session, instance=self._instance)
            follow_up = await self._unlocking.follows_of(run)
            txn = keep_record(self._keys, run, entry, follow_up)
            result = await answered(partial(self._client.txn, txn), self._refusals.patience(str(run.run_id)))
            if result.succeeded:
                self._in_keys[run.run_id] = record, result.revision
                run.tried_again = follow_up.tries_again
                break
            if not run.reread(result.one(0)):
                # Given up as lost meanwhile. Or a write of ours had been carried out, unanswered: then it comes twice.
                self._late.append(record)
                break
            run.unlocked |= run.entry.locked and not owns_lock(result.key(1), run.fence)
        self._table.forget(run)
        self._on_unlocked(run.run_id.job)
        if not self._spool_refuses:  # it was mended while etcd was waited for
            self.spool_takes()

    # Writing

    def _unlock(self, run: Run) -> None:
        self._unlocking.add(run)
        if is_wanted_soon(run, self._clock.wall_ms()):
            self._writing.set()
        elif self._writes_later is None:
            loop = asyncio.get_running_loop()
            self._writes_later = loop.call_later(TOGETHER_S - AT_ONCE_S, self._writing.set)

    async def _write(self) -> None:
        while True:
            await self._writing.wait()
            await asyncio.sleep(AT_ONCE_S)
            self._writing.clear()
            if self._writes_later is not None:
                self._writes_later.cancel()
                self._writes_later = None
            await self._unlocking.carry_out()
            # A few: locks are waited for, and deletions come by the thousand when the log store is back.
            some = [(run_id, self._to_delete.pop(run_id)) for run_id in [*islice(self._to_delete, _DELETED_AT_ONCE)]]
            if self._to_delete:
                self._writing.set()
            await self._steps.carry_out([self._deleting(run_id, what) for run_id, what in some])
            await self._look_again()

    async def _try_again(self) -> None:
        while True:
            await asyncio.sleep(AGAIN_S)
            if self._steps.aside or self._unlocking.aside or self._changed:
                self._writing.set()

    def _unlocked(self, run: Run) -> None:
        if failpoints.armed:
            failpoints.hit("after_unlock")
        run.unlocked = True
        self._delete_when_free(run)
        if run.entry.locked:
            self._on_unlocked(run.run_id.job)

    def _delete_when_free(self, run: Run) -> None:
        if run.delivered and run.unlocked:
            self._to_delete[run.run_id] = run
            self._writing.set()

    def _deleting(self, run_id: RunId, what: int | Run) -> Step:
        revision = what.mod_revision if isinstance(what, Run) else what
        txn = forget(self._keys, run_id, mod_revision=revision, is_killed=run_id in self._kills.by_run)

        def done(_: int) -> None:
            if isinstance(what, Run):
                self._table.forget(what)

        def refused() -> None:
            if isinstance(what, Run):
                self._changed.append(what)

        return Step(txn, done, refused, str(run_id))

    async def _look_again(self) -> None:
        """Run keys that were not as believed: ours still (a write in doubt had been carried out), or not any more."""
        while self._changed:
            runs, self._changed = self._changed, []
            self._busy += len(runs)
            try:
                wanted = [self._keys.run(run.run_id) for run in runs]
                found = await answered(partial(self._client.get_many, wanted), PATIENT)
            except EtcdRefusedError as error:
                self._changed += runs
                self._refusals.note(str(runs[0].run_id), error)
                return  # what ends meanwhile does not wait for it
            finally:
                self._busy -= len(runs)
            for run in runs:
                if not run.reread(found.get(self._keys.run(run.run_id))):
                    self._table.forget(run)
                elif run.unlocked:
                    self._delete_when_free(run)
                else:
                    self._unlocking.add(run)
                    self._writing.set()
