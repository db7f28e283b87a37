"""How the first process of a run is executed: by the standard library's own function, and by Popen in its place."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from worker.commands import first_process
from worker.commands.first_process import Execution, Program

SHOWS = 'echo "$A $B"; pwd; umask; ls /proc/$$/fd; kill -PIPE $$'


@pytest.fixture(params=["directly", "by Popen"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python that is newer than those that are known starts programs by Popen."""
    if request.param == "by Popen":
        monkeypatch.setattr(first_process, "_NEWEST_KNOWN", (3, 0))


def execute(program: Program) -> int:
    """The id of its process."""
    execution = Execution(program)
    try:
        execution.begin()
        execution.check()
    finally:
        execution.close()
    assert execution.pid is not None
    return execution.pid


def run(directory: Path, *arguments: str, environment: tuple[bytes, ...] = ()) -> tuple[int, int, str]:
    """Process id, exit status and output."""
    written = directory / "output"
    with open(os.devnull, "rb") as null, written.open("wb") as output:
        pid = execute(
            Program(
                arguments=arguments, path="/nowhere:/usr/bin:/bin", environment=environment, directory=str(directory),
                stdin=null.fileno(), output=output.fileno(), umask=0o027,
            )
        )  # fmt: skip
        _, status = os.waitpid(pid, 0)
    return pid, os.waitstatus_to_exitcode(status), os.fsdecode(written.read_bytes())


def test_has_its_environment_directory_umask_default_signals_and_no_other_descriptor(tmp_path: Path) -> None:
    leaking = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(leaking, True)
    try:
        environment = (b"A=b=c", b"B=\xff", b"PATH=/usr/bin:/bin")
        _, exit_code, output = run(tmp_path, "sh", "-c", SHOWS, environment=environment)
    finally:
        os.close(leaking)
    assert output.splitlines() == ["b=c \udcff", str(tmp_path), "0027", "0", "1", "2"]
    assert exit_code == -13, "SIGPIPE, which Python ignores"


def test_leads_a_session_of_its_own(tmp_path: Path) -> None:
    pid, _, output = run(tmp_path, "/bin/sh", "-c", "cut -d' ' -f5,6 /proc/$$/stat", environment=(b"PATH=/usr/bin",))
    assert output.split() == [str(pid), str(pid)]


def test_what_cannot_be_executed_is_told_with_the_directory_or_the_program(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        run(tmp_path, "no-such-program")
    assert missing.value.filename == "no-such-program"
    (tmp_path / "text").write_text("no program")
    with pytest.raises(PermissionError) as not_executable:
        run(tmp_path, "./text")
    assert not_executable.value.filename == "./text"
    (tmp_path / "text").chmod(0o755)
    with pytest.raises(OSError, match="Exec format error"):
        run(tmp_path, "./text")
    with pytest.raises(ValueError, match="null byte"):
        run(tmp_path, "echo", "a\0b")


def test_a_fault_is_read_whole_where_there_is_no_vfork(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then parent and child run side by side, and the parent reads while the child writes what was wrong."""
    monkeypatch.setattr(first_process, "_WITH_VFORK", False)
    for _ in range(20):
        with pytest.raises(FileNotFoundError):
            run(tmp_path, "/no/such/program")


def test_directory_that_is_not_there_leaves_neither_a_process_nor_a_descriptor(tmp_path: Path) -> None:
    before, children = os.listdir("/proc/self/fd"), _children()
    with open(os.devnull, "rb+") as null, pytest.raises(FileNotFoundError) as missing:
        execute(
            Program(
                arguments=("/bin/true",), path="", environment=(), directory=str(tmp_path / "none"),
                stdin=null.fileno(), output=null.fileno(), umask=0,
            )
        )  # fmt: skip
    assert missing.value.filename == str(tmp_path / "none")
    assert os.listdir("/proc/self/fd") == before
    assert _children() == children


def _children() -> set[int]:
    """Other tests' servers are some, too."""
    return {child.pid for child in psutil.Process().children()}
