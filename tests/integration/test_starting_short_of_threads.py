"""A worker that is started where no thread can be had, or where there is none any more, begins once there is one."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.chaos.ground import Ground, ground
from tests.chaos.member import ChaosProcess, Member, as_user, can_be_user
from tests.support.proxy import Proxy
from tests.support.waiting import wait_until

_STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(300)"


@pytest.fixture
def here() -> Iterator[Ground]:
    with ground(with_disks=False) as one:
        if os.geteuid() != 0 or not can_be_user(one.uid):
            pytest.skip("a worker cannot have a user of its own here: it is never out of processes")
        yield one


@pytest.fixture
def worker(here: Ground) -> Iterator[Member]:
    """Nobody answers it."""
    directory = here.directory / "w"
    data = directory / "data"
    data.mkdir(parents=True)
    (data / "instance").write_text("short")
    for path in (directory, data, data / "instance"):
        os.chown(path, here.uid, here.uid)
    stores = ("--etcd-endpoints", "127.0.0.1:1", "--mongodb-uri", "mongodb://127.0.0.1:1/")
    flags = ("--worker-name", "w", "--data-dir", str(data), *stores)
    process = ChaosProcess("worker", "w", directory, flags, uid=here.uid)
    yield Member(process, [], Proxy("127.0.0.1:1"))
    process.destroy()


@pytest.fixture
def left(here: Ground) -> Iterator[None]:
    """What a worker on that directory has left running: it takes its time to end it."""
    environ = {"PATH": os.environ["PATH"], "ETCRON_INSTANCE": "short", "ETCRON_RUN_ID": "job@1#1"}
    command = [*as_user(here.uid), sys.executable, "-I", "-S", "-c", _STUBBORN]
    with subprocess.Popen(command, cwd="/", env=environ, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield
        process.kill()


@pytest.mark.usefixtures("left")
async def test_no_thread_is_left_once_it_has_ended_what_was_left_running(worker: Member) -> None:
    worker.process.start()
    await _says(worker, "was left running")
    assert worker.pid is not None
    # However long it takes to limit it: it goes no further meanwhile.
    os.kill(worker.pid, signal.SIGSTOP)
    before = worker.limit(worker.pid, resource.RLIMIT_NPROC, 1)
    os.kill(worker.pid, signal.SIGCONT)
    await wait_until(lambda: _waits_or_has_ended(worker), description="it waits for a thread", timeout=120)
    assert worker.pid is not None, worker.process.log[-2000:]
    worker.limit(worker.pid, resource.RLIMIT_NPROC, before)
    await _says(worker, "127.0.0.1:1")
    assert worker.pid is not None


async def _says(worker: Member, words: str) -> None:
    try:
        await wait_until(lambda: words in worker.process.log, description=f"it says {words!r}", timeout=120)
    except AssertionError as error:
        raise AssertionError(f"{error}; what it has said: {worker.process.log[-4000:]}") from None


def _waits_or_has_ended(worker: Member) -> bool:
    return worker.pid is None or "no thread can be started" in worker.process.log
