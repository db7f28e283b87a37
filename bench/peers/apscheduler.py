"""A burst on APScheduler 3.11, in one process with as many threads as a worker of ours has slots.

It is installed into .tools/apscheduler, and is seen by its own process only.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from bench.evidence import Evidence
from bench.peers import NotHereError
from common.configuration.tables import default_slots

_TOOLS: Final = Path(__file__).parents[2] / ".tools" / "apscheduler"
_PROGRAM: Final = Path(__file__).with_name("apscheduler_program.py")
_WANTED: Final = "APScheduler>=3.11,<4"
_LIMIT_S: Final = 120


async def burst(jobs: int, evidence: Evidence) -> float:
    """Seconds from the moment at which all are due until the last has started; NotHereError, WrongError."""
    _installed()
    due = int(time.time()) + 5 + jobs // 1_000
    process = subprocess.Popen(
        [sys.executable, "-P", "-s", _PROGRAM, str(due), str(default_slots())],
        env={**os.environ, "PYTHONPATH": str(_TOOLS)},
        stdin=subprocess.PIPE,
    )
    try:
        assert process.stdin is not None
        process.stdin.write("".join(evidence.command(number) + "\n" for number in range(jobs)).encode())
        process.stdin.close()
        await asyncio.sleep(max(0.0, due - time.time()))
        await evidence.all_started(jobs, due + _LIMIT_S)
    finally:
        process.kill()
        process.wait()
    evidence.check(jobs)
    return evidence.last_start() - due


def _installed() -> None:
    if (_TOOLS / "apscheduler").is_dir():
        return
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(_TOOLS), _WANTED]
    answer = subprocess.run(pip, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise NotHereError(f"pip could not install it: {answer.stderr.strip()[-200:]}")
