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

HANGING = """
import threading, pytest
from tests.support.forks import Pool

take = Pool.take
Pool.take = lambda self: 0 if take(self) == 0 else None
@pytest.mark.slow
def test_hangs(): threading.Event().wait()
def test_nobody_takes_it(): pass
def test_nor_this(): pass
"""

SHARING = """
import pytest

@pytest.fixture(scope="module")
def shared(): pass

def test_quick(): pass
@pytest.mark.slow
def test_slow(): pass
@pytest.mark.slow
def test_slow_too(): pass
"""
SHOWING = """
from tests.support.forks import pools

def pytest_collection_finish(session):
    for pool in pools(session.items):
        print("batches:", " ".join("+".join(item.nodeid for item in batch) for batch in pool.batches))
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Without the plugins of libraries, which take four times as long to read as all that these runs do."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.support.forks", "-c", os.devnull, *arguments],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True, text=True, check=False, umask=0o022, cwd=Path(__file__).parents[2],
    )  # fmt: skip


def test_what_is_slow_comes_first_and_what_shares_something_stays_together(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(SHOWING)
    for name, text in (
        ("tests/acceptance/test_c.py", SHARING.replace("test_slow_too()", "test_slow_too(shared)")),
        ("tests/console/test_p.py", SHARING.replace("()", "(shared)")), ("tests/unit/test_u.py", SHARING),
    ):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    only = ("--collect-only", "--import-mode=importlib")
    answer = run("-W", "ignore", *only, "--rootdir", os.fspath(tmp_path), os.fspath(tmp_path))
    told = [line.removeprefix("batches: ") for line in answer.stdout.splitlines() if line.startswith("batches:")]
    cluster, browser, other = "acceptance/test_c", "console/test_p", "unit/test_u"
    assert [line.replace("tests/", "").replace(".py::test", "") for line in told] == [
        f"{cluster}_quick+{cluster}_slow_too {cluster}_slow",
        f"{browser}_quick+{browser}_slow+{browser}_slow_too",
        f"{other}_slow {other}_slow_too {other}_quick",
    ], answer


def test_what_hangs_is_ended_and_what_nobody_has_run_fails_the_whole(tmp_path: Path) -> None:
    file = tmp_path / "test_some.py"
    file.write_text(HANGING)
    answer = run("-p", "no:cacheprovider", "-o", "faulthandler_timeout=3", str(file))
    assert answer.returncode == 1, answer
    assert "in test_hangs\n" in answer.stderr, answer
    assert "its process has ended with 1, and maybe" in answer.stdout, answer
    assert "test_some.py::test_nobody_takes_it, and 1 others" in answer.stdout, answer


def test_each_test_has_its_end_whatever_it_does_to_its_process(tmp_path: Path) -> None:
    file = tmp_path / "test_some.py"
    file.write_text(TESTS)
    answer = run("-p", "tests.conftest", "-p", "no:cacheprovider", str(file))
    assert answer.returncode == 1, answer
    for told in (
        "assert not 'this'", "said\n", "its process has ended with 0", "its process has ended with -9",
        "another directory and another environment and another umask and another handlers",
        "at the end", "between two tests", "3 failed, 4 passed, 1 skipped, 1 error",
    ):  # fmt: skip
        assert told in answer.stdout + answer.stderr, (told, answer)
