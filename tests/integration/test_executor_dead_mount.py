"""A job that touches a mount that never answers holds up itself, and nothing else of its worker."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from common.clock import SystemClock
from common.verdicts import Verdict
from tests.support.dead_mount import DeadMount, dead_mount
from tests.support.descriptors import descriptors
from tests.support.executing import Runs, executing
from tests.support.waiting import wait_until
from worker.launch import StopOrder
from worker.launcher.unstartable import TooLateError

Made = Callable[..., DeadMount]


@pytest.fixture
def make_mount(tmp_path: Path) -> Iterator[Made]:
    mounts: list[Any] = []

    def make(**settings: bool) -> DeadMount:
        try:
            mount = dead_mount(tmp_path / "dead", **settings)
            entered = mount.__enter__()
        except OSError as error:
            pytest.skip(f"nothing can be mounted here: {error}")
        mounts.append(mount)
        return entered

    yield make
    for mount in mounts:
        mount.__exit__(None, None, None)


def script_with_interpreter(where: Path) -> str:
    script = where.parent / "script"
    script.write_text(f"#!{where}/interpreter\n")
    script.chmod(0o755)
    return str(script)


def linked_directory(where: Path) -> str:
    link = where.parent / "link"
    link.symlink_to(where)
    return str(link)


TOUCHING: dict[str, Callable[[Path], dict[str, Any]]] = {
    "its directory": lambda where: {"command": "echo", "workdir": str(where)},
    "a directory below": lambda where: {"command": "echo", "workdir": f"{where}/below"},
    "a link to it": lambda where: {"command": "echo", "workdir": linked_directory(where)},
    "its home": lambda where: {"command": "echo", "env": {"HOME": str(where)}},
    "its shell": lambda where: {"command": "echo", "shell": f"{where}/sh"},
    "its program": lambda where: {"command": (f"{where}/program",)},
    "its PATH": lambda where: {"command": ("program",), "env": {"PATH": f"{where}:/usr/bin"}},
    "its interpreter": lambda where: {"command": (script_with_interpreter(where),)},
}


async def is_held_up(runs: Runs, run_id: Any) -> None:
    """It has a process that executes nothing, while others come and go."""
    assert (await runs.outcome_of("echo beside")).output == "beside\n"
    assert (await runs.outcome_of(("echo", "beside"), workdir="/")).output == "beside\n"
    assert run_id in runs.executor.running
    assert runs.alive(run_id) == [], "its command has not been executed"


@pytest.mark.parametrize("touches", TOUCHING)
async def test_what_hangs_is_one_run_which_can_be_killed(make_mount: Made, touches: str) -> None:
    mount = make_mount()
    async with executing() as runs:
        before = descriptors()
        settings = TOUCHING[touches](mount.directory)
        run_id = await runs.running(settings.pop("command"), **settings)
        await is_held_up(runs, run_id)
        runs.executor.end(run_id, StopOrder(by="test"))
        outcome = await runs.ended(run_id)
        assert outcome.verdict is Verdict.KILLED
        assert outcome.err.startswith("killed by test")
        await runs.executor.drained()
        assert descriptors() == before


async def test_what_hangs_times_out_and_says_where_it_hung(make_mount: Made) -> None:
    mount = make_mount()
    async with executing() as runs:
        outcome = await runs.outcome_of("echo", workdir=str(mount.directory), timeout_s=1.2)
        assert (outcome.verdict, outcome.output) == (Verdict.TIMEOUT, "")
        assert outcome.err == "timed out after 1.2 s; it hung while it entered its directory"


async def test_what_cannot_be_killed_is_told_as_stuck_and_not_waited_for(
    make_mount: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.machine.tree.GIVE_UP_AFTER_KILL_S", 0.2)
    mount = make_mount(is_unkillable=True)
    async with executing() as runs:
        run_id = await runs.running("echo", workdir=str(mount.directory), kill_grace_s=0.1)
        gone = await runs.running("echo", workdir=str(mount.directory), kill_grace_s=0.1)
        await wait_until(lambda: mount.taken >= 2, description="both wait in the kernel")
        for one in (run_id, gone):
            runs.executor.end(one, StopOrder(by="test"))
        await wait_until(lambda: runs.stuck == {run_id, gone}, description="they are stuck")
        await runs.executor.drained()
        assert not runs.outcomes
        assert run_id in runs.executor.running, "it is shown until it is gone"
        mount.come_back()
        for one in (run_id, gone):
            assert (await runs.ended(one)).verdict is Verdict.KILLED


async def test_closing_does_not_wait_for_what_cannot_be_killed(
    make_mount: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.machine.tree.GIVE_UP_AFTER_KILL_S", 0.2)
    mount = make_mount(is_unkillable=True)
    runs = Runs()
    async with runs.launcher:
        run_id = await runs.running("echo", workdir=str(mount.directory), kill_grace_s=0.1)
        await wait_until(lambda: mount.taken >= 1, description="it waits in the kernel")
        await runs.executor.close()
    assert (runs.stuck, runs.outcomes) == ({run_id}, {})
    mount.come_back()
    await asyncio.to_thread(os.waitpid, runs.started[run_id], 0)


async def test_what_cannot_be_killed_ends_when_the_mount_comes_back(make_mount: Made) -> None:
    mount = make_mount(is_unkillable=True)
    async with executing() as runs:
        run_id = await runs.running("echo", workdir=str(mount.directory), kill_grace_s=0.1)
        await wait_until(lambda: mount.taken >= 1, description="it waits in the kernel")
        runs.executor.end(run_id, StopOrder(by="test"))
        await is_held_up(runs, run_id)
        mount.come_back()
        assert (await runs.ended(run_id)).verdict is Verdict.KILLED


async def test_what_comes_free_past_its_limit_is_not_started(make_mount: Made) -> None:
    mount, clock = make_mount(), SystemClock()
    async with executing() as runs:
        until = clock.boottime() + 0.5
        run_id = await runs.running(("echo",), env={"PATH": f"{mount.directory}:/usr/bin"}, start_until=until)
        await wait_until(lambda: clock.boottime() > until, description="its limit is over")
        mount.come_back()
        await runs.executor.drained()
        assert isinstance(runs.not_now[run_id], TooLateError), "the next place in its PATH was not tried any more"


async def test_closing_ends_what_hangs(make_mount: Made) -> None:
    mount = make_mount()
    async with executing() as runs:
        run_id = await runs.running("echo", workdir=str(mount.directory))
        await runs.executor.close()
        said, _, _ = runs.outcomes[run_id].err.partition("; it hung while ")  # on a busy machine it may say so
        assert said == "killed: worker shutdown"


async def test_a_launcher_that_dies_is_replaced(make_mount: Made) -> None:
    make_mount()
    async with executing() as runs:
        launcher = runs.launcher.pid
        assert launcher is not None
        os.kill(launcher, 9)
        assert (await runs.outcome_of(("echo", "again"))).output == "again\n"
        assert runs.launcher.pid not in (None, launcher)
