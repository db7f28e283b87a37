"""Runs that have ended, and of whose processes some could not be: their locks, and what follows, wait for these.

    ended, its group lives ──> kept ──nothing lives in its group──> over: its lock is freed, what follows comes
                                └──a user gives it up─────────> over

Such a process waits in the kernel for a device, or belongs to another user. Only the run's own process group counts: a
daemon that was left on purpose in a session of its own holds nothing. The groups are written down in the data directory
before their records are safe, so the worker's next life keeps these locks, too. While there are none this costs nothing
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

from common.clock import Clock
from common.errors import EtcdError, UnavailableError
from common.etcd import EtcdClient
from common.process.disk import Disk
from common.protocol.give_up import GiveUp
from common.protocol.keys import Keys, RunId
from common.protocol.member import MOST_ENDING, MOST_PROCESSES, EndingRun
from worker.machine.left_groups import LeftGroup, LeftGroups, living_in, read_left, write_left
from worker.machine.looks import look_once
from worker.machine.process_group import ProcessGroup

_log = logging.getLogger(__name__)

_ASK_S: Final = 1.0
_ASKS_A_LOOK: Final = 5
"""A look reads the state of every process of the machine; to ask for a group is one call."""
_QUIET_LOOKS: Final = 2
"""A look is not a snapshot: who forks and ends in the middle of it may be missed."""


@dataclass(slots=True, kw_only=True, eq=False)
class _EndingRun:
    """One run, and the groups that are left of it: one, but for a run of a former life that was known by its marks."""

    groups: list[LeftGroup]
    handle: ProcessGroup | None = None
    """Reaches exactly this group; None: it is of a former life, and only looked at."""
    processes: Sequence[int] = ()
    quiet_looks: int = 0


class EndingRuns:
    """Run id to what is left of it. Use from the event loop."""

    def __init__(
        self,
        *,
        client: EtcdClient,
        keys: Keys,
        directory: Path,
        disk: Disk,
        clock: Clock,
        on_written: Callable[[RunId], None],
        on_over: Callable[[RunId, str | None], None],
    ) -> None:
        """``directory``: of the worker's data. ``on_written(run)``: whatever becomes of this process, the next one
        knows of it, or need not. ``on_over(run, given_up)``: nothing holds its lock any more, or it is given up,
        in these words."""
        self._client = client
        self._keys = keys
        self._directory = directory
        self._disk = disk
        self._clock = clock
        self._on_written = on_written
        self._on_over = on_over
        self._kept: dict[RunId, _EndingRun] = {}
        self._recorded: set[RunId] = set()
        """Also those of a former life of which nothing is left, until they are settled."""
        self._there = asyncio.Event()
        self._asks_until_look = 0
        self._is_to_be_written = False
        self._is_unwritten = False
        """The disk has refused what there is."""

    def __contains__(self, run_id: object) -> bool:
        return run_id in self._kept

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def listed(self) -> tuple[EndingRun, ...]:
        """For the beat: the first 32."""
        return tuple(
            EndingRun(run=str(run_id), since_ms=min(group.since_ms for group in kept.groups),
                      processes=tuple(kept.processes[:MOST_PROCESSES]))
            for run_id, kept in islice(self._kept.items(), MOST_ENDING)
        )  # fmt: skip

    def of_former_life(self, job: str) -> int:
        """How many of a job are of a former life of this worker: the table of runs does not know them."""
        return sum(1 for run_id, kept in self._kept.items() if kept.handle is None and run_id.job == job)

    def is_recorded(self, run_id: RunId) -> bool:
        """Whether its worker has made its record."""
        return run_id in self._recorded

    def add(self, run_id: RunId, group: ProcessGroup) -> None:
        """A run has ended, but not this group, which is this object's from now on. Call it before the record."""
        left = LeftGroup(run=str(run_id), leader=group.leader, since_ms=self._clock.wall_ms())
        self._recorded.add(run_id)
        self._keep(run_id, _EndingRun(groups=[left], handle=group))
        self._write_down()

    async def recall(self, marked: Iterable[LeftGroup]) -> None:
        """What a former life, or its guardian, has written down; and the groups found by their marks. All that lives.

        Until `keep_only` says which of them matter. OSError: the disk or /proc cannot be read.
        """
        written = await self._disk.call(read_left, self._directory)
        self._recorded.update(run_id for text in written.recorded if (run_id := run_named(text)) is not None)
        known = {group.run for group in written.groups}
        groups = [*written.groups, *(group for group in marked if group.run not in known)]
        # By the disk's thread, which is there: the machine may be out of processes.
        living = await self._disk.call(living_in, groups) if groups else {}
        for group, processes in living.items():
            if processes and (run_id := run_named(group.run)) is not None:
                kept = self._kept.get(run_id) or _EndingRun(groups=[])
                kept.groups.append(group)
                kept.processes = [*kept.processes, *processes]
                self._keep(run_id, kept)
        if groups:
            self._write_down()

    def forget(self, run_id: RunId) -> None:
        """Its lock is no concern of this worker's any more."""
        if run_id in self._kept or run_id in self._recorded:
            self._recorded.discard(run_id)
            self._drop(run_id)

    def keep_only(self, runs: Collection[RunId]) -> None:
        """Of a former life's; the others have been settled meanwhile, by whomever."""
        for run_id in (self._kept.keys() | self._recorded) - set(runs):
            self.forget(run_id)

    async def run(self) -> None:
        """Looks at them until cancelled."""
        while True:
            await self._there.wait()
            await self._look_at_groups()
            await self._read_give_ups()
            if self._is_unwritten:
                self._write_down()
            if not self._kept:
                self._there.clear()
            else:
                await asyncio.sleep(_ASK_S)

    def _keep(self, run_id: RunId, kept: _EndingRun) -> None:
        self._kept[run_id] = kept
        self._asks_until_look = 0
        self._there.set()

    def _over(self, run_id: RunId) -> None:
        extra = {"action": "run.ending_over", "run": str(run_id)}
        _log.info("nothing of %s is left: its lock is freed", run_id, extra=extra)
        self._let_go(run_id)

    def _let_go(self, run_id: RunId, given_up: str | None = None) -> None:
        """That one of a former life has a record stays known until it is settled."""
        if self._kept[run_id].handle is not None:
            self._recorded.discard(run_id)
        self._drop(run_id)
        self._on_over(run_id, given_up)

    def _drop(self, run_id: RunId) -> None:
        kept = self._kept.pop(run_id, None)
        if kept is not None and kept.handle is not None:
            kept.handle.close()
        self._on_written(run_id)
        self._write_down()

    async def _look_at_groups(self) -> None:
        for run_id, kept in tuple(self._kept.items()):
            if kept.handle is not None and not kept.handle.send(signal.SIGKILL):
                self._over(run_id)
        self._asks_until_look -= 1
        if self._asks_until_look > 0:
            return
        self._asks_until_look = _ASKS_A_LOOK
        looked_at = dict(self._kept)
        try:
            living = await look_once(
                partial(living_in, [group for kept in looked_at.values() for group in kept.groups])
            )
        except (OSError, RuntimeError) as error:  # the machine is out of descriptors, or of threads
            _log.debug("cannot look for what is left of runs: %s", error, extra={"action": "ending.blind"})
            return
        for run_id, kept in looked_at.items():
            kept.processes = [pid for group in kept.groups for pid in living[group]] or kept.processes
            kept.quiet_looks = 0 if any(living[group] for group in kept.groups) else kept.quiet_looks + 1
            if kept.quiet_looks >= _QUIET_LOOKS and self._kept.get(run_id) is kept:
                self._over(run_id)

    async def _read_give_ups(self) -> None:
        """A wish that is newer than the run frees its lock, whatever lives."""
        runs = {self._keys.give_up(run_id): (run_id, self._keys.run(run_id)) for run_id in self._kept}
        try:
            found = await self._client.get_many([*runs, *(key for _, key in runs.values())]) if runs else {}
        except (EtcdError, UnavailableError):
            return
        for key, (run_id, run_key) in runs.items():
            kv, run = found.get(key), found.get(run_key)
            if kv is None or run is None or run_id not in self._kept:
                continue
            try:
                wish = GiveUp.from_json(kv.value, run_id=run_id, revision=kv.create_revision)
            except ValueError:
                continue  # the steward sets it aside
            if not wish.reaches(run.create_revision):
                continue
            extra = {"action": "run.ending_given_up", "run": str(run_id)}
            _log.warning("%s is %s: its lock is freed, its processes go on", run_id, wish, extra=extra)
            self._let_go(run_id, str(wish))

    def _write_down(self) -> None:
        """By the disk's thread, in its turn: before what is recorded from now on is safe."""
        if not self._is_to_be_written:
            self._is_to_be_written = True
            self._disk.call(self._write).add_done_callback(self._written)

    def _write(self) -> Sequence[RunId]:
        """In the thread: the runs that are written down."""
        self._is_to_be_written = False
        kept = tuple(self._kept.items())
        groups = [group for _, one in kept for group in one.groups]
        recorded = frozenset(str(run_id) for run_id in tuple(self._recorded))
        write_left(self._directory, LeftGroups(groups=groups, recorded=recorded))
        return [run_id for run_id, _ in kept]

    def _written(self, future: asyncio.Future[Sequence[RunId]]) -> None:
        error = future.exception()
        if error is not None and not self._is_unwritten:
            _log.warning("not written down which runs still have processes, and tried again: %s", error,
                         extra={"action": "ending.not_written"})  # fmt: skip
        self._is_unwritten = error is not None
        for run_id in future.result() if error is None else ():
            self._on_written(run_id)


def run_named(text: str) -> RunId | None:
    """The run that a process's environment, or a file, names: anybody may have written that."""
    try:
        return RunId.parse(text)
    except ValueError:
        return None
