"""The chaos harness: ``python -m tests.chaos.run --seed 1 --minutes 10``. 0: no violation; the history is kept."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import aiohttp

from tests.chaos.check import report
from tests.chaos.faults.drawing import Faults
from tests.chaos.faults.machine import CHILD_NEVER_ENDS
from tests.chaos.fleet import SLOTS, Fleet, running_fleet
from tests.chaos.ground import Ground, ground
from tests.chaos.history import USERS_DOING, Header, HistoryFile, Note, Stage, read_history, wall_ms
from tests.chaos.jobs import chaos_jobs, edited_jobs, lingering_jobs, load_jobs, mounted_jobs, pinned_jobs
from tests.chaos.settle import collect, settle
from tests.chaos.special import Special
from tests.chaos.users import Users
from tests.support.etcd_server import usual_etcd, whole_version

_HISTORIES = Path("/tmp/etcron-chaos")
_UNDISTURBED_S = 20.0
_INTERRUPTED = 130


def main() -> int:
    """Run it, check the history, say what there is to say."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.run", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=10.0, help="of faults; healing and settling come on top")
    parser.add_argument("--load", type=int, default=0, metavar="N", help="N more jobs that fire each second")
    parser.add_argument("--keep", type=Path, default=_HISTORIES, help="the directory of histories and logs")
    parser.add_argument("--only", nargs="*", default=(), help='of these faults, e.g. --only "worker frozen"')
    parser.add_argument("--without", nargs="*", default=(), help="of all but these")
    given = parser.parse_args()
    given.keep.mkdir(parents=True, exist_ok=True)
    path = given.keep / f"seed-{given.seed}-{wall_ms()}.jsonl"
    sys.stdout.write(f"seed {given.seed}, {given.minutes:g} minutes, history {path}\n")
    sys.stdout.flush()
    with ground() as here:
        try:
            asyncio.run(chaos(here, path, given))
        except asyncio.CancelledError:
            sys.stdout.write(f"interrupted; the history ends there: {path}\n")
            return _INTERRUPTED
        finally:
            _keep_logs(here.directory, path.with_suffix(".logs"))
    return report(read_history(path), path)


async def chaos(here: Ground, path: Path, given: argparse.Namespace) -> None:
    """All of it, into the history at the path. CancelledError: ended by Ctrl-C or SIGTERM."""
    _cancelled_by_signals()
    history, seed = HistoryFile(path), given.seed
    async with (
        running_fleet(here.directory, history, special=Special(here, seed)) as fleet,
        aiohttp.ClientSession() as http,
    ):
        users = Users(fleet, http, seed)
        faults = Faults(fleet, users, seed, given.only, given.without)
        names = [*faults.table, *USERS_DOING]
        history.add(
            Header(seed=seed, minutes=given.minutes, commit=_commit(), load=given.load, faults=names, slots=SLOTS)
        )
        fixed, edited = chaos_jobs(fleet.witness.path), edited_jobs(fleet.witness.path)
        if fleet.mount is not None:
            fixed += mounted_jobs(fleet.mount, fleet.witness.path)
        if fleet.lingering is not None and CHILD_NEVER_ENDS in faults.table:
            fixed += lingering_jobs(fleet.lingering, fleet.witness.path)
        fixed += pinned_jobs(fleet.witness.path, [member.name for member in fleet.workers])
        fixed += load_jobs(fleet.witness.path, given.load)
        async with asyncio.TaskGroup() as group:
            supervisor = group.create_task(fleet.supervise(), name="supervisor")
            for spec in (*fixed, *edited):
                await users.save(spec)
            history.add(Stage(name="saved", at_ms=wall_ms()))
            busy = [
                group.create_task(users.edit_until_done(edited)),
                group.create_task(users.ask_until_done(["asked", "asked-allow", "asked-flaky", "broadcast"])),
                group.create_task(users.drain_until_done([member.name for member in fleet.workers])),
                group.create_task(users.kill_until_done(fleet.witness.going)),
            ]
            await _faults(fleet, faults, given.minutes)
            users.are_done = True
            await fleet.heal()
            await asyncio.gather(*busy)
            await settle(fleet, users, [*fixed, *edited])
            await collect(fleet)
            supervisor.cancel()
    history.close()


def _cancelled_by_signals() -> None:
    """Also where SIGINT is ignored, as in the background of a script."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)


async def _faults(fleet: Fleet, faults: Faults, minutes: float) -> None:
    await asyncio.sleep(_UNDISTURBED_S)
    fleet.history.add(Stage(name="faults begin", at_ms=wall_ms()))
    # By it the lateness outside of faults is judged: on a machine that is full it says nothing of ours.
    load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    fleet.history.add(Note(text=f"etcd {whole_version(usual_etcd())}; a load of {load:.1f} on {cores} cores at first"))
    await faults.run(asyncio.get_running_loop().time() + minutes * 60)


def _commit() -> str:
    answer = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return answer.stdout.strip() or "unknown"


def _keep_logs(directory: Path, there: Path) -> None:
    there.mkdir(exist_ok=True)
    for log in directory.glob("*/log"):
        shutil.copy(log, there / f"{log.parent.name}.log")


if __name__ == "__main__":
    sys.exit(main())
