"""How a shell is executed as the first process of a run, and whether it was."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil
import pytest

from worker.run import first_process
from worker.run.first_process import Execution, Faults

SHOWS = 'echo "$A $B"; pwd; umask; ls /proc/$$/fd; kill -PIPE $$'


def execute(*programs: Callable[[Faults], Execution]) -> list[int | None]:
    """All of them together: of each the id of its process; None: it could not be executed."""
    faults = Faults()
    try:
        together = [program(faults) for program in programs]
        for execution in together:
            execution.begin()
        return [execution.pid if execution.has_executed() else None for execution in together]
    finally:
        faults.close()


def run(directory: Path, *arguments: str, environment: tuple[bytes, ...] = ()) -> tuple[int, int, str]:
    """Process id, exit status and output."""
    written = directory / "output"
    with open(os.devnull, "rb") as null, written.open("wb") as output:
        program = partial(
            Execution, arguments=arguments, environment=environment, directory=str(directory),
            stdin=null.fileno(), output=output.fileno(), umask=0o027,
        )  # fmt: skip
        [became] = execute(program)
        assert became is not None
        _, status = os.waitpid(became, 0)
    return became, os.waitstatus_to_exitcode(status), os.fsdecode(written.read_bytes())


def test_has_its_environment_directory_umask_default_signals_and_no_other_descriptor(tmp_path: Path) -> None:
    leaking = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(leaking, True)
    try:
        environment = (b"A=b=c", b"B=\xff", b"PATH=/usr/bin:/bin")
        _, exit_code, output = run(tmp_path, "/bin/sh", "-c", SHOWS, environment=environment)
    finally:
        os.close(leaking)
    assert output.splitlines() == ["b=c \udcff", str(tmp_path), "0027", "0", "1", "2"]
    assert exit_code == -13, "SIGPIPE, which Python ignores"


def test_leads_a_session_of_its_own(tmp_path: Path) -> None:
    pid, _, output = run(tmp_path, "/bin/sh", "-c", "cut -d' ' -f5,6 /proc/$$/stat", environment=(b"PATH=/usr/bin",))
    assert output.split() == [str(pid), str(pid)]


@pytest.mark.parametrize("has_vfork", [True, False])
def test_of_several_together_each_fault_is_told_of_the_one_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_vfork: bool
) -> None:
    """Also where one of the others has exited as a process does that could not execute its program."""
    monkeypatch.setattr(first_process, "_WITH_VFORK", has_vfork)
    (tmp_path / "text").write_text("no program")
    names = ["/bin/true", "/no/such/program", "/bin/sh", "./text", "/bin/true", "./no-such-program"]
    with open(os.devnull, "rb+") as null:
        became = execute(*(
            partial(
                Execution, arguments=(name, "-c", "exit 255"), environment=(), directory=str(tmp_path),
                stdin=null.fileno(), output=null.fileno(), umask=0,
            )
            for name in names
        ))  # fmt: skip
    assert [None if pid is None else os.waitpid(pid, 0)[1] >> 8 for pid in became] == [0, None, 255, None, 0, None]


def test_what_was_executed_goes_on_where_nobody_can_see_whose_a_fault_is(tmp_path: Path) -> None:
    """Descriptors are used up after the start: it must not be ended, nor be started once more."""
    with open(os.devnull, "rb+") as null:
        programs = [
            partial(
                Execution, arguments=(name,), environment=(), directory=str(tmp_path),
                stdin=null.fileno(), output=null.fileno(), umask=0,
            )
            for name in ("/bin/true", "/no/such/program")
        ]  # fmt: skip
        faults = Faults()
        executions = [program(faults) for program in programs]
        for execution in executions:
            execution.begin()
        before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, most))
        try:
            for execution in executions:
                assert execution.has_executed()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (before, most))
            faults.close()
    statuses = [os.waitpid(execution.pid, 0)[1] >> 8 for execution in executions if execution.pid is not None]
    assert statuses == [0, 255]


IN_ANOTHER_NAMESPACE = """
import os
from worker.run.first_process import Execution, Faults
null, faults = os.open(os.devnull, os.O_RDWR), Faults()
executions = [
    Execution(faults, arguments=(name, "30"), environment=(), directory="/", stdin=null, output=null, umask=0)
    for name in (*["/bin/sleep"] * 6, "/no/such/program")
]
for execution in executions:
    execution.begin()
for execution in executions:
    assert execution.has_executed()
    os.kill(execution.pid, 9)
print([os.waitpid(execution.pid, 0)[1] for execution in executions[:-1]])
"""


def test_what_was_executed_goes_on_where_proc_is_another_namespaces() -> None:
    """There its number is a kernel thread's, most likely: such a one has never executed a program."""
    unshare = ["unshare", "--user", "--map-root-user", "--pid", "--fork"]
    if shutil.which("unshare") is None or subprocess.run([*unshare, "true"], check=False).returncode:
        pytest.skip("no namespaces here")
    command = [*unshare, sys.executable, "-c", IN_ANOTHER_NAMESPACE]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == f"{[9] * 6}\n"


def test_directory_that_is_not_there_leaves_neither_a_process_nor_a_descriptor(tmp_path: Path) -> None:
    before, children = os.listdir("/proc/self/fd"), _children()
    with open(os.devnull, "rb+") as null:
        program = partial(
            Execution, arguments=("/bin/true",), environment=(), directory=str(tmp_path / "none"),
            stdin=null.fileno(), output=null.fileno(), umask=0,
        )  # fmt: skip
        assert execute(program) == [None]
    assert os.listdir("/proc/self/fd") == before
    assert _children() == children


def _children() -> set[int]:
    """Other tests' servers are some, too."""
    return {child.pid for child in psutil.Process().children()}
