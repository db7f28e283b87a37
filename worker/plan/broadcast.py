"""This worker's own sequences of the broadcast jobs: the mark of each is put in place before a fire of it is decided.

A broadcast job fires on every eligible worker, in a sequence of its own there, ``<job>~<worker>``: with its own mark,
lock and records. No other worker decides in it. Owed are the fires since the worker began to take fires, strictly
after the anchor of the save:

    the worker begins (session, end of a drain)   mark = max(mark, anchor, now), and no record of what it was away for
    the job is new                                mark = max(anchor, when the worker began)
    the job was edited, paused or deleted         mark = max(mark, anchor), and one `skipped` record for what the spec
                                                  before it had still planned up to there
    then the sequence is open: the catalog has it, and the scheduler decides its fires

Each is one transaction that compares the session, the job's revision and the mark; one whose answer did not come shows
in the mark when it is read again. If we die in between, the next session begins anew. A final record whose delivery is
forgotten is delivered by the steward, as it lies in its key.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from common.clock import Clock
from common.errors import EtcdError, UnavailableError
from common.etcd import EtcdClient, Session
from common.protocol import boots, fire_decisions
from common.protocol.keys import Keys, read_mark, sequence_name
from common.protocol.member import WorkerIdentity
from common.protocol.placement import is_eligible
from common.protocol.planned_job import PlannedJob
from common.protocol.planner import undecided
from common.protocol.records import fire_record
from common.protocol.run import RunRecord
from common.protocol.txn import KeyValue
from common.verdicts import Verdict
from worker.catalog import Catalog
from worker.plan.boot import Boot
from worker.quarantine import Quarantine

_log = logging.getLogger(__name__)

RETRY_S: Final = 0.3
_AT_ONCE: Final = 16
_SET_BACK_MS: Final = 250
"""Of the wall clock: less is no more than how exactly it is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """What one sequence needs, from what was known when its mark was read."""

    name: str
    new: PlannedJob | None
    """The job as this worker takes part in it from now on; None: it does not."""
    there: PlannedJob | None
    """The job as it is, whether the worker takes part or not; None: it was deleted."""
    mark: KeyValue | None
    mark_ms: int
    """Where the mark has to stand."""
    record: RunRecord | None = None

    @property
    def is_in_place(self) -> bool:
        """Whether nothing has to be written."""
        return self.record is None and read_mark(self.mark) == self.mark_ms


