"""What commands print, however they do it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from common.clock import SystemClock
from common.verdicts import Verdict
from tests.support.executing import executing
from tests.support.waiting import wait_until
from worker.launch import StopOrder
from worker.run.leftovers import end_leftovers

HELD_UP = """
import os, socket, sys, threading
ready, tell = os.pipe()
if sys.argv[1:] and (daemon := os.fork()):
    os.read(ready, 1)
    while open(f"/proc/{daemon}/stat").read().rpartition(")")[2].split()[0] != "S":
        pass
    os._exit(0)
os.setsid() if sys.argv[1:] else None
quiet, other = socket.socketpair()
threading.Timer(20, other.send, (b"late",)).start()
os.write(1, b"hello\\n")
os.write(tell, b"x")
os.splice(quiet.fileno(), 1, 100)
"""
"""Its second write waits within the kernel, which holds the pipe for it. With an argument it is a daemon's."""


async def test_joins_stdout_and_stderr_in_order() -> None:
    async with executing() as runs:
        outcome = await runs.outcome_of("echo a; echo b >&2; echo c")
    assert outcome.output == "a\nb\nc\n"


async def test_takes_50_megabytes_within_its_limit() -> None:
    async with executing() as runs:
        outcome = await runs.outcome_of("echo first; head -c 50000000 /dev/zero | tr '\\0' x; echo; echo last")
    assert outcome.output_bytes == 6 + 50_000_000 + 6
    assert outcome.output_truncated
    assert outcome.output.startswith("first\nxxx")
    assert outcome.output.endswith("xxx\nlast\n")
    assert f"\n... {50_000_012 - 262_144:,} bytes cut ...\n" in outcome.output
    assert len(outcome.output) < 262_144 + 100


@pytest.mark.parametrize(
    ("command", "text"),
    [
        pytest.param("printf 'a\\0b'", "a\u2400b", id="NUL"),
        pytest.param("printf '\\377\\376x'", "\ufffd\ufffdx", id="invalid UTF-8"),
        pytest.param("printf 'no newline'", "no newline", id="no newline"),
        pytest.param("printf 'grün €'", "grün €", id="UTF-8"),
        pytest.param("true", "", id="nothing"),
    ],
)
async def test_shows_what_was_printed(command: str, text: str) -> None:
    async with executing() as runs:
        assert (await runs.outcome_of(command)).output == text


async def test_does_not_tear_a_character_that_comes_in_two_pieces_or_lies_at_the_cut() -> None:
    async with executing() as runs:
        pieces = await runs.outcome_of("printf '\\342\\202'; sleep 0.02; printf '\\254'")
        cut = await runs.outcome_of("for i in 1 2 3 4 5 6 7 8 9; do printf '€€€€€€€€€€'; done", output_limit_bytes=100)
    assert pieces.output == "€"
    assert "\ufffd" not in cut.output
    assert cut.output_bytes == 270


async def test_reads_all_that_was_printed_right_before_the_exit() -> None:
    async with executing() as runs:
        ids = [runs.start("head -c 65536 /dev/zero | tr '\\0' x") for _ in range(20)]
        for run_id in ids:
            assert len((await runs.ended(run_id)).output) == 65_536


async def test_reads_all_that_a_widened_pipe_holds_at_the_exit() -> None:
    prints = "import fcntl, os; fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20); os.write(1, b'x' * 300_000)"
    async with executing() as runs:
        outcome = await runs.outcome_of((sys.executable, "-I", "-S", "-c", prints))
    assert outcome.output_bytes == 300_000


async def test_reads_every_packet_of_a_pipe_that_gives_one_at_a_time() -> None:
    """With O_DIRECT, as ``dd oflag=direct`` sets it, each write is read by itself, and waits in a page of its own."""
    prints = "import fcntl, os; fcntl.fcntl(1, fcntl.F_SETFL, os.O_WRONLY | os.O_DIRECT)\n"
    prints += "for number in range(16): os.write(1, b'%x' % number)"
    async with executing() as runs:
        outcome = await runs.outcome_of((sys.executable, "-I", "-S", "-c", prints))
    assert outcome.output == "0123456789abcdef"


