"""The program that runs in APScheduler's own environment: it runs the commands of its input once, all at one moment.

apscheduler_program.py <Unix time> <threads>
"""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.blocking import BlockingScheduler


def run(command: str) -> None:
    """As a worker does it: the same shell, the output kept."""
    subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=True)


def main() -> None:
    """Until it is killed."""
    moment, threads = datetime.fromtimestamp(int(sys.argv[1]), UTC), int(sys.argv[2])
    scheduler = BlockingScheduler(timezone=UTC, executors={"default": ThreadPoolExecutor(threads)})
    for line in sys.stdin:
        scheduler.add_job(run, "date", run_date=moment, args=[line.strip()], misfire_grace_time=None)
    scheduler.start()


if __name__ == "__main__":
    main()