class Broadcast:
    """Opens, moves on and closes this worker's own sequences."""

    def __init__(
        self,
        *,
        client: EtcdClient,
        keys: Keys,
        identity: WorkerIdentity,
        labels: Mapping[str, str],
        slots: int,
        catalog: Catalog,
        on_open: Callable[[str], None],
        on_record: Callable[[RunRecord, int], None],
        clock: Clock,
        boot: Boot | None = None,
    ) -> None:
        """``on_open(job)``: its sequence is open, or closed. ``on_record``: a final record lies in its run key.

        ``boot``: of this machine; None: nothing is started for it.
        """
        self._client = client
        self._keys = keys
        self._identity = identity
        self._labels = labels
        self._slots = slots
        self._catalog = catalog
        self._on_open = on_open
        self._on_record = on_record
        self._clock = clock
        self._boot = boot
        self.asked_at_boot: set[str] = set()
        """The jobs that run for this boot, or have run, as far as this process knows."""
        self._ahead: set[str] = set()
        """The jobs that were saved after this boot by a clock that showed an earlier time than their save."""
        self._session: Session | None = None
        self._since_ms = 0
        self._since_boottime = 0.0
        self._life = 0
        self._waiting: set[str] = set()
        self._taken: dict[str, int] = {}
        """Of a sequence in whose way a run key stands already: its fires after this one are recorded."""
        self._wake = asyncio.Event()
        self._quarantine = Quarantine("broadcast job")

    def begin(self, session: Session, since_ms: int) -> None:
        """From this moment on, the fires of every broadcast job that fits this worker are owed."""
        self._session, self._since_ms = session, since_ms
        ago_ms = self._clock.wall_ms() - since_ms
        self._since_boottime = self._clock.boottime() - ago_ms / 1000
        self._life += 1
        opened = list(self._catalog.sequences)
        self._catalog.sequences.clear()
        for name in opened:
            self._on_open(name)
        self._waiting.update(name for name, job in self._catalog.jobs.items() if job.spec.broadcast)
        self._wake.set()

    def end(self) -> None:
        """No fires are owed any more, until it begins anew."""
        self._session = None
        self._waiting.clear()

    def job_changed(self, name: str) -> None:
        """The catalog has another revision of the job, or none."""
        job = self._catalog.jobs.get(name)
        if self._session is not None and (name in self._catalog.sequences or (job is not None and job.spec.broadcast)):
            self._waiting.add(name)
            self._wake.set()

    def clock_jumped(self) -> None:
        """What was ahead of the clock may have been saved before this boot: a machine without a clock of its own."""
        if self._session is not None and self._ahead:
            self._waiting |= self._ahead
            self._wake.set()

    async def run(self) -> None:
        """Sees to the sequences until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            names, self._waiting = self._waiting, set()
            session, life = self._session, self._life
            if session is None or not names:
                continue
            left = await self._see_to(names, session, life)
            if left and life == self._life:
                await asyncio.sleep(RETRY_S)  # etcd is away, or is ahead of what the catalog knows
                self._waiting |= left
                self._wake.set()

    async def _see_to(self, names: Collection[str], session: Session, life: int) -> set[str]:
        """Those that have to be looked at again."""
        try:
            wanted = [key for name in names for key in (self._mark_key(name), self._keys.mark(name))]
            marks = await self._client.get_many(wanted)
        except (EtcdError, UnavailableError):
            return set(names)
        left: set[str] = set()
        limit = asyncio.Semaphore(_AT_ONCE)

        async def one(name: str) -> None:
            async with limit:
                job = self._catalog.jobs.get(name)
                with self._quarantine.isolate(name, job.revision if job is not None else 0):
                    step = self._step(name, marks)
                    is_written = step is None or step.is_in_place or await self._carry_out(step, session)
                    if not (is_written and self._switch(name, step, life) and await self._ask_at_boot(name, session)):
                        left.add(name)

        async with asyncio.TaskGroup() as tasks:
            for name in names:
                tasks.create_task(one(name), name=f"sequence of {name}")
        return left

    # What a sequence needs

    def _step(self, name: str, marks: Mapping[str, KeyValue]) -> _Step | None:
        """None: this worker takes no part in the job, and did not."""
        old, job = self._catalog.sequences.get(name), self._catalog.jobs.get(name)
        if name in self._catalog.set_aside:
            return None
        mark = marks.get(self._mark_key(name))
        if job is None or not (job.spec.broadcast and is_eligible(job.spec, self._labels, self._slots)):
            return None if old is None else self._closing(name, old, job, mark, marks.get(self._keys.mark(name)))
        known_ms = read_mark(mark)
        at_ms = max(job.anchor_ms, self._owed_since_ms(), known_ms or 0)
        record = None
        if old is not None and old.revision != job.revision and known_ms is not None:
            reason = "edited" if job.spec.enabled else "paused"
            record = self._skipped(old, known_ms, job.anchor_ms, reason)
        return _Step(name=name, new=job, there=job, mark=mark, mark_ms=at_ms, record=record)

    def _owed_since_ms(self) -> int:
        """When it began, by the clock as it is now where that was set back meanwhile: it was ahead.

        Never later than it was by the clock then: fires that are not decided yet would be passed over.
        """
        passed_s = self._clock.boottime() - self._since_boottime  # before the wall clock: a pause puts nothing earlier
        since_ms = self._clock.wall_ms() - round(passed_s * 1000)
        return since_ms if since_ms < self._since_ms - _SET_BACK_MS else self._since_ms

    def _closing(
        self, name: str, old: PlannedJob, job: PlannedJob | None, mark: KeyValue | None, deleted: KeyValue | None
    ) -> _Step:
        """The job is gone, or does not concern this worker any more. A deletion has left its time in the job's mark."""
        known_ms = read_mark(mark)
        until_ms = job.anchor_ms if job is not None else read_mark(deleted) or self._clock.wall_ms()
        at_ms = max(until_ms, known_ms or 0)
        record = None
        if known_ms is not None:
            record = self._skipped(old, known_ms, until_ms, "deleted" if job is None else "edited")
        return _Step(name=name, new=None, there=job, mark=mark, mark_ms=at_ms, record=record)

    def _skipped(self, old: PlannedJob, mark_ms: int, until_ms: int, reason: str) -> RunRecord | None:
        """One record for what the spec before had planned in (mark, until]; None where that is nothing."""
        if not old.spec.enabled:
            return None
        from_ms = max(mark_ms, old.anchor_ms, self._taken.get(old.name, 0))
        fires = undecided(old.schedule, mark_ms=from_ms, until_ms=until_ms)
        if fires is None:
            return None
        now_ms = self._clock.wall_ms()
        return fire_record(old, fires=fires, status=Verdict.SKIPPED, reason=reason, now_ms=now_ms)

    def _mark_key(self, name: str) -> str:
        return self._keys.mark(sequence_name(name, self._identity.worker))

    # What is written, and what follows

    async def _carry_out(self, step: _Step, session: Session) -> bool:
        """Whether the mark stands where it has to, and the record lies there, as far as is known."""
        txn = fire_decisions.sequence(
            self._keys, step.name, step.there, self._mark_key(step.name), step.mark, mark_ms=step.mark_ms,
            skipped=step.record, worker=self._identity.worker, instance=self._identity.instance, session=session,
        )  # fmt: skip
        try:
            result = await self._client.txn(txn)
        except (EtcdError, UnavailableError):
            return False
        if step.record is not None:
            if result.succeeded:
                self._on_record(step.record, result.revision)
            elif fire_decisions.is_in_the_way(result):  # the mark was set back by hand
                self._taken[step.name] = step.record.plan_ms
        return result.succeeded

    async def _ask_at_boot(self, name: str, session: Session) -> bool:
        """Whether the job has been asked for, where it is to run for this machine's boot; False: look again.

        A job that was saved, changed or resumed since waits for the next boot, as a line of a crontab does.
        """
        boot, job, now_ms = self._boot, self._catalog.jobs.get(name), self._clock.wall_ms()
        if boot is None or job is None or name not in self._catalog.sequences or not job.spec.at_boot:
            return True
        self._ahead.discard(name)
        if not job.spec.enabled or name in self.asked_at_boot:
            return True
        if job.anchor_ms >= boot.at_ms(self._clock):
            if job.anchor_ms > now_ms:
                self._ahead.add(name)
            return True
        txn = boots.ask(self._keys, job, worker=self._identity.worker, boot_id=boot.id, now_ms=now_ms, session=session)
        try:
            became = boots.read(await self._client.txn(txn))
        except (EtcdError, UnavailableError):
            return False
        if became is boots.Asked.NOT:
            return False
        self.asked_at_boot.add(name)
        if became is boots.Asked.NOW:
            _log.info("job %r runs, as this machine has booted", name, extra={"action": "boot.asked", "job": name})
        return True

    def _switch(self, name: str, step: _Step | None, life: int) -> bool:
        """Opens or closes the sequence; False: the job has changed meanwhile."""
        if life != self._life:
            return False
        self._taken.pop(name, None)
        if step is not None and step.new is not None:
            own = replace(step.new, of_worker=self._identity.worker, anchor_ms=step.mark_ms)
            self._catalog.sequences[name] = own
        else:
            self._catalog.sequences.pop(name, None)
        self._on_open(name)
        return step is None or self._catalog.jobs.get(name) is step.there
