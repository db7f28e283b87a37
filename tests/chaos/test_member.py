"""What is special about single processes of a chaos run."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.ground import ground
from tests.chaos.member import ChaosProcess, Member, as_user, can_be_user
from tests.support.proxy import Proxy
from tests.support.waiting import wait_until


@pytest.fixture
def uid() -> Iterator[int | None]:
    """A user other than root where that can be, else this one."""
    with ground(with_disks=False) as here:
        yield here.uid if os.geteuid() == 0 and can_be_user(here.uid) else None


@pytest.fixture
def sleeping(uid: int | None) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([*as_user(uid), "sleep", "60"], cwd="/")
    yield process
    process.kill()
    process.wait()


async def test_a_limit_of_a_running_process_is_lowered_and_raised_again(
    tmp_path: Path, uid: int | None, sleeping: subprocess.Popen[bytes]
) -> None:
    nowhere = Proxy("127.0.0.1:1")
    member = Member(ChaosProcess("worker", "w", tmp_path, (), uid=uid), [], nowhere)
    if uid is not None:
        await wait_until(lambda: os.stat(f"/proc/{sleeping.pid}").st_uid == uid, description="it is that user")
    before = member.limit(sleeping.pid, resource.RLIMIT_NOFILE, 7)
    assert before > 7
    assert member.limit(sleeping.pid, resource.RLIMIT_NOFILE, before) == 7
