"""How fast this machine starts commands at best: a loop in C of ``posix_spawn``, eight at a time, on each core."""

from __future__ import annotations

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from bench.peers import NotHereError

AT_A_TIME: Final = 8
_SOURCE: Final = Path(__file__).with_name("spawn_loop.c")


def compile_loop(folder: Path) -> Path:
    """The program, compiled into the folder; NotHereError where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise NotHereError("there is no C compiler (cc)")
    program = folder / "spawn_loop"
    subprocess.run([compiler, "-O2", "-o", program, _SOURCE], check=True)
    return program


def loop_rate(program: Path, command: str, seconds: float) -> float:
    """Commands a second by one loop, which throws the output away."""
    arguments = [str(program), str(seconds), str(AT_A_TIME), command]
    return float(subprocess.run(arguments, check=True, stdout=subprocess.PIPE).stdout)


def machine_rate(program: Path, command: str, seconds: float) -> float:
    """Commands a second by as many loops at once as there are cores."""
    cores = len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(cores) as pool:
        return sum(pool.map(lambda _: loop_rate(program, command, seconds), range(cores)))
