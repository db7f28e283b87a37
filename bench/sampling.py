"""CPU time and memory of processes, read from the kernel."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil

MIB: Final = 2**20
_EVERY_S: Final = 0.01


def cpu_s(pids: Iterable[int]) -> float:
    """What these processes have used by themselves, without the commands that they started."""
    times = [psutil.Process(pid).cpu_times() for pid in pids]
    return sum(spent.user + spent.system for spent in times)


def cpu_ms(pid: int) -> float:
    """As `cpu_s`, of one process and to the nanosecond."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e6


def resident_mib(pid: int) -> float:
    """Of one process, now."""
    return float(psutil.Process(pid).memory_info().rss) / MIB


class Peak:
    """The most that was seen."""

    def __init__(self) -> None:
        self.mib = 0.0


@contextmanager
def peak_resident(pid: int) -> Iterator[Peak]:
    """The most resident memory of a process while the block runs, looked at every 10 ms."""
    peak, over = Peak(), threading.Event()

    def watch() -> None:
        process = psutil.Process(pid)
        while True:
            peak.mib = max(peak.mib, process.memory_info().rss / MIB)
            if over.wait(_EVERY_S):
                return

    watcher = threading.Thread(target=watch, name="memory")
    watcher.start()
    try:
        yield peak
    finally:
        over.set()
        watcher.join()
