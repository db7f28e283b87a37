"""Faults that users have a part in: they give up runs, unblock jobs, and save a job while its fires wait."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

from common.errors import EtcronError
from common.protocol.compares import value_is
from common.protocol.keys import encode_mark, read_mark
from common.protocol.run import EntryState, RunEntry
from common.protocol.txn import Put, Txn
from tests.chaos.faults.breaking import KEYS, Breaking, Table, not_now
from tests.chaos.ground import end_processes_of
from tests.chaos.history import wall_ms
from tests.chaos.jobs import BLOCKED, COSTLY, NEVER_LOST, RELABELLED
from tests.chaos.member import Member
from tests.chaos.planned import planned
from tests.chaos.users import Users
from tests.chaos.view import CLOCK, MACHINE_GONE, WITH_ITS_DISK
from tests.support.proxy import Mode

_GONE_S = (40, 150)
"""Shorter and longer than what nobody could take is recorded after: a minute, and the steward's patience."""
_CUT_S = 10
"""So long a run that was given up goes on at least."""
_AHEAD_S = (900, 7200)
_BLOCKED_S = (2, 5, 12)
_LEAPS_S = (90, 600, 7200)
_LASTS_S = (8, 20)
_NOTICED_WITHIN_S = 2.5
_ASKS_AGAIN_S = 0.5
_FIRE_WAITS_WITHIN_S = 10.0


