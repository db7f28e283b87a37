"""`make test` in small: nothing that happens to a test, or to its process, is a run that has passed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = """
import os, pytest, signal

@pytest.fixture(scope="session")
def shared():
    yield
    assert not "at the end"

def test_passes(): pass
def test_fails(): print("said"); assert not "this"
def test_ends_its_process(): os._exit(0)
def test_is_killed(): os.kill(os.getpid(), 9)
def test_comes_after_them(shared, tmp_path): assert tmp_path.is_dir()
def test_is_skipped(): pytest.skip("nothing to do")
def test_leaves_its_process_changed():
    os.chdir("/")
    os.environ["LEFT"] = "here"
    os.umask(0)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
def test_finds_it_as_it_was():
    assert os.getcwd() != "/"
    assert "LEFT" not in os.environ
    assert os.umask(0o077) != 0
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
    os.umask(0o022)
"""


def test_each_test_has_its_end_whatever_it_does_to_its_process(tmp_path: Path) -> None:
    file = tmp_path / "test_some.py"
    file.write_text(TESTS)
    plugins = [word for name in ("tests.conftest", "tests.support.forks", "no:cacheprovider") for word in ("-p", name)]
    command = [sys.executable, "-m", "pytest", *plugins, "-c", os.devnull, str(file)]
    answer = subprocess.run(
        command, capture_output=True, text=True, check=False, umask=0o022, cwd=Path(__file__).parents[2]
    )
    assert answer.returncode == 1, answer
    for told in (
        "assert not 'this'", "said\n", "its process has ended with 0", "its process has ended with -9",
        "another directory and another environment and another umask and another handlers",
        "at the end", "between two tests", "3 failed, 4 passed, 1 skipped, 1 error",
    ):  # fmt: skip
        assert told in answer.stdout + answer.stderr, (told, answer)
