"""Runs tests while processes of theirs stand still at random, each for a moment, as on a machine that is too busy.

    python -m tests.support.freezes [--seed 1] [--most-s 0.3] [ARGUMENT OF PYTEST ...]

A test that fails so, and does not without, races with something: it, or the product, takes for granted that one process
is faster than another. A freeze that is longer than what the product promises to bear makes failures of its own.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil

_LEAST_S = 0.02
_PAUSE_S = 0.05
_AT_ONCE = 2
_GOES_ON = (psutil.STATUS_RUNNING, psutil.STATUS_SLEEPING, psutil.STATUS_DISK_SLEEP)


class Freezer:
    """Freezes processes that a test run has started, in whichever generation."""

    def __init__(self, tests: subprocess.Popen[bytes], *, seed: int, most_s: float) -> None:
        self.frozen = 0
        """How often one was."""
        self._tests = tests
        self._random = random.Random(seed)
        self._most_s = most_s
        self._ours = {psutil.Process(tests.pid)}

    def run(self) -> int:
        """Until the tests are over; their exit status."""
        while self._tests.poll() is None:
            with self._some_frozen():
                self._wait(self._random.uniform(_LEAST_S, self._most_s))
            self._wait(_PAUSE_S)
        return self._tests.returncode

    def _wait(self, seconds: float) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._tests.wait(seconds)

    @contextmanager
    def _some_frozen(self) -> Iterator[None]:
        going = sorted(self._going(), key=lambda process: process.pid)
        chosen = self._random.sample(going, min(_AT_ONCE, len(going)))
        try:
            for process in chosen:
                with suppress(psutil.NoSuchProcess):
                    process.suspend()
                    self.frozen += 1
            yield
        finally:
            for process in chosen:
                with suppress(psutil.NoSuchProcess):
                    process.resume()

    def _going(self) -> Iterator[psutil.Process]:
        """Those that a test has stopped itself are left alone. An orphan is known by its having been seen before."""
        everything = list(psutil.process_iter(["ppid", "status"]))
        self._ours &= {*everything}
        known, before = {process.pid for process in self._ours}, 0
        while len(known) > before:
            before = len(known)
            known |= {process.pid for process in everything if process.info["ppid"] in known}
        self._ours = {process for process in everything if process.pid in known}
        return (one for one in self._ours if one.pid != self._tests.pid and one.info["status"] in _GOES_ON)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most-s", type=float, default=0.3, help="the longest freeze; each is random")
    options, arguments = parser.parse_known_args()
    with subprocess.Popen((sys.executable, "-m", "pytest", *arguments)) as tests:
        freezer = Freezer(tests, seed=options.seed, most_s=options.most_s)
        status = freezer.run()
    print(f"processes were frozen {freezer.frozen} times")  # noqa: T201 - for the engineer who runs it
    return status


if __name__ == "__main__":
    sys.exit(main())
