"""The machine of one worker is out of disk, of file descriptors, or of processes, its disk or a mount hangs; all comes
back."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
from contextlib import ExitStack
from pathlib import Path

from tests.chaos.faults.breaking import Breaking, Table, not_now
from tests.chaos.member import Member
from tests.chaos.view import DISK_FULL, DISK_HANGS, MOUNT_HANGS, NO_DESCRIPTORS, NO_PROCESSES
from tests.support.dead_mount import DeadMount

_PIECE = b"\0" * 65_536
_FILLED_UP_EACH_S = 5
_LASTS_S = (5, 12, 25)
CHILD_NEVER_ENDS = "child never ends"
_LINGERS_S = (20, 30, 40)
"""Longer than a worker tries to end it."""
_HANGS_S = (3, 8, 30)
"""Less than what makes it a fault, a little more, and longer than the session lasts."""


class MachineFaults:
    """See the module; without the faults that cannot be done here."""

    def __init__(self, breaking: Breaking) -> None:
        self._on = breaking
        self._with_disk = [member for member in breaking.fleet.workers if member.disk is not None]
        self._can_hang = [member for member in breaking.fleet.workers if member.loop_disk is not None]
        self._mount = breaking.fleet.mount
        self._not_root = [member for member in breaking.fleet.workers if member.process.uid is not None]

    def table(self) -> Table:
        table: Table = {"out of descriptors": (2, self._out_of_descriptors)}
        if self._with_disk:
            table["disk full"] = (3, self._disk_full)
        if self._can_hang:
            table["disk hangs"] = (3, self._disk_hangs)
        if self._mount is not None:
            table["mount hangs"] = (3, self._mount_hangs)
            table[CHILD_NEVER_ENDS] = (2, self._child_never_ends)
        if self._not_root:
            table["out of processes"] = (2, self._out_of_processes)
        return table

    async def _disk_full(self) -> None:
        member, seconds = self._on.one_of(self._with_disk), self._on.chance.choice(_LASTS_S)
        assert member.disk is not None
        filling = member.disk / "filling"
        async with self._on.noted(f"{DISK_FULL} for {seconds} s", member.name):
            _fill(filling)
            for _ in range(seconds * _FILLED_UP_EACH_S):
                await self._on.lasting(1 / _FILLED_UP_EACH_S)
                _fill(filling)  # what came free meanwhile, by a file that the worker removed
            filling.unlink()

    async def _disk_hangs(self) -> None:
        member, seconds = self._on.one_of(self._can_hang), self._on.chance.choice(_HANGS_S)
        assert member.loop_disk is not None
        async with self._on.noted(f"{DISK_HANGS} for {seconds} s", member.name):
            with ExitStack() as hanging:
                # In a thread: what is dirty goes to the disk first, and the fleet's proxies do not wait for that.
                await asyncio.to_thread(hanging.enter_context, member.loop_disk.hanging())
                await self._on.lasting(seconds)

    async def _mount_hangs(self) -> None:
        """Under all workers, for the jobs that start there; every other time nobody who waits for it can be killed."""
        mount, seconds = self._mount, self._on.chance.choice(_HANGS_S)
        assert mount is not None
        is_unkillable = self._on.chance.random() < 0.5
        how = "nobody who waits can be killed" if is_unkillable else "who waits can be killed"
        async with self._on.noted(f"{MOUNT_HANGS} for {seconds} s, {how}", MOUNT_HANGS):
            hanging = DeadMount(mount, is_unkillable=is_unkillable)
            try:
                await self._on.lasting(seconds)
            finally:
                hanging.come_back()

    async def _child_never_ends(self) -> None:
        """What runs have left in their process groups waits, and no signal ends it before the mount comes back."""
        place, seconds = self._on.fleet.lingering, self._on.chance.choice(_LINGERS_S)
        assert place is not None
        async with self._on.noted(f"no child can be ended for {seconds} s", place.name):
            hanging = DeadMount(place, is_unkillable=True)
            try:
                await self._on.lasting(seconds)
            finally:
                self._on.fleet.witness.note_those_that_linger()
                hanging.come_back()

    async def _out_of_descriptors(self) -> None:
        """Not one more than it has open. Of a worker that has begun: before, it has hardly any, and could not begin."""
        member = self._on.one_of(self._on.fleet.workers)
        pid = member.pid if member.guardian() is not None else None
        if pid is None:
            not_now()
        await self._limited(member, pid, resource.RLIMIT_NOFILE, len(os.listdir(f"/proc/{pid}/fd")), NO_DESCRIPTORS)

    async def _out_of_processes(self) -> None:
        """Only its own: no other process has its user. Of a worker that has begun, as for descriptors."""
        member = self._on.one_of(self._not_root)
        pid = member.pid if member.guardian() is not None else None
        await self._limited(member, pid or not_now(), resource.RLIMIT_NPROC, 1, NO_PROCESSES)

    async def _limited(self, member: Member, pid: int, which: int, at_most: int, what: str) -> None:
        seconds = self._on.chance.choice(_LASTS_S)
        async with self._on.noted(f"{what} than {at_most} for {seconds} s", member.name):
            before = await self._set(member, pid, which, at_most)
            if before is None:
                not_now()
            await self._on.lasting(seconds)
            await self._set(member, pid, which, before)

    async def _set(self, member: Member, pid: int, which: int, at_most: int) -> int | None:
        """What it was before; None: the process has ended."""
        try:
            return await asyncio.to_thread(member.limit, pid, which, at_most)
        except OSError:
            if member.pid == pid:
                raise
            return None


def _fill(path: Path) -> None:
    """Append until nothing more goes in, to the last byte."""
    with path.open("ab", buffering=0) as file:
        size = len(_PIECE)
        while size:
            try:
                if file.write(_PIECE[:size]) < size:
                    size //= 2
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                size //= 2
