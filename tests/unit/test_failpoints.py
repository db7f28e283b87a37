"""Failpoints: what arms them, what is refused, and that every place in the table is a place in the code."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from cli.errors import CommandError, ExitStatus
from cli.processes.data_dir import DataDir
from cli.processes.plan import Options, make_plan
from cli.processes.ports import PortClaims
from common.errors import InvalidInputError
from common.process import failpoints
from tests.support.warm import WARM

ROOT = Path(__file__).parents[2]
_THREE_HITS = """
import os, sys
from common.process import failpoints
assert not failpoints.armed
failpoints.arm(os.environ)
for number in (1, 2, 3):
    print(number, flush=True)
    if failpoints.armed: failpoints.hit("after_claim")
"""


def in_a_process(failpoint: str) -> subprocess.Popen[str]:
    environ = {**os.environ, failpoints.VARIABLE: failpoint, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen([sys.executable, "-c", _THREE_HITS], env=environ, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("failpoint", "status", "printed"),
    [
        ("", 0, "123"),
        ("before_claim:kill", 0, "123"),
        ("after_claim:kill", -signal.SIGKILL, "1"),
        ("after_claim:kill:3", -signal.SIGKILL, "123"),
        (" after_ack:stop , after_claim:kill:2 ", -signal.SIGKILL, "12"),
        ("after_claim:kill:4", 0, "123"),
    ],
)
def test_kills_at_the_hit_that_was_asked_for(failpoint: str, status: int, printed: str) -> None:
    with in_a_process(failpoint) as process:
        out, _ = process.communicate()
    assert (process.returncode, out.replace("\n", "")) == (status, printed)


def test_stops_once_and_goes_on_when_it_is_told_to() -> None:
    with in_a_process("after_claim:stop") as process:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        assert psutil.Process(process.pid).status() == psutil.STATUS_STOPPED
        process.send_signal(signal.SIGCONT)
        out, _ = process.communicate()
    assert (process.returncode, out) == (0, "1\n2\n3\n")


@pytest.mark.parametrize(
    ("text", "at_fault"),
    [
        ("after_lunch:kill", "'after_lunch:kill' is no failpoint"),
        ("after_claim", "'after_claim' is no failpoint"),
        ("after_claim:explode", "'after_claim:explode' is no failpoint"),
        ("after_claim:kill:0", "'after_claim:kill:0' is no failpoint"),
        ("after_claim:kill,after_claim:stop:2", "another one at the same place"),
    ],
)
def test_refuses_what_it_does_not_know_and_says_what_there_is(text: str, at_fault: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(at_fault)) as refused:
        failpoints.arm({failpoints.VARIABLE: text})
    for known in (failpoints.VARIABLE, *failpoints.PLACES, *failpoints.ACTIONS):
        assert known in str(refused.value)
    assert not failpoints.armed


@pytest.mark.parametrize("program", ["worker", "manager"])
def test_a_program_ends_at_once_where_it_is_told_an_unknown_one(program: str, tmp_path: Path) -> None:
    environ = {**os.environ, failpoints.VARIABLE: "after_lunch:kill"}
    flags = ["--data-dir", str(tmp_path)] if program == "worker" else ["--api-port", "0"]
    with (tmp_path / "log").open("w") as log, (tmp_path / "errors").open("w") as errors:
        process = WARM.start(
            program, flags, directory=tmp_path, environ=environ, log=log.fileno(), errors=errors.fileno()
        )
    assert process.wait(60) == 2
    printed = (tmp_path / "errors").read_text()
    assert "'after_lunch:kill' is no failpoint" in printed
    assert "steward_before_verdict" in printed


def test_up_refuses_them_for_production(tmp_path: Path) -> None:
    environ = {failpoints.VARIABLE: "after_claim:kill"}
    options = Options(data_dir=tmp_path, production=True)
    with (
        PortClaims() as ports,
        pytest.raises(CommandError, match="refused with --production: ETCRON_FAILPOINT is set") as refused,
    ):
        make_plan(options, DataDir(tmp_path), ports, environ)
    assert refused.value.status is ExitStatus.REFUSED


def test_every_place_in_the_table_is_a_place_in_the_code() -> None:
    sources = [path.read_text() for folder in ("worker", "manager") for path in (ROOT / folder).rglob("*.py")]
    found = {place for text in sources for place in re.findall(r'failpoints\.hit\("(\w+)"\)', text)}
    assert found == set(failpoints.PLACES)
