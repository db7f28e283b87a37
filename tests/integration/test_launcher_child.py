"""A process that is to become a command, and whose worker has ended by then."""

from __future__ import annotations

import subprocess
import sys

from tests.support.cluster import ROOT

_CHILD = """
import os, socket
from worker.launcher.accounts import Accounts
from worker.launcher.child import become_command
worker, channel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
worker.close()
accounts = Accounts(worker="w1", allowed=(), default=None)
become_command(os.memfd_create("request"), 1, channel, accounts, worker=os.getppid())
"""


def test_it_ends_without_a_word() -> None:
    child = subprocess.run([sys.executable, "-c", _CHILD], cwd=ROOT, capture_output=True, text=True, check=False)
    assert child.returncode != 0
    assert (child.stdout, child.stderr) == ("", "")
