"""A program of its own, which the worker starts: ``python -I -S .../__main__.py CONTROL WORKER DEFAULT USERS``.

CONTROL is the descriptor that requests come on; DEFAULT the ``defaultUser`` or nothing, USERS the ``allowedUsers``.
Without the packages of the environment (``-S``): it needs none, and
what it does not hold need not be copied for each start.
"""

import os
import socket
import sys

sys.path.insert(
    0, os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
)  # where `worker` is; `-I` leaves that out

from worker.launcher.accounts import Accounts
from worker.launcher.program import serve


def main() -> None:
    """Serves until the worker closes its end."""
    control, worker, default, *allowed = sys.argv[1:]
    serve(socket.socket(fileno=int(control)), Accounts(worker=worker, allowed=allowed, default=default or None))


if __name__ == "__main__":
    main()
