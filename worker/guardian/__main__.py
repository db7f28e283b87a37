"""A program of its own, which the worker starts: ``python -I -S worker/guardian/__main__.py LOCK INSTANCE LEVEL FORM``.

Without the packages of the environment (``-S``): it needs none, and is a third smaller and quicker to start.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # where `worker` and `common` are; `-I` leaves that out

from common.clock import SystemClock
from common.process.logs import configure_logging
from worker.guardian.program import Guardian, hold, outlive_the_worker


def main() -> None:
    """Guards until the worker, which is its parent, has ended, and nothing is left of its runs."""
    lock, instance, level, form = sys.argv[1:]
    parent = os.getppid()
    outlive_the_worker()
    configure_logging(level, form)
    hold(Path(lock))
    Guardian(
        directory=Path(lock).parent,
        instance=instance,
        parent=parent,
        in_fd=sys.stdin.fileno(),
        out_fd=sys.stdout.fileno(),
        clock=SystemClock(),
    ).run()


if __name__ == "__main__":
    main()
