"""Runs that are ended: by a kill, by their timeout, or because their first process has left something behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from common.clock import SystemClock
from common.protocol.keys import RunId
from common.verdicts import Verdict
from tests.support.executing import executing
from tests.support.waiting import wait_until
from worker.launch import StopOrder
from worker.machine.processes import read_process
from worker.run.sweeper import Remains, look

KILL = StopOrder(reason="kill", by="console 127.0.0.1")


async def test_kill_ends_the_whole_group() -> None:
    async with executing() as runs:
        run_id = runs.start("sleep 300 & sleep 300 | cat & echo up; sleep 300")
        await runs.printed(run_id, "up")
        assert runs.executor.end(run_id, KILL)
        outcome = await runs.ended(run_id)
        assert runs.alive(run_id) == []
    assert (outcome.verdict, outcome.err) == (Verdict.KILLED, "killed by console 127.0.0.1: kill")
    assert (outcome.reason, outcome.by, outcome.signal) == ("kill", "console 127.0.0.1", signal.SIGTERM)
    assert outcome.output == "up\n"


@pytest.mark.parametrize(
    "leaving",
    [
        pytest.param("setsid sleep 300 &", id="new session"),
        pytest.param("setsid setsid sleep 300 & setsid setsid setsid sleep 300 &", id="new sessions of new sessions"),
        pytest.param("set -m; sleep 300 & set +m;", id="own group in the session"),
        pytest.param("set -m; env -i sleep 300 & set +m;", id="own group, no marks"),
        pytest.param("(setsid sh -c 'sleep 300 & sleep 300' &) ;", id="daemon"),
        pytest.param("setsid sh -c \"trap '' TERM; while :; do sleep 1; done\" &", id="daemon that ignores TERM"),
    ],
)
async def test_kill_finds_what_left_the_group(leaving: str) -> None:
    async with executing() as runs:
        run_id = runs.start(f"{leaving} echo up; sleep 300", kill_grace_s=0.5)
        await runs.printed(run_id, "up")
        group = runs.executor.running[run_id].pid
        runs.executor.end(run_id, KILL)
        outcome = await runs.ended(run_id)
        assert [p for p in runs.alive(run_id) if "env -i" not in leaving or p.session == group] == []
    assert outcome.verdict is Verdict.KILLED


_LEAVES_ITS_GROUP = (
    "import os; os.setpgid(0, 0); print(os.getpid(), flush=True); os.execve('/bin/sleep', ['sleep', '300'], {})"
)


@pytest.mark.parametrize("is_killed", [True, False], ids=["kill", "own exit"])
async def test_what_has_dropped_its_marks_in_a_group_of_its_own_is_the_runs_for_a_kill_alone(
    tmp_path: Path, is_killed: bool
) -> None:
    told = tmp_path / "pid"
    async with executing() as runs:
        leaving = f'python3 -I -S -c "{_LEAVES_ITS_GROUP}" >{told} & until [ -s {told} ]; do sleep 0.01; done;'
        run_id = runs.start(f"{leaving} {'echo up; sleep 300' if is_killed else 'sleep 300 & exit 0'}")
        if is_killed:
            await runs.printed(run_id, "up")
            runs.executor.end(run_id, KILL)
        await runs.ended(run_id)
        left = read_process(int(told.read_text()))
        assert (left is None or left.dead) == is_killed
        if left is not None and not left.dead:
            os.kill(left.pid, signal.SIGKILL)


async def test_command_that_ignores_term_is_gone_after_its_grace() -> None:
    async with executing() as runs:
        run_id = runs.start("trap '' TERM; echo deaf; while :; do sleep 0.01; done", kill_grace_s=0.3)
        await runs.printed(run_id, "deaf")
        runs.executor.end(run_id, KILL)
        outcome = await runs.ended(run_id)
        assert runs.alive(run_id) == []
    assert (outcome.verdict, outcome.signal) == (Verdict.KILLED, signal.SIGKILL)


async def test_command_that_is_deaf_forks_leaves_and_closes_its_output_is_gone_after_its_grace() -> None:
    """Nothing but its marks leads to it."""
    deaf = "trap '' TERM; exec >/dev/null 2>&1; while :; do sleep 0.1; done"
    async with executing() as runs:
        run_id = runs.start(f'setsid setsid sh -c "{deaf}" & echo up; {deaf}', kill_grace_s=0.4)
        await runs.printed(run_id, "up")
        await wait_until(lambda: len({one.session for one in runs.alive(run_id)}) == 2, description="it has left")
        began = SystemClock().monotonic()
        assert runs.executor.end(run_id, KILL)
        outcome = await runs.ended(run_id)
        assert runs.alive(run_id) == []
    assert SystemClock().monotonic() - began >= 0.4
    assert outcome.err == "killed by console 127.0.0.1: kill", "it was not given up"


async def test_command_that_ends_on_term_has_time_to_say_goodbye() -> None:
    async with executing() as runs:
        run_id = runs.start("trap 'sleep 0.2; echo goodbye; exit 0' TERM; echo up; while :; do sleep 0.01; done")
        await runs.printed(run_id, "up")
        runs.executor.end(run_id, KILL)
        outcome = await runs.ended(run_id)
    assert (outcome.verdict, outcome.exit_code) == (Verdict.KILLED, 0)
    assert "goodbye" in outcome.output


async def test_timeout_ends_a_run() -> None:
    async with executing() as runs:
        outcome = await runs.outcome_of("sleep 300 & sleep 300", timeout_s=0.2)
        assert runs.alive(outcome.run_id) == []
    assert (outcome.verdict, outcome.err, outcome.by) == (Verdict.TIMEOUT, "timed out after 0.2 s", None)


async def test_run_that_ends_within_its_timeout_is_not_touched_by_it() -> None:
    async with executing() as runs:
        outcome = await runs.outcome_of("sleep 0.05", timeout_s=30)
    assert outcome.verdict is Verdict.SUCCESS


async def test_first_ending_wins() -> None:
    async with executing() as runs:
        run_id = runs.start("trap '' TERM; echo up; while :; do sleep 0.01; done", kill_grace_s=0.2)
        await runs.printed(run_id, "up")
        assert runs.executor.end(run_id, KILL)
        assert runs.executor.end(run_id, StopOrder(kind=Verdict.TIMEOUT))
        assert runs.executor.end(run_id, StopOrder(by="somebody else"))
        outcome = await runs.ended(run_id)
        assert not runs.executor.end(run_id, KILL), "it has ended"
    assert (outcome.verdict, outcome.by) == (Verdict.KILLED, "console 127.0.0.1")


async def test_kill_that_comes_as_it_exits_does_not_change_its_verdict() -> None:
    async with executing() as runs:
        run_id = runs.executed("exit 0")
        let_it_exit(runs.executor.running[run_id].pid)
        assert not runs.executor.end(run_id, KILL)
        assert (await runs.ended(run_id)).verdict is Verdict.SUCCESS


async def test_exit_that_somebody_has_caused_for_us_does() -> None:
    async with executing() as runs:
        run_id = runs.executed("exit 0")
        let_it_exit(runs.executor.running[run_id].pid)
        assert runs.executor.end(run_id, KILL, exited_too=True)
        assert (await runs.ended(run_id)).verdict is Verdict.KILLED
        assert runs.heeded


async def test_a_descriptor_is_watched_for_its_next_run_though_the_exit_was_seen_by_a_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a busy machine the look at what is left may come before the loop has heard of the exit."""
    async with executing() as runs:
        with monkeypatch.context() as patch:
            patch.setattr(runs.executor._run_watch, "_on_exits", lambda _exited: None)
            run_id = runs.start("exec sleep 300")
            runs.executor.end(run_id, KILL)
            await runs.ended(run_id)
        assert not runs.executor._run_watch._exits, "else the next run with this number would never be told of"
        assert (await runs.outcome_of("true")).verdict is Verdict.SUCCESS


