"""A process without descriptors to spare is told so: gRPC, which would take it down, begins once there are some."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

_PROGRAM: Final = """
import asyncio, os, resource, sys
from common.errors import UnavailableError
from common.etcd import EtcdClient

def allow(most):
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

async def ask(client):
    try:
        await client.get("/key")
    except UnavailableError as error:
        print(error)

async def main():
    async with EtcdClient(["127.0.0.1:1"], timeout=0.5) as client:
        allow(len(os.listdir("/proc/self/fd")) - 1 + int(sys.argv[1]))
        await ask(client)
        allow(100)
        await ask(client)

asyncio.run(main())
"""


@pytest.mark.parametrize("spare", [0, 1, 2, 5])
def test_a_process_that_is_short_of_descriptors_goes_on(spare: int) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(spare)], capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.returncode == 0, ended.stderr
    short, later = ended.stdout.splitlines()
    assert short == "etcd is not asked: this process has no file descriptors to spare"
    assert later.startswith("etcd (127.0.0.1:1) does not answer: connection refused")
