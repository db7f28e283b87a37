"""How a command is written: a string for a shell, or arguments; with the arguments of one run; where and by what."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.verdicts import Verdict
from tests.support.executing import executing


async def test_arguments_of_a_run_come_after_those_of_the_job() -> None:
    async with executing() as runs:
        outcome = await runs.outcome_of(("printf", "[%s]", "a"), args=("b c", "", "$HOME"))
    assert outcome.output == "[a][b c][][$HOME]"


async def test_arguments_of_a_run_are_the_parameters_of_a_shell_command() -> None:
    async with executing() as runs:
        outcome = await runs.outcome_of('printf "[%s]" "$0" "$#" "$@"', args=("b c", "-x", "; exit 3"))
        without = await runs.outcome_of('printf "[%s]" "$#" "$@"')
    assert outcome.output == "[etcron][3][b c][-x][; exit 3]"
    assert without.output == "[0]"


async def test_runs_in_another_shell(tmp_path: Path) -> None:
    shell = tmp_path / "shell"
    shell.write_text('#!/bin/sh\necho "mine: $*"; echo $SHELL\n')
    shell.chmod(0o755)
    async with executing() as runs:
        outcome = await runs.outcome_of("echo x", shell=str(shell))
    assert outcome.output == f"mine: -c echo x\n{shell}\n"


@pytest.fixture
def places(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("")
    (tmp_path / "script").write_text("#!/no/such/interpreter\n")
    (tmp_path / "script").chmod(0o755)
    (tmp_path / "text").write_text("echo x\n")
    (tmp_path / "text").chmod(0o755)
    return tmp_path


SHELL_REMEDY = "on worker w1: give another (shell of the job, or bashPath of the worker)"


@pytest.mark.parametrize(
    ("command", "settings", "words"),
    [
        pytest.param(
            "echo", {"workdir": "{}/no"},
            "its directory {}/no does not exist on worker w1: create it there, or change the job's workdir",
            id="no directory",
        ),
        pytest.param(("echo",), {"workdir": "{}/no"}, "its directory {}/no does not exist", id="no dir for a program"),
        pytest.param("echo", {"workdir": "{}/file"}, "its directory {}/file is not a directory", id="a file"),
        pytest.param("echo", {"workdir": "{}/file/x"}, "its directory {}/file/x is below something", id="below a file"),
        pytest.param("echo", {"env": {"HOME": "{}/no"}}, "or change HOME in the job's env", id="no HOME"),
        pytest.param("echo", {"shell": "{}/no"}, "the shell {}/no does not exist " + SHELL_REMEDY, id="no shell"),
        pytest.param("echo", {"shell": "{}/file"}, "the shell {}/file may not be executed", id="shell not executable"),
        pytest.param("echo", {"shell": "{}/text"}, "the shell {}/text is not a program", id="shell without #!"),
        pytest.param("echo", {"shell": "{}/script"}, "the shell {}/script names an interpreter", id="no interpreter"),
        pytest.param(("{}/no",), {}, "the program {}/no does not exist on worker w1: mend that", id="no program"),
        pytest.param(("./script",), {"workdir": "{}"}, "the program ./script names an interpreter", id="relative"),
        pytest.param(
            ("script",), {"env": {"PATH": "{}"}}, "the program script names an interpreter", id="in PATH",
        ),
        pytest.param(
            ("no-such",), {"env": {"PATH": "/a:/b"}}, "the program no-such is nowhere in its PATH (/a:/b)",
            id="not in PATH",
        ),
        pytest.param(("/etc/passwd",), {}, "the program /etc/passwd may not be executed", id="not executable"),
        pytest.param(("text",), {"env": {"PATH": "{}"}}, "the program text is not a program", id="without #!"),
    ],
)  # fmt: skip
async def test_what_cannot_be_started_says_what_to_mend(
    places: Path, command: str | tuple[str, ...], settings: dict[str, object], words: str
) -> None:
    def placed(value: object) -> object:
        if isinstance(value, dict):
            return {name: placed(inner) for name, inner in value.items()}
        return str(value).replace("{}", str(places))

    if not isinstance(command, str):
        command = tuple(part.replace("{}", str(places)) for part in command)
    async with executing() as runs:
        outcome = await runs.outcome_of(command, **{name: placed(value) for name, value in settings.items()})
    assert (outcome.verdict, outcome.start_ms, outcome.exit_code) == (Verdict.FAILED, None, None)
    assert outcome.err.startswith("could not be started: ")
    assert words.replace("{}", str(places)) in outcome.err
    assert outcome.reason == outcome.err