def let_it_exit(pid: int) -> None:
    """Wait for its exit before the loop has a turn; it stays to be reaped."""
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


async def test_kill_at_any_moment_gives_one_outcome() -> None:
    async with executing() as runs:
        ids: list[RunId] = []
        for _ in range(100):
            run_id = runs.start("sleep 0.005 & wait; exit 0")
            asyncio.get_running_loop().call_later(len(ids) * 0.0001, runs.executor.end, run_id, KILL)
            ids.append(run_id)
        for run_id in ids:
            outcome = await runs.ended(run_id)
            assert outcome.verdict in (Verdict.SUCCESS, Verdict.KILLED)
            assert (outcome.err == "") is (outcome.verdict is Verdict.SUCCESS)
        assert [process for run_id in ids for process in runs.alive(run_id)] == []


async def test_stopped_process_ends_on_term() -> None:
    async with executing() as runs:
        run_id = runs.start("echo up; exec sleep 300", kill_grace_s=60)
        await runs.printed(run_id, "up")
        os.kill(runs.executor.running[run_id].pid, signal.SIGSTOP)
        runs.executor.end(run_id, KILL)
        assert (await runs.ended(run_id)).signal == signal.SIGTERM


@pytest.mark.parametrize(
    ("command", "exit_code"),
    [
        pytest.param("sleep 300 & exit 0", 0, id="success"),
        pytest.param("sleep 300 & sleep 300 & exit 4", 4, id="failure"),
        pytest.param("sh -c 'sleep 300 & exit 0' & wait; exit 0", 0, id="grandchild"),
    ],
)
async def test_what_is_left_in_the_group_is_ended_and_the_verdict_stands(command: str, exit_code: int) -> None:
    async with executing() as runs:
        run_id = runs.start(command, kill_grace_s=60)
        outcome = await runs.ended(run_id)
        assert runs.alive(run_id) == []
    assert outcome.verdict is (Verdict.SUCCESS if exit_code == 0 else Verdict.FAILED)
    assert (outcome.exit_code, outcome.err) == (exit_code, f"exit status {exit_code}" if exit_code else "")


