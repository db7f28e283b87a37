"""A fault run: a small fleet with short timings, something that breaks it, and the checker's judgement of it all."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
import psutil

from common.process import failpoints
from common.protocol.run import EntryState, RunEntry
from tests.chaos.check import violations
from tests.chaos.faults.breaking import KEYS
from tests.chaos.fleet import Fleet, Member, running_fleet
from tests.chaos.history import Exit, Fault, Header, HistoryFile, Mark, read_history, wall_ms
from tests.chaos.jobs import Spec, command, shell_command
from tests.chaos.rules.leftovers import KILLED
from tests.chaos.settle import collect, settle
from tests.chaos.users import Users
from tests.chaos.view import View, Violation
from tests.support.waiting import wait_until

TTL_S: Final = 3
LOST_AFTER_S: Final = 8.0
"""Of every job here: as short as the TTL and the time to end a command allow."""
_SAVED_WITHIN_S: Final = 60.0
_YOUNG_MS: Final = 300
_WORKER_FLAGS: Final = ("--job-log-commit-timeout", "100")


@dataclass(slots=True, eq=False)
class FaultRun:
    """See the module. Use :func:`fault_run`."""

    fleet: Fleet
    users: Users
    lost_after_s: float
    specs: list[Spec] = field(default_factory=list)

    @property
    def evidence(self) -> Path:
        """Where commands leave their evidence."""
        return self.fleet.witness.path

    def job(self, name: str, every: str, *, seconds: float = 0.0, fail_below: int = 0, **fields: Any) -> Spec:
        """A job that leaves evidence; its ``graceSeconds`` beside the other fields."""
        misfire = {"policy": "skip", "graceSeconds": fields.pop("graceSeconds", 10), "windowSeconds": 40}
        trigger = {"after": every} if fields.pop("after", False) else {"every": every}
        has_wrong_clock = any("LD_PRELOAD" in member.process.environ for member in self.fleet.workers)
        leaves = command if has_wrong_clock else shell_command
        return {
            "name": name, "command": leaves(self.evidence, seconds=seconds, fail_below=fail_below), **trigger,
            "lostAfterSeconds": self.lost_after_s, "killGraceSeconds": 0.5, "misfire": misfire, **fields,
        }  # fmt: skip

    async def save(self, *specs: Spec) -> None:
        """Save jobs, through whichever manager answers."""
        for spec in specs:
            async with asyncio.timeout(_SAVED_WITHIN_S):
                await self.users.save(spec)
            assert await self.fleet.client.get(KEYS.job(spec["name"])) is not None, f"refused: {spec}"
            if spec["name"] not in {one["name"] for one in self.specs}:
                self.specs.append(spec)

    async def starts(self, member: Member | None, number: int) -> None:
        """It (None: whoever) has started so many commands since now."""
        since_ms = wall_ms()

        def enough() -> bool:
            marks = [one for one in self.fleet.witness.all() if one.mark is Mark.START and one.wall_ms > since_ms]
            return sum(member is None or one.worker == member.name for one in marks) >= number

        await self.wait(enough, f"{member.name if member else 'somebody'} starts {number} commands")

    async def goes_on(self, job: str, member: Member) -> str:
        """A run, on this worker, of a job whose name begins so; it has just begun."""
        found: list[str] = []

        def looked() -> bool:
            young_ms, signs = wall_ms() - _YOUNG_MS, self.fleet.witness.all()
            begun = {one.run for one in signs if one.mark is Mark.START and one.wall_ms > young_ms}
            alive = {one.run for one in signs if one.mark is Mark.LAST and one.worker == member.name}
            found[:] = [run for run in begun & alive if run.startswith(job)]
            return bool(found)

        await self.wait(looked, f"a run of {job} goes on on {member.name}")
        return found[0]

    async def wait(self, holds: Callable[[], bool], description: str) -> None:
        """Until it holds; on the way nothing may end that nobody has ended."""

        def looked() -> bool:
            ended = [member.name for member in self.fleet.members if _has_ended(member)]
            assert not ended, f"while waiting for {description!r}, there ended: {', '.join(ended)}"
            return holds()

        await wait_until(looked, description=description)

    async def leads(self, wanted: Member) -> None:
        """Has this worker be the steward: the others are started again after it was elected."""
        others = [member for member in self.fleet.workers if member is not wanted]
        for member in others:
            await member.end(signal.SIGKILL)

        async def elected() -> bool:
            kv = await self.fleet.client.get(KEYS.steward)
            return kv is not None and kv.value.decode() == wanted.name

        await wait_until(elected, description=f"{wanted.name} is the steward")
        for member in others:
            _start(member)

    async def session_gone(self, member: Member) -> None:
        """Its session is over, whatever it believes."""

        async def gone() -> bool:
            async for page in self.fleet.client.read_prefix(KEYS.worker_sessions(member.name)):
                return not page.kvs
            return True

        await wait_until(gone, description=f"the session of {member.name} is over")

    async def recorded(self, member: Member) -> None:
        """Whatever it has claimed has ended and is in its spool: the lock is free, or the run key says `ended`."""

        async def all_ended() -> bool:
            locks = {kv.key async for page in self.fleet.client.read_prefix(KEYS.locks) for kv in page.kvs}
            async for page in self.fleet.client.read_prefix(KEYS.runs):
                for kv in page.kvs:
                    entry, lock = RunEntry.from_json(kv.value), KEYS.lock(KEYS.run_of(kv.key).job)
                    is_open = lock in locks if entry.locked else entry.state is EntryState.OPEN
                    if entry.worker == member.name and is_open:
                        return False
            return True

        await wait_until(all_ended, description=f"all runs of {member.name} are recorded")

    # Faults

    @contextmanager
    def noted(self, what: str, target: str) -> Iterator[None]:
        """The fault, for the history, with its times."""
        from_ms = wall_ms()
        yield
        self.fleet.history.add(Fault(what=what, target=target, from_ms=from_ms, until_ms=wall_ms()))

    async def restart(self, member: Member, failpoint: str | None = None) -> None:
        """Start it again, armed or not; killed before, where it runs."""
        await member.end(signal.SIGKILL)
        member.process.environ.pop(failpoints.VARIABLE, None)
        if failpoint is not None:
            member.process.environ[failpoints.VARIABLE] = failpoint
        _start(member)

    async def died(self, member: Member, place: str) -> None:
        """It has killed itself at the failpoint; it stays down until it is restarted."""
        member.is_held_down = True
        popen = member.process.popen
        assert popen is not None
        await wait_until(lambda: popen.poll() is not None, description=f"{member.name} dies {place}")
        assert popen.returncode == -signal.SIGKILL, member.process.log[-3000:]
        assert f"failpoint {place}: kill" in member.process.log
        member.process.popen = None
        with self.noted(f"{KILLED} at {place}", member.name):
            pass  # its guardian owes from here on

    async def stopped(self, member: Member) -> None:
        """It has stopped itself at its failpoint."""
        await wait_until(lambda: member.is_stopped, description=f"{member.name} stops itself")

    # The judgement

    async def judged(self) -> View:
        """All is mended, comes to rest, and is judged: AssertionError with every violation."""
        fleet = self.fleet
        for member in fleet.members:
            if _has_ended(member):
                assert member.process.popen is not None
                status = member.process.popen.wait()
                fleet.history.add(Exit(process=member.name, status=status, at_ms=wall_ms()))
                member.process.popen = None
        await settle(fleet, self.users, self.specs)
        await collect(fleet)
        view = View.of(read_history(fleet.history.path))
        found = violations(view)
        assert not found, _told(found, fleet.history.path)
        return view


@asynccontextmanager
async def fault_run(
    directory: Path,
    *,
    workers: int = 2,
    managers: int = 1,
    etcd: int = 1,
    environ_of: Mapping[str, Mapping[str, str]] | None = None,
    ttl_s: int = TTL_S,
    lost_after_s: float = LOST_AFTER_S,
) -> AsyncIterator[FaultRun]:
    """A fleet that is up; everything is gone afterwards, but the history and the logs in the directory."""
    history = HistoryFile(directory / "history.jsonl")
    history.add(Header(seed=0, minutes=0, commit="under test"))
    shared = ("--lease-ttl-seconds", str(ttl_s), "--lost-after-seconds", str(ttl_s + 10))
    fleet_of = running_fleet(
        directory, history, workers=workers, managers=managers, etcd=etcd, environ_of=environ_of,
        flags_of={"worker": (*shared, *_WORKER_FLAGS), "manager": shared},
    )  # fmt: skip
    # A connection each: a manager that dies in the middle of an answer takes no other call with it.
    async with fleet_of as fleet, aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as http:
        try:
            yield FaultRun(fleet, Users(fleet, http, seed=0), lost_after_s)
        finally:
            history.close()


def process_tree(member: Member) -> list[psutil.Process]:
    """The worker and everything that it has started."""
    worker = psutil.Process(_pid(member))
    return [worker, *worker.children(recursive=True)]


def send_all(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    """A signal to each that is still there."""
    for process in processes:
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            continue


def _pid(member: Member) -> int:
    assert member.process.popen is not None, f"{member.name} does not run"
    return member.process.popen.pid


def _start(member: Member) -> None:
    """As it is, armed or not: `revive` would disarm it."""
    member.is_held_down = False
    member.process.start()


def _has_ended(member: Member) -> bool:
    popen = member.process.popen
    return not member.is_held_down and popen is not None and popen.poll() is not None


def _told(found: list[Violation], history: Path) -> str:
    shown = "\n".join(f"  {one}" for one in found[:20])
    return f"{len(found)} violations; python -m tests.chaos.check {history}\n{shown}"
