"""`make test` in small: nothing that happens to a test, or to its process, is a run that has passed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = """
import os, pytest

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
"""


def test_each_test_has_its_end_whatever_it_does_to_its_process(tmp_path: Path) -> None:
    file = tmp_path / "test_some.py"
    file.write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.forks", "-p", "no:cacheprovider", "-c", os.devnull]
    answer = subprocess.run(
        [*command, file], capture_output=True, text=True, check=False, timeout=60, cwd=Path(__file__).parents[2]
    )
    assert answer.returncode == 1, answer
    for told in (
        "assert not 'this'", "said\n", "its process has ended with 0", "its process has ended with -9",
        "at the end", "between two tests", "3 failed, 2 passed, 1 skipped",
    ):  # fmt: skip
        assert told in answer.stdout + answer.stderr, (told, answer)
