"""A process that is to become a command, and whose worker has ended by then."""

from __future__ import annotations

import subprocess
import sys

from tests.support.cluster import ROOT

_CHILD = """
import os, socket
from worker.launcher.accounts import Accounts
from worker.launcher.child import ChildStart
from worker.launcher.request import StartRequest
worker, channel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
worker.close()
accounts = Accounts(worker="w1", allowed=(), default=None)
request = StartRequest(
    arguments=("/bin/sh", "-c", "echo up"), is_shell=True, user=None, own=("me", "/"), workdir=None, path="/bin",
    shell="/bin/sh", job_env=(), marks=(), allowed_s=None, ahead_s=None, asked_s=0.0, asked_boot_s=0.0,
)
ChildStart(request, 1, channel, accounts, worker=os.getppid()).become_command()
"""


def test_it_ends_without_a_word() -> None:
    child = subprocess.run([sys.executable, "-c", _CHILD], cwd=ROOT, capture_output=True, text=True, check=False)
    assert child.returncode != 0
    assert (child.stdout, child.stderr) == ("", "")
