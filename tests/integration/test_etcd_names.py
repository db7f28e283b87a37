"""Which machine a name in `etcdEndpoints` is: that which every other program of this machine takes it for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.etcd_server import EtcdServer

pytestmark = pytest.mark.etcd

_ASK = """
import asyncio, sys
from common.errors import EtcdAwayError
from common.etcd import EtcdClient

async def answers(endpoint):
    async with EtcdClient([endpoint]) as client:
        try:
            await client.get("x")
        except EtcdAwayError:
            return False
    return True

async def main():
    print(*await asyncio.gather(*map(answers, sys.argv[1:])))

asyncio.run(main())
"""


def test_machines_that_share_a_name_are_not_taken_for_one_another(etcd_server: EtcdServer, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.2 m1 cron.example.org\n127.0.0.1 m2 cron.example.org\n")
    ask = [sys.executable, "-c", _ASK, *(f"{name}:{etcd_server.port}" for name in ("m1", "m2", "cron.example.org"))]
    with_hosts = ["unshare", "--mount", "sh", "-c", f'mount --bind {hosts} /etc/hosts || exit 77; exec "$@"', "sh"]
    asked = subprocess.run([*with_hosts, *ask], capture_output=True, text=True, check=False)
    if asked.returncode == 77 or "unshare" in asked.stderr:
        pytest.skip("nothing can be mounted here")
    assert asked.stdout.split() == ["False", "True", "True"], asked.stderr
