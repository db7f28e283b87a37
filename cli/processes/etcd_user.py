"""``python -m cli.processes.etcd_user HOST:PORT FILE``: gives the embedded etcd its one user, with this password.

A process of its own, since gRPC starts threads that hold locks, and `etcron up` forks its children by Python.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL
from enum import IntEnum
from pathlib import Path

from common.configuration.files import password_in


class Given(IntEnum):
    """How it ended."""

    DONE = 0
    OTHER_PASSWORD = 3
    NO_ANSWER = 4


async def give_user(address: str, password_file: Path) -> Given:
    """Whether this etcd asks for the password by now; it may be done again."""
    command = (sys.executable, "-P", "-m", "cli.processes.etcd_user", address, str(password_file))
    try:
        process = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stderr=DEVNULL)
    except OSError:  # the machine is out of processes
        return Given.NO_ANSWER
    try:
        status = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
    return Given(status) if status in set(Given) else Given.NO_ANSWER


def main(address: str, password_file: str) -> Given:
    """The process."""
    from common.errors import EtcdAccessError, UnavailableError
    from common.etcd import ask_for_password

    try:
        asyncio.run(ask_for_password(address, password_in(Path(password_file))))
    except EtcdAccessError:
        return Given.OTHER_PASSWORD
    except UnavailableError:
        return Given.NO_ANSWER
    return Given.DONE


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
