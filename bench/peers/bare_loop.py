"""How exactly this machine can be on time at best: a bare loop that sleeps until a moment and starts a command.

Run as a program: it reads moments (Unix time in ms, sorted) from its input, runs ``echo`` at each, and prints for each
how late (ms) the process was there. It has nothing else to do, unlike a scheduler.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Final

_COMMAND: Final = ("/bin/sh", "-c", "echo hello")


def lateness(moments_ms: Sequence[int]) -> list[float]:
    """Of a loop in a process of its own: ms from each moment until its command was started. All lie ahead."""
    moments = "\n".join(map(str, moments_ms))
    process = subprocess.run(
        [sys.executable, "-I", __file__], input=moments, stdout=subprocess.PIPE, text=True, check=True
    )
    return [float(line) for line in process.stdout.split()]


async def _run(moments_ms: Sequence[int]) -> list[float]:
    late, going = [], list[subprocess.Popen[bytes]]()
    for moment_ms in moments_ms:
        await asyncio.sleep(max(0.0, moment_ms / 1000 - time.time()))
        late.append(time.time() * 1000 - moment_ms)  # as a worker takes it: right before the command is started
        going.append(subprocess.Popen(_COMMAND, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL))
        going = [process for process in going if process.poll() is None]
    for process in going:
        process.wait()
    return late


if __name__ == "__main__":
    print("\n".join(f"{ms:.3f}" for ms in asyncio.run(_run([int(line) for line in sys.stdin]))))
