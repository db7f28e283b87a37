"""The first process of a container: what commands leave behind comes to it, be it a worker or who keeps several."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_WORKER = """
import asyncio, os, subprocess
from tests.support.background import running
from tests.support.executing import executing
from tests.support.waiting import wait_until
from worker.run.orphans import Orphans, is_first_process
from worker.machine.processes import children_of, read_process

def zombies():
    return [pid for pid in children_of(os.getpid()) if read_process(pid).dead]

async def main():
    assert is_first_process()
    async with executing() as runs:
        for command in ("(setsid sleep 0.1 &) ; exit 3", "sleep 0.01 & exit 3") * 5:
            assert (await runs.outcome_of(command)).exit_code == 3
        await wait_until(lambda: len(zombies()) >= 10, description="orphans that nobody has reaped")
        own = lambda: {run.pid for run in runs.executor.running.values()}
        async with running(Orphans(own=own, every_s=0.01).run()):
            await wait_until(lambda: not zombies(), description="they are reaped")
            ids = [runs.start("exit 3") for _ in range(50)]
            assert {(await runs.ended(run_id)).exit_code for run_id in ids} == {3}, "none of our own is taken away"
        # A program that gives a secret, and whose status is asked for a little later, by a thread that knows its pid.
        program = subprocess.Popen(["sh", "-c", "exit 3"])
        await wait_until(lambda: program.pid in zombies(), description="it has ended")
        orphans = Orphans(own=own)
        orphans.look()
        assert program.wait() == 3, "Popen takes a status that another has taken for 0"
    print("done")

asyncio.run(main())
"""


_SUPERVISOR = """
import asyncio, os
from cli.processes.children import at_once
from cli.processes.supervisor import Child, ChildSpec, reaping
from tests.support.background import running
from tests.support.waiting import wait_until
from worker.machine.processes import children_of, read_process

def zombies():
    return [pid for pid in children_of(os.getpid()) if read_process(pid).dead]

def child(line):
    return Child(ChildSpec(name="child", command=["sh", "-c", line], log=None, is_ready=at_once), print)

async def main():
    leaves = child("for _ in 1 2 3; do (setsid sleep 0.1 &); done; exec sleep 300")
    await leaves.start()
    await wait_until(lambda: len(zombies()) >= 3, description="orphans that nobody has reaped")
    [reap] = reaping([leaves], every_s=0.05).values()
    async with running(reap()):
        await wait_until(lambda: not zombies(), description="they are reaped", )
        assert leaves.pid is not None
    await leaves.stop(asyncio.Event())
    print("done")

asyncio.run(main())
"""


@pytest.mark.parametrize("program", [_WORKER, _SUPERVISOR], ids=["a worker", "who keeps several"])
def test_it_reaps_them_and_none_of_its_own(program: str) -> None:
    root = Path(__file__).parents[2]
    apart = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    if subprocess.run((*apart, "true"), capture_output=True, check=False).returncode != 0:
        pytest.skip("no process namespaces for this user")
    done = subprocess.run(
        (*apart, sys.executable, "-c", program),
        cwd=root,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "done\n", done.stderr
