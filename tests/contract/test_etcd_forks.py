"""A client of etcd goes on where its process forks, also where no thread can be made just then."""

from __future__ import annotations

import os
import subprocess

import pytest

from common.etcd import EtcdClient
from common.protocol.txn import Put, Txn

pytestmark = pytest.mark.etcd


async def test_no_thread_is_ended_and_made_anew_when_a_process_is_forked(client: EtcdClient, prefix: str) -> None:
    """gRPC would end its threads before a fork and make them anew after it, or abort where that cannot be done."""
    await client.put(prefix + "a", b"1")
    before = _threads()
    for _ in range(3):
        # With a group of its own Popen forks, as it also does where the machine has no process left for its vfork.
        subprocess.run(["true"], group=os.getgid(), check=True)
        result = await client.txn(Txn([], [Put(prefix + "a", b"2")]))
        assert result.succeeded
    assert before <= _threads()


def _threads() -> set[str]:
    return set(os.listdir("/proc/self/task"))