class UserFaults:
    """See the module."""

    def __init__(self, breaking: Breaking, users: Users) -> None:
        self._on = breaking
        self._users = users
        self._fleet = breaking.fleet
        self._one_gone = asyncio.Lock()
        self._with_clock = [member for member in breaking.fleet.members if member.process.clock is not None]

    def table(self) -> Table:
        table: Table = {
            "machine gone": (1, self._machine_gone),
            "run given up": (2, self._given_up),
            "mark ahead": (2, self._mark_ahead),
            "saved while a fire waits": (3, self._saved_while_a_fire_waits),
            "costly job": (1, self._costly_job),
        }
        return table | ({"clock leaps": (2, self._clock_leaps)} if self._with_clock else {})

    async def _machine_gone(self) -> None:
        """With all that runs there, every other time for good: then another comes in its place, with an empty disk.

        One at a time: somebody has to be there who records what nobody can take.
        """
        if self._one_gone.locked():
            not_now()
        member, seconds = self._on.one_of(self._fleet.workers), self._on.chance.choice(_GONE_S)
        is_for_good = self._on.chance.random() < 0.5
        what = f"{MACHINE_GONE} for {seconds} s{WITH_ITS_DISK if is_for_good else ''}"
        async with self._on.noted(what, member.name), self._one_gone:
            until_s = asyncio.get_running_loop().time() + seconds
            await self._powered_off(member)
            await self._until(lambda: self._has_left(member))
            await self._until(lambda: self._all_given_up(member))
            await self._on.lasting(until_s - asyncio.get_running_loop().time())
            if is_for_good:
                await asyncio.to_thread(_emptied, member.disk or member.process.directory / "data")
            member.revive()

    async def _powered_off(self, member: Member) -> None:
        member.send(signal.SIGSTOP)  # so that it does not notice
        for pid in member.descendants():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await member.end(signal.SIGKILL)
        await asyncio.to_thread(end_processes_of, self._fleet.directory, of_worker=member.name)

    async def _has_left(self, member: Member) -> bool:
        async for page in self._fleet.client.read_prefix(KEYS.worker_sessions(member.name)):
            return not page.kvs
        return True

    async def _all_given_up(self, member: Member) -> bool:
        """Its runs that nobody else ends: those of jobs whose runs are never lost."""
        left = []
        async for page in self._fleet.client.read_prefix(KEYS.runs):
            for kv in page.kvs:
                with contextlib.suppress(ValueError):  # garbage, by another fault
                    run, entry = KEYS.run_of(kv.key), RunEntry.from_json(kv.value)
                    if entry.worker == member.name and entry.state is EntryState.OPEN and entry.lost_after_ms is None:
                        left.append(str(run))
        for of_it in left:
            await self._users.give_up(of_it)
        return not left

    async def _given_up(self) -> None:
        """A run that goes on, on a worker that is cut off from etcd; before that it is well, and that is refused."""
        going = {run: name for run, name in self._fleet.witness.going_on().items() if run.startswith(NEVER_LOST)}
        free = [one for one in self._fleet.workers if one.name in going.values() and not one.is_held_down]
        member = self._on.one_of(free)
        run = next(run for run, name in going.items() if name == member.name)
        mode = self._on.chance.choice((Mode.SWALLOW, Mode.RESET))
        await self._users.give_up(run)
        async with self._on.noted(f"etcd: {mode.name.lower()} until a run of it was given up", member.name):
            for way in member.etcd:
                way.set(mode)
            await self._until(lambda: self._users.give_up(run))
            await self._on.lasting(_CUT_S)
            for way in member.etcd:
                way.set(Mode.PASS)

    async def _mark_ahead(self) -> None:
        """As a clock that was wrong for a moment leaves it; users look at the job some time later."""
        name, seconds = self._on.chance.choice(BLOCKED), self._on.chance.choice(_AHEAD_S)
        async with self._on.noted(f"its mark is put {seconds} s ahead", name):
            await self._until(lambda: self._put_ahead(name, seconds))
            await self._on.lasting(self._on.chance.choice(_BLOCKED_S))
            await self._until(lambda: self._users.unblock(name, is_blocked=True))

    async def _put_ahead(self, name: str, seconds: int) -> bool:
        kv = await self._fleet.client.get(KEYS.mark(name)) or not_now()
        ahead_ms = wall_ms() + seconds * 1000
        if (read_mark(kv) or 0) < ahead_ms - 1000:
            ahead = Put(kv.key, encode_mark(ahead_ms))
            return (await self._fleet.client.txn(Txn([value_is(kv.key, kv.value)], [ahead]))).succeeded
        return True

    async def _clock_leaps(self) -> None:
        """Nobody else's; users take their jobs for blocked, and are told that they are not, or to mend the clock."""
        member, by_s = self._on.one_of(self._with_clock), self._on.chance.choice(_LEAPS_S)
        seconds = self._on.chance.choice(_LASTS_S)
        async with self._on.noted(f"{CLOCK} leaps by {by_s:+g} s for {seconds} s", member.name):
            member.set_clock(f"{by_s:+g}s")
            await self._on.lasting(seconds / 2)
            await self._unblock_one()
            await self._on.lasting(seconds / 2)
            member.set_clock("+0s")
            await self._on.happens(lambda: False, _NOTICED_WITHIN_S)

    async def _unblock_one(self) -> None:
        free = [name for name in BLOCKED if name not in self._on.busy]
        if not free:
            return
        name = self._on.chance.choice(free)
        self._on.busy.add(name)
        try:
            await self._users.unblock(name, is_blocked=False)
        finally:
            self._on.busy.discard(name)

    async def _saved_while_a_fire_waits(self) -> None:
        """For its time, or for the run before it."""
        name = self._on.chance.choice(RELABELLED)
        async with self._on.noted("labelled while a fire waits", name):
            until_s = asyncio.get_running_loop().time() + _FIRE_WAITS_WITHIN_S
            while not await self._has_waiting_fire(name):
                if asyncio.get_running_loop().time() > until_s:
                    not_now()
                await self._on.lasting(_ASKS_AGAIN_S)
            await self._users.relabel(name)

    async def _has_waiting_fire(self, name: str) -> bool:
        mark_ms = read_mark(await self._fleet.client.get(KEYS.mark(name)))
        return mark_ms is not None and bool(planned(self._users.specs[name], mark_ms + 1, wall_ms()))

    async def _costly_job(self) -> None:
        """Allowed, and due in 2199: whoever looks for its next fire has to look far."""
        async with self._on.noted("a job that costs much to plan", COSTLY["name"]):
            await self._users.save(COSTLY)
            await self._on.lasting(self._on.chance.choice(_LASTS_S))
            await self._users.delete(COSTLY["name"])

    async def _until(self, is_done: Callable[[], Awaitable[bool]]) -> None:
        """Again and again, also beyond the end: nobody else would do it."""
        while True:
            try:
                if await is_done():
                    return
            except EtcronError:
                pass  # etcd is away, by another fault
            await asyncio.sleep(_ASKS_AGAIN_S)


def _emptied(directory: Path) -> None:
    for path in directory.iterdir():
        if path.is_dir() and path.name != "lost+found":
            shutil.rmtree(path)
        elif not path.is_dir():
            path.unlink()