async def test_closing_its_output_does_not_end_a_run(tmp_path: Path) -> None:
    async with executing() as runs:
        waits = f"until [ -e {tmp_path}/go ]; do sleep 0.01; done"
        run_id = await runs.running(f"echo before; exec >&- 2>&-; {waits}; exit 5")
        run = runs.executor.running[run_id]
        await wait_until(lambda: run.pipe is None, description="the end of its output")
        assert run_id in runs.executor.running
        (tmp_path / "go").touch()
        outcome = await runs.ended(run_id)
    assert (outcome.exit_code, outcome.output) == (5, "before\n")


async def test_printing_without_end_leaves_the_loop_its_turns() -> None:
    async with executing() as runs:
        flood = [runs.start("exec yes") for _ in range(3)]
        outcome = await runs.outcome_of("echo hello")
        assert outcome.output == "hello\n"
        for run_id in flood:
            runs.executor.end(run_id, StopOrder(by="test"))
        await asyncio.gather(*(runs.ended(run_id) for run_id in flood))
    assert all(runs.outcomes[run_id].verdict is Verdict.KILLED for run_id in flood)


async def test_daemon_that_keeps_the_output_open_does_not_hold_the_run(tmp_path: Path) -> None:
    async with executing() as runs:
        daemon_up = tmp_path / "up"
        run_id = runs.start(
            f"setsid sh -c ': > {daemon_up}; sleep 300 & wait' & echo started;"
            f"until [ -e {daemon_up} ]; do sleep 0.01; done; exit 0"
        )
        outcome = await runs.ended(run_id)
        daemon = runs.alive(run_id)
        assert (outcome.verdict, outcome.output) == (Verdict.SUCCESS, "started\n")
        assert daemon, "a process that left the group before the exit is not the run's any more"
        assert await end_leftovers(runs.instance, 1, SystemClock()) == []


async def test_command_that_holds_its_pipe_up_holds_up_itself_alone() -> None:
    async with executing() as runs:
        held_up = [await runs.running((sys.executable, "-I", "-S", "-c", HELD_UP)) for _ in range(2)]
        for number in range(2):
            outcome = await runs.outcome_of(f"echo {number}; sleep 0.2; echo end; sleep 300 & exit 0", kill_grace_s=0)
            assert outcome.output == f"{number}\nend\n"
        for run_id in held_up:
            runs.executor.end(run_id, StopOrder(by="test"))
        ended = [await runs.ended(run_id) for run_id in held_up]
    assert [(one.verdict, one.output) for one in ended] == [(Verdict.KILLED, "hello\n")] * 2


async def test_ends_of_runs_wait_for_no_output_where_no_more_may_be_left_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("worker.run.output_reader._MOST_HELD_UP", 1)
    async with executing() as runs:
        held_up = [await runs.running((sys.executable, "-I", "-S", "-c", HELD_UP, "daemon")) for _ in range(2)]
        for run_id in held_up:
            assert (await runs.ended(run_id)).verdict is Verdict.SUCCESS
        outcome = await runs.outcome_of("while :; do echo x; sleep 0.01; done", timeout_s=1)
        assert outcome.verdict is Verdict.TIMEOUT
        assert await end_leftovers(runs.instance, 1, SystemClock()) == []


async def test_run_that_holds_up_nobody_loses_no_output_beside_many_that_do() -> None:
    async with executing() as runs:
        for _ in range(6):
            await runs.running((sys.executable, "-I", "-S", "-c", HELD_UP))
        outcome = await runs.outcome_of("sleep 0.2; echo one; sleep 0.1; echo two; sleep 300 & exit 0", kill_grace_s=0)
    assert outcome.output == "one\ntwo\n"


async def test_daemon_that_holds_the_pipe_up_does_not_hold_the_run() -> None:
    async with executing() as runs:
        outcome = await runs.outcome_of((sys.executable, "-I", "-S", "-c", HELD_UP, "daemon"))
        assert outcome.verdict is Verdict.SUCCESS
        assert outcome.output.endswith("could not be read: a process held up the pipe ...\n")
        assert await end_leftovers(runs.instance, 1, SystemClock()) == []
