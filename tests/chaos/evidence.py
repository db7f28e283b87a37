"""The command of every chaos job: writes when it started, that it lives, and when it ended. Standard library only.

    python -I -S evidence.py FILE SECONDS FAIL_BELOW [stubborn]

It exits with 1 in attempts below FAIL_BELOW; ``stubborn``: it ignores TERM. Each line is one append below 4 KiB.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

_SIGN_OF_LIFE_S = 0.025


def main(path: str, seconds: str, fail_below: str, *manners: str) -> int:
    """Lives for so long, and says so."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    exit_code = int(int(os.environ["ETCRON_ATTEMPT"]) < int(fail_below))
    _write(file, "start", None)
    if "stubborn" in manners:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    until = time.monotonic() + float(seconds)
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, _SIGN_OF_LIFE_S))
        _write(file, "last", None)
    _write(file, "end", exit_code)
    return exit_code


def _write(file: int, mark: str, exit_code: int | None) -> None:
    line = {
        "mark": mark,
        "run": os.environ["ETCRON_RUN_ID"],
        "fence": int(os.environ["ETCRON_FENCE"]),
        "worker": os.environ["ETCRON_WORKER"],
        "pid": os.getpid(),
        "boot_ns": time.clock_gettime_ns(time.CLOCK_BOOTTIME),
        "wall_ms": time.time_ns() // 1_000_000,
        "exit_code": exit_code,
    }
    os.write(file, json.dumps(line).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
