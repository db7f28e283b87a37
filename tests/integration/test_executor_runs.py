"""Commands that start, print and exit: one true outcome each."""

from __future__ import annotations

import os
import pwd
import time
from pathlib import Path

import pytest

from common.protocol.keys import RunId
from common.verdicts import Verdict
from tests.support.executing import executing

HOME = os.path.realpath(pwd.getpwuid(os.geteuid()).pw_dir)


async def test_says_hello() -> None:
    async with executing() as runs:
        before = time.time_ns() // 1_000_000
        run_id = runs.start("echo hello")
        outcome = await runs.ended(run_id)
    assert (outcome.verdict, outcome.exit_code, outcome.signal, outcome.err) == (Verdict.SUCCESS, 0, None, "")
    assert (outcome.output, outcome.output_bytes, outcome.output_truncated) == ("hello\n", 6, False)
    assert outcome.start_ms is not None
    assert before <= outcome.start_ms <= outcome.end_ms
    assert outcome.cpu_seconds is not None
    assert not runs.executor.running


@pytest.mark.parametrize(
    ("command", "exit_code", "signal", "err"),
    [
        pytest.param("exit 3", 3, None, "exit status 3", id="exit status"),
        pytest.param("kill -9 $$", None, 9, "ended by signal 9 (SIGKILL)", id="killed itself"),
        pytest.param("kill -40 $$", None, 40, "ended by signal 40", id="real-time signal"),
        pytest.param("/no/such/command", 127, None, "exit status 127", id="command that the shell does not find"),
        pytest.param(("/bin/false",), 1, None, "exit status 1", id="arguments"),
    ],
)
async def test_failure_is_told_in_words(
    command: str | tuple[str, ...], exit_code: int | None, signal: int | None, err: str
) -> None:
    async with executing() as runs:
        outcome = await runs.outcome_of(command)
    assert outcome.verdict is Verdict.FAILED
    assert (outcome.exit_code, outcome.signal, outcome.err) == (exit_code, signal, err)


@pytest.mark.parametrize(
    ("command", "settings", "words"),
    [
        pytest.param("echo \0", {}, "embedded null byte", id="NUL in the command"),
        pytest.param("echo \ud800", {}, "surrogates not allowed", id="lone surrogate in the command"),
        pytest.param("echo", {"env": {"A=B": "x"}}, "illegal environment variable name", id="bad variable"),
        pytest.param("echo " + "x" * 3_000_000, {}, "Argument list too long: /bin/sh", id="too long"),
        pytest.param((), {}, "the command is empty", id="no arguments"),
    ],
)
async def test_what_cannot_be_started_failed_without_a_start(
    command: str | tuple[str, ...], settings: dict[str, object], words: str
) -> None:
    async with executing() as runs:
        run_id = runs.start(command, **settings)
        assert not runs.outcomes, "the caller of start() must not be called back from within it"
        await runs.executor.drained()
        outcome = runs.outcomes[run_id]
    assert (outcome.verdict, outcome.exit_code, outcome.start_ms) == (Verdict.FAILED, None, None)
    assert outcome.err.startswith("could not be started: ")
    assert outcome.err.endswith(words)
    assert outcome.reason == outcome.err


async def test_arguments_are_not_read_by_a_shell() -> None:
    async with executing() as runs:
        outcome = await runs.outcome_of(("echo", "$HOME", "a b", ";", "*"))
    assert outcome.output == "$HOME a b ; *\n"


async def test_program_is_looked_for_in_the_path_of_the_job(tmp_path: Path) -> None:
    program = tmp_path / "only-here"
    program.write_text("#!/bin/sh\necho found\n")
    program.chmod(0o755)
    async with executing() as runs:
        assert (await runs.outcome_of(("only-here",), env={"PATH": str(tmp_path)})).output == "found\n"


async def test_nothing_of_the_worker_leaks_into_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETCRON_DB_PASSWORD", "secret")
    monkeypatch.setenv("WORKER_SECRET", "secret")
    async with executing() as runs:
        run_id = RunId.planned("job", 1_700_000_000_123, 2)
        outcome = await runs.outcome_of(("/usr/bin/env",), run_id=run_id, env={"MINE": "x"})
        found = dict(line.split("=", 1) for line in outcome.output.splitlines())
        assert "secret" not in outcome.output
        assert set(found) == {
            "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "MINE", "ETCRON_JOB", "ETCRON_RUN_ID",
            "ETCRON_PLAN_TIME", "ETCRON_PLAN_MS", "ETCRON_ATTEMPT", "ETCRON_FENCE", "ETCRON_WORKER", "ETCRON_INSTANCE",
        }  # fmt: skip
        assert found["ETCRON_RUN_ID"] == str(run_id)
        assert (found["ETCRON_FENCE"], found["ETCRON_WORKER"], found["ETCRON_INSTANCE"]) == ("7", "w1", runs.instance)


async def test_command_finds_itself_in_a_plain_place() -> None:
    async with executing() as runs:
        outcome = await runs.outcome_of("umask; pwd; readlink /proc/self/fd/0; ls /proc/self/fd; wc -c; trap")
        umask, directory, stdin, *descriptors, read = outcome.output.splitlines()
    assert (umask, directory, stdin, read) == ("0022", HOME, "/dev/null", "0")
    assert descriptors == ["0", "1", "2", "3"], "the last is that of ls itself, reading the directory"


async def test_command_leads_its_own_group_and_session() -> None:
    async with executing() as runs:
        outcome = await runs.outcome_of("echo $$; cut -d' ' -f5,6 /proc/$$/stat")
        pid, group, session = outcome.output.split()
    assert pid == group == session


async def test_runs_in_its_workdir_or_the_home_of_the_job(tmp_path: Path) -> None:
    async with executing() as runs:
        assert (await runs.outcome_of("pwd", workdir="/usr")).output == "/usr\n"
        assert (await runs.outcome_of("pwd", env={"HOME": str(tmp_path)})).output == f"{tmp_path}\n"


async def test_refuses_to_start_a_run_that_is_running() -> None:
    async with executing() as runs:
        run_id = runs.start("sleep 30")
        with pytest.raises(ValueError, match="running already"):
            runs.start("sleep 30", run_id=run_id)


async def test_closing_ends_what_runs() -> None:
    async with executing() as runs:
        run_id = runs.start("sleep 30")
        await runs.executor.close()
        assert runs.outcomes[run_id].verdict is Verdict.KILLED
        assert runs.outcomes[run_id].err == "killed: worker shutdown"
        with pytest.raises(RuntimeError, match="closed"):
            runs.start("echo")


async def test_exit_status_taken_by_somebody_else_is_told_as_unknown() -> None:
    async with executing() as runs:
        run_id = runs.executed("exit 0")
        take_exit(runs.executor.running[run_id].pid)
        outcome = await runs.ended(run_id)
    assert (outcome.verdict, outcome.exit_code) == (Verdict.FAILED, None)
    assert "not known" in outcome.err


def take_exit(pid: int) -> None:
    """Wait for it before the loop has a turn."""
    os.waitpid(pid, 0)