async def test_service_in_a_session_of_its_own_goes_on_after_a_run_that_ended_by_itself() -> None:
    """As docs/guides/jobs.md says how to start one."""
    async with executing() as runs:
        run_id = runs.start("setsid --wait sh -c 'sleep 300 >/dev/null 2>&1 &'")
        assert (await runs.ended(run_id)).verdict is Verdict.SUCCESS
        (service,) = runs.alive(run_id)
        os.kill(service.pid, signal.SIGKILL)


async def test_service_goes_on_also_where_something_is_left_in_the_group() -> None:
    async with executing() as runs:
        run_id = runs.start("setsid --wait sh -c 'sleep 300 >/dev/null 2>&1 &'; sleep 300 & exit 0", kill_grace_s=60)
        assert (await runs.ended(run_id)).verdict is Verdict.SUCCESS
        (service,) = runs.alive(run_id)
        assert service.group != runs.started[run_id]
        os.kill(service.pid, signal.SIGKILL)


def leaving_behind(script: str, ready: Path) -> str:
    """A command that exits once what it leaves behind has begun."""
    return f'sh -c "{script} while :; do sleep 0.01; done" & until [ -e {ready} ]; do sleep 0.01; done; exit 0'


async def test_output_is_read_until_the_group_has_ended(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    async with executing() as runs:
        script = f"trap 'echo last words; exit' TERM; echo up; : > {ready};"
        outcome = await runs.outcome_of(leaving_behind(script, ready), kill_grace_s=60)
    assert outcome.verdict is Verdict.SUCCESS
    assert outcome.output.startswith("up\n")
    assert outcome.output.endswith("last words\n")


async def test_deaf_remains_are_killed_after_the_grace(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    async with executing() as runs:
        run_id = await runs.running(leaving_behind(f"trap '' TERM; : > {ready};", ready), kill_grace_s=0.3)
        run = runs.executor.running[run_id]
        await wait_until(lambda: run.exit is not None, description="the first exit")
        assert not runs.executor.end(run_id, KILL), "its first process has exited: its verdict stands"
        assert not runs.executor.end(run_id, KILL, exited_too=True), "that was its own doing"
        assert run.group.leader_reaped, "its number may be somebody else's"
        outcome = await runs.ended(run_id)
        assert runs.alive(run_id) == []
    assert outcome.verdict is Verdict.SUCCESS


async def test_zombie_that_nobody_reaps_does_not_hold_a_run() -> None:
    """Its parent has left the group and never waits; the zombie stays in the group for as long as that parent lives."""
    script = (
        "import os\n"
        "reading, writing = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    child = os.fork()\n"
        "    if child == 0: os._exit(0)\n"
        "    os.setsid(); os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)\n"
        "    print('zombie', child, flush=True); os.execvp('sleep', ['sleep', '300'])\n"
        "os.close(writing); os.read(reading, 1)  # until the exec\n"
    )
    async with executing() as runs:
        run_id = runs.start(("python3", "-c", script), kill_grace_s=60)
        outcome = await runs.ended(run_id)
        assert outcome.verdict is Verdict.SUCCESS
        zombie = read_process(int(outcome.output.split()[1]))
        assert zombie is not None
        assert zombie.dead
        for process in runs.alive(run_id):
            os.kill(process.pid, signal.SIGKILL)


async def test_storm_of_forks_is_over_after_a_kill() -> None:
    branch = "(while :; do sleep 0.5 & wait; done) &"
    storm = f"trap '' TERM; n=0; while [ $n -lt 200 ]; do {branch} n=$((n+1)); done; echo up; wait"
    async with executing() as runs:
        run_id = runs.start(storm, kill_grace_s=0.2)
        await runs.printed(run_id, "up")
        runs.executor.end(run_id, KILL)
        outcome = await runs.ended(run_id)
        assert runs.alive(run_id) == []
    assert outcome.verdict is Verdict.KILLED


async def test_chain_of_processes_that_leave_their_sessions_is_over_after_a_kill() -> None:
    """Each forks and ends within milliseconds: whoever is in a list of processes has ended when it is looked at."""
    chains = (
        "import os, signal, time\n"
        "chain = any(os.fork() == 0 for _ in range(8))\n"
        "if not chain: print('up', flush=True); time.sleep(300)\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "until = time.monotonic() + 2\n"
        "while time.monotonic() < until:\n"
        "    if os.fork(): os._exit(0)\n"
        "    os.setsid()\n"
        "time.sleep(5)"
    )
    async with executing() as runs:
        run_id = runs.start((sys.executable, "-I", "-S", "-c", chains), kill_grace_s=0)
        await runs.printed(run_id, "up")
        await asyncio.sleep(0.2)  # they are on their way
        runs.executor.end(run_id, KILL)
        await runs.ended(run_id)
        await asyncio.sleep(2.1)  # whoever has escaped is at rest, and is seen
        assert [process.pid for process in runs.alive(run_id)] == []


async def test_group_that_is_not_signalled_by_pidfd_is_ended_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on kernels before 6.9."""
    monkeypatch.setattr("worker.machine.process_group.kernel_has_group_pidfds", lambda: False)
    async with executing() as runs:
        killed, left, plain = runs.start("sleep 300 & sleep 300"), runs.start("sleep 300 & exit 0"), runs.start("true")
        runs.executor.end(killed, KILL)
        assert (await runs.ended(killed)).verdict is Verdict.KILLED
        assert (await runs.ended(left)).verdict is Verdict.SUCCESS
        assert (await runs.ended(plain)).verdict is Verdict.SUCCESS
        assert runs.alive(killed) == runs.alive(left) == []


async def test_process_that_survives_kill_is_given_up_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.machine.tree.GIVE_UP_AFTER_KILL_S", 0.05)
    monkeypatch.setattr("worker.run.sweeper.look", lambda looked_for, _instance: [[4711] for _ in looked_for])
    async with executing() as runs:
        run_id = runs.start("sleep 300", kill_grace_s=0.05)
        runs.executor.end(run_id, KILL)
        outcome = await runs.ended(run_id)
    assert outcome.err.endswith("; could not be ended: processes 4711")


async def test_worker_that_was_stopped_past_the_grace_gives_up_on_nothing_before_it_has_killed_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("worker.machine.tree.GIVE_UP_AFTER_KILL_S", 2)
    async with executing() as runs:
        run_id = runs.start(
            "setsid sh -c \"trap '' TERM; echo up; while :; do sleep 1; done\" & wait", kill_grace_s=0.2
        )
        await runs.printed(run_id, "up")
        runs.executor.end(run_id, KILL)
        time.sleep(2.5)  # noqa: ASYNC251 - the loop stands still, as in a worker that is stopped
        outcome = await runs.ended(run_id)
        assert runs.alive(run_id) == []
    assert outcome.err == "killed by console 127.0.0.1: kill"


async def test_leader_that_no_look_has_seen_has_its_grace_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.run.sweeper.look", lambda looked_for, _instance: [[] for _ in looked_for])
    async with executing() as runs:
        run_id = runs.start("trap 'sleep 0.2; echo goodbye; exit 0' TERM; echo up; while :; do sleep 0.01; done")
        await runs.printed(run_id, "up")
        runs.executor.end(run_id, KILL)
        assert "goodbye" in (await runs.ended(run_id)).output


async def test_one_look_that_finds_nothing_does_not_end_a_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process in the middle of an exec shows no marks."""
    seen = [[], [4711], [], []]

    def sees(looked_for: Sequence[Remains], _instance: str) -> list[list[int]]:
        return [seen.pop(0) if remains.group.leader_exited() else [4711] for remains in looked_for]

    monkeypatch.setattr("worker.run.sweeper.look", sees)
    async with executing() as runs:
        run_id = runs.start("exec sleep 300", kill_grace_s=60)
        runs.executor.end(run_id, KILL)
        await runs.ended(run_id)
        assert seen == []


async def test_failed_look_is_taken_again(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    looks = iter([OSError("Too many open files"), OSError("Too many open files")])

    def fails_twice(looked_for: Sequence[Remains], instance: str) -> list[list[int]]:
        for error in looks:
            raise error
        return look(looked_for, instance)

    monkeypatch.setattr("worker.run.sweeper.look", fails_twice)
    async with executing() as runs:
        run_id = runs.start("sleep 300 & sleep 300")
        runs.executor.end(run_id, KILL)
        assert (await runs.ended(run_id)).verdict is Verdict.KILLED
        assert runs.alive(run_id) == []
    actions = [getattr(record, "action", None) for record in caplog.records]
    assert actions.count("look_failed") == 1, "said once"


TRACED = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.prctl(0x59616D61, ctypes.c_ulong(2**64 - 1), 0, 0, 0)  # PR_SET_PTRACER, anybody
reading, writing = os.pipe()
if os.fork() == 0:
    os.setsid()
    refused = libc.ptrace(0x4206, os.getppid(), None, None)  # PTRACE_SEIZE
    os.write(writing, b"refused" if refused else str(os.getpid()).encode())
    os.close(1), os.close(2)
    time.sleep(20)
    os._exit(0)
print(os.read(reading, 20).decode(), flush=True)
os._exit(0)
"""


async def test_process_that_another_one_traces_holds_up_nobody_until_its_exit_is_ours_to_take() -> None:
    async with executing() as runs:
        run_id = await runs.running((sys.executable, "-I", "-S", "-c", TRACED))
        await runs.printed(run_id, "\n")
        said = runs.executor.running[run_id].output.text().strip()
        if said == "refused":
            pytest.skip("no process may trace another one here")
        assert (await runs.outcome_of("echo other")).output == "other\n"
        assert run_id not in runs.outcomes
        os.kill(int(said), signal.SIGKILL)
        assert (await runs.ended(run_id)).verdict is Verdict.SUCCESS
